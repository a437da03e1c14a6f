"""The format of Qwen3-Coder, 3.5 and 3.6; models leave out ``<tool_call>`` and closing tags::

<tool_call>
<function=NAME>
<parameter=KEY>
value
</parameter>
</function>
</tool_call>

They also write all arguments as one JSON object after ``<function=NAME>``, or an argument's tag
as ``<parameter name="KEY">``.  Doubao Seed writes ``<seed:tool_call>`` around the same.
"""

from __future__ import annotations

import re
from functools import partial

from .held_calls import HeldCalls
from .hermes import CLOSE, OPEN
from .marker_set import HeaderPattern, MarkerPattern, begun, so_far
from .protocol import WORD, LeakFormat, named
from .tags import Tag, TagKind, TagTable

_FUNCTION, _FUNCTION_END, _VALUE_END = "<function", "</function>", "</parameter>"
_OPENERS, _CLOSERS = (OPEN, "<seed:tool_call>"), (CLOSE, "</seed:tool_call>")
_OPENED = rf"(?:{'|'.join(_OPENERS)})\s{{0,64}}+"
_FOLLOWS = ("<parameter", _FUNCTION_END, *_CLOSERS)
_BEFORE_NAME = r"\s*+(?:=\s*+)?+[\"']?"
_HEADER = HeaderPattern(
    rf"{_BEFORE_NAME}(?P<name>{WORD}+)[\"']?\s*+>(?P<follows>\s*+(?:\{{|{'|'.join(_FOLLOWS)}))",
    rf"{_BEFORE_NAME}(?:(?P<word>[^\s<>\"']*+)[\"']?\s*+"
    rf"|{WORD}+[\"']?\s*+>\s*+{so_far(_FOLLOWS)})",
)
_KEY = r"\s{0,9}+[\"']?(?P<key>[^<>\n\"']{1,128}+)[\"']?\s{0,9}+>"
_DIALECT = r"(?:=|name\s{0,9}+=)"
_QUOTED = r"<parameter\s{1,9}+name\s{0,9}+=[^<>\n]{1,140}+>"
"""Another format's tag in a value: its closing tag is the same as ours."""
_OTHERS = {
    _VALUE_END: TagKind.ARGUMENT_END,
    _FUNCTION_END: TagKind.CALL_END,
    **dict.fromkeys(_OPENERS, TagKind.SECTION),
    **dict.fromkeys(_CLOSERS, TagKind.SECTION_END),
}
_STARTS = so_far((*_OTHERS, f"{_FUNCTION}=", "<parameter"))
_KEY_SO_FAR = r"\s{0,9}+(?:name\s{0,9}+)?+" + so_far(
    r"=\s{0,9}+[\"']?", "[^<>\n\"']{1,128}+", r"[\"']?\s{0,9}+"
)
_SO_FAR = rf"{_STARTS}|<parameter(?:\Z|\s{{0,9}}+{so_far(('name',))}|{_KEY_SO_FAR})"


def _tags(function: str, sign: str, quoted: str = "(?!)") -> MarkerPattern:
    """The tags, if that of a call begins so, and this is between an argument's tag and its name."""
    others = "|".join(map(re.escape, (*_OTHERS, function)))
    other = f"(?P<other>{others})|(?P<quoted>{quoted})"
    return MarkerPattern(rf"<parameter\s{{0,9}}+{sign}{_KEY}|{other}", _SO_FAR)


def _read(match: re.Match[str]) -> Tag:
    if match["other"]:
        return Tag.of(match, _OTHERS.get(match["other"], TagKind.CALL))
    if match["quoted"]:
        return Tag.of(match, TagKind.VALUE)
    return Tag.of(match, TagKind.ARGUMENT, match["key"].strip())


TABLE = TagTable(
    tags=_tags(_FUNCTION, _DIALECT),  # after a call, models also leave out the sign
    in_value=_tags(f"{_FUNCTION}=", "=", _QUOTED),  # a value may hold other elements
    read=_read,
    header=_HEADER,
    several=True,
    trim=True,
    closer=_VALUE_END,
)
QWEN = LeakFormat(
    "qwen",
    (*_OPENERS, _FUNCTION),
    MarkerPattern(
        rf"(?:{_OPENED})?{_FUNCTION}\s{{0,4}}=",
        rf"(?:{'|'.join(map(begun, _OPENERS))}|{_OPENED}"
        rf"|(?:{_OPENED})?(?:{begun(_FUNCTION)}|{_FUNCTION}\s{{0,4}}))\Z",
    ),
    partial(HeldCalls, TABLE),
    named(),
)
