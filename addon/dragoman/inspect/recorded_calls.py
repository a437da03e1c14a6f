"""Reads the native calls of a recorded chat stream, with their arguments.

Most events have one fragment of the arguments of one call, and reading each as JSON would cost too
much; such events are read many at a time.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ..wire.chat_calls import CallAssembler, CallDelta, elements, read_delta
from ..wire.chat_delta import choices
from ..wire.frame_templates import TemplateCache
from ..wire.json_codec import NotJson, loads, objects
from ..wire.slices import Slices
from ..wire.sse import Frame

MAX_READ = 2000
"""Events that are read one by one; with more nothing is known."""
_CALLS = re.compile(rb'"tool_calls"\s*:\s*\[')
_OTHER_CHOICE = re.compile(
    rb'"choices"\s*:\s*\[\s*\{\s*"index"\s*:\s*[1-9]|\}\s*,\s*"index"\s*:\s*[1-9]'
)


def recorded_calls(body: bytes) -> Slices[list[tuple[str, str]]]:
    """The name and the arguments of each call of a stream, or of none if that is not certain:
    where there are several choices, or too many events."""
    if b'"tool_calls"' not in body or _OTHER_CHOICE.search(body):
        return []
    templates: TemplateCache[CallDelta] = TemplateCache()
    calls, found, left = CallAssembler(), [], MAX_READ
    for arguments, known, raw in templates.runs(body):
        if known is not None:
            deltas = [replace(known, arguments=arguments)]
        elif _CALLS.search(raw) is None:
            deltas = []
        elif left == 0:
            return []
        else:
            left -= 1
            deltas = _read(Frame(raw), templates)
        for delta in deltas:
            call, begun = calls.take(delta)
            if begun:
                found.append(call)
        yield
    return [(call.name, call.arguments) for call in found]


def _read(frame: Frame, templates: TemplateCache[CallDelta]) -> list[CallDelta]:
    try:
        deltas = _deltas(loads(frame.data or b"null"))
    except NotJson:
        return []
    if templates.wanted and len(deltas) == 1 and not deltas[0].name:
        templates.learn(frame, deltas[0].arguments, 1, _arguments, deltas[0])
    return deltas


def _deltas(chunk: Any) -> list[CallDelta]:
    first = choices(chunk)[:1] if isinstance(chunk, dict) else []
    deltas = [read_delta(each) for choice in first for each in objects(elements(choice.delta))]
    return [delta for delta in deltas if delta is not None and not delta.silent]


def _arguments(chunk: Any) -> str:
    return "".join(delta.arguments for delta in _deltas(chunk))
