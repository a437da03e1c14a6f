"""Running one leak format in a test: a text in, at any cut, and what a client gets of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, Dropped, ScanEvent, Text
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.protocol import LeakFormat
from tests.repair.formats.turns import cuts_of, events_of, repaired
from tests.repair.streams import Read
from tests.repair.test_scanner import gist

TOOLS: dict[str, dict[str, Any]] = {
    "bash": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    "write": {
        "path": {"type": "string"},
        "text": {"type": "string"},
        "mode": {"type": ["integer", "null"]},
        "lines": {"type": "array", "items": {"type": "string"}},
        "options": {
            "type": "object",
            "properties": {
                "force": {"type": "boolean"},
                "names": {"type": "array", "items": {"type": "string"}},
            },
        },
    },
    "finish": {},
}
REQUEST = {
    "tools": [
        {
            "type": "function",
            "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
        }
        for name, properties in TOOLS.items()
    ]
}
_SEVERAL = re.compile(r"[<>].*(?:\d|null|[\]}])\s*\Z", re.DOTALL)
"""What may be two values with a bracket between them that is left of two tags."""
Calls = list[tuple[str, dict[str, Any]]]
Writer = Callable[[Calls], str]


def scan(leak: LeakFormat, pieces: list[str], rule: str = "declared") -> list[ScanEvent]:
    """What the scanner makes of a text that comes in these pieces."""
    return events_of(pieces, _active(leak), REQUEST, rule)


@cache
def _active(leak: LeakFormat) -> MarkerSearch:
    """What finds the format's markers, which takes long to make."""
    return MarkerSearch([leak])


def at_any_cut(leak: LeakFormat, text: str, rule: str = "declared") -> str:
    """The `gist` of a text, which is the same however it is cut."""
    whole = gist(scan(leak, [text], rule))
    for pieces in cuts_of(text):
        assert gist(scan(leak, pieces, rule)) == whole
    return whole


def dropped(leak: LeakFormat, text: str) -> list[str]:
    """What was taken out of a text."""
    dropped = (event for event in scan(leak, [text]) if isinstance(event, Dropped))
    return [f"{event.kind.value} {event.what}".rstrip() for event in dropped]


def client(leak: LeakFormat, texts: list[str], key: str = "content") -> Read:
    """What a client gets of a stream with these texts."""
    return client_of(leak, [{key: text} for text in texts])


def client_of(leak: LeakFormat, deltas: list[dict[str, Any]]) -> Read:
    """The same with these deltas."""
    return repaired(deltas, (leak,), tools=DeclaredTools.of_request(REQUEST))


def meant(events: list[ScanEvent]) -> tuple[str, Calls]:
    """The text, and the calls."""
    texts, calls = "", []
    for event in events:
        match event:
            case Text(text=text):
                texts += text
            case Call(name=name, arguments=arguments):
                calls.append((name, json.loads(arguments)))
    return texts, calls


def calls(fragments: list[str], *, closer: str) -> st.SearchStrategy[Calls]:
    """One or more calls.  Their strings may hold these fragments, but no `closer`, and are not
    `_SEVERAL`."""
    part = st.text(max_size=4) | st.sampled_from([*fragments, "\n", '"', "\\", "{", "1", "null"])
    string = st.lists(part, max_size=5).map("".join)
    string = string.filter(lambda text: closer not in text and not _SEVERAL.search(text))
    values: dict[str, st.SearchStrategy[Any]] = {
        "command": string,
        "timeout": st.integers(),
        "path": string,
        "text": string,
        "mode": st.none() | st.integers(),
        "lines": st.lists(string, max_size=3),
        "options": st.fixed_dictionaries(
            {}, optional={"force": st.booleans(), "names": st.lists(string, max_size=3)}
        ),
    }
    call = st.sampled_from(sorted(TOOLS)).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.fixed_dictionaries({}, optional={key: values[key] for key in TOOLS[name]}),
        )
    )
    return st.lists(call, min_size=1, max_size=3)


def said(value: object) -> str:
    """A value as a format writes it that has no quotes for strings."""
    return value if isinstance(value, str) else json.dumps(value)


def read_back(leak: LeakFormat, write: Writer, turn: Calls, size: int) -> None:
    """A turn that was written in a format, and comes in pieces of this size, is read as it
    was meant."""
    text = f"So. {write(turn)} Done."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert meant(scan(leak, pieces)) == ("So.  Done.", turn)
