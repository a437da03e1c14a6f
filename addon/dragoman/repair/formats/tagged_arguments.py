"""Arguments that a format writes one by one, each between tags.

Models leave closing tags out: a value ends at the next argument and at the end of its call as
well, and a call ends where anything but an argument follows a value.

A value may also quote a call.  So a tag in a value that opens something, and does not end the
value, is text, and so is the tag that closes it.  As closing tags may be missing, such a closing
tag, and the tag of a call, or of an argument that the tool has not, at the start of a line, are
in doubt: the text from there on is held until a later tag decides.  If that is the value's own
closing tag, all before it was text; if it can only end the call of the value, the first tag in
doubt had ended the value.  A value may also quote a closing tag alone.  So its own is in doubt if
text follows, and that of its call or section without its own: unless the value's own follows, it
was real, at least if the text ends within `QUOTED_LIMIT`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable

from ..events import Arguments, CallEnd, Dropped
from .protocol import CallArguments, Held
from .tags import TAG_LIMIT, Tag, TagKind, TagSyntax
from .value_types import declares

BLANK_LIMIT = 4096
"""White space between tags; after more of it the section is over."""
QUOTED_LIMIT = 16 * 1024
"""Characters held back after a tag in doubt; after that many it was text."""

NOT_BLANK = re.compile(r"\S")
ARGUMENT, CALL, SECTION = range(3)
_LEVELS = {
    TagKind.ARGUMENT: ARGUMENT,
    TagKind.ARGUMENT_END: ARGUMENT,
    TagKind.CALL: CALL,
    TagKind.CALL_END: CALL,
    TagKind.SECTION: SECTION,
    TagKind.SECTION_END: SECTION,
}
"""Of the tags that may end a value."""
_BEGINNINGS = frozenset((TagKind.ARGUMENT, TagKind.CALL, TagKind.SECTION))


class TaggedArguments(CallArguments):
    """Arguments between tags."""

    def __init__(
        self,
        syntax: TagSyntax,
        schema: object,
        is_tool: Callable[[str], bool] = bool,
        *,
        in_section: bool = False,
    ) -> None:
        """`schema` is that of the tool's arguments; `is_tool` says whether a call of this name
        may follow; `in_section`: whether the call only ends with a tag."""
        super().__init__()
        self._syntax = syntax
        self._schema = schema
        self._is_tool = is_tool
        self._in_section = in_section
        self._typed = syntax.arguments(schema)
        self._quoted = QuotedTags()
        """Tags in the open value."""
        self._ended = False
        """Whether the text has."""

    @property
    def complete(self) -> bool:
        return self._typed.begun and (self._quoted.closes or not self._typed.in_value)

    @property
    def held(self) -> Held:
        return self._typed.held

    def takes(self, text: str) -> str | None:
        if self._at < len(self._buffer) or not self._typed.in_value:
            return None
        if self._syntax.may_begin_in(text):
            return None
        given = self._typed.takes(text)
        if given is not None:
            self._quoted.gave(text)
        return given

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        return self._typed.take()

    def step(self) -> bool:
        return self._step_value() if self._typed.in_value else self._step_between()

    def finish(self, *, whole: bool = True) -> None:
        self._ended = True
        while not self.over and (self.step() or (whole and self._ends_in_doubt())):
            pass
        if self.over:
            return
        if self._typed.in_value:
            end = len(self._buffer) - self._syntax.unfinished(self.rest)
            # Half a word is one of the value, though it may begin a thinned out marker.
            self._give(len(self._buffer) if self._buffer[end:].isalpha() else end)
        half = self.rest.strip()
        if half:
            self._typed.drop("unfinished marker")
        self._at = len(self._buffer)
        closes = self._syntax.closing.match(half) if half else whole
        cut = not closes or self._typed.in_value or not self._typed.begun
        self._end(cut=cut, unclosed=True)

    def _end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        self._typed.end(cut=cut, unclosed=unclosed)
        self.over = True

    # Between values

    def begin(self, tag: Tag) -> None:
        """A value begins after this tag."""
        self._typed.begin(tag.name or "", tag.type, trim=self._syntax.trim)

    def _step_between(self) -> bool:
        found = NOT_BLANK.search(self._buffer, self._at)
        if (found.start() if found else len(self._buffer)) - self._at > BLANK_LIMIT:
            self._end()
            return True
        if found is None:
            return False
        match = self._syntax.tag.match(self._buffer, found.start())
        if match is not None:
            self._on_tag(self._syntax.read(match))
            return True
        rest = self._buffer[found.start() : found.start() + TAG_LIMIT + 1]
        half = len(rest) <= TAG_LIMIT and self._syntax.so_far.match(rest)
        if half and not (self._ended and rest[0].isalpha()):
            return False
        self._end()
        return True

    def _on_tag(self, tag: Tag) -> None:
        if tag.kind is TagKind.ARGUMENT:
            self._at = tag.end
            self.begin(tag)
        elif tag.kind in (TagKind.ARGUMENT_END, TagKind.JSON, TagKind.JSON_END):
            self._at = tag.end
            self._typed.drop(f"stray {tag.kind.value}")
        else:
            self._at = tag.end if tag.kind is TagKind.CALL_END else tag.start
            self._end()

    # In a value

    def _step_value(self) -> bool:
        start, syntax, quoted = self._at, self._syntax, self._quoted
        at = start + quoted.seen
        quoted.waits = False
        while not quoted.waits and (match := syntax.in_value.search(self._buffer, at)):
            quoted.holds(self._buffer, self._at, at, match.start())
            tag = syntax.read(match)
            verdict = self._verdict(tag)
            if verdict is Verdict.ENDED:
                self._end_value_in_doubt()
                return True
            if verdict is Verdict.END:
                self._give(match.start())
                self._end_value(tag)
                return True
            if verdict is Verdict.DOUBT and not quoted.in_doubt:
                self._give(match.start())
                quoted.in_doubt = True
            quoted.waits = verdict is Verdict.WAITS
            at = match.start() if quoted.waits else match.end()
        end = at if quoted.waits else len(self._buffer) - syntax.unfinished(self._buffer[at:])
        if not quoted.holds(self._buffer, self._at, at, end):
            self._give(end)
        return self._at > start

    def _ends_in_doubt(self) -> bool:
        """Whether the value ended at the tag from which on text is held."""
        if not self._quoted.ended or (self._in_section and not self._quoted.closing):
            return False
        self._end_value_in_doubt()
        return True

    def _end_value_in_doubt(self) -> None:
        match = self._syntax.in_value.match(self._buffer, self._at)
        assert match is not None
        self._end_value(self._syntax.read(match))

    def _end_value(self, tag: Tag) -> None:
        """The value ends at this tag."""
        self._quoted = QuotedTags()
        if tag.kind is TagKind.ARGUMENT and self._typed.nests:
            self._at = tag.end
            self._typed.begin(tag.name or "")
        elif tag.kind is TagKind.ARGUMENT_END:
            self._at = tag.end
            self._typed.end_value(name=tag.name or "")
        else:
            self._typed.end_value(implied=True)

    def _give(self, end: int) -> None:
        if self._at < end:
            text = self._buffer[self._at : end]
            self._typed.text(text)
            self._quoted.gave(text)
            self._at = end

    def _verdict(self, tag: Tag) -> Verdict:
        level = _LEVELS.get(tag.kind)
        if level is None:
            return Verdict.TEXT
        if not self._syntax.plain:
            return Verdict.TEXT if tag.kind is TagKind.SECTION else Verdict.END
        follows = self._text_follows(tag.end) if tag.kind is TagKind.ARGUMENT_END else False
        if follows is None:
            return Verdict.WAITS
        opening = self._opening(tag) if tag.kind in _BEGINNINGS else None
        return self._quoted.verdict(level, opening, text_follows=follows)

    def _text_follows(self, at: int) -> bool | None:
        """Whether anything but a tag, or the end, follows there; None if that is not known."""
        found = NOT_BLANK.search(self._buffer, at)
        end = found.start() if found else len(self._buffer)
        if end - at > BLANK_LIMIT or (found and self._syntax.tag.match(self._buffer, end)):
            return False
        rest = self._buffer[end : end + TAG_LIMIT + 1]
        if not rest or (len(rest) <= TAG_LIMIT and self._syntax.so_far.match(rest)):
            return False if self._ended else None
        return True

    def _opening(self, tag: Tag) -> Verdict:
        """What a tag that opens something means, but within a call that the value quotes."""
        if tag.kind is TagKind.ARGUMENT:
            declared = self._schema is None or declares(self._schema, tag.name or "")
            if declared or self._typed.has(tag.name or ""):
                return Verdict.TEXT if self._typed.has(tag.name or "") else Verdict.END
            said = self._quoted.said or not _blank(self._buffer[self._at : tag.start])
            by_line = self._syntax.trim and self._begins_line(tag)
            doubt = said and (self._syntax.pairs or by_line)
        else:
            named = tag.kind is TagKind.CALL and self._is_tool(tag.name or "")
            doubt = (tag.name is None or named) and self._begins_line(tag)
        return Verdict.DOUBT if doubt else Verdict.TEXT

    def _begins_line(self, tag: Tag) -> bool:
        """Whether a line, or the value, begins with this tag."""
        before = self._buffer[tag.start - 1] if tag.start > self._at else self._quoted.before
        return before in ("", "\n")


def _blank(text: str) -> bool:
    return not text or text.isspace()


class Verdict(enum.Enum):
    """What a tag means."""

    TEXT = enum.auto()
    DOUBT = enum.auto()
    END = enum.auto()
    """The value ends here."""
    ENDED = enum.auto()
    """It ended at the first tag that was in doubt."""
    WAITS = enum.auto()
    """What follows decides."""


class QuotedTags:
    """Those of one value."""

    def __init__(self) -> None:
        self._open = [0, 0, 0]
        self._closed = False
        """Whether the last tag ended a call."""
        self.in_doubt = False
        """Whether text is held, from the first tag in doubt on."""
        self.closing = False
        """Whether that was real if no later tag decides."""
        self.waits = False
        """Whether the next tag waits for what follows it."""
        self.seen = 0
        """Characters of that which were searched."""
        self._tail = ""
        self.before = ""
        """The last character of the value before the text that is held."""
        self.said = False
        """Whether there is more than white space before that."""

    def gave(self, text: str) -> None:
        """More of the value, which is not empty, was certain."""
        self.before = text[-1:]
        self.said = self.said or not _blank(text)

    def verdict(self, level: int, opening: Verdict | None, *, text_follows: bool) -> Verdict:
        """What the next tag means; `opening`: what it does if it opens something and is not
        within a call that is quoted."""
        self._closed = opening is None and level > ARGUMENT
        tail, self._tail = self._tail, ""
        if opening is not None:
            opening = Verdict.TEXT if any(self._open[CALL:]) else opening
            if opening is Verdict.END:
                return Verdict.ENDED if self.in_doubt else Verdict.END
            self._open[level] += 1
            return opening
        if self._open[level]:
            self._open[level] -= 1
            self._open[:level] = [0] * level
            return Verdict.DOUBT
        if level == ARGUMENT:
            if not text_follows:
                return Verdict.END
            self.in_doubt = False  # all before was text
        elif self.in_doubt and not (self.closing and tail):
            return Verdict.ENDED
        self.closing = self.closing or not self.in_doubt
        return Verdict.DOUBT

    def holds(self, text: str, start: int, at: int, end: int) -> bool:
        """Whether the text from `start` to `end`, without a tag from `at` on, is held."""
        if end - start > QUOTED_LIMIT:
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
            return not self._open[ARGUMENT]
        return self.closing and self._closed and not self._tail
