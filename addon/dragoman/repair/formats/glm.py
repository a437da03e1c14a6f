"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments.
"""

from __future__ import annotations

import re

from ..events import Arguments, Header
from ..tool_fit import schema_for
from .hermes import CLOSE, OPEN, OPENED, TAGS
from .json_arguments import JsonArguments
from .marker_set import HeaderParser, MarkedFormat, MarkerPattern, begun, so_far, tag_at
from .protocol import WORD
from .tagged_arguments import TaggedArguments
from .tags import TagKind, plain_syntax

KEY, _VALUE_END = "<arg_key>", "</arg_value>"
_SYNTAX = plain_syntax(
    r"arg_key>(?P<key>[^<>\n]{1,128})</arg_key>\s{0,100}<arg_value>",
    so_far(("arg_key>",), "[^<>\n]{1,128}", ("</arg_key>",), r"\s{0,100}", ("<arg_value>",)),
    {_VALUE_END: TagKind.ARGUMENT_END, OPEN: TagKind.CALL, CLOSE: TagKind.CALL_END},
)
_HALF = "|".join(begun(tag[:-1]) for tag in (KEY, CLOSE, _VALUE_END))


class GlmParser(HeaderParser):
    """Reads on from the name of a tool."""

    header = MarkerPattern(
        rf"\s*(?P<name>{WORD})\s*(?:>(?=\s*\{{))?"
        rf"(?P<follows>\s*\{{|{CLOSE}|(?:{_VALUE_END}\s*)?{KEY}|{_VALUE_END})",
        rf"\s*(?:{WORD}\s*(?:>\s*|{_HALF})?)?",
    )

    _closes = False
    """Whether the closing tag is still to be read after the arguments."""

    @property
    def in_header(self) -> bool:
        return self._in_head and self._tools.may_begin(self.rest.strip())

    def _begin(self, found: re.Match[str]) -> bool:
        header, at = Header(found["name"], found["name"]), found.start("follows")
        is_json = found["follows"][-1] == "{"
        self._closes = is_json or found["follows"] == _VALUE_END
        if is_json:
            return self._start_call(header, JsonArguments(TAGS), at)
        if not self._closes:
            arguments = TaggedArguments(_SYNTAX, schema_for(found["name"], self._tools))
            return self._start_call(header, arguments, at)
        if not self._ended and tag_at(self._buffer, found.end(), (KEY,)):
            return False
        return self._call_without_arguments(header, found.end())

    def _read_after(self) -> bool:
        follows = tag_at(self._buffer, self._at, (CLOSE,)) if self._closes else None
        if follows == ("", self._at) and not self._ended:
            return False
        return self._leave(follows[1] if follows else self._at)


def arguments_of(tags: str, schema: object) -> str:
    """The arguments in the tags of a call of which the last tags may be missing, as JSON."""
    arguments = TaggedArguments(_SYNTAX, schema)
    arguments.push(tags + _VALUE_END + CLOSE)
    while not arguments.over and arguments.step():
        pass
    if not arguments.over:
        arguments.finish()
    return "".join(event.text for event in arguments.take() if isinstance(event, Arguments))


GLM = MarkedFormat(
    "glm",
    MarkerPattern(rf"{OPENED}(?=[A-Za-z0-9_])", rf"(?:{begun(OPEN)}|{OPENED})\Z"),
    GlmParser,
    beginnings=(OPEN, KEY),
)
