"""The choices of a chunk and the calls in them: whoever reads them finds the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.chat.delta import choices, citations, lone_text, token_logprobs
from dragoman.chat.repair import ChatRepair
from dragoman.inspect.pages.diff import carried
from dragoman.inspect.parse.reply import parse_reply
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.chat_calls import elements, read_delta
from tests.repair.streams import repair_whole, summarize

from ..bridge.replying import feed_body, new_reply, run

SAID = {"delta": {"content": "x"}}
FUNCTION = {"name": "echo", "arguments": '{"a":1}'}


@pytest.mark.parametrize(
    ("listed", "indexes"),
    [
        ([SAID | {"index": 0}, SAID | {"index": 1}], [0, 1]),
        ([SAID, SAID], [0, 1]),
        (["no object", SAID], [1]),
        ([SAID | {"index": index} for index in (True, -1, "3", 7)], [0, 1, 2, 7]),
        ([{"index": 5, "delta": None, "message": {"content": "x"}}], [5]),
        ({}, []),
        (None, []),
    ],
)
def test_a_choice_is_known_by_its_index_or_its_place(listed: Any, indexes: list[int]) -> None:
    assert [choice.index for choice in choices({"choices": listed})] == indexes
    body = b"data: %b\n\n" % json.dumps({"choices": listed}).encode()
    assert [choice.index for choice in parse_reply(body).choices] == indexes


def test_choices_without_an_index_are_told_apart_by_repair_and_bridge() -> None:
    call = {"index": 0, "id": "c", "function": FUNCTION}
    other = {"index": 0, "id": "d", "function": FUNCTION | {"arguments": "{}"}}
    value = {"choices": [{"delta": {"tool_calls": [each]}} for each in (call, other)]}
    stream = b"data: %b\n\n" % json.dumps(value).encode()
    assert repair_whole(stream, DeclaredTools({}), RepairOptions(), Evidence(), 0) == stream
    got = run([value, {"choices": [{"index": at, "finish_reason": "tool_calls"} for at in (0, 1)]}])
    assert [item["call_id"] for item in got.output] == ["c", "d"]


@pytest.mark.parametrize("repairs", [False, True])
@pytest.mark.parametrize("tokens", [0, 200])
def test_a_choice_without_an_index_stays_the_second_wherever_a_reply_is_cut(
    repairs: bool, tokens: int
) -> None:
    spelled = [{"token": "x", "logprob": -1.0}] * tokens
    value = {
        "choices": [
            {
                "message": {"content": text},
                "logprobs": {"content": spelled},
                "finish_reason": "stop",
            }
            for text in ("one", "two <|tool_call_begin|>")
        ]
    }
    reply = new_reply(Evidence())
    repair = ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), 0) if repairs else None
    feed_body(reply, json.dumps(value).encode(), repair)
    (item,) = reply.response["output"]
    assert item["content"][0]["text"] == "one"


@pytest.mark.parametrize("holder", ["delta", "message"])
@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ({"tool_calls": [{"id": "c", "function": FUNCTION}]}, '{"a":1}'),
        ({"tool_calls": {"id": "c", "function": FUNCTION}}, '{"a":1}'),
        ({"tool_calls": [{"id": "c", "custom": None, "function": FUNCTION}]}, '{"a":1}'),
        ({"tool_calls": [{"id": "c", "custom": {"name": "echo", "input": "raw"}}]}, "raw"),
        ({"tool_calls": None, "function_call": FUNCTION}, '{"a":1}'),
        (
            {"tool_calls": [{"function": {"name": "echo", "arguments": {"a": 1}}}]},
            '{"a":1}',
        ),
    ],
)
def test_all_who_read_calls_find_the_same(
    holder: str, said: dict[str, Any], arguments: str
) -> None:
    value = {"choices": [{"index": 0, holder: said, "finish_reason": "tool_calls"}]}
    body = b"data: %b\n\n" % json.dumps(value).encode()
    (call,) = map(read_delta, elements(said))
    assert call is not None and (call.name, call.arguments) == ("echo", arguments)
    assert read_reply(body).calls == [("echo", arguments)]
    (choice,) = parse_reply(body).choices
    assert [(part.name, part.arguments) for part in choice.parts] == [("echo", arguments)]
    assert summarize(body).calls == summarize(json.dumps(value).encode()).calls == ("echo",)
    assert carried(value) == arguments
    (item,) = run([value]).output
    assert (item["name"], item["arguments"]) == ("echo", arguments)


DETAIL = {"type": "reasoning.text", "text": "a"}


@pytest.mark.parametrize(
    ("delta", "fields"),
    [
        ({"content": "a", "role": "assistant", "refusal": None}, ("content",)),
        ({"reasoning": "a", "content": ""}, ("reasoning",)),
        ({"reasoning": "a", "reasoning_content": "a"}, ("reasoning_content", "reasoning")),
        ({"reasoning_content": "a", "reasoning": "a"}, ("reasoning_content", "reasoning")),
        ({"content": [{"type": "text", "text": "a"}]}, None),
        ({"reasoning": "a", "reasoning_details": [DETAIL]}, None),
        ({"reasoning": "a", "reasoning_content": "b"}, None),
        ({"reasoning": "a", "content": "a"}, None),
        ({"content": "a", "annotations": [{}]}, None),
        ({"tool_calls": [{"index": 2, "function": {"arguments": "a"}}]}, ()),
        ({"role": "assistant"}, None),
    ],
)
def test_a_chunk_has_one_text_and_nothing_else_or_not(
    delta: dict[str, Any], fields: tuple[str, ...] | None
) -> None:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    found = lone_text(chunk)
    assert found == lone_text({**chunk, "usage": {"total_tokens": 5}})
    assert (found and (found.fields, found.text)) == (None if fields is None else (fields, "a"))
    for member in ("finish_reason", "logprobs", "usage", "message"):
        assert lone_text({"choices": [chunk["choices"][0] | {member: {"a": 1}}]}) is None
    assert lone_text({"choices": chunk["choices"] * 2}) is None


@pytest.mark.parametrize(
    ("call", "only"),
    [
        ({"index": 2, "function": {"arguments": "a"}}, True),
        ({"index": 2, "id": "", "function": {"name": None, "arguments": "a"}}, True),
        ({"index": 2, "id": "c", "function": {"arguments": "a"}}, False),
        ({"index": 2, "function": {"name": "f", "arguments": "a"}}, False),
        ({"index": True, "function": {"arguments": "a"}}, False),
        ({"index": 2, "function": {"arguments": ""}}, False),
        ({"function": {"arguments": "a"}}, False),
    ],
)
def test_a_chunk_has_arguments_of_one_call_and_nothing_else_or_not(
    call: dict[str, Any], only: bool
) -> None:
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    assert lone_text({"choices": [choice]}) == (((), "a") if only else None)
    for delta in ({"tool_calls": [call, call]}, {"tool_calls": [call], "content": "a"}):
        assert lone_text({"choices": [choice | {"delta": delta}]}) is None


def test_sources_and_log_probabilities_have_the_form_of_the_responses_api() -> None:
    cited = {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 0}
    assert citations({"citations": ["u", 1]}) == [cited]
    token = {"token": "a", "logprob": -1, "bytes": [97]}
    listed = [token | {"top_logprobs": [token, {}]}, {}, None]
    assert token_logprobs(listed) == [token | {"top_logprobs": [token]}]
