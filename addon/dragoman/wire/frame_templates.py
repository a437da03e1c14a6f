"""Frames that differ from one before them in a text alone.

Nearly all chunks of a stream are the one before with another word in it.  Reading such a
chunk as JSON, and writing another as JSON, costs ten times what the word does.  So a
frame that was read the long way is remembered with its text taken out (`FrameTemplate`); a
later frame that fits around its own text would have been read the same way, but for it.

The invariant: a pattern that fits gives exactly what JSON would.  Its text is a string
of the JSON by itself, and it was tried, when it was learned, that another string in its
place changes those values that hold the text, and nothing else, and is what is read then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Generic, TypeVar

from .json_codec import NotJson, loads, quoted
from .sse import Frame

MAX_FRAME = 4096
"""Bytes of a frame that is worth remembering."""
MAX_FITTING = 64 * 1024
"""Bytes of a frame that may fit one: a larger one is worth reading, and may be refused then."""
MAX_MISSES = 16
"""Patterns in a row that fitted no frame, after which no more are learned: the stream has
something else that changes in every chunk."""
MAX_KNOWN = 3
"""Patterns of a stream that are kept: those of its reasoning, its text, and of a call."""
_PROBE = "another text"

Meaning = TypeVar("Meaning")


@dataclass(frozen=True, slots=True)
class FrameTemplate:
    """A frame without its text, which stood in it once, or twice the same."""

    head: bytes
    between: bytes | None
    tail: bytes

    def text_in(self, raw: bytes) -> str | None:
        """The text of a frame that fits; None if it does not."""
        if not (raw.startswith(self.head) and raw.endswith(self.tail)):
            return None
        literal = raw[len(self.head) : len(raw) - len(self.tail)]
        if self.between is not None:
            half = literal[: (len(literal) - len(self.between)) // 2]
            if literal != half + self.between + half:
                return None
            literal = half
        if literal[:1] != b'"':
            return None
        try:
            string = literal.decode()
            text, end = scanstring(string, 1)
        except ValueError:  # of either
            return None
        return text if end == len(string) else None

    def around(self, literal: bytes) -> bytes:
        """The frame with this JSON string in it."""
        if self.between is None:
            return b"".join((self.head, literal, self.tail))
        return b"".join((self.head, literal, self.between, literal, self.tail))


_SCALAR = rb'(?:0|[1-9][0-9]{0,15}|"[A-Za-z0-9+/=_-]*")'
"""A value that may stand where another did: both are whole JSON values, whatever is around."""


@dataclass(frozen=True, slots=True)
class LooseTemplate:
    """A frame without its text, and without the values of members that its reader ignores."""

    whole: re.Pattern[bytes]

    @classmethod
    def of(cls, frame: Frame, pattern: FrameTemplate, ignored: tuple[str, ...]) -> LooseTemplate:
        """`pattern`, which was learned from `frame`, without the `ignored` members of its
        chunk.  One whose name stands there once alone is no member of anything else."""
        once = [name for name in ignored if frame.raw.count(b'"%b"' % name.encode()) == 1]
        chunk = loads(frame.data or b"") if once else {}
        names = b"|".join(re.escape(name.encode()) for name in once if name in chunk)
        member = re.compile(rb'("(?:' + names + rb')":[ ]?)' + _SCALAR + rb"(?=[,}])")

        def loose(part: bytes) -> bytes:
            if not names:
                return re.escape(part)
            pieces = member.split(part)  # every second one is a member's name
            return b"".join(
                re.escape(piece) + (_SCALAR if place % 2 else b"")
                for place, piece in enumerate(pieces)
            )

        again = b"" if pattern.between is None else loose(pattern.between) + rb"\1"
        text = rb'("[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")'
        return cls(re.compile(loose(pattern.head) + text + again + loose(pattern.tail)))

    def text_in(self, raw: bytes) -> str | None:
        """As `FrameTemplate.text_in`."""
        found = self.whole.fullmatch(raw)
        if found is None:
            return None
        try:
            string = found[1].decode()
            text, end = scanstring(string, 1)
        except ValueError:  # of either
            return None
        return text if end == len(string) else None


def of_our_own(frame: Frame, name: str, text: str) -> FrameTemplate | None:
    """The pattern of a frame that `dumps` has written, in which the value of a member `name`
    is `text` for certain; None if there is more than one such member.

    What is found once is that member: its name's first quote either opens the name, or is
    an escaped one in another name or string, which would make two.
    """
    member = quoted(name) + b":"
    pieces = frame.raw.split(member + quoted(text))
    return FrameTemplate(pieces[0] + member, None, pieces[1]) if text and len(pieces) == 2 else None


def learn(frame: Frame, text: str, times: int, reads: Callable[[Any], str]) -> FrameTemplate | None:
    """The pattern of a frame in whose JSON `text` is the value so many times, once or twice;
    None if it has none.  `reads` gives the text of such a JSON value."""
    raw = frame.raw
    if not text or len(raw) > MAX_FRAME:
        return None
    pieces = raw.split(quoted(text))
    if len(pieces) != times + 1 or times not in (1, 2):
        return None
    head, tail = pieces[0], pieces[-1]
    pattern = FrameTemplate(head, pieces[1] if times == 2 else None, tail)
    probed = Frame(pattern.around(quoted(_PROBE)))
    try:
        was, now = loads(frame.data or b""), loads(probed.data or b"")
    except NotJson:
        return None
    fits = _replaced(was, text, now) == times and reads(now) == _PROBE
    return pattern if fits and len(head) > len(b"data:") else None


def _replaced(was: Any, text: str, now: Any) -> int:
    """How many values are `text` in one and the probe in the other; less than 0 if there is
    any other difference between them."""
    if isinstance(was, dict) and isinstance(now, dict) and list(was) == list(now):
        return _sum(_replaced(value, text, now[name]) for name, value in was.items())
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return _sum(_replaced(one, text, other) for one, other in zip(was, now, strict=True))
    if was == text and now == _PROBE:
        return 1
    return 0 if type(was) is type(now) and was == now else -1000


def _sum(numbers: Any) -> int:
    return sum(numbers)


@dataclass(slots=True)
class KnownTemplate(Generic[Meaning]):
    """A pattern, and what its learner knows of the frames that fit."""

    pattern: FrameTemplate | LooseTemplate
    meaning: Meaning


class TemplateCache(Generic[Meaning]):
    """What one stream has taught: some patterns, and whether to go on learning."""

    __slots__ = ("_ignored", "_known", "_misses")

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        """`ignored`: members of a chunk that its reader does not look at, and that some hosts
        fill anew in every chunk."""
        self._ignored = ignored
        self._known: list[KnownTemplate[Meaning]] = []
        """The one that fitted last is the first."""
        self._misses = 0

    def match(self, frame: Frame) -> tuple[str, KnownTemplate[Meaning]] | None:
        """The text of a frame that fits a pattern, and that; None if it has none."""
        if not frame.whole or len(frame.raw) > MAX_FITTING:
            return None
        for place, known in enumerate(self._known):
            if text := known.pattern.text_in(frame.raw):
                self._misses = 0
                if place:
                    self._known.insert(0, self._known.pop(place))
                return text, known
        return None

    @property
    def wanted(self) -> bool:
        """Whether it is worth learning from a frame that did not fit."""
        return self._misses < MAX_MISSES

    def learn(
        self, frame: Frame, text: str, times: int, reads: Callable[[Any], str], meaning: Meaning
    ) -> None:
        """Remember a frame, as `learn` does, and its meaning."""
        self._misses += 1
        pattern = learn(frame, text, times, reads)
        if pattern is not None:
            varies = any(b'"%b"' % name.encode() in frame.raw for name in self._ignored)
            known = LooseTemplate.of(frame, pattern, self._ignored) if varies else pattern
            self._known.insert(0, KnownTemplate(known, meaning))
            del self._known[MAX_KNOWN:]
