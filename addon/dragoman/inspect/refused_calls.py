"""How many native calls of a turn have arguments that their tool refuses: a figure by which people
choose a host."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from typing import Any

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..wire.chat_calls import CallAssembler, CallDelta, elements, read_delta
from ..wire.chat_delta import choices
from ..wire.frame_templates import TemplateCache
from ..wire.json_codec import NotJson, loads, objects
from ..wire.json_slices import reading
from ..wire.slices import Slices
from ..wire.sse import Frame, in_steps, is_event_stream
from .parse.reply import parsing_whole
from .summary import TurnSummary

MAX_BODY = 1024 * 1024
"""Bytes of a reply whose calls are read once more at its end."""
MAX_READ = 2000
"""Events that are read one by one; in a longer stream no call is read."""
_CALLS = re.compile(rb'"tool_calls"\s*:\s*\[')
_OTHER_CHOICE = re.compile(
    rb'"choices"\s*:\s*\[\s*\{\s*"index"\s*:\s*[1-9]|\}\s*,\s*"index"\s*:\s*[1-9]'
)


def counting_refused(
    body: bytes, tools: DeclaredTools, evidence: Evidence, turn: TurnSummary
) -> Slices[int]:
    """How many native calls have such arguments; `body` is the upstream's reply, empty if it was
    not kept."""
    has_native = turn.upstream.parsed and len(turn.client.calls) > evidence.leaked.total()
    refused = 0
    if tools and has_native and len(body) <= MAX_BODY:
        work = streamed_calls(body) if is_event_stream(body) else _whole_calls(body)
        for name, arguments in (yield from work):
            refused += tools.refuses(name, arguments)
            yield
    return refused


def _whole_calls(body: bytes) -> Slices[list[tuple[str, str]]]:
    try:
        reply = yield from parsing_whole((yield from reading(body)))
    except NotJson:
        return []
    return [(call.name, call.arguments) for call in reply.calls if call.kind == "function"]


def streamed_calls(body: bytes) -> Slices[list[tuple[str, str]]]:
    """The name and the arguments of each native call of a chat stream, or of none if that is not
    certain: where there are several choices, or too many events.

    Most events have one fragment of the arguments of one call, and reading each as JSON would cost
    too much; the texts of such events are found by templates."""
    if b'"tool_calls"' not in body or _OTHER_CHOICE.search(body):
        return []
    templates: TemplateCache[CallDelta] = TemplateCache()
    calls, found, left = CallAssembler(), [], MAX_READ
    for arguments, template, raw in chain.from_iterable(map(templates.runs, in_steps(body))):
        if template is not None:
            deltas = [replace(template, arguments=arguments)]
        elif _CALLS.search(raw) is None:
            deltas = []
        elif left == 0:
            return []
        else:
            left -= 1
            deltas = _read(Frame(raw), templates)
        for delta in deltas:
            call, is_new = calls.take(delta)
            if is_new:
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
