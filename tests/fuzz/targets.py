"""What is fuzzed: bytes in, an exception if a promise is broken.

Each target reads its input in the form that an attacker has in hand, so that the seeds are
the fixtures themselves.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.pages.diff import diff_page
from dragoman.inspect.pages.request import request_page
from dragoman.inspect.pages.turn import turn_page
from dragoman.inspect.pages.upstream import upstream_page
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import (
    Call,
    Dropped,
    LeftAsText,
    Refusal,
    ScanEvent,
    Text,
)
from dragoman.repair.formats.formats_by_family import ALL
from dragoman.repair.formats.kimi_k2 import MARKERS
from dragoman.repair.repair_options import RepairOptions
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.json_codec import NotJson, dumps, loads
from fixtures.server import FOLDER
from tests.fuzz.promises import (
    TOOLS,
    a_headline_is_found,
    a_reply_can_answer,
    a_request_is_converted_or_refused,
    a_stream_is_bridged,
    a_stream_is_repaired,
    a_whole_reply_is_repaired_and_bridged,
    an_error_is_told,
    frames_of,
    split,
)
from tests.repair.formats.test_all_formats import PIECES
from tests.repair.streams import scanner_of

RULES = ("any", "declared", "none")
POLICIES = (RepairOptions(), RepairOptions(text="field"), RepairOptions(finish="keep"))
CALL = re.compile(r"<\|tool_call_begin\|>[^<]{0,200}<\|tool_call_argument_begin\|>")
ARGUMENTS = "<|tool_call_argument_begin|>"
THINNED = re.compile(r"(?:think|response|message)\s*<\|sep\|>")
"""What is taken out only while its first word has not been sent."""


def sse(data: bytes) -> None:
    """The splitter: the same events however the bytes are cut."""
    head, body = data[:4], data[4:]
    whole = frames_of([body])
    cut = frames_of(split(body, itertools.islice(itertools.cycle(_sizes(head)), len(body))))
    assert [f.data for f in whole if f.data is not None] == [
        f.data for f in cut if f.data is not None
    ]
    frames_of(split(body, _sizes(head)), max_frame=16)


def scanner(data: bytes) -> None:
    """The scanner: the same text and calls however the text is cut."""
    head, text = data[:4], data[4:].decode("utf-8", "surrogateescape")
    tools = DeclaredTools.of_request(TOOLS if head[:1] < b"\x80" else {})
    rule = RULES[sum(head) % len(RULES)]
    whole = _scanned([text], tools, rule)
    size = max(1, _sizes(head)[0])
    cut = _scanned([text[at : at + size] for at in range(0, len(text), size)], tools, rule)
    texts = [piece.text for piece in whole if isinstance(piece, Text)]
    kept = [piece for piece in whole if isinstance(piece, LeftAsText)]
    left = len(kept)
    damaged = any(piece.why is Refusal.DAMAGED for piece in kept)  # with all of its markers
    if len({marker.format for marker in ALL.find_all(text)}) == 1:  # others, in a call, are text
        markers = sum(text.count(marker) for text in texts for marker in MARKERS)
        assert damaged or markers <= left
        assert left or not any(list(ALL.find_all(text)) for text in texts)
    if text.count(ARGUMENTS) == len(CALL.findall(text)) and not THINNED.search(text):
        assert _read(whole) == _read(cut)


def _scanned(pieces: Iterable[str], tools: DeclaredTools, rule: str) -> list[ScanEvent]:
    machine = scanner_of(tools, rule)
    found = [found for piece in pieces for found in machine.feed(piece)]
    return found + machine.close()


def _read(pieces: Iterable[ScanEvent]) -> tuple[str, list[list[object]]]:
    """The text, and the calls."""
    text = ""
    calls: list[list[object]] = []
    for piece in pieces:
        match piece:
            case Text(text=more):
                text += more
            case Call():
                calls.append([piece.name, piece.arguments, piece.call_id, piece.form])
            case Dropped() | LeftAsText():
                pass
    return text, calls


def repair(data: bytes) -> None:
    """A stream, repaired and then bridged."""
    head, body = data[:4], data[4:]
    frames = a_stream_is_repaired(
        split(body, _sizes(head)), TOOLS, POLICIES[sum(head) % len(POLICIES)]
    )
    a_stream_is_bridged(frames)


def writer(data: bytes) -> None:
    """A stream, bridged alone, in every dialect."""
    head, body = data[:4], data[4:]
    dialects = list(DIALECTS.values())
    a_stream_is_bridged(frames_of(split(body, _sizes(head))), dialects[sum(head) % len(dialects)])


def request(data: bytes) -> None:
    """A Responses request."""
    try:
        body = loads(data)
    except NotJson:
        return
    conversion = a_request_is_converted_or_refused(body)
    if conversion is not None:
        a_reply_can_answer(conversion)


def whole(data: bytes) -> None:
    """A reply that is not streamed, and an error."""
    a_whole_reply_is_repaired_and_bridged(data)
    an_error_is_told(400 + len(data) % 200, data)
    a_headline_is_found(data)


def values(data: bytes) -> None:
    """What can be read as JSON can be written, and reads the same again."""
    try:
        value = loads(data)
    except NotJson:
        return
    written = loads(dumps(value))
    assert loads(dumps(written)) == written
    assert dumps([value] * 2)


def report(data: bytes) -> None:
    """What is shown to a person."""
    upstream, _, client = data.partition(b"\n\n\n\n")
    exchange = Exchange("bridge", upstream, client, upstream, client)
    for page in (turn_page, upstream_page, diff_page, request_page):
        for line in page(exchange):
            line.text.encode()
            assert "\n" not in line.text


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (sse, scanner, repair, writer, request, whole, values, report)
}
WORDS = [
    *PIECES,
    *("data: ", "event: error\n", "\r\n", "\n\n", "[DONE]", "functions.bash:0", "bash:0"),
    *('"choices":[{"index":0,"delta":{', '"content":"', '"reasoning_content":"', '"tool_calls":['),
    *('"function":{"name":"bash","arguments":"', '"finish_reason":"stop"', '"usage":{', "<think>"),
    *('"type":"function_call"', '"type":"message","role":"user","content":', '"call_id":"c"'),
    *('"type":"input_text","text":', '"type":"reasoning"', '"tools":[', '"error":{', "\\ud800"),
    *("\\u003c|", "null", "1e999", "NaN", "{}", "[]", "</think>", '"index":', '\\"'),
]


def _sizes(head: bytes) -> list[int]:
    return [byte % 64 + 1 for byte in head] or [1]


def seeds(target: str) -> Iterator[bytes]:
    """The fixtures, in the form in which a target reads them."""
    head = b"\x07\x1f\x03\x28" if target in ("sse", "scanner", "repair", "writer") else b""
    for path in sorted(FOLDER.glob("*/*.*")):
        if _is_for(target, path):
            body = path.read_bytes()
            if target == "scanner":
                body = b"".join(_texts(body))
            yield head + (dumps(_shortened(loads(body))) if path.suffix == ".json" else body)


def _shortened(value: Any) -> Any:
    """Without long texts, in which there is nothing to find."""
    if isinstance(value, dict):
        return {name: _shortened(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shortened(member) for member in value]
    return value[:200] if isinstance(value, str) else value


def _is_for(target: str, path: Path) -> bool:
    stream = path.suffix == ".sse"
    match target:
        case "request":
            return path.name == "request.json"
        case "whole" | "values":
            return path.suffix == ".json"
        case "report":
            return True
        case _:
            return stream


def _texts(body: bytes) -> Iterator[bytes]:
    for found in re.finditer(rb'"(?:content|reasoning)": ?("(?:[^"\\]|\\.)*")', body):
        yield str(loads(found[1])).encode("utf-8", "surrogateescape")
