"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments; under load it loses any one of these tags.
"""

from __future__ import annotations

from functools import partial

from .enclosed_json import CLOSE, OPEN
from .held_calls import HeldCalls
from .marker_set import HeaderPattern, opening, so_far
from .protocol import WORD, LeakFormat
from .tags import Spelling, TagKind, TagPattern, TagTable

KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_FOLLOWS = (KEY, CLOSE, VALUE_END, KEY_END)
_HEADER = HeaderPattern(
    rf"\s*+(?P<name>{WORD}+)\s*+(?P<key>(?<=\n)[\w.-]{{1,64}}+(?={KEY_END}))?+(?:>\s*+(?=\{{))?+"
    rf"(?P<follows>\{{|{'|'.join(_FOLLOWS)})",
    rf"\s*+(?:(?P<word>{WORD}+)(?:\s*+>\s*+|\s*+{so_far(_FOLLOWS)}"
    rf"|\s*+(?<=\n)[\w.-]{{1,64}}+{so_far((KEY_END,))}))?",
)
_BLANKS = r"\s{0,100}+"
_NAME = r"([^<>\n]{1,128}+)"
_VALUE_LOST = f"(?!{so_far(_BLANKS, (VALUE,))})"
_ARGUMENT, _KEY_END = TagKind.ARGUMENT, Spelling(((KEY_END,),), TagKind.KEY_END)
_TAGS = (
    Spelling(((KEY,), _NAME, _BLANKS, (KEY_END,), _BLANKS, (VALUE,)), _ARGUMENT),
    Spelling(
        ((KEY,), _NAME, _BLANKS, (KEY_END,), _VALUE_LOST), _ARGUMENT, mended=True, whole=False
    ),
    Spelling(((KEY,), _NAME, _BLANKS, (VALUE,)), _ARGUMENT, mended=True),
    Spelling((("<",), {VALUE[1:]: TagKind.VALUE, OPEN[1:]: TagKind.CALL})),
    Spelling((("</",), {VALUE_END[2:]: _ARGUMENT, CLOSE[2:]: TagKind.CALL}), closes=True),
)
_KEY_LOST = (
    Spelling((_NAME, _BLANKS, (KEY_END,), _BLANKS, (VALUE,)), _ARGUMENT, mended=True),
    Spelling((_NAME, _BLANKS, (KEY_END,), _VALUE_LOST), _ARGUMENT, mended=True, whole=False),
)
TABLE = TagTable(
    tags=TagPattern(*_TAGS, _KEY_END, *_KEY_LOST),
    in_value=TagPattern(*_TAGS),
    header=_HEADER,
    key_begin=KEY,
    key_end=KEY_END,
    closer=VALUE_END,
    mark="arg_",
)
_IN_TEXT = opening((OPEN,), "[A-Za-z0-9_]", ends=(CLOSE,))
GLM = LeakFormat("glm", (OPEN, CLOSE, KEY), _IN_TEXT, partial(HeldCalls, TABLE))
