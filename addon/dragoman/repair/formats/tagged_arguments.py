"""Arguments that a format writes one by one, each between tags.

Models leave out closing tags: a value also ends at the next argument and at the end of its call,
and a call ends where anything but an argument follows a value.

A value may also quote a call.  So an opening tag in a value that does not end the value is text,
and so is the tag that closes it.  As closing tags may be missing, such a closing tag is in doubt;
so is, at the start of a line, the tag of a call, or of an argument that the tool does not declare.
The text from there on is held until a later tag decides: if that is the value's own closing tag,
all before it was text; if it can only end the call of the value, the value ended at the first tag
in doubt.  A value may also quote a closing tag alone.  So its own closing tag is in doubt if text
follows, and so is that of its call or section if its own is missing.  Such a tag was text if the
value's own closing tag follows it, and else real, at least if the text ends within `QUOTED_LIMIT`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ..events import Arguments, CallEnd, Dropped
from .protocol import CallArguments, Held
from .tags import Follows, Tag, TagKind, TagSyntax
from .value_types import properties

QUOTED_LIMIT = 16 * 1024
"""Characters held after a tag in doubt; after that many it was text."""
_ARGUMENT, _CALL, _SECTION = range(3)
_LEVELS = {
    TagKind.ARGUMENT: _ARGUMENT,
    TagKind.ARGUMENT_END: _ARGUMENT,
    TagKind.CALL: _CALL,
    TagKind.CALL_END: _CALL,
    TagKind.SECTION: _SECTION,
    TagKind.SECTION_END: _SECTION,
}
"""Of the tags that may end a value."""
_OPENING = (TagKind.ARGUMENT, TagKind.CALL, TagKind.SECTION)


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
        """`schema` is that of the tool's arguments; `is_tool`: whether a call of this name may
        follow; `in_section`: whether the call ends only with a tag."""
        super().__init__()
        self._syntax = syntax
        self._schema = schema
        self._is_tool = is_tool
        self._in_section = in_section
        self._typed = syntax.arguments(schema)
        self._quoted = _QuotedTags()
        """Tags in the open value."""
        self._meant = False
        """Whether an argument has begun, or its closing tag stood in the place of all: GLM writes
        that for no arguments."""
        self._lone_end = False
        """Whether such a closing tag was read, and no argument has begun."""
        self._ended = False
        """Whether the text has ended."""

    @property
    def complete(self) -> bool:
        return self._meant and (self._quoted.closes or not self._typed.in_value)

    @property
    def held(self) -> Held:
        return self._typed.held

    def takes(self, text: str) -> str | None:
        if self._at < len(self._buffer) or not self._typed.in_value:
            return None
        if self._syntax.in_value.may_begin_in(text):
            return None
        output = self._typed.takes(text)
        if output is not None:
            self._quoted.text(text)
        return output

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
            end = len(self._buffer) - self._syntax.in_value.unfinished(self.rest)
            # Half a word is part of the value, though a thinned out marker may begin with it.
            self._give(len(self._buffer) if self._buffer[end:].isalpha() else end)
        half = self.rest.strip()
        closes = self._syntax.closing.match(half) if half else whole
        if ">" in half:
            self._drop_lone_end()
        elif self._lone_end and not closes:
            self._end()  # half a tag is text, as no argument has begun
            return
        if half:
            self._typed.drop("unfinished marker")
        self._at = len(self._buffer)
        cut = not closes or self._typed.in_value or not self._meant
        self._end(cut=cut, unclosed=not self._lone_end)

    def _end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        self._typed.end(cut=cut, unclosed=unclosed)
        self.over = True

    # Between values

    def begin(self, tag: Tag) -> None:
        """A value begins after this tag."""
        self._drop_lone_end()
        self._meant = True
        self._typed.begin(tag.name or "", tag.type, trim=self._syntax.trim)

    def _drop_lone_end(self) -> None:
        """An argument comes, or half its tag."""
        if self._lone_end:
            self._typed.drop(f"stray {TagKind.ARGUMENT_END.value}")
        self._lone_end = False

    def _step_between(self) -> bool:
        follows, at = self._syntax.following(self._buffer, self._at)
        if follows is Follows.BLANKS:
            return False
        if follows is Follows.HALF_TAG and not (self._ended and self._buffer[at].isalpha()):
            return False
        if isinstance(follows, Tag):
            self._on_tag(follows)
        else:
            self._end()
        return True

    def _on_tag(self, tag: Tag) -> None:
        if tag.kind is TagKind.ARGUMENT:
            self._at = tag.end
            self.begin(tag)
        elif tag.kind in (TagKind.ARGUMENT_END, TagKind.JSON, TagKind.JSON_END):
            self._at = tag.end
            if self._meant:
                self._typed.drop(f"stray {tag.kind.value}")
            else:
                self._meant = self._lone_end = True
        else:
            self._at = tag.end if tag.kind is TagKind.CALL_END else tag.start
            self._end()

    # In a value

    def _step_value(self) -> bool:
        start, syntax, quoted = self._at, self._syntax, self._quoted
        at = start + quoted.seen
        quoted.waits = False
        while not quoted.waits and (match := syntax.in_value.find(self._buffer, at)):
            quoted.hold(self._buffer, self._at, at, match.start())
            tag = syntax.read(match)
            verdict = self._verdict(tag)
            if verdict is _Verdict.ENDED:
                self._end_value_in_doubt()
                return True
            if verdict is _Verdict.END:
                self._give(match.start())
                self._end_value(tag)
                return True
            if verdict is _Verdict.DOUBT and not quoted.in_doubt:
                self._give(match.start())
                quoted.in_doubt = True
            quoted.waits = verdict is _Verdict.WAIT
            at = match.start() if quoted.waits else match.end()
        end = (
            at
            if quoted.waits
            else len(self._buffer) - syntax.in_value.unfinished(self._buffer[at:])
        )
        if not quoted.hold(self._buffer, self._at, at, end):
            self._give(end)
        return self._at > start

    def _ends_in_doubt(self) -> bool:
        """Whether the value ended at the first tag in doubt, as the text ends here."""
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
        self._quoted = _QuotedTags()
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
            self._quoted.text(text)
            self._at = end

    def _verdict(self, tag: Tag) -> _Verdict:
        level = _LEVELS.get(tag.kind)
        if level is None:
            return _Verdict.TEXT
        if not self._syntax.plain:
            return _Verdict.TEXT if tag.kind is TagKind.SECTION else _Verdict.END
        if tag.kind in _OPENING:
            return self._quoted.opening(level, self._opening(tag))
        text_follows = False
        if tag.kind is TagKind.ARGUMENT_END:
            follows, _ = self._syntax.following(self._buffer, tag.end)
            if follows in (Follows.BLANKS, Follows.HALF_TAG) and not self._ended:
                return _Verdict.WAIT
            text_follows = follows is Follows.TEXT
        return self._quoted.closing_tag(level, text_follows=text_follows)

    def _opening(self, tag: Tag) -> _Verdict:
        """What an opening tag means, unless it is within a call that the value quotes."""
        name = tag.name or ""
        if tag.kind is TagKind.ARGUMENT:
            if self._typed.has(name):
                return _Verdict.TEXT
            if self._schema is None or name in properties(self._schema):
                return _Verdict.END
            has_text = self._quoted.has_text or bool(self._buffer[self._at : tag.start].strip())
            by_line = self._syntax.trim and self._begins_line(tag)
            doubt = has_text and (self._syntax.pairs or by_line)
        else:
            named = tag.kind is TagKind.CALL and self._is_tool(name)
            doubt = (tag.name is None or named) and self._begins_line(tag)
        return _Verdict.DOUBT if doubt else _Verdict.TEXT

    def _begins_line(self, tag: Tag) -> bool:
        """Whether a line, or the value, begins with this tag."""
        before = self._buffer[tag.start - 1] if tag.start > self._at else self._quoted.last
        return before in ("", "\n")


class _Verdict(enum.Enum):
    """What a tag means."""

    TEXT = enum.auto()
    DOUBT = enum.auto()
    END = enum.auto()
    """The value ends here."""
    ENDED = enum.auto()
    """It ended at the first tag that was in doubt."""
    WAIT = enum.auto()
    """What follows decides."""


class _QuotedTags:
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
        self._tail = ""
        """What is held after the last tag, without white space."""
        self.last = ""
        """The last character of the value before the held text."""
        self.has_text = False
        """Whether there is more than white space before that."""

    def text(self, text: str) -> None:
        """More of the value, which is not empty, is certain."""
        self.last = text[-1:]
        self.has_text = self.has_text or bool(text.strip())

    def opening(self, level: int, verdict: _Verdict) -> _Verdict:
        """What the next tag means, which opens something; `verdict`: what it means outside of a
        quoted call."""
        self._closed, self._tail = False, ""
        if any(self._open[_CALL:]):
            verdict = _Verdict.TEXT
        if verdict is _Verdict.END:
            return _Verdict.ENDED if self.in_doubt else verdict
        self._open[level] += 1
        return verdict

    def closing_tag(self, level: int, *, text_follows: bool) -> _Verdict:
        """What the next tag means, which closes something."""
        self._closed = level > _ARGUMENT
        tail, self._tail = self._tail, ""
        if self._open[level]:
            self._open[level] -= 1
            self._open[:level] = [0] * level
            return _Verdict.DOUBT
        if level == _ARGUMENT:
            if not text_follows:
                return _Verdict.END
            self.in_doubt = False  # all before was text
        elif self.in_doubt and not (self.closing and tail):
            return _Verdict.ENDED
        self.closing = self.closing or not self.in_doubt
        return _Verdict.DOUBT

    def hold(self, text: str, start: int, at: int, end: int) -> bool:
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
            return not self._open[_ARGUMENT]
        return self.closing and self._closed and not self._tail
