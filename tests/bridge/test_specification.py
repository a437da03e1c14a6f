"""The published descriptions of the stream, claim by claim.

Four documents describe what Responses clients expect: the tool call format of a
gateway, its guide to the whole stream, a mapping of the stream to an editor's parts,
and a developer's guide to streamed function calls.  They disagree with one another
and in places with every client.  Each claim is shown to hold, in the dialect that is
made for it where it needs one, or the choice made instead is asserted.  What each stream
must be by its grammar is not said again.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.responses.dialects import CODEX, GUIDE, OPENAI, OPENRESPONSES, Dialect

from ..wire.test_chat_calls import SHAPES
from .clients import Listener, Mapping
from .dialects import EVERY_DIALECT
from .replying import call, calls, chunk, ended, new_reply, run, text

ARGUMENTS = '{"command": ["echo","hello"]}'
TOOL_TURN = [
    calls(call(0, "", name="echo", call_id="call_1")),
    *(calls(call(0, piece)) for piece in ('{"command": ', '["echo",', '"hello"]}')),
    *ended("tool_calls"),
]
TEXT_TURN = [chunk({"role": "assistant"}), text("Hello!"), text(" How can I help?"), *ended()]


def short(types: list[str]) -> list[str]:
    """Event types without the prefix, repetitions counted once."""
    names = [name.removeprefix("response.") for name in types]
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


def events_of(values: list[Any], dialect: Dialect = OPENAI) -> list[dict[str, Any]]:
    return run(values, dialect).story.events


class TestToolCallFormat:
    """The tool call format of a gateway, validated with Codex."""

    def test_the_sequence_of_a_tool_turn(self) -> None:
        assert short(run(TOOL_TURN, CODEX).types) == [
            "created",
            "in_progress",  # the one event the document leaves out, and every client expects
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "required_action",
            "completed",
        ]

    def test_the_added_item_is_a_function_call_without_role_or_content(self) -> None:
        added = events_of(TOOL_TURN, CODEX)[2]
        assert added["output_index"] == 0
        item = added["item"]
        assert item.keys() == {"id", "type", "status", "name", "call_id", "arguments"}
        assert item["type"] == "function_call"
        assert (item["status"], item["arguments"], item["name"]) == ("in_progress", "", "echo")

    def test_required_action_holds_the_calls_and_comes_before_completed(self) -> None:
        *_, required, completed = events_of(TOOL_TURN, CODEX)
        assert required["type"] == "response.required_action"
        assert required["response"]["status"] == "incomplete"
        assert required["required_action"] == {
            "type": "submit_tool_outputs",
            "submit_tool_outputs": {
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "echo", "arguments": ARGUMENTS},
                    }
                ]
            },
        }
        assert completed["type"] == "response.completed"
        assert completed["response"]["required_action"] == required["required_action"]

    def test_status_is_incomplete_while_tool_outputs_are_waited_for(self) -> None:
        assert run(TOOL_TURN, CODEX).response["status"] == "incomplete"
        assert run(TEXT_TURN, CODEX).response["status"] == "completed"

    @pytest.mark.parametrize("dialect", [OPENAI, OPENRESPONSES, GUIDE], ids=lambda d: d.name)
    def test_choice_elsewhere_a_tool_turn_is_completed_without_the_event(
        self, dialect: Dialect
    ) -> None:
        got = run(TOOL_TURN, dialect)
        assert "response.required_action" not in got.types
        assert got.response["status"] == "completed"

    @EVERY_DIALECT
    def test_reasoning_is_present_in_the_response_even_if_null(self, dialect: Dialect) -> None:
        for event in events_of(TOOL_TURN, dialect):
            if "response" in event:
                assert event["response"]["reasoning"] == {"effort": None, "summary": None}


class TestMappingToAnEditor:
    """The mapping of the stream to an editor's parts."""

    def mapped(self, values: list[Any], dialect: Dialect = OPENRESPONSES) -> Mapping:
        client = Mapping()
        for event in events_of(values, dialect):
            client.process(event)
        return client

    @pytest.mark.parametrize("shape", [name for name in SHAPES if "no id" not in name])
    def test_each_call_is_reported_once_whole_and_in_order(self, shape: str) -> None:
        client = self.mapped([*SHAPES[shape], *ended("tool_calls")])
        assert client.parts == [
            ("call", "gw-x", "echo", '{"a": 1}'),
            ("call", "gw-y", "weather", '{"b": [2, {"c": "}"}]}'),
        ]

    def test_the_end_of_the_arguments_is_the_point_of_report(self) -> None:
        assert self.mapped(TOOL_TURN).points == ["arguments"]

    def test_each_later_point_alone_would_report_the_same(self) -> None:
        whole = self.mapped(TOOL_TURN)
        for left_out in ({"arguments.done"}, {"arguments.done", "item.done"}):
            client = Mapping()
            for event in events_of(TOOL_TURN, OPENRESPONSES):
                if not any(event["type"].endswith(name) for name in left_out):
                    client.process(event)
            assert client.parts == whole.parts
            assert client.points != whole.points

    def test_a_call_is_announced_before_anything_else_of_it(self) -> None:
        known: set[str] = set()
        for event in events_of([*SHAPES["mixed"], *ended("tool_calls")]):
            if event["type"] == "response.output_item.added":
                known.add(event["item"]["id"])
            assert event.get("item_id") is None or event["item_id"] in known

    def test_text_is_reported_as_it_comes_and_before_the_calls_that_follow_it(self) -> None:
        client = self.mapped([text("Let me "), text("see."), *TOOL_TURN])
        assert [part[0] for part in client.parts] == ["text", "text", "call"]

    def test_reasoning_is_reasoning_delta_and_done(self) -> None:
        values = [chunk({"reasoning_content": "why"}), *TEXT_TURN]
        types = run(values, OPENRESPONSES).types
        assert "response.reasoning.delta" in types
        assert "response.reasoning.done" in types
        assert self.mapped(values).parts[0] == ("text", "why")

    @pytest.mark.parametrize("dialect", [OPENAI, CODEX], ids=lambda dialect: dialect.name)
    def test_choice_reasoning_is_a_summary_text_for_the_official_clients(
        self, dialect: Dialect
    ) -> None:
        types = short(run([chunk({"reasoning_content": "why"}), *TEXT_TURN], dialect).types)
        assert types[2:8] == [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ]

    @EVERY_DIALECT
    def test_choice_reasoning_summary_delta_is_in_no_dialect(self, dialect: Dialect) -> None:
        values = [chunk({"reasoning_content": "why"}), *TEXT_TURN]
        assert not [t for t in run(values, dialect).types if "reasoning_summary." in t]


