"""Arguments that a format writes one by one, each in tags of its own, up to a closing tag.

Models leave closing tags out: a value ends at the next argument and at the end of the call as
well, and a call where anything but an argument follows a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..events import Arguments, CallEnd, Dropped
from .marker_set import HEADER_LIMIT, MarkerSet, tag_at
from .protocol import Held
from .typed_arguments import TypedArguments
from .value_types import declares


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
        self._schema = schema
        self._tags = tags
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has been given."""
        self.complete = False
        """Whether a value has ended, and no other has begun."""
        self.over = False
        self._ended = False
        """Whether the text has."""

    @property
    def rest(self) -> str:
        return self._buffer[self._at :]

    @property
    def held(self) -> Held:
        return self._typed.held

    def takes(self, text: str) -> str | None:
        if self._at < len(self._buffer) or not self._typed.in_value:
            return None
        return None if self._tags.value_ends.may_begin_in(text) else self._typed.takes(text)

    def push(self, text: str) -> None:
        self._buffer = self.rest + text
        self._at = 0

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        return self._typed.take()

    def step(self) -> bool:
        return self._step_value() if self._typed.in_value else self._step_between()

    def finish(self) -> None:
        self._ended = True
        while not self.over and self.step():
            pass
        if self.over:
            return
        if self._typed.in_value:
            end = len(self._buffer) - self._tags.value_ends.unfinished(self.rest)
            self._typed.text(self._buffer[self._at : end])
            self._at = end
        half = self.rest.strip()
        if half:
            self._typed.drop("unfinished marker")
        self._at = len(self._buffer)
        more = half and not half.startswith("</")
        self._end(cut=bool(more) or not self.complete, unclosed=True)

    def _end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        self._typed.end(cut=cut, unclosed=unclosed)
        self.over = True

    def _step_value(self) -> bool:
        ends = self._tags.value_ends
        found = ends.find(self._buffer, self._at)
        end = found.start() if found else len(self._buffer) - ends.unfinished(self.rest)
        quoted = found is not None and self._is_quoted(found.start())
        decided = end > self._at
        if decided:
            self._typed.text(self._buffer[self._at : end])
        self._at = end
        if quoted is None:
            return decided
        if found and quoted:
            self._typed.text(found[0])
            self._at += len(found[0])
        elif found:
            self._typed.end_value(implied=found[0] != self._tags.closing)
            self.complete = True
            self._at += len(found[0]) if found[0] == self._tags.closing else 0
        return decided or found is not None

    def _opening(self, at: int) -> re.Match[str] | None:
        """What stands before a value, if that begins there."""
        opening = self._tags.opening.match(self._buffer, at)
        return opening if opening and opening.end() - at <= HEADER_LIMIT else None

    def _is_quoted(self, at: int) -> bool | None:
        """Whether the tag in a value is text of it: that of an argument which the tool has not,
        or has got already.  None if more has to tell."""
        if not self._buffer.startswith(self._tags.opening_begins, at):
            return False
        opening = self._opening(at)
        if opening is None:
            return True if self._ended or len(self._buffer) - at >= HEADER_LIMIT else None
        key = opening["key"].strip()
        known = self._schema is None or declares(self._schema, key)
        return self._typed.has(key) or not known

    def _step_between(self) -> bool:
        tags = self._tags
        if opening := self._opening(self._at):
            self._typed.begin(opening["key"].strip(), trim=tags.trim)
            self.complete = False
            self._at = opening.end()
            return True
        found = tag_at(self._buffer, self._at, (tags.call_end, tags.closing, tags.opening_begins))
        tag, end = found or ("", 0)
        waits = found is not None and tag not in (tags.call_end, tags.closing)
        if waits and len(self._buffer) - self._at < HEADER_LIMIT:
            return False
        if tag in (tags.call_end, tags.closing):
            self._at = end
        if tag != tags.closing:
            self._end()
        return True
