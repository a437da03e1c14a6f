"""The writer: whatever is told in whatever order, the stream is a legal one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.reply.turn_context import Tool
from dragoman.responses.dialects import DIALECTS, OPENAI, Dialect
from dragoman.responses.event_writer import Writer
from dragoman.responses.response_object import snapshot
from dragoman.wire.errors import failure

from .grammar import check, check_prefix
from .replying import CREATED_AT, NOW, assert_told_again, turn

USAGE = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 3,
}
CITATION = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
SHELL = {
    "type": "shell_call",
    "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
}


def new(dialect: Dialect = OPENAI) -> Writer:
    return Writer(snapshot(turn(), "resp_1", CREATED_AT), dialect, clock=lambda: NOW)


words = st.text(min_size=1, max_size=8)
steps = st.one_of(
    st.tuples(st.sampled_from(["text", "refusal", "reasoning"]), words),
    st.tuples(st.sampled_from(["function", "custom"]), st.lists(words, max_size=3)),
    st.tuples(st.sampled_from(["structure", "annotate", "heartbeat", "close"]), st.none()),
)
cut_steps = st.one_of(
    steps,
    st.tuples(st.just("cut"), st.none()),
    st.tuples(st.just("logprobs"), st.lists(st.just({}), min_size=1, max_size=3)),
)


def tell(writer: Writer, what: str, value: Any) -> None:
    match what:
        case "text" | "refusal" | "reasoning":
            writer.prose(what, value)
        case "logprobs":
            writer.prose("text", "two", value)
        case "function" | "custom":
            blank = "" if what == "custom" else "{}"
            first, *rest = value if "".join(value).strip() else [blank]
            writer.begin_call(Tool(what, "f"), "same id")
            for delta in [*filter(None, [first]), *rest]:
                writer.call_delta(delta)
        case "structure":
            writer.whole_call(dict(SHELL), Tool("shell", "shell"), "", "{}")
        case "annotate" if writer.in_text:
            writer.annotate(CITATION)
        case "heartbeat":
            writer.heartbeat()
        case "close":
            writer.close_item()
        case "cut":
            writer.close_item("incomplete")


def conclude(writer: Writer, end: str) -> None:
    match end:
        case "complete":
            writer.complete(USAGE)
        case "incomplete":
            writer.incomplete("max_output_tokens", USAGE)
        case "fail":
            writer.fail(failure("server_error", "no"), USAGE)


@given(
    st.sampled_from(list(DIALECTS.values())),
    st.lists(cut_steps, max_size=12),
    st.sampled_from(["complete", "incomplete", "fail"]),
)
def test_whatever_was_told_can_be_told_again(
    dialect: Dialect, told: list[tuple[str, Any]], end: str
) -> None:
    """Text that a failure cuts is the last item, and the only one that is cut."""
    told = [step for step in told if step[0] != "cut" or end != "fail"]
    writer = new(dialect)
    writer.start()
    for what, value in told:
        tell(writer, what, value)
    conclude(writer, end)
    assert_told_again(writer.events.drain(), writer)


def ended(dialect: Dialect, told: list[tuple[str, Any]], end: str) -> Writer:
    """One that has told all this."""
    writer = new(dialect)
    writer.start()
    for what, value in told:
        tell(writer, what, value)
    conclude(writer, end)
    return writer


streams = (
    st.sampled_from(list(DIALECTS.values())),
    st.lists(steps, max_size=12),
    st.sampled_from(["complete", "incomplete", "fail"]),
)


@given(*streams)
def test_any_order_of_telling_is_a_legal_stream(
    dialect: Dialect, told: list[tuple[str, Any]], end: str
) -> None:
    writer = ended(dialect, told, end)
    story = check(writer.events.drain(), dialect)
    assert story.response == writer.response
    for kind, holder in (("text", "message"), ("reasoning", "reasoning")):
        said = "".join(value for what, value in told if what == kind)
        heard = "".join(
            part["text"]
            for item in story.items
            if item["type"] == holder
            for part in item.get("content", []) + item.get("summary", [])
            if "text" in part
        )
        assert heard == said


def test_nothing_is_told_before_the_start_or_after_the_end() -> None:
    writer = new()
    writer.heartbeat()
    assert writer.events.drain() == []
    writer.start()
    writer.start()
    assert len(check_prefix(writer.events.drain(), OPENAI).events) == 2
    writer.complete(USAGE)
    assert writer.ended
    assert len(writer.events.drain()) == 1
    writer.heartbeat()
    writer.start()
    assert writer.events.drain() == []


def test_item_ids_are_made_of_the_response_id_and_the_output_index() -> None:
    writer = new()
    writer.start()
    writer.prose("reasoning", "a")
    writer.prose("text", "b")
    writer.begin_call(Tool("function", "f"), "")
    writer.call_delta("{}")
    writer.begin_call(Tool("custom", "g"), "")
    writer.complete(USAGE)
    output = writer.response["output"]
    assert [item["id"] for item in output] == ["rs_1_0", "msg_1_1", "fc_1_2", "ctc_1_3"]
    assert [item["call_id"] for item in output[2:]] == ["call_1_2", "call_1_3"]


def test_a_call_id_is_the_upstreams_unless_an_earlier_call_has_it() -> None:
    writer = new()
    writer.start()
    for _ in range(4):
        writer.begin_call(Tool("function", "f"), "echo:0")
    writer.complete(USAGE)
    ids = [item["call_id"] for item in writer.response["output"]]
    assert ids[0] == "echo:0"
    assert len(set(ids)) == 4


def test_text_and_refusal_are_two_parts_of_one_message() -> None:
    writer = new()
    writer.start()
    writer.prose("text", "I ")
    writer.prose("refusal", "cannot")
    writer.prose("text", ".")
    writer.complete(USAGE)
    (item,) = check(writer.events.drain(), OPENAI).items
    kinds = [part["type"] for part in item["content"]]
    assert kinds == ["output_text", "refusal", "output_text"]


def test_an_event_does_not_change_after_it_was_told() -> None:
    writer = new()
    writer.start()
    early = writer.events.drain()
    before = [frame.raw for frame in early]
    writer.prose("text", "x")
    writer.complete(USAGE)
    assert [frame.raw for frame in early] == before


@pytest.mark.parametrize("text", ["\ud800", 'a"\\\n\r\u2028', "\x00", "é😀", "</script>"])
def test_any_character_survives_as_one_line(text: str) -> None:
    writer = new()
    writer.start()
    writer.prose("text", text)
    writer.complete(USAGE)
    story = check(writer.events.drain(), OPENAI)
    assert story.deltas == {0: text}


@pytest.mark.parametrize("dialect", [OPENAI, DIALECTS["openresponses"]], ids=lambda d: d.name)
def test_a_heartbeat_is_an_empty_delta_of_what_is_open(dialect: Dialect) -> None:
    writer = new(dialect)
    writer.start()
    writer.heartbeat()
    for tool in (Tool("function", "f"), Tool("custom", "g")):
        writer.begin_call(tool, "")
        writer.call_delta("{")
        writer.heartbeat()
    for kind in ("reasoning", "text", "refusal"):
        writer.prose(kind, "x")
        writer.heartbeat()
    writer.close_item()
    writer.heartbeat()
    events = check_prefix(writer.events.drain(), dialect).events
    beats = [event["type"] for event in events if event.get("delta") == ""]
    thought = "reasoning_summary_text" if dialect.reasoning_summary else "reasoning"
    assert beats == [
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        f"response.{thought}.delta",
        "response.output_text.delta",
        "response.refusal.delta",
    ]
    repeated = [event for event in events[2:] if event["type"] == "response.in_progress"]
    assert [len(event["response"]["output"]) for event in repeated] == [0, 4]


@pytest.mark.parametrize("name", ["codex", "guide"])
def test_a_heartbeat_is_a_numbered_ping_where_the_dialect_has_them(name: str) -> None:
    writer = new(DIALECTS[name])
    writer.start()
    writer.prose("text", "x")
    writer.heartbeat()
    frames = writer.events.drain()
    check_prefix(frames, DIALECTS[name])
    assert frames[-1].raw == b'event: ping\ndata: {"type":"ping","sequence_number":5}\n\n'


@pytest.mark.parametrize("size", [1000, 200_000])
def test_a_heartbeat_does_not_repeat_what_is_large(size: int) -> None:
    tools = [{"type": "function", "name": "f", "description": "x" * size}]
    asked = turn({"tools": tools, "instructions": "Be brief."})
    writer = Writer(snapshot(asked, "resp_1", 1), OPENAI, clock=lambda: 2.0)
    writer.start()
    opening = writer.events.drain()
    writer.prose("text", "x")
    writer.close_item()
    writer.heartbeat()
    writer.complete(USAGE)
    responses = [
        each["response"]
        for each in check(opening + writer.events.drain(), OPENAI).events
        if "response" in each
    ]
    _, _, beat, last = responses
    assert (beat["tools"] == [], beat["instructions"] is None) == (size > 65536,) * 2
    assert len(beat["output"]) == 1
    assert beat.keys() == last.keys()
    assert last["tools"][0]["description"] == tools[0]["description"]
    assert last["instructions"] == "Be brief."
