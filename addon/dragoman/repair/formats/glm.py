"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from .buffered_parser import WORD, BufferedParser, named
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, MarkerSet, tag_at
from .protocol import LeakFormat
from .tagged_arguments import TaggedArguments, Tags
from .tool_call_tag import CLOSE, OPEN, OPENED, TAGS, TagFormat

_KEY, _VALUE_END = "<arg_key>", "</arg_value>"
_TAGS = Tags(
    opening=re.compile(r"\s*<arg_key>(?P<key>[^<>\n]{1,128})</arg_key>\s*<arg_value>"),
    opening_begins=_KEY,
    closing=_VALUE_END,
    call_end=CLOSE,
    value_ends=MarkerSet((_VALUE_END, _KEY, CLOSE)),
    trim=False,
)
_NAME = re.compile(rf"\s*(?P<name>{WORD})\s*")


class GlmParser(BufferedParser):
    """Reads on from the name of a tool."""

    def __init__(self, start: int, tools: DeclaredTools) -> None:
        super().__init__(start)
        self._tools = tools
        self._is_json = False
        """Whether the arguments are JSON, after which the closing tag is still to be read."""

    @property
    def in_header(self) -> bool:
        return self._in_head and self._tools.may_begin(self.rest.strip())

    def _read_header(self) -> bool:
        found = _NAME.match(self._buffer, self._at)
        if found is None:
            return self._refuse() if self.rest.strip() else False
        if found.end() == len(self._buffer):
            return False if len(self.rest) < HEADER_LIMIT else self._refuse()
        follows = tag_at(self._buffer, found.end(), (_KEY, CLOSE, ">", "{"))
        if follows is None:
            return self._refuse()
        tag, end = follows
        if tag == ">":
            object_follows = tag_at(self._buffer, end, ("{",))
            if object_follows is None:
                return self._refuse()
            tag = object_follows[0]
        else:
            end = found.end()
        if not tag:
            return False
        header = named(found["name"], found[0].strip())
        if tag == "{":
            self._is_json = True
            return self._start_call(header, JsonArguments(TAGS.find, TAGS.unfinished, {}), end)
        arguments = TaggedArguments(self._tools.schema_of(found["name"]), _TAGS)
        return self._start_call(header, arguments, end)

    def _read_after(self) -> bool:
        closes = self._is_json and self._buffer.startswith(CLOSE, self._at)
        return self._leave(self._at + (len(CLOSE) if closes else 0))


GLM: LeakFormat = TagFormat(
    "glm",
    opening=rf"{OPENED}(?=[A-Za-z0-9_])",
    unfinished=OPENED,
    beginnings=(OPEN,),
    parser=GlmParser,
)
