"""Turns that a model meant, and texts in a format read back: what the tests of formats share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, ScanEvent, Text
from dragoman.repair.formats.formats_by_family import FormatChoice
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.protocol import LeakFormat
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import split
from tests.repair.streams import NOW, Read, chunk, places_to_cut, read, scanner_of, sse

TOOLS = {
    "bash": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "mcp__files__read-file": {"path": {"type": "string"}, "lines": {"type": "array"}},
    "finish": {},
    "note": {"input": {"type": "string"}},
}
REQUEST = {
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}
        for name, properties in TOOLS.items()
    ]
}
DECLARED = DeclaredTools.of_request(REQUEST)


def gist(events: list[ScanEvent]) -> str:
    """Text as it is, thoughts as ``«…»``, a call as ``[name arguments]``."""
    out = ""
    for event in events:
        match event:
            case Text(text=text, kind="reasoning"):
                out += f"«{text}»"
            case Text(text=text):
                out += text
            case Call(name=name, arguments=arguments):
                out += f"[{name} {arguments}]"
            case _:
                pass
    return out.replace("»«", "")


def cuts_of(text: str) -> list[list[str]]:
    """The text in two pieces, and in pieces of one, two, three and seven characters."""
    sizes = [[text[at : at + size] for at in range(0, len(text), size)] for size in (1, 2, 3, 7)]
    return sizes + [[text[:at], text[at:]] for at in places_to_cut(len(text), text)]


def events_of(
    pieces: list[str],
    formats: MarkerSearch,
    request: object = REQUEST,
    rule: str = "declared",
    *,
    whole: bool = True,
) -> list[ScanEvent]:
    """What a scanner makes of a text that comes in these pieces."""
    # What is inferred from arguments is bounded for each request.
    scanner = scanner_of(DeclaredTools.of_request(request), rule, formats)
    events: list[ScanEvent] = []
    for piece in pieces:
        if (given := scanner.take_more(piece)) is not None:
            events += [Text(given)] if given else []
        else:
            events += scanner.feed(piece)
    return events + scanner.close(whole=whole)


def scanned(pieces: list[str], formats: MarkerSearch) -> str:
    """The same in short."""
    return gist(events_of(pieces, formats))


def read_at_any_cut(text: str, *formats: LeakFormat) -> str:
    """The same of a whole text, and of each of its cuts."""
    search = MarkerSearch(formats)
    whole = scanned([text], search)
    for pieces in cuts_of(text):
        assert scanned(pieces, search) == whole, pieces
    return whole


def repaired(
    deltas: list[dict[str, Any]],
    formats: tuple[LeakFormat, ...],
    finish: str = "stop",
    tools: DeclaredTools = DECLARED,
) -> Read:
    """What a client reads of a stream with these deltas."""
    stream = sse([*(chunk(delta, model="m") for delta in deltas), chunk({}, finish, model="m")])
    repair = ChatRepair(tools, RepairOptions(formats=FormatChoice(formats)), Evidence(), NOW)
    frames = [out for frame in split(stream) for out in repair.feed(frame)]
    return read(b"".join(frame.raw for frame in [*frames, *repair.close()]))


def streamed(pieces: list[str], *formats: LeakFormat, finish: str = "stop") -> Read:
    """The same with these pieces as content."""
    return repaired([{"content": text} for text in pieces], formats, finish)


@dataclass(frozen=True)
class Turn:
    """Text, calls, text: what the client must get."""

    before: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    after: str


texts = st.sampled_from(
    ["", "Let me look. ", "a < b {x} [y]", "1 <\n", "<tool", "|>", "é😀", '"a": {"b": 1}', "`x` "]
)
values = st.text(alphabet=st.sampled_from('ab <>|/[]{}"\\\n:é😀')) | st.sampled_from(
    ["", "ls -la | wc", 'echo "<b>" </b', "\\n\\u00e9", "a\n\nb", "1", "null", '{"a": 1}']
)
_VALUES = {
    "string": values,
    "integer": st.integers(-(10**6), 10**6),
    "array": st.lists(st.integers() | values, max_size=3),
}


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """A turn with one to three calls."""
    calls = []
    for name in draw(st.lists(st.sampled_from(sorted(TOOLS)), min_size=1, max_size=3)):
        arguments = {key: draw(_VALUES[schema["type"]]) for key, schema in TOOLS[name].items()}
        calls.append((name, arguments))
    return Turn(draw(texts), tuple(calls), draw(texts))


def assert_reads_back(turn: Turn, pieces: list[str], *formats: LeakFormat) -> None:
    """What a client reads of a turn, written in these pieces, is the turn."""
    out = streamed(pieces, *formats)
    assert [(call["name"], json.loads(call["arguments"])) for call in out.calls] == list(turn.calls)
    assert "".join(out.content.split()) == "".join((turn.before + turn.after).split())
    assert out.finish == ["tool_calls"]
