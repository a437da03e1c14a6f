"""The format of Qwen3-Coder, 3.5 and 3.6; models leave out ``<tool_call>`` and closing tags::

<tool_call>
<function=NAME>
<parameter=KEY>
value
</parameter>
</function>
</tool_call>

They also write all arguments as one JSON object after ``<function=NAME>``, which may lack its end
(or end with ``=``, a comma or ``[]``, as Llama writes it), or an argument's tag as ``<parameter
name="KEY">``.  Doubao Seed writes ``<seed:tool_call>`` around the same.  Qwen 3.8 sometimes writes
the tool's name in the tag of a parameter, or after ``<name>``, with ``</parameter>`` behind it.
"""

from __future__ import annotations

from functools import partial

from .held_calls import HeldCalls
from .marker_set import HeaderPattern, ahead, named
from .protocol import WORD, LeakFormat
from .tags import Spelling, TagKind, TagPattern, TagTable

_SECTIONS = dict.fromkeys(("tool_call>", "seed:tool_call>"), TagKind.SECTION)
_CALLS = {"function>": TagKind.CALL, **_SECTIONS}
_OPENERS = tuple(f"<{word}" for word in _SECTIONS)
_FOLLOWS = ("<parameter", *(f"</{word}" for word in _CALLS))
_BEFORE_NAME = r"\s*+(?:=\s*+)?+[\"']?"
_AFTER_NAME = (">", "</parameter>", "</name>", "=", ",", "[]", "")
_HEADER = HeaderPattern.of(
    (
        _BEFORE_NAME,
        rf"(?P<name>{WORD}+)",
        r"[\"']?\s*+",
        _AFTER_NAME,
        r"\s*+",
        named("follows", ("{", *_FOLLOWS)),
    )
)
_BLANKS, _QUOTE = r"\s{0,9}+", "[\"']?"
_KEY = (_BLANKS, ("=",), _BLANKS + _QUOTE, "([^<>\n\"']{1,128}+)", _QUOTE + _BLANKS, (">",))
_OTHER_FORMATS = (r"\s{1,9}+", ("name",), _BLANKS, ("=",), "[^<>\n]{1,140}+", (">",))
_TAGS = (
    Spelling((("<parameter",), *_KEY), TagKind.ARGUMENT),
    Spelling((("<",), _SECTIONS)),
    Spelling((("</",), {"parameter>": TagKind.ARGUMENT, **_CALLS}), closes=True),
)
TABLE = TagTable(
    tags=TagPattern(
        *_TAGS,
        Spelling((("<parameter",), _BLANKS, ("name",), *_KEY), TagKind.ARGUMENT),
        Spelling((("<function",),), TagKind.CALL),  # after a call, models also leave out the sign
    ),
    in_value=TagPattern(
        *_TAGS,
        Spelling((("<function=",),), TagKind.CALL),
        Spelling((("<parameter",), *_OTHER_FORMATS), TagKind.VALUE),
        Spelling((("<parameter>",),), TagKind.VALUE),
    ),
    header=_HEADER,
    several=True,
    trim=True,
    may_lack_end=True,
    closer="</parameter>",
)
_CALL = (("<function", "<parameter"), r"\s{0,4}", ("=", "/"))
_NAME = ahead(r"\s{0,9}+", f"{WORD}+", r"\s{0,9}+", ("</parameter>",))
_IN_TEXT = TagPattern(
    Spelling((_OPENERS, r"\s{0,64}+", *_CALL)),
    Spelling((_OPENERS, r"\s{0,64}+", ("<name>",))),
    Spelling((("<name>",), _NAME)),
    Spelling(_CALL),
)
_BEGIN = (*_OPENERS, "<function", "<parameter", "<name>")
QWEN = LeakFormat("qwen", _BEGIN, _IN_TEXT, partial(HeldCalls, TABLE))
