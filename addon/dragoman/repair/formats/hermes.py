"""The format of Hermes, which Qwen2.5, Qwen3 and many others write::

<tool_call>
{"name": NAME, "arguments": {…}}
</tool_call>

The calls of two other formats begin with ``<tool_call>`` as well.  So a format matches it only
together with what follows.
"""

from __future__ import annotations

import re

from .json_calls import JsonCallsParser
from .marker_set import MarkerSet, begun
from .protocol import LeakFormat, MarkerMatch, Parser

OPEN, CLOSE = "<tool_call>", "</tool_call>"
TAGS = MarkerSet((OPEN, CLOSE))
OPENED = rf"{OPEN}\s{{0,64}}"
_TAIL = 256
"""Characters at the end of a text in which a marker may have begun."""


class ToolCallFormat(LeakFormat):
    """A format whose calls begin with ``<tool_call>``.  `opening` is an expression for all with
    which a call begins, and `unfinished` for the starts of that; both begin with ``<``."""

    def __init__(
        self, name: str, opening: str, unfinished: str, beginnings: tuple[str, ...], parser: Parser
    ) -> None:
        super().__init__(name, beginnings, opening, parser)
        self._match = re.compile(opening).match
        self._unfinished = re.compile(rf"(?:{begun(OPEN)}|{unfinished})\Z").search

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = self._match(text, at)
        if found is None:
            return None
        return MarkerMatch(self, found[0].strip(), found.start(), found.end(), begins=True)

    def unfinished(self, text: str) -> int:
        found = self._unfinished(text, max(0, len(text) - _TAIL))
        return len(text) - found.start() if found else 0


class HermesParser(JsonCallsParser):
    """Reads the objects after ``<tool_call>``."""

    markers = TAGS
    closer = CLOSE


HERMES = ToolCallFormat(
    "hermes",
    opening=rf"{OPENED}(?=(?:\[\s{{0,64}})?\{{)",
    unfinished=rf"{OPENED}(?:\[\s{{0,64}})?",
    beginnings=(OPEN,),
    parser=HermesParser,
)
