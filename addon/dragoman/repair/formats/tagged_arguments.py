"""Arguments that a format writes one by one, each in tags of its own, up to a closing tag.

Models leave closing tags out: a value ends at the next argument and at the end of the call as
well, and a call where anything but an argument follows a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..events import Arguments, CallEnd, Dropped
from .marker_set import HEADER_LIMIT, MarkerSet, tag_at
from .protocol import Held
from .quoted_tags import ARGUMENT, QuotedTags, Verdict
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
    levels: Mapping[str, int]
    """What may end a value, and what it opens or closes."""
    value_ends: MarkerSet
    """The same to be found."""
    trim: bool
    """Whether a line end at each side of a value is formatting."""


class TaggedArguments:
    """See `CallArguments`.  `schema` is that of the tool's arguments."""

    def __init__(self, schema: object, tags: Tags) -> None:
        self._typed = TypedArguments(schema)
        self._quoted = QuotedTags()
        """Tags in the open value."""
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
        if self._tags.value_ends.may_begin_in(text):
            return None
        given = self._typed.takes(text)
        if given is not None:
            self._quoted.gave(text)
        return given

    def push(self, text: str) -> None:
        self._buffer = self.rest + text
        self._at = 0

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        return self._typed.take()

    def step(self) -> bool:
        return self._step_value() if self._typed.in_value else self._step_between()

    def finish(self) -> None:
        self._ended = True
        while not self.over and (self.step() or self._ends_in_doubt()):
            pass
        if self.over:
            return
        if self._typed.in_value:
            end = len(self._buffer) - self._tags.value_ends.unfinished(self.rest)
            self._give(end)
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
        start, ends, quoted = self._at, self._tags.value_ends, self._quoted
        at = start + quoted.seen
        while (found := ends.find(self._buffer, at)) is not None:
            quoted.holds(self._buffer, self._at, at, found.start())
            verdict = self._verdict(found[0], found.start())
            if verdict is None:
                break
            if verdict is Verdict.ENDED:
                self._end_value(self._at)
                return True
            if verdict is Verdict.END:
                self._give(found.start())
                self._end_value(found.start())
                return True
            if verdict is Verdict.DOUBT and not quoted.in_doubt:
                self._give(found.start())
                quoted.in_doubt = True
            at = found.end()
        end = len(self._buffer) - ends.unfinished(self._buffer[at:])
        end = found.start() if found else end
        if not quoted.holds(self._buffer, self._at, at, end):
            self._give(end)
        return self._at > start

    def _ends_in_doubt(self) -> bool:
        """Whether the value ended at the tag from which on text is held."""
        if not self._quoted.ended:
            return False
        self._end_value(self._at)
        return True

    def _end_value(self, at: int) -> None:
        """The value ends at the tag that stands there."""
        closed = self._buffer.startswith(self._tags.closing, at)
        self._typed.end_value(implied=not closed)
        self._quoted = QuotedTags()
        self.complete = True
        self._at = at + (len(self._tags.closing) if closed else 0)

    def _give(self, end: int) -> None:
        if self._at < end:
            self._typed.text(self._buffer[self._at : end])
            self._quoted.gave(self._buffer[self._at : end])
            self._at = end

    def _opening(self, at: int) -> re.Match[str] | None:
        """What stands before a value, if that begins there."""
        opening = self._tags.opening.match(self._buffer, at)
        return opening if opening and opening.end() - at <= HEADER_LIMIT else None

    def _verdict(self, tag: str, at: int) -> Verdict | None:
        """What a tag in a value means; None if more has to tell."""
        level = self._tags.levels[tag]
        if tag.startswith("</"):
            return self._quoted.verdict(level, opens=False)
        if level != ARGUMENT:
            may_end = self._quoted.begins_line(self._buffer, self._at, at)
            return self._quoted.verdict(level, opens=True, may_end=may_end)
        opening = self._opening(at)
        if opening is None:
            ended = self._ended or len(self._buffer) - at >= HEADER_LIMIT
            return Verdict.TEXT if ended else None
        key = opening["key"].strip()
        known = self._schema is None or declares(self._schema, key)
        may_end = known and not self._typed.has(key)
        doubted = not known and self._quoted.begins_later_line(self._buffer, self._at, at)
        return self._quoted.verdict(level, opens=True, may_end=may_end, doubted=doubted)

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
