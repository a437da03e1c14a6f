"""A turn reads the same from every shape of its reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.parse.frames import head_and_tail
from dragoman.inspect.parse.reply import parse_reply
from dragoman.inspect.parse.values import ParsedCall, ParsedChoice, ParsedReply, Prose
from dragoman.responses.dialects import DIALECTS, Dialect
from dragoman.wire.errors import ErrorObject
from tests.bridge.replying import USAGE, call, calls, chunk, ended, run, run_body, sse, text
from tests.bridge.test_reply_generated import Meant, said, unambiguous
from tests.inspect.exchanges import bridged, of_fixture
from tests.repair.streams import chunk as kimi_chunk
from tests.repair.streams import repair
from tests.repair.streams import sse as kimi_sse
from tests.repair.turns import REQUEST, Turn, cut, turns

every_dialect = st.sampled_from(list(DIALECTS.values()))


def only(reading: ParsedReply) -> ParsedChoice:
    assert len(reading.choices) == 1
    return reading.choices[0]


def prose(choice: ParsedChoice, kind: str = "text") -> str:
    return "".join(p.text for p in choice.parts if isinstance(p, Prose) and p.kind == kind)


def called(choice: ParsedChoice) -> list[ParsedCall]:
    return [part for part in choice.parts if isinstance(part, ParsedCall)]


def made(choice: ParsedChoice) -> list[tuple[str, Any]]:
    """The calls as the generator of turns names them: (upstream name, arguments)."""
    return [(_upstream_name(each), _arguments(each)) for each in called(choice)]


def _upstream_name(each: ParsedCall) -> str:
    return f"{each.namespace}__{each.name}" if each.namespace else each.name


def _arguments(each: ParsedCall) -> Any:
    if each.kind == "custom":
        return {"input": each.arguments}
    value = json.loads(each.arguments or "{}")
    return {"commands": value["commands"]} if each.kind == "shell" else value


@given(said(), every_dialect)
def test_a_generated_turn_reads_as_it_was_meant_on_both_sides_of_the_bridge(
    turn: tuple[Meant, list[Any], bool], dialect: Dialect
) -> None:
    meant, values, done = turn
    if not unambiguous(meant, values):
        return
    chat = parse_reply(sse(values, done=done))
    frames = run(values, dialect, done=done).frames
    responses = parse_reply(b"".join(frame.raw for frame in frames))
    assert responses.shape == "Responses stream"
    wanted = [(each.name, each.arguments) for each in meant.called]
    assert made(only(responses)) == wanted
    assert prose(only(responses)).strip() == meant.text.strip()
    assert prose(only(responses), "reasoning").strip() == meant.reasoning.strip()
    assert chat.usage == responses.usage and chat.usage and chat.usage.total == 18
    choice = only(chat)
    assert [each.name for each in called(choice)] == [name for name, _ in wanted]
    assert [json.loads(each.arguments or "{}") for each in called(choice)] == [a for _, a in wanted]
    thought = f"<think>{meant.reasoning}</think>" if "<think>" in prose(choice) else ""
    assert prose(choice) == thought + meant.text
    assert prose(choice, "reasoning") == ("" if thought else meant.reasoning)
    assert choice.finish == meant.finish


@given(st.data(), turns(), st.sampled_from(["content", "reasoning_content"]))
def test_a_repaired_turn_reads_as_the_model_meant_it(
    data: st.DataObject, turn: Turn, field: str
) -> None:
    pieces = data.draw(cut(turn.written))
    stream = kimi_sse([*(kimi_chunk({field: piece}) for piece in pieces), kimi_chunk({}, "stop")])
    choice = only(parse_reply(repair(stream, REQUEST)))
    assert [(each.name, each.arguments) for each in called(choice)] == [
        (each.name, each.arguments) for each in turn.calls
    ]
    after = turn.after if turn.after.strip() or not turn.calls else ""
    assert "".join((prose(choice, "reasoning") + prose(choice)).split()) == "".join(
        (turn.before + after).split()
    )


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_whole_and_streamed_responses_read_alike(dialect: Dialect) -> None:
    message = {
        "reasoning_content": "Hm.",
        "content": "Yes.",
        "tool_calls": [
            call(0, '{"input":"a\\nb"}', name="apply", call_id="c0"),
            call(1, '{"commands":["ls"]}', name="shell", call_id="c1"),
            call(2, '{"p":1}', name="mcp__files__read", call_id="c2"),
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    got = run_body({"model": "m", "choices": [choice], "usage": USAGE}, dialect)
    streamed = parse_reply(b"".join(frame.raw for frame in got.frames))
    plain = parse_reply(json.dumps(got.response).encode())
    assert plain.shape == "Responses reply"
    assert plain.choices == streamed.choices
    assert (plain.usage, plain.model) == (streamed.usage, streamed.model)
    assert only(plain).parts[:3] == (
        Prose("reasoning", "Hm."),
        Prose("text", "Yes."),
        ParsedCall("apply", "c0", "a\nb", "custom"),
    )


def test_deltas_alone_are_enough() -> None:
    frames = run([text("a"), text("b"), *ended()]).frames
    events = [frame.raw for frame in frames if b".done" not in frame.raw.split(b"\n")[0]]
    reading = parse_reply(b"".join(events[:-1]))
    assert prose(only(reading)) == "ab"


def test_an_item_told_only_at_its_end_is_read() -> None:
    item = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    event = {"type": "response.output_item.done", "output_index": 0, "item": item}
    assert only(parse_reply(sse([event]))).parts == (ParsedCall("f", "c", "{}"),)


def test_a_native_custom_call_of_chat_is_read() -> None:
    element = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "p", "input": "x"}}
    more = {"index": 0, "custom": {"input": "y"}}
    assert only(parse_reply(sse([calls(element), calls(more)]))).parts == (
        ParsedCall("p", "c", "xy", "custom"),
    )


def test_choices_are_read_apart() -> None:
    values = [chunk(choice={"index": n, "delta": {"content": c}}) for n, c in ((1, "b"), (0, "a"))]
    assert [(each.index, prose(each)) for each in parse_reply(sse(values)).choices] == [
        (0, "a"),
        (1, "b"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"No.","type":"t","code":"c"}}',
        b'data: {"error":{"message":"No.","type":"t","code":"c"}}\n\n',
        b'event: error\ndata: {"type":"error","error":{"message":"No.","type":"t","code":"c"}}\n\n',
    ],
)
def test_errors_are_read_in_the_words_of_the_sender(body: bytes) -> None:
    assert parse_reply(body).error == ErrorObject("No.", "t", "c")


def test_a_failed_response_is_an_error() -> None:
    frames = run([text("a"), {"error": {"message": "Rate limit", "code": 429}}]).frames
    reading = parse_reply(b"".join(frame.raw for frame in frames))
    assert reading.error and reading.error.code == "rate_limit_exceeded"
    assert only(reading).finish == "failed"


@pytest.mark.parametrize("name", ["kimi_specification", "kimi_two_choices", "clean_text"])
def test_every_beginning_of_a_stream_can_be_read(name: str) -> None:
    for body in (of_fixture(name).client_reply, bridged().client_reply):
        whole = parse_reply(body)
        for end in range(0, len(body), 97):
            part = parse_reply(body[:end])
            for choice, all_of_it in zip(part.choices, whole.choices, strict=False):
                assert prose(all_of_it).startswith(prose(choice))
                assert prose(all_of_it, "reasoning").startswith(prose(choice, "reasoning"))


def test_frames_after_a_gap_have_the_numbers_of_their_places() -> None:
    shown = head_and_tail(b"data: 1\n\n" * 9, limit=4)
    assert [each.number for each in shown.head + shown.tail] == [1, 2, 3, 4, 5, 6, 7, 8]
    shown = head_and_tail(b"data: 1\n\n" * 9000, limit=4)
    assert shown.tail[0].number == 4 + shown.skipped + 1
