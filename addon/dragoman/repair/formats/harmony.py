"""Harmony, the format of gpt-oss: every message has a header, which says what it is.

::

    <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{…}<|call|>
    <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
    <|channel|>analysis<|message|>thoughts<|end|>
    <|channel|>final<|message|>the answer<|return|>

A header with a recipient is that of a call; one of the channel ``analysis`` that of thoughts.
One of ``commentary`` before a JSON object is that of a call without a name.  Any other is
dropped, and what follows is text.  The tokens that end a message are stop tokens, which hosts
leave out; where they leak they are dropped.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Dropped, Header, Text
from .buffered_parser import WORD, BufferedParser
from .marker_set import HEADER_LIMIT, MarkedFormat, MarkedJson, MarkerSet
from .protocol import LeakFormat, MarkerMatch

_BEGIN = ("<|start|>", "<|channel|>")
_END = ("<|call|>", "<|end|>", "<|return|>")
_STRAYS = {"<|message|>": "message", "<|constrain|>": "constrain"}
_MARKERS = MarkerSet((*_BEGIN, *_END, *_STRAYS))
_STRIPPED = MarkerSet(("commentary to=functions.",))
"""What is left of a call's header where the host has stripped the tokens."""
_OVER = MarkerSet((*_BEGIN, *_END))
"""What ends a message."""
_END_TOKEN = re.compile(rf"\s*(?:{MarkerSet(_END).expression})")
_HEADER_ENDS = re.compile(rf"<\|message\|>|\{{|<\|start\|>|{MarkerSet(_END).expression}")
_HEADER = re.compile(
    r"(?:<\|start\|>\s*assistant\b)?"
    rf"(?:\s*(?:(?P<to>to=)(?:functions\.)?(?P<name>{WORD}+)?|<\|constrain\|>|json|code"
    r"|<\|channel\|>\s*(?P<channel>analysis|commentary|final)\b))*\s*"
)
_NOT_BLANK = re.compile(r"\S")


class HarmonyParser(BufferedParser):
    """Reads one message, from right after that with which its header `begins`."""

    end_is_marked = False

    def __init__(self, start: int, begins: str) -> None:
        super().__init__(start)
        self._begins = begins

    def _read_header(self) -> bool:
        end = _HEADER_ENDS.search(self._buffer, self._at)
        unfinished = 0 if end else _MARKERS.unfinished(self.rest)
        size = (end.start() if end else len(self._buffer) - unfinished) - self._at
        if size > HEADER_LIMIT:
            return self._refuse()
        if end is None:
            return False
        literal = self._begins + self._buffer[self._at : end.start()]
        found = _HEADER.fullmatch(literal)
        if found is None or end[0] not in ("<|message|>", "{"):
            return self._refuse()
        if not found["to"]:
            return self._read_other_header(found, end)
        header = Header(found["name"], literal, "", "recipient")
        return self._begin_call(header, end.start() if end[0] == "{" else end.end())

    def _read_other_header(self, found: re.Match[str], end: re.Match[str]) -> bool:
        """That of a message without a recipient."""
        if end[0] == "{":
            return self._refuse()
        if found["channel"] == "commentary":
            first = _NOT_BLANK.search(self._buffer, end.end())
            if first is None and not self._ended:
                return False
            if first is not None and first[0] == "{":
                return self._begin_call(Header(None, "", "", "no recipient"), end.end())
        self._events.append(Dropped("header of a message"))
        self._in_head = False
        if found["channel"] != "analysis":
            return self._leave(end.end())
        self._at = end.end()
        self._state = self._read_thoughts
        return True

    def _begin_call(self, header: Header, at: int) -> bool:
        arguments = MarkedJson(_MARKERS, _STRAYS)
        return self._start_call(header, arguments, at)

    def _read_thoughts(self) -> bool:
        over = _OVER.find(self._buffer, self._at)
        unfinished = 0 if over or self._ended else _OVER.unfinished(self.rest)
        end = over.start() if over else len(self._buffer) - unfinished
        if end > self._at:
            start = self._end - len(self._buffer) + self._at
            self._events.append(Text(start, self._buffer[self._at : end], kind="reasoning"))
            self._at = end
            return True
        return over is not None and self._read_after()

    def _read_after(self) -> bool:
        token = _END_TOKEN.match(self._buffer, self._at)
        return self._leave(token.end() if token else self._at)


class _Harmony(MarkedFormat):
    """See `LeakFormat`."""

    name = "harmony"

    def __init__(self, markers: MarkerSet, beginnings: tuple[str, ...]) -> None:
        self._markers = markers
        self.beginnings = beginnings
        self.markers = markers.expression

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = self._markers.match(text, at)
        if found is None:
            return None
        begins = found[0] not in _END and found[0] not in _STRAYS
        return MarkerMatch(self, found[0], found.start(), found.end(), begins)

    def unfinished(self, text: str) -> int:
        return self._markers.unfinished(text)

    def parser(
        self,
        match: MarkerMatch,
        header: str,  # noqa: ARG002
        start: int,
        tools: DeclaredTools,  # noqa: ARG002
    ) -> HarmonyParser:
        stripped = "" if match.name in _BEGIN else "<|channel|>"
        return HarmonyParser(start, stripped + match.name)


HARMONY: LeakFormat = _Harmony(_MARKERS, (*_BEGIN, *_END, *_STRAYS))
HARMONY_STRIPPED: LeakFormat = _Harmony(_STRIPPED, ("commentary to=functions.",))
"""Calls of which nothing but words is left.  It is a format of its own, as looking for a word
costs more than looking for a token: it is for a model that is known to write Harmony."""