class TestDevelopersGuide:
    """The developer's guide to streamed function calls."""

    def listened(self, values: list[Any], dialect: Dialect = GUIDE) -> Listener:
        client = Listener()
        for event in events_of(values, dialect):
            client.process(event)
        return client

    def test_the_response_begins_with_created_and_in_progress(self) -> None:
        assert short(run(TOOL_TURN, GUIDE).types)[:2] == ["created", "in_progress"]

    def test_the_item_is_a_tool_call_with_a_function_known_by_its_call_id(self) -> None:
        item = events_of(TOOL_TURN, GUIDE)[2]["item"]
        assert (item["type"], item["id"]) == ("tool_call", "call_1")
        assert item["function"] == {"name": "echo", "arguments": ""}

    def test_the_listener_executes_the_call(self) -> None:
        client = self.listened(TOOL_TURN)
        assert client.executed == [("call_1", "echo", ARGUMENTS)]
        assert client.active == {}

    @pytest.mark.parametrize("shape", [name for name in SHAPES if "no id" not in name])
    def test_the_listener_executes_each_call_once_and_in_order(self, shape: str) -> None:
        executed = self.listened([*SHAPES[shape], *ended("tool_calls")]).executed
        assert [(item_id, name) for item_id, name, _ in executed] == [
            ("x", "echo"),
            ("y", "weather"),
        ]
        assert all(isinstance(json.loads(arguments), dict) for *_, arguments in executed)

    def test_text_after_a_call_comes_before_completed(self) -> None:
        values = [*TOOL_TURN[:-2], text("Done."), *ended("tool_calls")]
        types = short(run(values, GUIDE).types)
        assert types.index("output_text.delta") > types.index("function_call_arguments.done")
        assert types[-1] == "completed"

    @pytest.mark.parametrize("dialect", [OPENAI, CODEX, OPENRESPONSES], ids=lambda d: d.name)
    def test_choice_elsewhere_the_item_is_a_function_call(self, dialect: Dialect) -> None:
        assert self.listened(TOOL_TURN, dialect).executed == []
        assert run(TOOL_TURN, dialect).output[0]["type"] == "function_call"


class TestStreamGuide:
    """The gateway's guide to the whole stream, for text."""

    @EVERY_DIALECT
    def test_the_sequence_of_a_text_turn(self, dialect: Dialect) -> None:
        assert short(run(TEXT_TURN, dialect).types) == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]

    @pytest.mark.parametrize("dialect", [CODEX, GUIDE], ids=lambda dialect: dialect.name)
    def test_pings_keep_the_connection_alive(self, dialect: Dialect) -> None:
        reply = new_reply(Evidence(), dialect)
        reply.open()
        # With a number: the document's own rule; its `data: {}` breaks five clients.
        assert reply.heartbeat()[0].raw == (
            b'event: ping\ndata: {"type":"ping","sequence_number":2}\n\n'
        )

    @pytest.mark.parametrize("dialect", [OPENAI, OPENRESPONSES], ids=lambda d: d.name)
    def test_choice_elsewhere_a_heartbeat_is_an_official_event(self, dialect: Dialect) -> None:
        reply = new_reply(Evidence(), dialect)
        reply.open()
        assert b"event: response.in_progress\n" in reply.heartbeat()[0].raw

    @EVERY_DIALECT
    def test_the_terminal_event_is_the_end_and_done_only_where_it_is_asked_for(
        self, dialect: Dialect
    ) -> None:
        last = run(TEXT_TURN, dialect).frames[-1]
        assert (last.data == b"[DONE]") == (dialect is OPENRESPONSES)

    def test_choice_the_delta_of_arguments_is_a_delta_not_a_name(self) -> None:
        event = next(e for e in events_of(TOOL_TURN) if "arguments.delta" in e["type"])
        assert event.keys() == {"type", "sequence_number", "item_id", "output_index", "delta"}
