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

from functools import partial

from .held_calls import HeldCalls
from .hermes import CLOSE, OPEN
from .marker_set import HeaderPattern, MarkerPattern, begun, so_far
from .protocol import WORD, LeakFormat, named
from .tags import Spelling, TagKind, TagPattern, TagTable

_FUNCTION = "<function"
_OPENERS, _CLOSERS = (OPEN, "<seed:tool_call>"), (CLOSE, "</seed:tool_call>")
_OPENED = rf"(?:{'|'.join(_OPENERS)})\s{{0,64}}+"
_FOLLOWS = ("<parameter", "</function>", *_CLOSERS)
_BEFORE_NAME = r"\s*+(?:=\s*+)?+[\"']?"
_HEADER = HeaderPattern(
    rf"{_BEFORE_NAME}(?P<name>{WORD}+)[\"']?\s*+>(?P<follows>\s*+(?:\{{|{'|'.join(_FOLLOWS)}))",
    rf"{_BEFORE_NAME}(?:(?P<word>[^\s<>\"']*+)[\"']?\s*+"
    rf"|{WORD}+[\"']?\s*+>\s*+{so_far(_FOLLOWS)})",
)
_BLANKS, _QUOTE = r"\s{0,9}+", "[\"']?"
_KEY = (_BLANKS + _QUOTE, "([^<>\n\"']{1,128}+)", _QUOTE + _BLANKS, (">",))
_OTHERS = (
    Spelling((("</parameter>",),), TagKind.ARGUMENT_END),
    Spelling((("</function>",),), TagKind.CALL_END),
    Spelling((_OPENERS,), TagKind.SECTION),
    Spelling((_CLOSERS,), TagKind.SECTION_END),
)
_ARGUMENT = Spelling((("<parameter",), _BLANKS, ("=",), *_KEY), TagKind.ARGUMENT)
TABLE = TagTable(
    tags=TagPattern(
        _ARGUMENT,
        Spelling((("<parameter",), _BLANKS, ("name",), _BLANKS, ("=",), *_KEY), TagKind.ARGUMENT),
        *_OTHERS,
        Spelling(((_FUNCTION,),), TagKind.CALL),  # after a call, models also leave out the sign
    ),
    in_value=TagPattern(  # which may hold other elements, and other formats' tags
        _ARGUMENT,
        *_OTHERS,
        Spelling(((f"{_FUNCTION}=",),), TagKind.CALL),
        Spelling(
            (("<parameter",), r"\s{1,9}+", ("name",), _BLANKS, ("=",), "[^<>\n]{1,140}+", (">",)),
            TagKind.VALUE,
        ),
    ),
    header=_HEADER,
    several=True,
    trim=True,
    closer="</parameter>",
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
