"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments; under load it loses any one of these tags.
"""

from __future__ import annotations

import re
from functools import partial

from .held_calls import HeldCalls
from .hermes import CLOSE, LONE_END, OPEN, OPENED
from .marker_set import HeaderPattern, MarkerPattern, begun, diverging, so_far
from .protocol import WORD, LeakFormat, named
from .tags import Tag, TagKind, TagTable

KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_FOLLOWS = (KEY, CLOSE, VALUE_END, KEY_END)
_HEADER = HeaderPattern(
    rf"\s*+(?P<name>{WORD}+)\s*+(?P<key>(?<=\n)[\w.-]{{1,64}}+(?={KEY_END}))?+(?:>\s*+(?=\{{))?+"
    rf"(?P<follows>\{{|{'|'.join(_FOLLOWS)})",
    rf"\s*+(?:(?P<word>{WORD}+)(?:\s*+>\s*+|\s*+{so_far(_FOLLOWS)}"
    rf"|\s*+(?<=\n)[\w.-]{{1,64}}+{so_far((KEY_END,))}))?",
)
_OTHERS = {
    KEY_END: TagKind.KEY_END,
    VALUE: TagKind.VALUE,
    VALUE_END: TagKind.ARGUMENT_END,
    OPEN: TagKind.CALL,
    CLOSE: TagKind.CALL_END,
}
_NAME = r"[^<>\n]{1,128}+"
_REST = rf"{KEY_END}(?:\s{{0,100}}+{VALUE}|(?=\s{{0,100}}+{diverging(VALUE)}))"
_ARGUMENT = rf"{KEY}(?P<key>{_NAME})(?:{_REST}|\s{{0,100}}+{VALUE})"
_OTHER = f"(?P<other>{'|'.join(_OTHERS)})"
_IN_VALUE = f"(?P<other>{'|'.join(tag for tag in _OTHERS if tag != KEY_END)})"
_REST_SO_FAR = so_far(r"\s{0,100}+", (KEY_END, VALUE), r"\s{0,100}+", (VALUE,))
_SO_FAR = f"{so_far((KEY, *_OTHERS))}|{KEY}{_NAME}{_REST_SO_FAR}"


def _read(match: re.Match[str]) -> Tag:
    if match["other"]:
        return Tag.of(match, _OTHERS[match["other"]])
    lost, whole = match.groupdict().get("lost"), match[0].endswith(VALUE)
    key = (lost or match["key"]).strip()
    return Tag.of(match, TagKind.ARGUMENT, key, mended=bool(lost) or not whole, whole=whole)


TABLE = TagTable(
    tags=MarkerPattern(
        f"{_ARGUMENT}|{_OTHER}|(?P<lost>{_NAME}){_REST}", f"{_SO_FAR}|{_NAME}{_REST_SO_FAR}"
    ),
    in_value=MarkerPattern(f"{_ARGUMENT}|{_IN_VALUE}", _SO_FAR),
    read=_read,
    header=_HEADER,
    key_begin=KEY,
    pairs=True,
    key_end=KEY_END,
    closer=VALUE_END,
)
GLM = LeakFormat(
    "glm",
    (OPEN, CLOSE, KEY),
    MarkerPattern(rf"{OPENED}(?=[A-Za-z0-9_])", rf"(?:{begun(OPEN)}|{OPENED}|{LONE_END})\Z"),
    partial(HeldCalls, TABLE),
    named(),
)
