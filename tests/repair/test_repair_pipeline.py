"""The stages of a repaired reply, composed: the same however it comes, and none of it lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import ScanEvent
from dragoman.repair.repair_options import RepairOptions
from dragoman.repair.scanner import Scanner
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import at_once
from dragoman.wire.sse import LARGE, Frame, split
from fixtures.regenerate import NOW, chat_fixtures, expected, request
from tests.repair.streams import chunk, repair_whole, sse
from tests.repair.turns import REQUEST

STREAMS = [folder for folder in chat_fixtures() if (folder / "upstream.sse").exists()]
LEAK = next(folder for folder in STREAMS if folder.name == "kimi_specification")


def stage(folder: Path) -> ChatRepair:
    tools = DeclaredTools.of_request(request(folder))
    return ChatRepair(tools, RepairOptions(), Evidence(), NOW)


def fed(pipeline: RepairPipeline, stream: bytes, size: int) -> bytes:
    pieces = (stream[begin : begin + size] for begin in range(0, len(stream), size))
    return b"".join(map(pipeline.feed, pieces))


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_a_stream_is_the_same_in_any_pieces_and_whole(folder: Path) -> None:
    stream, result = (folder / "upstream.sse").read_bytes(), expected(folder)
    for size in (1, 7, 300, 1_000_000):
        pipeline = RepairPipeline(stage(folder), Evidence())
        assert fed(pipeline, stream, size) + pipeline.close() == result, size
    tools = DeclaredTools.of_request(request(folder))
    assert repair_whole(stream, tools, RepairOptions(), Evidence(), NOW) == result


@pytest.mark.parametrize(
    ("rest", "dropped"),
    [(b'data: {"choices": [], "us', True), (b"data: [DONE]", False), (b": bye", False)],
)
def test_half_an_event_after_the_finish_reason_is_dropped_on_record(
    rest: bytes, dropped: bool
) -> None:
    evidence = Evidence()
    pipeline = RepairPipeline(stage(LEAK), evidence)
    stream = sse([chunk({"content": "a"}), chunk({}, "stop")], done=False)
    sent = pipeline.feed(stream + rest) + pipeline.close()
    assert sent.startswith(stream) and (rest in sent) != dropped
    assert evidence.lines() == ["dropped an event without its end"] * dropped


def test_after_a_large_event_the_next_one_waits_for_the_next_call_and_nothing_is_lost() -> None:
    chunks = [
        chunk({"content": text}) for text in ("a", "b" * 2 * LARGE, "c", "d" * 2 * LARGE, "e")
    ]
    stream, whole = sse(chunks), RepairPipeline(stage(LEAK), Evidence())
    pipeline, sent = RepairPipeline(stage(LEAK), Evidence()), []
    sent.append(pipeline.feed(stream))
    while pipeline.waits:
        sent.append(pipeline.feed(b""))
    texts = (b'"a"', b"bb", b'"c"', b"dd", b'"e"')
    assert all(text in piece for text, piece in zip(texts, filter(None, sent), strict=True))
    assert b"".join(sent) + pipeline.close() == at_once(whole.whole(stream)) == stream
    closed = RepairPipeline(stage(LEAK), Evidence())
    assert closed.feed(stream) + closed.close() == stream
    broken = RepairPipeline(stage(LEAK), Evidence())
    assert broken.feed(stream) + broken.break_off("gone") == stream
    fallen = RepairPipeline(stage(LEAK), Evidence())
    assert fallen.feed(stream) + fallen.fall_back() == stream
    assert not fallen.waits


def test_an_event_without_its_blank_line_ends_a_stream_whose_last_ones_still_wait() -> None:
    chunks = [chunk({"content": text}) for text in ("a", "b" * 2 * LARGE, "c")]
    stream = sse([*chunks, chunk({}, "stop"), {"choices": [], "usage": {}}], done=False)[:-1]
    pipeline = RepairPipeline(stage(LEAK), Evidence(), reports_end=True)
    sent = pipeline.feed(stream)
    assert pipeline.waits
    assert sent + pipeline.close() == stream


@pytest.mark.parametrize("blank", [b"\n\n\n", b"\n\n\n\n", b"\n\n\n\n\n"])
def test_an_event_may_end_with_several_blank_lines(blank: bytes) -> None:
    stream = (LEAK / "upstream.sse").read_bytes().replace(b"\n\n", blank)
    one, many = (RepairPipeline(stage(LEAK), Evidence()) for _ in range(2))
    expected = fed(one, stream, 1) + one.close()
    assert fed(many, stream, 1_000_000) + many.close() == expected
    for size in (300, 301, 302):  # where an event is dropped, its line ends may stay
        some = RepairPipeline(stage(LEAK), Evidence())
        sent = fed(some, stream, size) + some.close()
        assert sent.replace(b"\n", b"") == expected.replace(b"\n", b"")
    assert b'"tool_calls"' in expected


def test_arguments_that_only_continue_are_the_same_in_one_piece() -> None:
    head = "<|tool_calls_section_begin|><|tool_call_begin|>bash:0<|tool_call_argument_begin|>"
    arguments = ("a b", "\\t", "é", "\\n", "x <", "y", '\\"', "", "z") * 9
    texts = [head, '{"command": "', *arguments, '"}', "<|tool_call_end|><|tool_calls_section_end|>"]
    chunks = [chunk({"reasoning": text, "reasoning_content": text}) for text in texts]
    outcomes = []
    for pieces in ([sse([each], done=False) for each in chunks], [sse(chunks, done=False)]):
        evidence = Evidence()
        repair = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), evidence, NOW)
        pipeline = RepairPipeline(repair, evidence)
        sent = b"".join(map(pipeline.feed, pieces)) + pipeline.close()
        outcomes.append((sent, evidence.lines(), evidence.refused_calls))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0].count(b'"arguments":"a b"') == 9
    assert evidence.refused_calls == 0


@pytest.mark.parametrize("size", [100, 1000, 1_000_000])
@pytest.mark.parametrize("nth", [1, 2, 5, 9])
def test_after_a_fault_the_rest_passes_as_it_comes(
    monkeypatch: pytest.MonkeyPatch, nth: int, size: int
) -> None:
    stream = (LEAK / "upstream.sse").read_bytes()
    calls_left = nth
    scan = Scanner.feed

    def faulty(scanner: Scanner, text: str) -> list[ScanEvent]:
        nonlocal calls_left
        calls_left -= 1
        if calls_left == 0:
            raise ValueError("a fault")
        return scan(scanner, text)

    monkeypatch.setattr(Scanner, "feed", faulty)
    pipeline = RepairPipeline(stage(LEAK), Evidence(), reports_end=True)
    out, faults = b"", 0
    for begin in range(0, len(stream), size):
        try:
            out += pipeline.feed(stream[begin : begin + size])
        except ValueError:
            faults += 1
            out += pipeline.fall_back()
    out += pipeline.close()
    assert faults == 1
    assert out.endswith(b"data: [DONE]\n\n")
    assert not pipeline.error
    if nth == 1:
        assert out == stream


@pytest.mark.parametrize(("nth", "changed"), [(4, False), (5, False), (7, True), (9, True)])
def test_what_a_fault_has_released_is_not_released_again(
    monkeypatch: pytest.MonkeyPatch, nth: int, changed: bool
) -> None:
    """Of a header whose arguments have yet to tell its tool, when the stream ends early."""
    folder = next(folder for folder in STREAMS if folder.name == "kimi_header_client_id")
    before = [frame.raw for frame in split((folder / "upstream.sse").read_bytes())][:nth]
    pipeline = RepairPipeline(stage(folder), Evidence(), reports_end=True)
    sent = b"".join(map(pipeline.feed, before[:-1]))

    def faulty(_scanner: Scanner, _text: str) -> list[ScanEvent]:
        raise ValueError("a fault")

    monkeypatch.setattr(Scanner, "feed", faulty)
    with pytest.raises(ValueError, match="a fault"):
        pipeline.feed(before[-1])
    sent += pipeline.fall_back()
    assert (sent == b"".join(before)) is not changed
    assert bool(pipeline.broken) is changed
    assert pipeline.close() == b""
    assert pipeline.broken


def test_a_stream_that_breaks_off_gives_nothing_of_a_call_that_is_held() -> None:
    stream = (LEAK / "upstream.sse").read_bytes()
    half = stream[: stream.index(b"\n\n", stream.index(b" functions")) + 2]
    pipeline = RepairPipeline(stage(LEAK), Evidence(), reports_end=True)
    sent = pipeline.feed(half)
    held = pipeline.break_off("gone")
    assert b"functions" not in sent + held
    assert (pipeline.error, pipeline.broken, pipeline.ended) == ("gone", "gone", True)


def test_a_stream_that_ends_early_where_it_cannot_break_off_ends_with_an_error() -> None:
    stream = b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
    pipeline = RepairPipeline(stage(LEAK), Evidence(), reports_end=True, breaks=False)
    assert pipeline.feed(stream) == stream
    assert b'"error"' in pipeline.close()
    assert pipeline.error
    assert not pipeline.broken


def test_a_document_is_handed_out_to_be_read() -> None:
    pipeline = RepairPipeline(stage(LEAK), Evidence(), max_document=100)
    assert pipeline.feed(b'{"choices"') + pipeline.feed(b": []}") + pipeline.close() == b""
    assert pipeline.document == b'{"choices": []}'


@pytest.mark.parametrize("half", [b'{"choices": [', b"", sse([chunk({}, "stop")])])
def test_after_a_break_no_more_is_fed(half: bytes) -> None:
    pipeline = RepairPipeline(stage(LEAK), Evidence(), max_document=100)
    sent = pipeline.feed(half) + pipeline.break_off("gone")
    assert sent.startswith(half)
    assert (pipeline.error, pipeline.ended) == ("gone", True)
    assert pipeline.heartbeat() == b""


def test_a_document_that_is_too_large_passes() -> None:
    evidence = Evidence()
    pipeline = RepairPipeline(stage(LEAK), evidence, max_document=10)
    sent = pipeline.feed(b'{"choices"') + pipeline.feed(b": []}") + pipeline.feed(b"\n")
    assert sent + pipeline.close() == b'{"choices": []}\n'
    assert evidence.lines() == ["not repaired: the body is too large to be read as a whole"]


def test_after_a_fault_among_arguments_the_reply_breaks_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = "<|tool_calls_section_begin|><|tool_call_begin|>bash:0<|tool_call_argument_begin|>"
    texts = [head, '{"command": "', *(f"w{number} " for number in range(60)), "broken"]
    take_more = Scanner.take_more

    def faulty(scanner: Scanner, text: str) -> str | None:
        if text == "broken":
            raise ValueError("a fault")
        return take_more(scanner, text)

    monkeypatch.setattr(Scanner, "take_more", faulty)
    repair = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
    pipeline = RepairPipeline(repair, Evidence())
    with pytest.raises(ValueError, match="a fault"):
        pipeline.feed(sse([chunk({"content": text}) for text in texts], done=False))
    sent = pipeline.fall_back()
    assert b"bash" not in sent
    assert b"broken" not in sent
    assert pipeline.ended
    assert pipeline.broken


def test_a_reply_that_has_ended_stays_so_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChatRepair.feed

    def faulty(repair: ChatRepair, frame: Frame) -> list[Frame]:
        if b'"error"' in frame.raw:
            raise ValueError("a fault")
        return feed(repair, frame)

    monkeypatch.setattr(ChatRepair, "feed", faulty)
    pipeline = RepairPipeline(stage(LEAK), Evidence(), reports_end=True, breaks=False)
    pipeline.feed(b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n')
    with pytest.raises(ValueError, match="a fault"):
        pipeline.break_off("gone")
    assert pipeline.fall_back().count(b'"error"') == 1
    assert pipeline.ended
