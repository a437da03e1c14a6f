"""The format of Qwen3-Coder, 3.5 and 3.6; models leave out ``<tool_call>`` and closing tags::

<tool_call>
<function=NAME>
<parameter=KEY>
value
</parameter>
</function>
</tool_call>

They also write all arguments as one JSON object after ``<function=NAME>``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .hermes import CLOSE, OPEN, OPENED
from .marker_set import MarkerPattern, begun, so_far
from .protocol import WORD, LeakFormat, named
from .tagged_calls import TaggedCalls
from .tags import TagKind, TagSyntax, plain_syntax

_FUNCTION, _FUNCTION_END = "<function", "</function>"
_FOLLOWS = ("<parameter", _FUNCTION_END, CLOSE)
_BEFORE_NAME = r"\s*(?:=\s*)?[\"']?"
_HEADER = MarkerPattern(
    rf"{_BEFORE_NAME}(?P<name>{WORD})[\"']?\s*>(?P<follows>\s*(?:\{{|{'|'.join(_FOLLOWS)}))",
    rf"{_BEFORE_NAME}(?:(?P<word>[^\s<>\"']*)[\"']?\s*"
    rf"|{WORD}[\"']?\s*>\s*{so_far(_FOLLOWS)})",
)


def _tags(function: str) -> TagSyntax:
    """The tags, if that of a call begins so."""
    return plain_syntax(
        r"parameter\s{0,9}=\s{0,9}[\"']?(?P<key>[^<>\n\"']{1,128})[\"']?\s{0,9}>",
        so_far(
            ("parameter",), r"\s{0,9}", r"=\s{0,9}[\"']?", "[^<>\n\"']{1,128}", r"[\"']?\s{0,9}"
        ),
        {
            "</parameter>": TagKind.ARGUMENT_END,
            function: TagKind.CALL,
            _FUNCTION_END: TagKind.CALL_END,
            OPEN: TagKind.SECTION,
            CLOSE: TagKind.SECTION_END,
        },
        trim=True,
    )


_IN_CALL = _tags(f"{_FUNCTION}=")
"""After a call, models also leave out the ``=``; a value may hold other elements."""
QWEN = LeakFormat(
    "qwen",
    (OPEN, _FUNCTION),
    MarkerPattern(
        rf"(?:{OPENED})?{_FUNCTION}\s{{0,4}}=",
        rf"(?:{begun(OPEN)}|(?:{OPENED})?(?:{begun(_FUNCTION)}|{_FUNCTION}\s{{0,4}})|{OPENED})\Z",
    ),
    partial(TaggedCalls, replace(_tags(_FUNCTION), in_call=_IN_CALL, header=_HEADER, several=True)),
    named(),
)
