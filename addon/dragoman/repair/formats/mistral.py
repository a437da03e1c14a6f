"""Mistral's format: ``[TOOL_CALLS][{"name": NAME, "arguments": {…}}, …]``, and from v11 on
``[TOOL_CALLS]NAME[ARGS]{…}`` for each call, where ``[CALL_ID]ID`` may precede ``[ARGS]``,
which some hosts leave out; models that know more formats write ``[TOOL_CALL]`` for its first token.
Only the next call, or text, ends one; hosts write a
``[/TOOL_CALLS]`` as well.  Where the first token is lost, ``NAME[ARGS]{…}`` is a call if it begins
a line and names a declared tool.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header
from .held_arguments import CallEnds
from .json_calls import OBJECT, JsonCallsParser
from .marker_set import (
    BLANKS,
    HEADER_LIMIT,
    HeaderPattern,
    MarkerPattern,
    Run,
    marker_set,
    optional,
    so_far,
    spelled,
)
from .protocol import WORD, LeakFormat, MarkerMatch

_BEGIN, _END, _ARGS = "[TOOL_CALLS]", "[/TOOL_CALLS]", "[ARGS]"
_ONE = ("[TOOL_CALL]",)
_NAMED = (BLANKS, f"{WORD}+", BLANKS, (_ARGS,))
_MARKERS = marker_set((_BEGIN, _END))
_IN_TEXT = MarkerPattern(
    rf"{_MARKERS.expression}|{re.escape(_ARGS)}(?={BLANKS}\{{)"
    rf"|{spelled(_ONE)}(?={spelled(*_NAMED)})",
    rf"{_MARKERS.begun_expression}|{so_far((_ARGS,), BLANKS, '(?!)', empty=False)}"
    rf"|{so_far(_ONE, *_NAMED, empty=False, whole=False)}",
    first="[",
)
_AT_LINE = re.compile(rf"(?:\A|(?<=\n))[ \t]{{0,8}}(?P<name>{WORD})[ \t]{{0,8}}\Z")
_WORD_SO_FAR = re.compile(r"[^\s\[{]*")


class MistralParser(JsonCallsParser):
    """Reads on from after ``[TOOL_CALLS]``."""

    end_is_marked = False
    ends = CallEnds(_IN_TEXT)
    header = HeaderPattern.of(
        OBJECT,
        (
            *(r"\s*+", rf"(?P<name>{WORD})", r"\s*+"),
            optional(("[CALL_ID]",), r"\s*+", rf"(?P<id>{WORD})", r"\s*+"),
            *(optional((_ARGS,), r"\s*+"), Run(r'(?P<follows>"?\{)', '"?')),
        ),
    )

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        if match.name == _ARGS and not header:
            self._refuse()
        elif header:
            self._start_json(Header(header), 0)

    @property
    def in_header(self) -> bool:
        if self._text:
            return super().in_header
        word = _WORD_SO_FAR.match(self.rest.lstrip())
        return self._in_head and (word is None or self._tools.may_begin(word[0]))

    def _begin(self, found: re.Match[str]) -> bool:
        if not found["name"]:
            return super()._begin(found)
        header = Header(found["name"], call_id=found["id"] or "")
        return self._start_json(header, found.start("follows"))


class _Mistral(LeakFormat):
    """Looks for calls without their token as well."""

    look_back = HEADER_LIMIT

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        word = text.strip()
        return bool(word) and len(text) <= HEADER_LIMIT and tools.may_begin(word)

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:
        found = _AT_LINE.search(text) if match.name == _ARGS else None
        return found[0] if found and found["name"] in tools else ""

    def stray_opens_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:  # noqa: ARG002
        return match.name == _ARGS


MISTRAL = _Mistral(
    "mistral",
    (_BEGIN, _END, _ARGS, *_ONE),
    _IN_TEXT,
    MistralParser,
    openers=(_BEGIN, *_ONE),
)
