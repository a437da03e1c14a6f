"""What comes out of repair is the turn that went in, for every turn and every cutting."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.kimi_k2 import MARKERS
from dragoman.repair.repair_options import RepairOptions
from tests.repair.streams import chunk, read, repair, sse
from tests.repair.turns import REQUEST, Turn, cut, turns

FIELDS = [
    ("content",),
    ("reasoning",),
    ("reasoning_content",),
    ("reasoning", "reasoning_content"),
]


def _chunks(pieces: list[str], fields: tuple[str, ...], finish: str) -> list[object]:
    deltas = [chunk(dict.fromkeys(fields, piece)) for piece in pieces]
    return [chunk({"role": "assistant", "content": ""}), *deltas, chunk({}, finish)]


@given(st.data(), turns(), st.sampled_from(FIELDS), st.sampled_from(["content", "field"]))
def test_calls_and_text_are_those_of_the_turn(
    data: st.DataObject, turn: Turn, fields: tuple[str, ...], where: str
) -> None:
    pieces = data.draw(cut(turn.written))
    stream = sse(_chunks(pieces, fields, "stop"))
    out = read(repair(stream, REQUEST, RepairOptions(text=where)))  # type: ignore[arg-type]
    assert [(call["name"], call["arguments"]) for call in out.calls] == [
        (call.name, call.arguments) for call in turn.calls
    ]
    assert out.finish == ["tool_calls" if turn.calls else "stop"]
    # White space behind a call is formatting unless text follows it.
    after = turn.after if turn.after.strip() or not turn.calls else ""
    space = turn.space if turn.bare and turn.calls and after else ""
    assert "".join(out.text.split()) == "".join((turn.before + after).split())
    if where == "field" or fields == ("content",):
        assert out.text == turn.before + space + after or not after
    assert not any(marker in out.text for marker in MARKERS)


@given(st.data(), turns(), st.sampled_from(FIELDS))
def test_the_cutting_of_deltas_changes_nothing_a_client_reads(
    data: st.DataObject, turn: Turn, fields: tuple[str, ...]
) -> None:
    whole = read(repair(sse(_chunks([turn.written], fields, "stop")), REQUEST))
    pieces = data.draw(cut(turn.written))
    parts = read(repair(sse(_chunks(pieces, fields, "stop")), REQUEST))
    assert (parts.calls, parts.finish) == (whole.calls, whole.finish)
    assert sorted(parts.text) == sorted(whole.text)


@given(st.data(), st.text(alphabet=st.sampled_from('ab <|>_tool:\n"é'), max_size=40))
def test_a_stream_without_markers_is_forwarded_byte_for_byte(
    data: st.DataObject, text: str
) -> None:
    pieces = data.draw(cut(text))
    stream = sse(_chunks(pieces, data.draw(st.sampled_from(FIELDS)), "stop"))
    assert repair(stream, REQUEST) == stream


@given(st.data(), turns())
def test_a_turn_cut_off_anywhere_ends_with_one_finish_reason_and_whole_calls(
    data: st.DataObject, turn: Turn
) -> None:
    end = data.draw(st.integers(0, len(turn.written)))
    stream = sse(_chunks(data.draw(cut(turn.written[:end])), ("content",), "stop"))
    out = read(repair(stream, REQUEST))
    assert len(out.finish) == 1
    quoted = any(marker in call.arguments for call in turn.calls for marker in MARKERS)
    cut_off = out.finish == ["length"]
    assert quoted or cut_off or not any(marker in str(out) for marker in MARKERS)
    for call in out.calls:
        json.loads(call["arguments"])
