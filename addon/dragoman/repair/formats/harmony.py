"""Harmony, the format of gpt-oss: every message has a header with its kind.

::

    <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{…}<|call|>
    <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
    <|channel|>analysis<|message|>thoughts<|end|>
    <|channel|>final<|message|>the answer<|return|>

A header with a recipient is that of a call if it has a channel or a type as well, or a JSON object
follows: Muse writes ``<|start|>assistant to=NAME<|message|>`` before calls of its own (`invoke`).
One of the channel ``analysis`` is that of thoughts; one of ``commentary`` before a JSON object that
of a call without a name, if one tool declares what is in it.  Any other is dropped, and what
follows is text.
The tokens that end a message are stop tokens, which hosts leave out; where they leak they are
dropped.  So are headers without a message after a call, which models repeat, and words of channels
before them.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Drop, Dropped, Header
from .held_arguments import CallEnds
from .invoke import HEADER_SO_FAR
from .json_arguments import JsonArguments
from .marker_set import (
    HEADER_LIMIT,
    HeaderPattern,
    Missing,
    Part,
    ahead,
    either,
    marker_set,
    named,
    optional,
    repeated,
    so_far,
    spelled,
)
from .protocol import WORD, LeakFormat, LeakParser, MarkerMatch

_BEGIN = ("<|start|>", "<|channel|>")
_END = ("<|call|>", "<|end|>", "<|return|>")
_STRAYS = {"<|message|>": "message", "<|constrain|>": "constrain"}
_TOKENS = (*_BEGIN, *_END, *_STRAYS)
_MARKERS = marker_set(_TOKENS)
_WORDS = "commentary to=functions."
_ROLE_WORDS = "assistant to=functions."
"""What is left of a call's header where the host has stripped the tokens."""
_OVER = marker_set((*_BEGIN, *_END))
"""What ends a message."""
_END_TOKEN = re.compile(rf"\s*(?:{marker_set(_END).expression})")
_HEADER_ENDS = re.compile(rf"<\|message\|>|\{{|<\|start\|>|{marker_set(_END).expression}")
_LONGEST = max(map(len, _TOKENS))
_CHANNELS = ("analysis", "commentary", "final")
_WORD_BEFORE = optional((*_CHANNELS, "assistant"), r"\s*", ahead(_BEGIN))
"""What may precede a header that is repeated."""
_ROLE = optional(("<|start|>",), r"\s*", ("assistant",), r"\b")
_CHANNEL = ("<|channel|>",), r"\s*", named("channel", _CHANNELS), r"\b"
_HEADER_PARTS: tuple[Part, ...] = (
    _WORD_BEFORE,
    _ROLE,
    repeated(
        r"\s*",
        either(
            (named("to", ("to=",)), rf"(?:functions\.)?+(?P<name>{WORD})?+"),
            (named("type", ("<|constrain|>", "json", "code")),),
            _CHANNEL,
        ),
    ),
    r"\s*",
)
_HEADER, _HEADER_SO_FAR = map(re.compile, (spelled(*_HEADER_PARTS), so_far(*_HEADER_PARTS)))
"""A header, and the start of one; a token that is cut is not part of it."""
_CONTENT_TYPE = re.compile(r"(?:json|code)\Z")
_NEXT = HeaderPattern.of(
    (r"\s*+", (*_BEGIN, _WORDS)),
    (r"\s*+", (*_CHANNELS, "assistant"), r"\s*+", _BEGIN),
    (r"\s*+", _END, "(?!)"),
)
"""What follows a call if a header does; while half a token follows, that is open."""
_CHANNEL_TO = spelled(("<|channel|>",), r"\s*", _CHANNELS, rf"\b(?:\s*to={WORD})?\s*")
_REPEATED = re.compile(spelled(_WORD_BEFORE, _ROLE, r"\s*", _CHANNEL_TO, ahead(_CHANNEL_TO * 2)))
"""A header before two others; a channel may come twice in one."""
_NO_TEXT = ("<|", *_CHANNELS)
"""So much of a header after a call shows that it is one, if the text ends in it."""
_NOT_BLANK = re.compile(r"\S")
_ENDS = CallEnds(marker_set(_TOKENS), before="<|message|>")
_OTHER_HEADER = re.compile(HEADER_SO_FAR)


