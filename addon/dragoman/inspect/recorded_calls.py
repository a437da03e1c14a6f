"""Reads the native calls of a recorded chat stream, with their arguments.

Most events have one fragment of arguments, and reading each would cost too much; so those between
two events that name a call are joined as bytes, if all are of one call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, groupby

from ..wire.chat_calls import CallAssembler, CallDelta, elements, read_delta
from ..wire.chat_delta import choices
from ..wire.json_codec import NotJson, loads, objects
from ..wire.slices import Slices

MAX_READ = 2000
"""Events that are read one by one; with more nothing is known."""
_LINE = re.compile(rb'^data:([^\r\n]*"tool_calls"\s*:\s*\[[^\r\n]*)', re.MULTILINE)
_NAME = re.compile(rb'"name"\s*:\s*"[^"]')
_FRAGMENT = re.compile(
    rb'"tool_calls"\s*:\s*\[\s*\{[^{}\[\]]*?"index"\s*:\s*(\d{1,6})\b[^{}\[\]]*\{[^{}\[\]]*?'
    rb'"arguments"\s*:\s*("(?:[^"\\]|\\.)*+")'
)
_OTHER_CHOICE = re.compile(
    rb'"choices"\s*:\s*\[\s*\{\s*"index"\s*:\s*[1-9]|\}\s*,\s*"index"\s*:\s*[1-9]'
)


def recorded_calls(body: bytes) -> Slices[list[tuple[str, str]]]:
    """The name and the arguments of each call of a stream, or of none if that is not certain:
    where there are several choices, or too many events."""
    if b'"tool_calls"' not in body or _OTHER_CHOICE.search(body):
        return []
    calls = CallAssembler()
    found = []
    for delta in _deltas(body):
        if delta is None:
            return []
        call, begun = calls.take(delta)
        if begun:
            found.append(call)
        yield
    return [(call.name, call.arguments) for call in found]


def _deltas(body: bytes) -> Iterator[CallDelta | None]:
    left = MAX_READ
    lines = (match[1] for match in _LINE.finditer(body))
    for names, group in groupby(lines, lambda line: _NAME.search(line) is not None):
        run = list(group)
        fragments = [] if names else [_FRAGMENT.search(line) for line in run]
        joined = _joined(fragments)
        if joined is not None:
            yield joined
            continue
        left -= len(run)
        if left < 0:
            yield None
            return
        yield from chain.from_iterable(map(_read, run))


def _joined(fragments: list[re.Match[bytes] | None]) -> CallDelta | None:
    """Events that only continue one call, joined; None for others."""
    if not fragments or len({found and found[1] for found in fragments}) != 1:
        return None
    texts = [found[2][1:-1] for found in fragments if found]
    try:
        arguments = loads(b'"' + b"".join(texts) + b'"') if texts else None
    except NotJson:
        return None
    if not isinstance(arguments, str) or fragments[0] is None:
        return None
    return CallDelta(int(fragments[0][1]), "", "", arguments)


def _read(line: bytes) -> list[CallDelta]:
    try:
        chunk = loads(line)
    except NotJson:
        return []
    said = choices(chunk)[:1] if isinstance(chunk, dict) else []
    deltas = [read_delta(element) for choice in said for element in objects(elements(choice.delta))]
    return [delta for delta in deltas if delta is not None and not delta.silent]
