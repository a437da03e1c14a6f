"""The tags in one value: which of them are quoted, and where it ends.

Tags are taken one by one; the text from the first that is in doubt on is held until a later one
decides (`tagged_call` says how).
"""

from __future__ import annotations

import enum

from .tags import TagKind

DOUBT_LIMIT = 16 * 1024
"""Characters after a tag in doubt up to which others decide on it; after that many it was text."""
DOUBT_TAGS = 64
"""Tags, likewise: where the first was real, they are read again."""
ARGUMENT_LEVEL, CALL_LEVEL, SECTION_LEVEL = range(3)
LEVELS = {
    TagKind.ARGUMENT: ARGUMENT_LEVEL,
    TagKind.VALUE: ARGUMENT_LEVEL,
    TagKind.ARGUMENT_END: ARGUMENT_LEVEL,
    TagKind.CALL: CALL_LEVEL,
    TagKind.CALL_END: CALL_LEVEL,
    TagKind.SECTION: SECTION_LEVEL,
    TagKind.SECTION_END: SECTION_LEVEL,
}
"""Of the tags that may end a value."""
OPENING = (TagKind.ARGUMENT, TagKind.VALUE, TagKind.CALL, TagKind.SECTION)


class Verdict(enum.Enum):
    """What a tag means."""

    TEXT = enum.auto()
    DOUBT = enum.auto()
    END = enum.auto()
    """The value ends here."""
    ENDED = enum.auto()
    """It ended at the first tag that was in doubt."""
    WAIT = enum.auto()
    """What follows decides."""


class QuotedTags:
    """The tags in one value."""

    def __init__(self) -> None:
        self._open = [0, 0, 0]
        """Quoted tags of each level that are not closed."""
        self._closed = False
        """Whether the last tag ended a call or a section."""
        self.in_doubt = False
        """Whether text is held, from the first tag in doubt on."""
        self.closing = False
        """Whether that was real if no later tag decides."""
        self.waits = False
        """Whether the next tag waits for what follows it."""
        self.seen = 0
        """Characters of the held text that were searched."""
        self._tags = 0
        """Tags since the first in doubt."""
        self._tail = ""
        """What is held after the last tag, without white space."""
        self.is_own = False
        """Whether the last tag was the value's own closing tag."""
        self.last = ""
        """The last character of the value before the held text."""
        self.has_text = False
        """Whether there is more than white space before that."""

    def text(self, text: str) -> None:
        """More of the value, which is not empty, is certain."""
        self.last = text[-1:]
        self.has_text = self.has_text or bool(text.strip())

    def opening(self, level: int, verdict: Verdict) -> Verdict:
        """What the next tag means, which opens something; `verdict`: what it means outside of a
        quoted call."""
        self._tags += 1
        self._closed, self._tail = False, ""
        if any(self._open[CALL_LEVEL:]):
            verdict = Verdict.TEXT
        if verdict is Verdict.END:
            return Verdict.ENDED if self.in_doubt else verdict
        self._open[level] += 1
        return verdict

    def closing_other(self, level: int) -> Verdict:
        """The same of a closing tag that is not the value's."""
        self._open[level] = max(0, self._open[level] - 1)
        self._tail = ""
        return Verdict.TEXT

    def closing_tag(self, level: int, *, text_follows: bool) -> Verdict:
        """What the next tag means, which closes something."""
        self._tags += 1
        self._closed, self.is_own = level > ARGUMENT_LEVEL, False
        tail, self._tail = self._tail, ""
        if self._open[level]:
            self._open[level] -= 1
            self._open[:level] = [0] * level
            return Verdict.DOUBT
        if level == ARGUMENT_LEVEL:
            if not text_follows:
                return Verdict.END
            self.is_own = True
            self.in_doubt = False  # all before was text
        elif self.in_doubt and not (self.closing and tail):
            return Verdict.ENDED
        self.closing = self.closing or not self.in_doubt
        return Verdict.DOUBT

    def hold(self, text: str, start: int, at: int, end: int) -> bool:
        """Whether the text from `start` to `end`, without a tag from `at` on, is held."""
        if not self.in_doubt:
            self._tags = 0
        if end - start > DOUBT_LIMIT or self._tags > DOUBT_TAGS:
            self.in_doubt = self.closing = False
        self.seen = end - start if self.in_doubt else 0
        self._tail += text[at:end].strip() if self.in_doubt else ""
        return self.in_doubt

    @property
    def ended(self) -> bool:
        """Whether the first tag in doubt was real, if the text ends here."""
        return self.in_doubt and (self.closing or (self._closed and not self._tail))

    @property
    def closes(self) -> bool:
        """Whether the value has its end, or that of its call, unless text follows."""
        if self.waits:
            return not self._open[ARGUMENT_LEVEL]
        return self.closing and self._closed and not self._tail
