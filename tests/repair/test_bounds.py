"""Cost and memory of repair do not depend on what the model writes."""

from __future__ import annotations

import tracemalloc

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.call_reader import CANDIDATE_LIMIT, HELD_LIMIT
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Text
from dragoman.repair.formats.marker_set import HEADER_LIMIT
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.reply_bounds import MAX_BLANK
from dragoman.wire.sse import Frame
from tests.counting import calls_of
from tests.repair.streams import NOW, chunk, read, repair, scanner_of, sse

pytestmark = pytest.mark.slow

BEGIN = "<|tool_call_begin|>bash:0<|tool_call_argument_begin|>"


def test_tags_in_the_place_of_arguments_are_read_once() -> None:
    def calls(size: int) -> int:
        scanner = scanner_of(DeclaredTools({}))
        texts = ["<tool_call>bash", *["<arg_key>" * 10] * (size // 90)]
        return calls_of(lambda: [scanner.feed(text) for text in texts])

    assert calls(400_000) < 15 * calls(40_000)


@pytest.mark.parametrize("size", [40, 2 * HELD_LIMIT])
@pytest.mark.parametrize(("lines", "calls"), [(60_000, 1), (120_000, 0)])
def test_a_call_that_is_longer_than_is_held_is_text(lines: int, calls: int, size: int) -> None:
    text = BEGIN + '{"a":"' + "line <b>\\n" * lines + '"}<|tool_call_end|>'
    texts = [text[at : at + size] for at in range(0, len(text), size)]
    out = read(repair(sse([*(chunk({"content": each}) for each in texts), chunk({}, "stop")]), {}))
    assert (len(out.calls), len(out.content)) == (calls, 0 if calls else len(text))


def _held(texts: list[str]) -> int:
    """The most that a scanner holds while it reads `texts`."""
    scanner = scanner_of(DeclaredTools({}))
    most = 0
    for text in texts:
        scanner.feed(text)
        most = max(most, scanner.undecided)
    return most


@pytest.mark.parametrize(
    ("texts", "limit"),
    [
        (["<|tool_call"] * 1000, 28),
        (["<|tool_call_begin|>", *["x"] * 5000], HEADER_LIMIT),
        (["<|tool_calls_section_begin|>", *["x"] * 5000], HEADER_LIMIT + 28),
        ([BEGIN, *["x"] * 5000], 28),
        ([BEGIN, '{"a":"', *["\\n" * 50] * 500], 28),
        ([BEGIN, '{"a":"', *["<b>" * 300] * 500], 28),
        ([BEGIN, '{"a":1}', *[" "] * 9000], MAX_BLANK),
        (["```\n" + BEGIN + '{"a":"', *["x" * 16] * (CANDIDATE_LIMIT // 8)], CANDIDATE_LIMIT + 16),
        (["```\n" + BEGIN + "{}", *[" " * 16] * (CANDIDATE_LIMIT // 8)], CANDIDATE_LIMIT + 16),
        ([BEGIN, '{"a":"<|tool_call_end|>', *["x" * 10] * 5000], 28),
        ([BEGIN, '{"a":"', *["<|tool_call_end|>"] * 5000], 28),
    ],
    ids=[
        "marker",
        "header",
        "section",
        "arguments",
        "escapes",
        "tags",
        "blanks",
        "in code",
        "blanks in code",
        "quoted",
        "many quoted",
    ],
)
def test_what_is_held_back_is_bounded(texts: list[str], limit: int) -> None:
    assert _held(texts) <= limit


def test_an_endless_header_is_text_after_all() -> None:
    scanner = scanner_of(DeclaredTools({}))
    header = "<|tool_call_begin|>" + "x" * 1000
    pieces = scanner.feed(header)
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == header


def calling(number: int, **fields: object) -> Frame:
    function = {"name": "bash", "arguments": "{}"}
    call = {"index": number, "id": f"call_{number}", "function": function} | fields
    return Frame(sse([chunk({"tool_calls": [call]})], done=False))


@pytest.mark.parametrize(
    "fields",
    [{}, {"index": 0}, {"function": {}}, {"id": "", "function": {"arguments": "1"}}],
    ids=["", "one", "none", "nameless"],
)
def test_what_is_known_of_native_calls_has_a_bound(
    fields: dict[str, object],
) -> None:
    evidence = Evidence()
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), evidence, NOW)
    tracemalloc.start()
    try:
        for number in range(5001):
            (out,) = stage.feed(frame := calling(number, **fields))
            # Each of one index has its own then, and what has no name continues the call before.
            assert out.raw == frame.raw or fields.keys() & {"index", "id"}
            if "gave up repair too many calls" in evidence.lines():
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert evidence.lines()[-1] == "gave up repair too many calls"
    assert stage.feed(frame := calling(0, id="after")) == [frame]


def test_a_thousand_calls_are_within_it() -> None:
    evidence = Evidence()
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), evidence, NOW)
    for number in range(1000):
        stage.feed(calling(number))
    assert not evidence.notes


def test_elements_that_say_nothing_count_beside_another() -> None:
    evidence = Evidence()
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), evidence, NOW)
    for _ in range(6):
        stage.feed(Frame(sse([chunk({"tool_calls": [{}] * 900})], done=False)))
    assert evidence.lines() == ["gave up repair too many calls"]
