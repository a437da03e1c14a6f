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

from ..declared_tools import DeclaredTools
from ..events import Arguments, Header
from ..tool_fit import schema_for
from .hermes import CLOSE, OPEN, OPENED, TAGS
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, MarkedFormat, MarkerPattern, begun, so_far, tag_at
from .protocol import WORD, LeakParser, MarkerMatch
from .tagged_arguments import TaggedArguments
from .tags import TagKind, plain_syntax

KEY, _VALUE_END = "<arg_key>", "</arg_value>"
_SYNTAX = plain_syntax(
    r"arg_key>(?P<key>[^<>\n]{1,128})</arg_key>\s{0,100}<arg_value>",
    so_far(("arg_key>",), "[^<>\n]{1,128}", ("</arg_key>",), r"\s{0,100}", ("<arg_value>",)),
    {_VALUE_END: TagKind.ARGUMENT_END, OPEN: TagKind.CALL, CLOSE: TagKind.CALL_END},
)
_NAME = re.compile(rf"\s*(?P<name>{WORD})\s*")


class GlmParser(LeakParser):
    """Reads on from the name of a tool."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._closes = False
        """Whether the closing tag is still to be read after the arguments."""

    @property
    def in_header(self) -> bool:
        return self._in_head and self._tools.may_begin(self.rest.strip())

    def _read_header(self) -> bool:
        found = _NAME.match(self._buffer, self._at)
        if found is None:
            return self._refuse() if self.rest.strip() else False
        if found.end() - self._at >= HEADER_LIMIT:
            return self._refuse()
        if found.end() == len(self._buffer):
            return False
        follows = tag_at(self._buffer, found.end(), (KEY, CLOSE, _VALUE_END, ">", "{"))
        if follows is None:
            return self._refuse()
        tag, end = follows
        begin = end if tag == ">" else found.end()
        header = Header(found["name"], found[0].strip())
        if tag == _VALUE_END:
            follows = None if self._ended else tag_at(self._buffer, end, (KEY,))
            if follows is None:
                self._closes = True
                return self._call_without_arguments(header, end)
        elif tag == ">":
            follows = tag_at(self._buffer, end, ("{",))
            if follows is None:
                return self._refuse()
        if not follows[0]:
            return False
        if follows[0] == "{":
            self._closes = True
            return self._start_call(header, JsonArguments(TAGS), begin)
        arguments = TaggedArguments(_SYNTAX, schema_for(found["name"], self._tools))
        return self._start_call(header, arguments, begin)

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
