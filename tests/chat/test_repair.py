"""A stream of chunks through repair: how it is cut, how much passes, how it ends."""

from __future__ import annotations

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import Frame, FrameSplitter
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse
from tests.repair.turns import REQUEST

LARGE = 8192
CALL = (
    "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command":"ls"}<|tool_call_end|>'
)


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("request_body", [{}, REQUEST])
def test_a_whole_stream_may_end_in_any_way(end: bytes, request_body: object) -> None:
    deltas = [chunk({"content": f"say `x{number}` now "}) for number in range(800)]
    body = sse(deltas, done=False) + b"data: [DONE]" + end
    assert len(body) > LARGE
    tools = DeclaredTools.of_request(request_body)
    assert repair_whole(body, tools, RepairOptions(), Evidence(), NOW) == body


def test_a_last_event_that_is_large_and_has_no_end() -> None:
    body = sse([chunk({"content": "`a`"})] * 9 + [chunk({"content": "`" + "x" * LARGE})])
    cut = body[: body.rindex(b"\n\ndata: [DONE]")]
    assert repair(cut, {}) == cut


@pytest.mark.parametrize(
    ("last", "dropped"),
    [(b'data: {"choices": [], "us', True), (b"data: [DONE]", False), (b": bye", False)],
)
def test_half_an_event_before_an_end_that_is_added_is_dropped(last: bytes, dropped: bool) -> None:
    evidence = Evidence()
    body = sse([chunk({"content": CALL})], done=False) + last
    repaired = repair(body, REQUEST, evidence=evidence)
    assert '"finish_reason":"tool_calls"' in repaired.decode()
    assert b'"us' not in repaired
    assert ("dropped an event without its end" in evidence.lines()) == dropped


def test_an_event_that_came_in_pieces() -> None:
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), NOW)
    splitter = FrameSplitter(max_frame=LARGE)
    huge = b'data: {"a": "' + b"`x" * LARGE
    frames = splitter.feed(huge) + splitter.feed(b'`"}\n\n' + sse([chunk({"content": CALL})]))
    out = b"".join(done.raw for frame in frames for done in stage.feed(frame))
    assert out.startswith(huge)
    assert b'"name":"bash"' in out


@pytest.mark.parametrize("words", [10, 5000])
@pytest.mark.parametrize(
    ("before", "between", "calls"),
    [
        ("\nsee ``` ", "\nreal: ", 1),  # three backticks and a sentence are no fence
        ("say `open ", "", 1),  # and a backtick alone opens no code
        ("say ``open` ", "", 1),
        ("say `open ", "\n", 1),
        ("```\n", "\n", 0),
        ("```a`b\n", "\n", 1),  # a fence has no backtick behind it
    ],
)
def test_how_much_passed_changes_nothing(before: str, between: str, calls: int, words: int) -> None:
    texts = [before, *["word "] * words, between, CALL, " x"]
    deltas = [{**chunk({"content": text}), "model": "my-model"} for text in texts if text]
    out = read(repair(sse(deltas), REQUEST | {"model": "my-model"}))
    assert len(out.calls) == calls
    assert out.content == "".join(texts).replace(CALL, "" if calls else CALL)


def test_frames_of_several_kinds_are_read_in_their_order() -> None:
    """Those that are alike are read together; what stands between them is not passed over."""
    texts = [("reasoning", "```\n"), ("content", "a "), ("reasoning", "b\n"), ("content", "`c` ")]
    deltas = [chunk({field: text}) for field, text in texts * 41]
    frames = FrameSplitter().feed(
        sse([*deltas, chunk({"reasoning": CALL}), chunk({"content": CALL})])
    )
    stage = ChatRepair(
        DeclaredTools.of_request(REQUEST | {"model": "m"}), RepairOptions(), Evidence(), NOW
    )
    frames = [Frame(frame.raw.replace(b'"kimi"', b'"m"')) for frame in frames]
    out = read(b"".join(done.raw for frame in frames for done in stage.feed(frame)))
    assert out.reasoning.endswith("b\n" + CALL), "the fence in the reasoning is open"
    assert [call["name"] for call in out.calls] == ["bash"], "that in the content is none"
