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

import re

from ..events import Header
from ..tool_fit import schema_for
from .hermes import CLOSE, OPEN, OPENED
from .json_arguments import JsonArguments
from .marker_set import HeaderParser, MarkedFormat, MarkerPattern, begun, so_far, tag_at
from .protocol import WORD
from .tagged_arguments import TaggedArguments
from .tags import TagKind, plain_syntax

_PARAMETER = "<parameter"
_FUNCTION, _FUNCTION_END = "<function", "</function>"
_SYNTAX = plain_syntax(
    r"parameter\s{0,9}=\s{0,9}[\"']?(?P<key>[^<>\n\"']{1,128})[\"']?\s{0,9}>",
    so_far(("parameter",), r"\s{0,9}", r"=\s{0,9}[\"']?", "[^<>\n\"']{1,128}", r"[\"']?\s{0,9}"),
    {
        "</parameter>": TagKind.ARGUMENT_END,
        f"{_FUNCTION}=": TagKind.CALL,
        _FUNCTION_END: TagKind.CALL_END,
        OPEN: TagKind.SECTION,
        CLOSE: TagKind.SECTION_END,
    },
    trim=True,
)
_FOLLOWS = (_PARAMETER, _FUNCTION_END, CLOSE)
_NAME_SO_FAR = re.compile(r"\s*=?\s*[\"']?(?P<name>[^\s<>\"']*)[\"']?\s*\Z")


class QwenParser(HeaderParser):
    """Reads on from the name of a function."""

    header = MarkerPattern(
        rf"(?P<literal>\s*=?\s*[\"']?(?P<name>{WORD})[\"']?\s*>)\s*"
        rf"(?P<follows>\{{|{'|'.join(_FOLLOWS)})",
        rf"\s*=?\s*[\"']?(?:[^\s<>\"']*[\"']?\s*"
        rf"|{WORD}[\"']?\s*>\s*(?:{'|'.join(begun(tag[:-1]) for tag in _FOLLOWS)})?)",
    )

    @property
    def in_header(self) -> bool:
        so_far = _NAME_SO_FAR.match(self._buffer, self._at)
        return self._in_head and (so_far is None or self._tools.may_begin(so_far["name"]))

    def _begin(self, found: re.Match[str]) -> bool:
        schema = schema_for(found["name"], self._tools)
        header = Header(found["name"], found["literal"].strip())
        is_json = found["follows"] == "{"
        arguments = JsonArguments(_SYNTAX.in_value) if is_json else TaggedArguments(_SYNTAX, schema)
        return self._start_call(header, arguments, found.end("literal"))

    def _read_after(self) -> bool:
        follows = tag_at(self._buffer, self._at, (CLOSE, _FUNCTION, _FUNCTION_END))
        if follows is None:
            return self._leave(self._at)
        tag, end = follows
        if tag == CLOSE:
            return self._leave(end)
        if tag:
            self._at = end
        if tag == _FUNCTION:
            self._in_head = True
            self._read = self._read_header
        return bool(tag)


QWEN = MarkedFormat(
    "qwen",
    MarkerPattern(
        rf"(?:{OPENED})?{_FUNCTION}\s{{0,4}}=",
        rf"(?:{begun(OPEN)}|(?:{OPENED})?(?:{begun(_FUNCTION)}|{_FUNCTION}\s{{0,4}})|{OPENED})\Z",
    ),
    QwenParser,
    beginnings=(OPEN, _FUNCTION),
)
