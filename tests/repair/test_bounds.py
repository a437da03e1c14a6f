"""Cost and memory of repair do not depend on what the model writes."""

from __future__ import annotations

import time

import pytest

from dragoman.notes import Evidence
from dragoman.repair.call_reader import MAX_IN_VAIN, TOO_MANY
from dragoman.repair.candidate import CANDIDATE_LIMIT
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Arguments, CallStart, LeftAsText, ScanEvent, Text
from dragoman.repair.formats import ALL
from dragoman.repair.formats.json_arguments import QUOTED_LIMIT
from dragoman.repair.formats.marker_set import HEADER_LIMIT
from dragoman.repair.pending import Policy
from dragoman.repair.scanner import BLANK_LIMIT
from dragoman.wire.sse import Frame
from tests.repair.streams import NOW, chunk, read, repair, scanner_of, sse
from tests.repair.turns import REQUEST

BEGIN = "<|tool_call_begin|>bash:0<|tool_call_argument_begin|>"
CLEARLY_LINEAR = 15
"""Times as long for ten times as much, at the best of three tries: it takes 10 to 12, as ten
megabytes fit no cache, and a busy machine adds to it; what is quadratic takes 100."""


def _seconds(megabytes: int, piece: str) -> float:
    frames = [Frame(sse([chunk({"content": piece})], done=False))]
    stage = ChatStreamRepair(DeclaredTools({}), Policy(), Evidence(), NOW)
    stage.feed(Frame(sse([chunk({"content": BEGIN + '{"a":"'})], done=False)))
    started = time.process_time()
    for _ in range(megabytes * 1_000_000 // len(piece)):
        assert stage.feed(frames[0])
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["x" * 1000, "\\n" * 50, "<b>" * 300], ids=["text", "escapes", "tags"]
)
def test_ten_times_the_arguments_cost_about_ten_times_as_much(piece: str) -> None:
    assert any(_seconds(10, piece) / _seconds(1, piece) <= CLEARLY_LINEAR for _ in range(3))


@pytest.mark.slow
def test_ten_megabytes_in_one_delta_cost_about_ten_times_one() -> None:
    def seconds(megabytes: int) -> float:
        text = BEGIN + '{"a":"' + "line <b>\\n" * (megabytes * 100_000) + '"}<|tool_call_end|>'
        stream = sse([chunk({"content": text}, "stop")])
        started = time.process_time()
        out = repair(stream, {})
        assert len(read(out).calls) == 1
        return time.process_time() - started

    assert any(seconds(10) / seconds(1) <= CLEARLY_LINEAR for _ in range(3))


IN_VAIN = [
    *("<tool_call>", "<tool_call>bash", "x <|", "<function=x> "),
    *("<|tool_call_end|>", "<|tool_calls_section_begin|> hm. ", "<｜DSML｜tool_calls>"),
]


def _scanned(texts: list[str]) -> tuple[list[ScanEvent], float]:
    """What comes of a text in a reply of an unknown model, and in how many seconds."""
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ALL)
    started = time.process_time()
    events = [event for text in texts for event in scanner.feed(text)] + scanner.close()
    return events, time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("piece", IN_VAIN)
def test_ten_times_the_markers_in_vain_cost_no_more_than_ten_times_the_text(piece: str) -> None:
    def ratio() -> float:
        markers = [piece] * 30_000
        return _scanned(markers)[1] / _scanned(["x" * len(piece)] * 30_000)[1]

    assert any(ratio() <= CLEARLY_LINEAR / 4 for _ in range(3))


@pytest.mark.parametrize("piece", [each for each in IN_VAIN if "tool_calls_" not in each])
def test_after_many_markers_without_a_call_all_is_text(piece: str) -> None:
    call = f"{BEGIN}{{}}<|tool_call_end|>"
    few, _ = _scanned([piece] * (MAX_IN_VAIN // 4) + ["\n" + call])
    assert sum(isinstance(event, CallStart) for event in few) == 1
    many, _ = _scanned([piece] * 2 * MAX_IN_VAIN + ["\n" + call])
    text = "".join(event.text for event in many if isinstance(event, Text))
    assert text.endswith(f"{piece}\n{call}")
    assert any(isinstance(each, LeftAsText) and TOO_MANY in each.why for each in many)


def test_what_a_channel_says_is_no_marker_in_vain() -> None:
    call = '<|open|>call tool="bash"<|sep|>{}'
    events, _ = _scanned(["<|open|>think<|sep|>", *["so "] * 2 * MAX_IN_VAIN, call])
    assert any(isinstance(event, CallStart) for event in events)


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
        ([BEGIN, '{"a":1}', *[" "] * 9000], BLANK_LIMIT),
        (["```\n" + BEGIN + '{"a":"', *["x"] * 2 * CANDIDATE_LIMIT], CANDIDATE_LIMIT + 1),
        (["```\n" + BEGIN + "{}", *[" " * 16] * (CANDIDATE_LIMIT // 8)], CANDIDATE_LIMIT + 16),
        ([BEGIN, '{"a":"<|tool_call_end|>', *["x" * 10] * 5000], QUOTED_LIMIT + 10),
        ([BEGIN, '{"a":"', *["<|tool_call_end|>"] * 5000], QUOTED_LIMIT + 28),
    ],
    ids=[
        "marker",
        "header",
        "section",
        "arguments",
        "blanks",
        "in code",
        "blanks in code",
        "quoted",
        "many quoted",
    ],
)
def test_what_is_held_back_is_bounded(texts: list[str], limit: int) -> None:
    assert _held(texts) <= limit


def test_behind_a_quoted_marker_arguments_flow_again_after_the_limit() -> None:
    scanner = scanner_of(DeclaredTools({}))
    quoted = '{"a":"<|tool_call_end|>' + "x" * (QUOTED_LIMIT + 1)
    pieces = scanner.feed(BEGIN + quoted)
    assert "".join(p.text for p in pieces if isinstance(p, Arguments)) == quoted


def test_an_endless_header_is_text_after_all() -> None:
    scanner = scanner_of(DeclaredTools({}))
    header = "<|tool_call_begin|>" + "x" * 1000
    pieces = scanner.feed(header)
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == header
