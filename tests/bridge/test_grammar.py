"""The checker itself: it accepts good streams and nothing that is broken in any place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.responses.dialects import (
    CODEX,
    DIALECTS,
    GUIDE,
    OPENAI,
    OPENRESPONSES,
    Dialect,
)
from dragoman.wire.sse import Frame, encode_event

from .grammar import check
from .replying import call, calls, chunk, ended, run, text

GOOD = [
    chunk({"reasoning_content": "why"}),
    text("so"),
    text("me"),
    chunk({"refusal": "no"}),
    calls(call(0, '{"a":1}', name="echo", call_id="x")),
    calls(call(1, '{"input":"i"}', name="apply", call_id="y")),
    *ended("tool_calls"),
]


def renumbered(frames: list[Frame]) -> list[Frame]:
    out = []
    for number, frame in enumerate(frames):
        data = frame.data or b""
        if data != b"[DONE]":
            event = json.loads(data) | {"sequence_number": number}
            frame = encode_event(event)  # noqa: PLW2901
        out.append(frame)
    return out


def broken(frames: list[Frame], dialect: Dialect) -> bool:
    try:
        check(renumbered(frames), dialect)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_no_event_can_be_missing_doubled_or_misplaced(dialect: Dialect) -> None:
    frames = run(GOOD, dialect).frames
    assert not broken(frames, dialect)
    for at in range(len(frames)):
        assert broken(frames[:at] + frames[at + 1 :], dialect), frames[at]
        heartbeat = b"in_progress" in frames[at].raw[:30] and not dialect.ping
        assert broken(frames[: at + 1] + frames[at:], dialect) != heartbeat, frames[at]
        if at + 1 < len(frames):
            swapped = [*frames[:at], frames[at + 1], frames[at], *frames[at + 2 :]]
            if swapped != frames and "delta" not in str(frames[at].data):
                assert broken(swapped, dialect), frames[at]


def done_event(frames: list[Frame]) -> Frame:
    """The `done` of an item that is listed as incomplete, as it was told before."""
    response = json.loads(frames[-1].data or b"")["response"]
    index, item = next((n, i) for n, i in enumerate(response["output"]) if not is_done(i))
    event = {"type": "response.output_item.done", "output_index": index, "item": item}
    return encode_event(event)


def is_done(item: dict[str, Any]) -> bool:
    return bool(item["status"] != "incomplete")


CUT_CALL = [text("so"), calls(call(0, '{"a"', name="echo", call_id="x"))]
CUT = {
    "text": [[text("so"), text("me")], [{"error": {"message": "no"}}]],
    "reasoning": [[chunk({"reasoning_content": "why"})], [{"error": {"message": "no"}}]],
    "call": [CUT_CALL, [{"error": {"message": "no"}}]],
    "call at a limit": [CUT_CALL, ended("length")],
}


@pytest.mark.parametrize("cut", CUT)
def test_what_is_cut_is_listed_and_not_done(cut: str) -> None:
    values, end = CUT[cut]
    frames = run([*values, *end]).frames
    assert not broken(frames, OPENAI)
    last = -1 if cut.endswith("limit") else -2
    assert broken([*frames[:last], done_event(frames), *frames[last:]], OPENAI)
    for at in range(len(frames)):
        assert broken(frames[:at] + frames[at + 1 :], OPENAI), frames[at]
    terminal = json.loads(frames[-1].data or b"")
    terminal["response"]["output"].pop()
    unlisted = encode_event(terminal)
    assert broken([*frames[:-1], unlisted], OPENAI)


def changed(value: Any) -> Any:
    return value + 1 if isinstance(value, int) else f"{value}x"


def test_no_id_index_or_text_can_be_another() -> None:
    frames = run(GOOD).frames
    tried = 0
    for at, frame in enumerate(frames):
        event = json.loads(frame.data or b"")
        for name in (
            "item_id",
            "output_index",
            "content_index",
            "summary_index",
            "delta",
            "text",
            "arguments",
            "input",
            "refusal",
            "type",
        ):
            if name in event:
                wrong = event | {name: changed(event[name])}
                raw = encode_event(wrong)
                assert broken([*frames[:at], raw, *frames[at + 1 :]], OPENAI), (name, event)
                tried += 1
    assert tried > 50


@pytest.mark.parametrize(
    ("made_for", "checked_as"),
    [(CODEX, OPENAI), (GUIDE, OPENAI), (OPENRESPONSES, OPENAI), (OPENAI, GUIDE), (OPENAI, CODEX)],
)
def test_a_stream_of_one_dialect_is_none_of_another(made_for: Dialect, checked_as: Dialect) -> None:
    assert broken(run(GOOD, made_for).frames, checked_as)


def test_gaps_in_the_numbers_and_other_line_ends_are_refused() -> None:
    frames = run(GOOD).frames
    for wrong in (
        frames[1:],
        [Frame(frame.raw.replace(b"\n", b"\r\n")) for frame in frames],
        [Frame(frame.raw.removesuffix(b"\n")) for frame in frames],
    ):
        with pytest.raises((AssertionError, ValueError)):
            check(wrong, OPENAI)
