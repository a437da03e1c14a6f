"""Arguments that a format writes one by one, each in tags of its own, up to a closing tag.

Models leave closing tags out: a value ends at the next argument and at the end of the call as
well, and a call where anything but an argument follows a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..events import Arguments, CallEnd, Dropped
from .marker_set import HEADER_LIMIT, MarkerSet, tag_at
from .typed_arguments import TypedArguments


@dataclass(frozen=True, slots=True)
class Tags:
    """Those of a format."""

    opening: re.Pattern[str]
    """All that stands before a value, with the `key` of its argument."""
    opening_begins: str
    """What that begins with."""
    closing: str
    """The tag after a value."""
    call_end: str
    """The tag after the last."""
    value_ends: MarkerSet
    """What ends a value."""
    trim: bool
    """Whether a line end at each side of a value is formatting."""


class TaggedArguments:
    """See `CallArguments`.  `schema` is that of the tool's arguments."""

    def __init__(self, schema: object, tags: Tags) -> None:
        self._typed = TypedArguments(schema)
        self._tags = tags
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has been given."""
        self.complete = False
        """Whether a value has ended, and no other has begun."""
        self.over = False

    @property
    def rest(self) -> str:
        return self._buffer[self._at :]

    def takes(self, text: str) -> str | None:
        if self._at < len(self._buffer) or not self._typed.in_value:
            return None
        ends = self._tags.value_ends
        if "<" in text and (ends.find(text) or ends.unfinished(text)):
            return None
        return self._typed.takes(text)

    def push(self, text: str) -> None:
        self._buffer = self.rest + text
        self._at = 0

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        return self._typed.take()

    def step(self) -> bool:
        return self._step_value() if self._typed.in_value else self._step_between()

    def finish(self) -> None:
        if self._typed.in_value:
            self._typed.text(
                self.rest[: len(self.rest) - self._tags.value_ends.unfinished(self.rest)]
            )
        self._at = len(self._buffer)
        self._end(cut=not self.complete)

    def _end(self, *, cut: bool = False) -> None:
        self._typed.end(cut=cut)
        self.over = True

    def _step_value(self) -> bool:
        ends = self._tags.value_ends
        found = ends.find(self._buffer, self._at)
        end = found.start() if found else len(self._buffer) - ends.unfinished(self.rest)
        decided = end > self._at
        if decided:
            self._typed.text(self._buffer[self._at : end])
        self._at = end
        if found:
            self._typed.end_value()
            self.complete = True
            self._at += len(found[0]) if found[0] == self._tags.closing else 0
        return decided or found is not None

    def _step_between(self) -> bool:
        tags = self._tags
        if opening := tags.opening.match(self._buffer, self._at):
            self._typed.begin(opening["key"].strip(), trim=tags.trim)
            self.complete = False
            self._at = opening.end()
            return True
        found = tag_at(self._buffer, self._at, (tags.call_end, tags.closing, tags.opening_begins))
        tag, end = found or ("", 0)
        if tag == tags.closing:
            self._at = end
            return True
        if found and tag != tags.call_end and len(self._buffer) - self._at < HEADER_LIMIT:
            return False
        if tag == tags.call_end:
            self._at = end
        self._end()
        return True
