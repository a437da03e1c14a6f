"""Markers that were refused, in a text that has had many of them without a call.

To read what may be a call costs as much as a hundred words.  So the scanner keeps each refused
marker with the text after it, up to where it was certain (``<tool_call><|``): the same text again
is text at once, and a frame that has nothing else leaves unread (`UnreadFrames`).  The invariant:
only what no further text can make a call is kept, so no call is lost, however many were refused.
(A stray marker that would be dropped elsewhere may stay in such a text.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..wire.sse import Frame
from .events import LeftAsText, ScanEvent, Text
from .formats.active import ActiveFormats

LONGEST = 96
"""Characters of a refused text that is kept."""
_MAX_KEPT = 256
"""So many of the longest, with their starts, take 4 MB, and their expression is made in 20 ms."""
_SHORTEST = 4
"""Characters with which every marker begins."""
_OPENS_OR_CLOSES = re.compile('[`~"]')
"""Whether one of these quotes what follows depends on the text before."""


class RefusedMarkers:
    """The refused markers of one choice."""

    def __init__(self, formats: ActiveFormats) -> None:
        self._begins = formats.find_beginning_or_end
        self._beginnings = formats.beginnings
        self._refused: dict[str, int] = {}
        """Refused texts, each with how many of its characters are text for certain."""
        self._sizes: dict[str, list[int]] = {}
        """Their lengths, by their first characters."""
        self._starts: set[str] = set()
        self._hits = 0
        """How often a refused text was found that `_run` does not match."""
        self._run = re.compile("(?!)").match
        """Matches many of them with what is between."""
        self.certain = 0
        """How many of the next characters are text for certain."""

    @property
    def full(self) -> bool:
        return len(self._refused) >= _MAX_KEPT

    def learn(self, scan: Callable[[str], list[ScanEvent]], text: str, size: int) -> None:
        """Find out how much of a text, which begins with a marker of this `size`, is needed to
        refuse it: `scan` gives what becomes of it, piece by piece."""
        begin = certain = 0
        for more in (0, 1, 2, 4, 8, 16, LONGEST):
            end = min(size + more, LONGEST)
            for event in scan(text[begin:end]):
                if not isinstance(event, Text | LeftAsText):
                    return
                certain += len(event.text) if isinstance(event, Text) else 0
            if certain:
                self._add(text[:end], certain)
            if certain or end >= len(text):
                return
            begin = end

    def _add(self, text: str, certain: int) -> None:
        """The first `certain` characters of `text` are text, whatever follows; but for a marker
        that something in it may quote."""
        if (quote := _OPENS_OR_CLOSES.search(text)) is not None:
            certain = min(certain, self._begins(text, quote.end()).start())  # type: ignore[union-attr]
        self._refused[text] = certain
        self._starts.update(text[:size] for size in range(1, len(text)))
        sizes = self._sizes.setdefault(text[:_SHORTEST], [])
        if len(text) not in sizes:
            sizes.append(len(text))

    def look(self, text: str, at: int = 0) -> tuple[int, bool]:
        """Up to where a text is text for certain, if it is so up to `at`; and whether the rest has
        to be read: else it is empty, or the start of a refused text."""
        while (at := self._begins(text, at).start()) < len(text):  # type: ignore[union-attr]
            if (run := self._run(text, at)) is not None:
                at = run.end()
                continue
            for size in self._sizes.get(text[at : at + _SHORTEST], ()):
                if certain := self._refused.get(text[at : at + size]):
                    at += certain
                    self._hit()
                    break
            else:
                rest = text[at:]
                return at, not (rest in self._starts or rest in self._beginnings)
        return at, False

    def _hit(self) -> None:
        """After many hits, an expression is faster."""
        self._hits += 1
        if self._hits >= len(self._refused):
            self._hits = 0
            follow: dict[str, list[str]] = {}
            for text, certain in self._refused.items():
                follow.setdefault(re.escape(text[:certain]), []).append(re.escape(text[certain:]))
            refused = "|".join(f"{text}(?={'|'.join(rest)})" for text, rest in follow.items())
            firsts = re.escape("".join({text[0] for text in self._beginnings}))
            self._run = re.compile(f"(?:(?:{refused})[^{firsts}]*+)++").match


class UnreadFrames:
    """Frames of one text that leave unread, and those that wait for the next one."""

    def __init__(self) -> None:
        self.frames: list[tuple[Frame, int]] = []
        """Those that wait, with the sizes of their texts."""
        self._text = ""
        """Of these."""
        self._certain = 0
        """How many of its characters are text for certain."""
        self._refused: RefusedMarkers | None = None
        """What is known of the text."""

    def add(self, frame: Frame, text: str, refused: RefusedMarkers) -> list[Frame] | None:
        """The frames that may leave; None, and nothing is taken, if this one has to be read."""
        if self.frames and refused is not self._refused:
            return None
        text = self._text + text
        certain, unknown = refused.look(text, self._certain)
        if unknown:
            return None
        self._refused = refused
        self.frames.append((frame, len(text) - len(self._text)))
        count = length = 0
        for _, size in self.frames:
            if length + size > certain:
                break
            length += size
            count += 1
        certain_frames = [each for each, _ in self.frames[:count]]
        del self.frames[:count]
        self._text, self._certain = text[length:], certain - length
        return certain_frames

    def add_held(self, texts: list[tuple[Frame, str]], refused: RefusedMarkers) -> None:
        """These frames were read, and wait for what comes after them."""
        self.frames = [(frame, len(text)) for frame, text in texts]
        self._text = "".join(text for _, text in texts)
        self._certain, refused.certain = refused.certain, 0
        self._refused = refused

    def take(self) -> Iterator[Frame]:
        """Those that wait, as they have to be read after all."""
        if self._refused is not None:
            self._refused.certain = self._certain
        self._text, self._certain, self._refused = "", 0, None
        while self.frames:
            yield self.frames.pop(0)[0]
