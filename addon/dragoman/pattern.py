"""Frames that differ from one before them in a text alone.

Nearly all chunks of a stream are the one before with another word in it.  Reading such a
chunk as JSON, and writing another as JSON, costs ten times what the word does.  So a
frame that was read the long way is remembered with its text taken out (`Pattern`); a
later frame that fits around its own text would have been read the same way, but for it.

The invariant: a pattern that fits gives exactly what JSON would.  Its text is a string
of the JSON by itself, and it was tried, when it was learned, that another string in its
place changes those values that hold the text, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from .jsonio import NotJson, dumps, loads
from .sse import Frame

MAX_FRAME = 4096
"""Bytes of a frame that is worth remembering."""
MAX_MISSES = 16
"""Patterns in a row that fitted no frame, after which no more are learned: the stream has
something else that changes in every chunk."""
_PROBE = "another text"


@dataclass(frozen=True, slots=True)
class Pattern:
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


def of_our_own(frame: Frame, text: str) -> Pattern | None:
    """The pattern of a frame that `dumps` has written, in which `text` is a value for
    certain; None if the same string stands elsewhere, too."""
    pieces = frame.raw.split(dumps(text))
    return Pattern(pieces[0], None, pieces[1]) if text and len(pieces) == 2 else None


def learn(frame: Frame, text: str, times: int) -> Pattern | None:
    """The pattern of a frame in whose JSON `text` is the value so many times, once or twice;
    None if it has none."""
    raw = frame.raw
    if not text or len(raw) > MAX_FRAME:
        return None
    pieces = raw.split(dumps(text))
    if len(pieces) != times + 1 or times not in (1, 2):
        return None
    head, tail = pieces[0], pieces[-1]
    pattern = Pattern(head, pieces[1] if times == 2 else None, tail)
    probed = Frame(pattern.around(dumps(_PROBE)))
    try:
        was, now = loads(frame.data or b""), loads(probed.data or b"")
    except NotJson:
        return None
    return pattern if _replaced(was, text, now) == times and len(head) > len(b"data:") else None


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


class Patterns:
    """What one stream has taught: the latest pattern, and whether to go on learning."""

    __slots__ = ("_misses", "latest", "meaning")

    def __init__(self) -> None:
        self.latest: Pattern | None = None
        self.meaning: Any = None
        """What the learner knows of the frames that fit."""
        self._misses = 0

    def text_in(self, raw: bytes) -> str | None:
        """The text of a frame that fits the latest pattern."""
        if self.latest is None:
            return None
        text = self.latest.text_in(raw)
        if text is not None:
            self._misses = 0
        return text

    @property
    def wanted(self) -> bool:
        """Whether it is worth learning from a frame that did not fit."""
        return self._misses < MAX_MISSES

    def learn(self, frame: Frame, text: str, times: int) -> None:
        """Remember `frame`, in which `text` is the value so many times."""
        self._misses += 1
        self.latest = learn(frame, text, times)
        self.meaning = None
