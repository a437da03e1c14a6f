"""DeepSeek's special tokens up to V3.1; later models write `DSML`.

::

    V3, R1   calls_begin call_begin function sep NAME ```json {…} ``` call_end … calls_end
    V3.1     calls_begin call_begin NAME sep {…} call_end … calls_end

A token is ``<｜tool▁calls▁begin｜>``; detokenizers also write its words with ``_`` or blanks
between them.  The model leaves out ``calls_begin``, ``call_begin``, and what closes a call.
"""

from __future__ import annotations

import re
from functools import partial

from .marker_set import HEADER_LIMIT, MarkerPattern, begun, marker_set, so_far
from .protocol import WORD, LeakFormat, named
from .tagged_calls import TaggedCalls
from .tags import Tag, TagKind, TagSyntax

_WORDS = ("tool calls begin", "tool calls end", "tool call begin", "tool call end", "tool sep")
_NAMES = {
    f"<｜{words.replace(' ', between)}｜>": words.partition(" ")[2].replace(" ", "_")
    for words in _WORDS
    for between in ("▁", "_", " ", r"\_")
}
_KINDS = {
    "calls_begin": TagKind.SECTION,
    "calls_end": TagKind.SECTION_END,
    "call_begin": TagKind.CALL,
    "call_end": TagKind.CALL_END,
}
_TAGS = tuple(token for token, name in _NAMES.items() if name in _KINDS)
_MARKERS = marker_set(_NAMES)


def _token(*names: str) -> str:
    return "(?:" + "|".join(re.escape(t) for t, name in _NAMES.items() if name in names) + ")"


def _read(match: re.Match[str]) -> Tag:
    """A token, or nothing, where a call begins with its name."""
    return Tag.of(match, _KINDS[_NAMES[match[0]]] if match[0] else TagKind.CALL)


_SEP = _token("sep")
_BLANKS = rf"\s{{0,{HEADER_LIMIT}}}"
_HALF_TOKEN = f"(?:{'|'.join(begun(token[:-1]) for token in _NAMES)})?"
_HEADER = MarkerPattern(
    rf"\s*(?:{_token('call_begin')}\s*)?(?P<type>{WORD}\s*{_SEP}\s*(?={WORD}))?(?P<name>{WORD})"
    rf"(?(type)|\s*{_SEP})\s*(?:```\w*\s*)?(?P<follows>\{{|{_token('call_end', 'calls_end')})",
    rf"\s*(?:{_token('call_begin')}\s*)?"
    rf"(?:{WORD}\s*(?:{_SEP}\s*(?:{WORD})?\s*(?:`{{1,2}}|```\w*\s*)?)?)?{_HALF_TOKEN}",
)
_SYNTAX = TagSyntax(
    tags=MarkerPattern(
        rf"{'|'.join(map(re.escape, _TAGS))}|(?={WORD}{_BLANKS}{_SEP})",
        rf"{so_far(_TAGS)}|{WORD}{_BLANKS}{_HALF_TOKEN}\Z",
    ),
    in_value=_MARKERS,
    read=_read,
    header=_HEADER,
    several=True,
    closing=re.compile(r"\s*<｜"),
)
DEEPSEEK = LeakFormat(
    "deepseek",
    ("<｜tool",),
    _MARKERS,
    partial(TaggedCalls, _SYNTAX),
    named([token for token, name in _NAMES.items() if name.endswith("_begin")], _NAMES),
)
