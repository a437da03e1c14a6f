"""Tags in an open value: which are text of it, where a value may quote a call.

An opener that does not end the value is text, and so is the closer that belongs to it.  Models
leave closers out as well, so such a closer, and the opener of a call at the beginning of a
line, are in doubt: what follows is held until a later tag tells.  The value's own closer says
that all before it was text; one that can only end the call of the value says that the first
tag in doubt was real.
"""

from __future__ import annotations

import enum

QUOTED_LIMIT = 16 * 1024
"""Characters held back after a tag in doubt; after that many it was text."""
ARGUMENT, CALL, SECTION = range(3)


class Verdict(enum.Enum):
    """What a tag means."""

    TEXT = enum.auto()
    DOUBT = enum.auto()
    END = enum.auto()
    """The value ends here."""
    ENDED = enum.auto()
    """It ended at the first tag that was in doubt."""


class QuotedTags:
    """Those of one value."""

    def __init__(self) -> None:
        self._open = [0, 0, 0]
        self._closed = False
        """Whether the last tag ended a call."""
        self.in_doubt = False
        """Whether text is held, from the first tag in doubt on."""
        self.seen = 0
        """Characters of that which were searched."""
        self._tail = ""
        self.before = ""
        """The last character before the text that is held."""
        self._said = False
        """Whether more than white space stands before it."""

    def gave(self, text: str) -> None:
        """This much of the value was given."""
        self.before = text[-1:]
        self._said = self._said or bool(text.strip())

    def begins_later_line(self, text: str, start: int, at: int) -> bool:
        """Whether a line begins at `at` that is not the first of the value with anything in it."""
        said = self._said or bool(text[start:at].strip())
        return said and self.begins_line(text, start, at)

    def begins_line(self, text: str, start: int, at: int) -> bool:
        """Whether a line, or the value, begins at `at`; the text before `start` was given."""
        return (text[at - 1] if at > start else self.before) in ("", "\n")

    def verdict(
        self, level: int, *, opens: bool, may_end: bool = False, doubted: bool = False
    ) -> Verdict:
        """What the next tag means; `may_end`: whether the value may end where it opens;
        `doubted`: whether only what follows tells that."""
        self._closed = not opens and level > ARGUMENT
        self._tail = ""
        if opens:
            may_end = may_end and not any(self._open[CALL:])
            if may_end and level == ARGUMENT:
                return Verdict.ENDED if self.in_doubt else Verdict.END
            self._open[level] += 1
            return Verdict.DOUBT if may_end or doubted else Verdict.TEXT
        if self._open[level]:
            self._open[level] -= 1
            self._open[:level] = [0] * level
            return Verdict.DOUBT
        return Verdict.ENDED if self.in_doubt and level > ARGUMENT else Verdict.END

    def holds(self, text: str, start: int, at: int, end: int) -> bool:
        """Whether the text from `start` to `end`, without a tag from `at` on, is held."""
        self.in_doubt = self.in_doubt and end - start <= QUOTED_LIMIT
        self.seen = end - start if self.in_doubt else 0
        self._tail += text[at:end].strip() if self.in_doubt else ""
        return self.in_doubt

    @property
    def ended(self) -> bool:
        """Whether the first tag in doubt was real, if the text ends here."""
        return self.in_doubt and self._closed and not self._tail
