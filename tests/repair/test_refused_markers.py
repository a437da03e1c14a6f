"""Many markers without a call cost little more than words, and no call after them is lost."""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.repair import text_reader
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Text
from dragoman.repair.formats import ALL, at_markers
from dragoman.repair.pending import Policy
from dragoman.repair.pipeline import RepairPipeline
from dragoman.repair.refused_markers import LONGEST, RefusedMarkers
from dragoman.wire.sse import split
from tests.repair.formats.leaks import REQUEST
from tests.repair.formats.test_all_formats import PIECES, QUOTING, WHOLE, WORDS
from tests.repair.streams import NOW, Read, chunk, read, sse

OPENERS = [
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|open|>", "<|open|>tools<|sep|>"),
    *("<｜DSML｜tool_calls>", "<｜tool▁calls▁begin｜>", "<tool_call>", "<function=bash>"),
    *("<minimax:tool_call>", "]<]minimax[>[<tool_call>", '<invoke name="bash">', "[TOOL_CALLS]"),
    *("<|channel|>", "<|start|>assistant", "<|channel|>commentary", "<|call|>", "x <|", "<tool_"),
]
K3_CALL = next(call for call in WHOLE if call.startswith("<|open|>tools"))
MODEL = "some-model"


def _frames(texts: Iterable[str]) -> list[bytes]:
    chunks = [chunk({"content": text}, model=MODEL) for text in texts]
    return [frame.raw for frame in split(sse([*chunks, chunk({}, "stop", model=MODEL)]))]


def _repaired(frames: Iterable[bytes]) -> bytes:
    tools = DeclaredTools.of_request({**REQUEST, "model": MODEL})
    pipeline = RepairPipeline(ChatStreamRepair(tools, Policy(), Evidence(), NOW), Evidence())
    return b"".join([*map(pipeline.feed, frames), pipeline.close()])


def _calls_of_functions(frames: list[bytes]) -> int:
    """How many functions are called to repair a stream."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        _repaired(frames)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("after", ["", " x y"])
@pytest.mark.parametrize("opener", OPENERS)
def test_openers_alone_take_little_more_work_than_words(opener: str, after: str) -> None:
    few, many = 500, 1_500
    texts = [opener + after] * many
    hostile = _calls_of_functions(_frames(texts)) - _calls_of_functions(_frames(texts[:few]))
    clean = _calls_of_functions(_frames(["word "] * many))
    assert hostile / (many - few) <= 3.5 * clean / many


@pytest.mark.parametrize("opener", OPENERS)
def test_after_many_openers_every_call_is_found(opener: str) -> None:
    for call in WHOLE:
        texts = [*[opener] * 400, "\n", *at_markers(call)]
        found = read(_repaired(_frames(texts)))
        assert [made["name"] for made in found.calls] == ["bash"], call
        assert found.content.rstrip().endswith(opener * 100)
        assert found.finish == ["tool_calls"]


def test_what_is_kept_of_one_choice_is_little() -> None:
    """A reply may have many choices."""
    refused, number = RefusedMarkers(ALL), 0
    tracemalloc.start()
    try:
        while not refused.full:
            text = f"<function={number:0<86}"
            refused.learn(lambda _: [Text(0, "<")], text, len(text))
            number += 1
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text) == LONGEST
    assert number >= 100
    assert size < 6_000_000


def _read(texts: list[str]) -> Read:
    found = read(_repaired(_frames(texts)))
    for made in found.calls:
        del made["id"]
    return found


@given(
    st.lists(st.sampled_from(OPENERS), min_size=1, max_size=4),
    st.lists(st.sampled_from([*PIECES, *WHOLE, *WORDS, *QUOTING, "<", "<|"]), max_size=12),
    st.lists(st.integers(1, 60), min_size=1),
)
@example(["<｜tool▁calls▁begin｜>"], ["`", K3_CALL], [24])  # the second tick ends the quoted code
@settings(max_examples=40)
def test_what_is_known_of_openers_loses_no_call_and_no_word(
    openers: list[str], soup: list[str], sizes: list[int]
) -> None:
    rest, texts = "".join([*openers * 60, *soup, *openers * 10, *soup]), []
    while rest:
        size = sizes[len(texts) % len(sizes)]
        texts.append(rest[:size])
        rest = rest[size:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.repair.scan_state.MAX_IN_VAIN", sys.maxsize)
        # What passes unread, opener or not, is kept up to here: quotes may be in it.
        patch.setattr("dragoman.repair.passed_frames.MAX_KEPT", sys.maxsize)
        known = _read(texts)
        patch.setattr(text_reader, "MANY_IN_VAIN", sys.maxsize)
        plain = _read(texts)
    assert plain.calls == known.calls
    # Markers beside no call may be shown that would be dropped, and then end the turn as words do.
    assert Counter(re.findall(r"\w+", plain.content)) <= Counter(re.findall(r"\w+", known.content))
