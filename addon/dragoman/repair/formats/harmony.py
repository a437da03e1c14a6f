"""Harmony, the format of gpt-oss: every message has a header with its kind.

::

    <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{…}<|call|>
    <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
    <|channel|>analysis<|message|>thoughts<|end|>
    <|channel|>final<|message|>the answer<|return|>

A header with a recipient is that of a call; one of the channel ``analysis`` that of thoughts.
One of ``commentary`` before a JSON object is that of a call without a name, if one tool declares
what is in it.  Any other is dropped, and what follows is text.  The tokens that end a message are
stop tokens, which hosts leave out; where they leak they are dropped.  So are headers without a
message after a call, which models repeat.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Dropped, Header
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, HeaderPattern, begun, marker_set
from .protocol import WORD, LeakFormat, LeakParser, MarkerMatch

_BEGIN = ("<|start|>", "<|channel|>")
_END = ("<|call|>", "<|end|>", "<|return|>")
_STRAYS = {"<|message|>": "message", "<|constrain|>": "constrain"}
_TOKENS = (*_BEGIN, *_END, *_STRAYS)
_MARKERS = marker_set(_TOKENS)
_WORDS = "commentary to=functions."
"""What is left of a call's header where the host has stripped the tokens."""
_OVER = marker_set((*_BEGIN, *_END))
"""What ends a message."""
_END_TOKEN = re.compile(rf"\s*(?:{marker_set(_END).expression})")
_HEADER_ENDS = re.compile(rf"<\|message\|>|\{{|<\|start\|>|{marker_set(_END).expression}")
_LONGEST = max(map(len, _TOKENS))
_HEADER = re.compile(
    r"(?:<\|start\|>\s*assistant\b)?"
    rf"(?:\s*(?:(?P<to>to=)(?:functions\.)?+(?P<name>{WORD})?+|<\|constrain\|>|json|code"
    r"|<\|channel\|>\s*(?P<channel>analysis|commentary|final)\b))*\s*"
)
_HEADER_SO_FAR = re.compile(
    rf"(?:<\|start\|>\s*(?:assistant\b|(?:{begun('assistant')})?\Z))?"
    rf"(?:\s*(?:to=(?:{WORD})?+|<\|constrain\|>|json|code"
    r"|<\|channel\|>\s*(?:analysis|commentary|final)\b))*\s*"
    rf"(?:{begun('to=')}|{begun('json')}|{begun('code')}"
    rf"|<\|channel\|>\s*(?:{begun('analysis')}|{begun('commentary')}|{begun('final')})?)?"
)
"""The start of one; a token that is cut is not part of it."""
_CONTENT_TYPE = re.compile(r"(?:json|code)\Z")
_NEXT = HeaderPattern.of((r"\s*+", (*_BEGIN, _WORDS)), (r"\s*+", _END, "(?!)"))
"""What follows a call if a header does; while half a token follows, that is open."""
_NOT_BLANK = re.compile(r"\S")


class HarmonyParser(LeakParser):
    """Reads one message, from after the marker with which its header begins."""

    end_is_marked = False

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._before = match.name if match.name in _BEGIN else f"<|channel|>{match.name}"
        """What of the header is not in the buffer."""
        self._searched = 0
        """Characters of the header that only begin it."""
        self._called = False
        """Whether a call came before the header."""

    @property
    def in_header(self) -> bool:
        return self._in_head and not self._called

    def _read_header(self) -> bool:
        limit = self._at + HEADER_LIMIT + _LONGEST
        end = _HEADER_ENDS.search(self._buffer, self._at + self._searched, limit)
        unfinished = 0 if end else _MARKERS.unfinished(self._buffer[self._at + self._searched :])
        size = (end.start() if end else len(self._buffer) - unfinished) - self._at
        if size > HEADER_LIMIT:
            return self._no_header()
        literal = self._before + self._buffer[self._at : self._at + size]
        if end is None:
            may_be = literal.count("<|channel|>") <= 2 and _HEADER_SO_FAR.fullmatch(literal)
            return not may_be and self._no_header()
        found = _HEADER.fullmatch(literal)
        if found is None:
            return self._no_header()
        if end[0] not in ("<|message|>", "{"):
            return self._drop_header(end.start()) if self._called else self._no_header()
        if not found["to"]:
            return self._read_other_header(found, end)
        header = Header(self._declared(found["name"]), literal, form="recipient")
        return self._begin_call(header, end.start() if end[0] == "{" else end.end())

    def _declared(self, name: str | None) -> str | None:
        """The name of a recipient, to which the type of the content may be glued."""
        bare = _CONTENT_TYPE.sub("", name or "")
        return bare if name not in self._tools and bare in self._tools else name

    def _no_header(self) -> bool:
        """What follows is no header: after a call, text that is read anew."""
        return self._leave(self._at) if self._called else self._refuse()

    def _drop_header(self, end: int) -> bool:
        """A header that repeats that of the call before it."""
        self._events.append(Dropped("repeated header"))
        self._at = end
        self._in_head = False
        self._read = type(self)._read_after
        return True

    def _read_other_header(self, found: re.Match[str], end: re.Match[str]) -> bool:
        """That of a message without a recipient."""
        if end[0] == "{":
            return self._no_header()
        if found["channel"] == "commentary":
            first = _NOT_BLANK.search(self._buffer, end.end())
            if first is None and not self._ended:
                return False
            if first is not None and first[0] == "{":
                header = Header(None, "", form="no recipient", doubtful=True)
                return self._begin_call(header, end.end())
        self._events.append(Dropped("header of a message"))
        self._in_head = False
        if found["channel"] != "analysis":
            return self._leave(end.end())
        self._at = end.end()
        self._read = type(self)._read_thoughts
        return True

    def _begin_call(self, header: Header, at: int) -> bool:
        self._called = True
        return self._start_call(header, JsonArguments(_MARKERS, _STRAYS), at)

    def _read_thoughts(self) -> bool:
        over = _OVER.find(self._buffer, self._at)
        unfinished = 0 if over or self._ended else _OVER.unfinished(self.rest)
        end = over.start() if over else len(self._buffer) - unfinished
        return self._give_text(end, "reasoning") or (over is not None and self._read_after())

    def _read_after(self) -> bool:
        token = _END_TOKEN.match(self._buffer, self._at)
        if token is not None:
            self._at = token.end()
        if not self._called:
            return self._leave(self._at)
        follows = _NEXT.header_at(self._buffer, self._at)
        if isinstance(follows, bool):
            return (self._ended or not follows) and self._leave(self._at)
        begin = follows[0].lstrip()
        self._at, self._searched = follows.end() - len(begin), len(begin)
        self._before = "" if begin in _BEGIN else "<|channel|>"
        self._in_head = True
        self._read = type(self)._read_header
        return True

    def _finish(self) -> None:
        if self._in_head and self._called:
            self._drop_header(len(self._buffer))
            self._is_over = True
        else:
            super()._finish()


HARMONY = LeakFormat("harmony", _TOKENS, _MARKERS, HarmonyParser, openers=_BEGIN)
HARMONY_STRIPPED = LeakFormat("harmony", (_WORDS,), marker_set((_WORDS,)), HarmonyParser)
"""Calls of which nothing but words is left.  It is a format of its own, as looking for a word
costs more than looking for a token: it is for a model that is known to write Harmony."""