class HarmonyParser(LeakParser):
    """Reads one message, from after the marker with which its header begins."""

    end_is_marked = False

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        stripped = "<|start|>" if match.name == _ROLE_WORDS else "<|channel|>"
        self._before = match.name if match.name in _BEGIN else f"{stripped}{match.name}"
        """What of the header is not in the buffer."""
        self._searched = 0
        """Characters of the header that only begin it."""
        self._called = False
        """Whether a call came before the header."""
        self._repeats = False
        """Whether a header repeated that of this call."""

    @property
    def in_header(self) -> bool:
        return self._in_head and not self._called

    def _read_header(self) -> bool:
        if self._called and (repeated := self._repeated_header()):
            return self._drop_header(repeated)
        limit = self._at + HEADER_LIMIT + _LONGEST
        end = _HEADER_ENDS.search(self._buffer, self._at + self._searched, limit)
        unfinished = 0 if end else _MARKERS.unfinished(self._buffer[self._at + self._searched :])
        size = (end.start() if end else len(self._buffer) - unfinished) - self._at
        if size > HEADER_LIMIT:
            return self._no_header()
        literal = self._before + self._buffer[self._at : self._at + size]
        if end is None:
            few = self._called or literal.count("<|channel|>") <= 2
            may_be = few and _HEADER_SO_FAR.fullmatch(literal)
            return not may_be and self._no_header()
        found = _HEADER.fullmatch(literal)
        if found is None:
            return self._no_header()
        if end[0] not in ("<|message|>", "{"):
            return self._drop_header(end.start()) if self._called else self._no_header()
        if not found["to"]:
            return self._read_other_header(found, end)
        if end[0] == "<|message|>" and not (found["channel"] or found["type"]):
            first = _NOT_BLANK.search(self._buffer, end.end())
            if first is None and not self._ended:
                return False
            if first is None or first[0] != "{":
                return self._no_header()
        header = Header(self._declared(found["name"]), literal, form="recipient")
        return self._begin_call(header, end.start() if end[0] == "{" else end.end())

    def _declared(self, name: str | None) -> str | None:
        """The name of a recipient, to which the type of the content may be glued."""
        bare = _CONTENT_TYPE.sub("", name or "")
        return bare if name not in self._tools and bare in self._tools else name

    def _no_header(self) -> bool:
        """What follows is no header: after a call, text that is read anew."""
        return self._leave(self._at) if self._called else self._refuse()

    def _repeated_header(self) -> int:
        """Where a header that repeats that of the call before it ends; 0 if there is none."""
        head = self._buffer[self._at : self._at + HEADER_LIMIT + _LONGEST]
        found = _REPEATED.match(f"{self._before}{head}")
        return self._at + found.end() - len(self._before) if found else 0

    def _drop_header(self, end: int) -> bool:
        """A header that repeats that of the call before it; some models do nothing else until
        their limit, so only the first of them counts."""
        if not self._repeats:
            self._events.append(Dropped(Drop.REPEATED))
        self._repeats = True
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
        self._events.append(Dropped(Drop.HEADER))
        self._in_head = False
        if found["channel"] != "analysis":
            return self._leave(end.end())
        self._at = end.end()
        self._read = type(self)._read_thoughts
        return True

    def _begin_call(self, header: Header, at: int) -> bool:
        self._called, self._repeats = True, False
        return self._start_call(header, JsonArguments(header.name or "", _ENDS), at)

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
        if isinstance(follows, Missing):
            may_come = follows is Missing.YET
            if may_come and self._ended and self.rest.lstrip().startswith(_NO_TEXT):
                self._drop_header(len(self._buffer))
            return (self._ended or not may_come) and self._leave(self._at)
        begin = follows[0].lstrip()
        self._at, self._searched = follows.end() - len(begin), len(begin)
        self._before = "<|channel|>" if begin == _WORDS else ""
        self._in_head = True
        self._read = type(self)._read_header
        return True

    def _finish(self) -> None:
        if self._in_head and self._called:
            self._drop_header(len(self._buffer))
            self._is_over = True
        else:
            super()._finish()


class _Harmony(LeakFormat):
    """Waits where the header of another format may come, which begins with the same token."""

    def is_undecided(self, match: MarkerMatch, text: str) -> bool:
        near = text[match.start : match.start + 2 * HEADER_LIMIT]
        return match.name in ("<|start|>", "<|message|>") and _OTHER_HEADER.match(near) is not None

    def named_end(self, match: MarkerMatch, text: str, *, ended: bool) -> int | None:
        if match.name not in _BEGIN:
            return match.end
        end = _HEADER_ENDS.search(text, match.end)
        if end is None:
            size = len(text) - _MARKERS.unfinished(text, match.end)
            waits = not ended and _HEADER_SO_FAR.fullmatch(text, match.start, size)
            return None if waits else match.end
        named = end[0] == "<|message|>" and _HEADER.fullmatch(text, match.start, end.start())
        return end.end() if named else match.end


HARMONY = _Harmony("harmony", _TOKENS, _MARKERS, HarmonyParser, openers=_BEGIN)
HARMONY_STRIPPED, HARMONY_ROLE = (
    LeakFormat("harmony", (words,), marker_set((words,)), HarmonyParser)
    for words in (_WORDS, _ROLE_WORDS)
)
"""Calls of which nothing but words is left.  These are formats of their own, as looking for a word
costs more than looking for a token: they are for a model that is known to write Harmony."""
