"""Calls whose arguments stand in brackets, and are no JSON (`bracketed_values`)::

    <|tool_call>call:NAME{key:<|"|>text<|"|>,other:20}<tool_call|>
    <|tool_call_start|>[NAME(key="text", other=20), NAME()]<|tool_call_end|>
    [TOOL_CALL]{tool => "NAME", args => { --key "text" --other 20 }}[/TOOL_CALL]

They are Gemma's, LFM2's, and MiniMax's behind proxies.  A call is held until its brackets close,
and read at once.  Gemma also writes round brackets, other quotation marks, JSON, and the token that
begins a call in two ways.
"""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from ..declared_tools import DeclaredTools
from ..events import Dropped, Header
from .bracketed_values import BracketedArguments
from .json_calls import tag_at
from .marker_set import HeaderPattern, MarkerPattern, begun, so_far
from .protocol import CallArguments, LeakFormat, LeakParser, MarkerMatch

_NAME = r"[\w.:/@-]{1,128}+"
_BLANKS = r"\s{0,64}+"


class _Shape(NamedTuple):
    """How a format writes calls."""

    head: HeaderPattern
    """What comes before the brackets of the first call, with its name."""
    next: HeaderPattern
    """What comes before those of another one."""
    closers: tuple[str, ...]
    """What may follow a call, in this order."""


class BracketedParser(LeakParser):
    """Reads one section, from after its opening marker."""

    def __init__(
        self, shape: _Shape, match: MarkerMatch, header: str, start: int, tools: DeclaredTools
    ) -> None:
        super().__init__(match, header, start, tools)
        self._shape = shape
        self._closers = shape.closers

    @property
    def holds(self) -> bool:
        return self._arguments is not None

    def _read_header(self) -> bool:
        found = self._shape.head.header_at(self._buffer, self._at)
        return not found and self._refuse() if isinstance(found, bool) else self._begin(found)

    def _begin(self, found: re.Match[str]) -> bool:
        name = found["name"]
        if not self._tools.find(name):  # Gemma may put its server before it
            name = name.rpartition(":")[2]
        return self._start_call(
            Header(name, found["name"]), BracketedArguments(name, self._tools), found.end()
        )

    def _arguments_ended(self, arguments: CallArguments) -> None:  # noqa: ARG002
        self._closers = self._shape.closers

    def _read_after(self) -> bool:
        closer = tag_at(self._buffer, self._at, self._closers)
        if closer is not None and closer[0]:
            self._closers = self._closers[self._closers.index(closer[0]) + 1 :]
            self._at = closer[1]
            return True
        found = self._shape.next.header_at(self._buffer, self._at)
        if not isinstance(found, bool):
            return self._begin(found)
        return not (found or closer) and self._leave(self._at)

    def _finish(self) -> None:
        half = self._arguments is None and not self._in_head and self.rest.strip()
        if half and tag_at(self._buffer, self._at, self._closers):
            self._events.append(Dropped("unfinished marker"))
            self._at = len(self._buffer)
        super()._finish()


def _bracketed(
    name: str, begins: tuple[str, ...], first: str, begun_first: str, shape: _Shape
) -> LeakFormat:
    """`first` is what follows an opening marker, and shows that it is this format's."""
    opened = rf"(?:{'|'.join(map(re.escape, begins))}){_BLANKS}"
    half = "|".join(map(begun, begins))
    in_text = MarkerPattern(
        rf"{opened}(?={first})", rf"(?:{half}|{opened}(?:{begun_first})?)\Z", first=begins[0][0]
    )
    return LeakFormat(name, begins, in_text, partial(BracketedParser, shape))


_CALL = so_far(r"\s*+", ("call",), r"\s*+", (":",), r"\s*+", _NAME, r"\s*+", (r"(",), r"\s*+")
_GEMMA_HEAD = HeaderPattern(
    rf"\s*+call\s*+:\s*+(?P<name>{_NAME})\s*+(?:\(\s*+(?=\{{)|(?=\{{|\(\s*+[^\s{{]))", _CALL
)
GEMMA = _bracketed(
    "gemma",
    ("<|tool_call>", "<|tool_call|>"),
    r"call\s{0,9}:",
    rf"{begun('call')}|call\s{{0,9}}",
    _Shape(
        _GEMMA_HEAD,
        _GEMMA_HEAD,
        (
            ")",
            "<tool_call|>",
            "<|tool_call|>",
            "<|/tool_call|>",
            "</tool_call>",
            "<|tool_response>",
        ),
    ),
)
LFM2 = _bracketed(
    "lfm2",
    ("<|tool_call_start|>",),
    rf"\[?{_BLANKS}[A-Za-z_]",
    rf"\[?{_BLANKS}",
    _Shape(
        HeaderPattern(rf"\[?\s*+(?P<name>{_NAME})\s*+(?=\()", rf"\[?\s*+(?:{_NAME})?\s*+"),
        HeaderPattern(rf"\s*+,\s*+(?P<name>{_NAME})\s*+(?=\()", rf"\s*+(?:,\s*+(?:{_NAME})?\s*+)?"),
        ("]", "<|tool_call_end|>"),
    ),
)
_ARGUMENTS = ("arguments", "args", "parameters")
_MINIMAX_HEAD = HeaderPattern(
    rf"\s*+\{{\s*+(?:tool|name)\s*+=>\s*+[\"'](?P<name>{_NAME})[\"']\s*+,?\s*+"
    rf"(?:{'|'.join(_ARGUMENTS)})\s*+=>\s*+(?=\{{)",
    so_far(
        r"\s*+",
        *("{", r"\s*+", ("tool", "name"), r"\s*+", ("=>",), r"\s*+", "[\"']", _NAME, "[\"']"),
        *(r"\s*+,?\s*+", _ARGUMENTS, r"\s*+", ("=>",), r"\s*+"),
    ),
)
MINIMAX_ARROWS = _bracketed(
    "minimax_text",
    ("[TOOL_CALL]",),
    rf"\{{{_BLANKS}[tn]",
    rf"\{{{_BLANKS}",
    _Shape(_MINIMAX_HEAD, _MINIMAX_HEAD, ("}", "[/TOOL_CALL]")),
)
