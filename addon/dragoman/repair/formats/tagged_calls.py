"""The parser of formats that put tags around calls and around each of their arguments.

Its states are where we stand::

    SECTION    between calls
    HEADER     after the tag of a call, until it is certain that a call was meant
    CALL       between the arguments of a call
    VALUE      in an argument
    JSON       in arguments that are one JSON text (`JsonArguments`)
    CLOSING    after that text: its tag and the call's
    ENDED      after a section: what belongs to its end, and nothing else
    OVER       after that, or after a call that stood in none

A tag that is missing is taken for granted where the next one can only follow it; text where
only tags may stand ends the section.  A call is meant if something that belongs to it follows
its own tag: an argument, JSON, its end.  The first of a section may have lost all its tags: the
bare name of a declared tool, and a JSON object, in a fence or not.
"""

from __future__ import annotations

import enum
import re
from collections import deque

from ..declared_tools import DeclaredTools
from ..events import Dropped, Header, NoHeader, ParseEvent
from ..tool_fit import schema_for, tool_of
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT
from .protocol import Held
from .quoted_tags import ARGUMENT, CALL, SECTION, QuotedTags, Verdict
from .tags import TAG_LIMIT, Tag, TagKind, TagSyntax, unfinished
from .typed_arguments import TypedArguments
from .value_types import declares

BLANK_LIMIT = 4096
"""White space between tags; after more of it the section is over."""

_NOT_BLANK = re.compile(r"\S")
_WORD = r"[A-Za-z0-9_.:/()@-]{1,128}"
_NAME = re.compile(_WORD)
_BARE_CALL = re.compile(rf"(?P<name>{_WORD})\s*(?P<fence>```\w*\s*)?(?=\{{)")
_BARE_CALL_SO_FAR = re.compile(rf"(?P<name>{_WORD})\s*(?:`{{1,2}}|```\w*\s*)?\Z")


class _State(enum.Enum):
    """See the top of this file."""

    SECTION = enum.auto()
    HEADER = enum.auto()
    CALL = enum.auto()
    VALUE = enum.auto()
    JSON = enum.auto()
    CLOSING = enum.auto()
    ENDED = enum.auto()
    OVER = enum.auto()


_OUTSIDE = frozenset((_State.SECTION, _State.CLOSING, _State.ENDED, _State.OVER))
"""States in which no call is open."""
_BEGINNINGS = frozenset((TagKind.ARGUMENT, TagKind.CALL, TagKind.SECTION))
_LEVELS = {
    TagKind.ARGUMENT: ARGUMENT,
    TagKind.ARGUMENT_END: ARGUMENT,
    TagKind.CALL: CALL,
    TagKind.CALL_END: CALL,
    TagKind.SECTION: SECTION,
    TagKind.SECTION_END: SECTION,
}
"""Of the tags that may end a value."""


class TaggedCalls:
    """Parses from right after `first`, the tag of a section or of a call."""

    def __init__(self, syntax: TagSyntax, tools: DeclaredTools, first: Tag) -> None:
        self._syntax = syntax
        self._tools = tools
        self._in_section = first.kind is TagKind.SECTION
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has become an event, or is a tag."""
        self._events: deque[ParseEvent] = deque()
        self._ended = False
        self._calls = 0
        """Calls that were meant."""
        self._name = ""
        """That of the open call."""
        self._arguments = TypedArguments(None)
        self._quoted = QuotedTags()
        """Tags in the open value."""
        self._json: JsonArguments | None = None
        self._fenced = False
        """Whether that stands in a fence, whose end has not come."""
        self._state = _State.SECTION
        if first.kind is TagKind.CALL:
            self._begin_call(first)

    # What is asked

    @property
    def over(self) -> bool:
        """Whether all is done, and the `rest` is text again."""
        return self._state is _State.OVER and not self._events

    @property
    def rest(self) -> str:
        """What was pushed, and not read."""
        return self._json.rest if self._json else self._buffer[self._at :]

    @property
    def held(self) -> Held:
        """What was read of the open value, and not given."""
        return self._arguments.held

    @property
    def in_call(self) -> bool:
        """Whether a call is open."""
        return self._state not in _OUTSIDE

    @property
    def in_header(self) -> bool:
        """Whether the tag of a call has begun, and what has to follow it has not."""
        if self._state is _State.SECTION:
            return bool(self.rest.strip()) and not self._syntax.closing.match(self.rest)
        return self._state is _State.HEADER

    @property
    def whole(self) -> bool:
        """Whether nothing is missing but the end of the section."""
        between = self._state in (_State.SECTION, _State.ENDED)
        return between and self._calls > 0 and not self.rest.strip()

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of the open value."""
        if self._events or self._syntax.may_begin_in(text):
            return None
        if self._json is not None:
            return self._json.takes(text)
        if self._state is not _State.VALUE or self._at < len(self._buffer):
            return None
        given = self._arguments.takes(text)
        if given is not None:
            self._quoted.gave(text)
        return given

    # What comes and goes

    def push(self, text: str) -> None:
        """More of the input."""
        if self._json is not None:
            self._json.push(text)
        else:
            self._buffer = self._buffer[self._at :] + text
            self._at = 0

    def end(self) -> None:
        """The text has ended."""
        self._ended = True

    def next(self) -> ParseEvent | None:
        """The next event; None if more input is needed, or it is `over`."""
        while not self._events:
            if self._step() or self._events:
                continue
            if not self._ended or self._state is _State.OVER:
                return None
            self._finish()
        return self._events.popleft()

    def _step(self) -> bool:
        """Decide as much as can be; False when more input is needed."""
        if self._state is _State.OVER:
            return False
        if self._json is not None:
            decided = self._json.step()
            self._take_json(self._json)
            return decided
        return self._step_value() if self._state is _State.VALUE else self._step_tag()

    def _finish(self) -> None:
        """Nothing more can be decided by what has come."""
        if self._state is _State.VALUE and self._quoted.ended and not self._in_section:
            self._end_value_in_doubt()
            return
        if self._json is not None:
            self._json.finish()
            self._take_json(self._json)
        elif not self.in_call:
            self._finish_section()
        else:
            half = self.rest.strip()
            cut = self._state is not _State.CALL or (half and not self._syntax.closing.match(half))
            if self._state is _State.HEADER:
                self._give_header()
            elif self._state is _State.VALUE:
                end = len(self._buffer) - unfinished(self._syntax.in_value_so_far, self.rest)
                # Half a word is one of the value, though it may begin a thinned out marker.
                self._give(len(self._buffer) if self._buffer[end:].isalpha() else end)
            self._end_call(cut=bool(cut), unclosed=True)
            self._drop_rest()
        self._state = _State.OVER

    def _finish_section(self) -> None:
        rest = self.rest
        if not self._calls:
            text = bool(rest.strip())
            self._events.append(NoHeader() if text else Dropped("empty section"))
        elif self._syntax.closing.match(rest):
            self._drop_rest()

    def _drop_rest(self) -> None:
        """The text ends in half a tag."""
        if self.rest.strip():
            self._events.append(Dropped("unfinished marker"))
        self._at = len(self._buffer)

    # Between values

    def _step_tag(self) -> bool:
        found = _NOT_BLANK.search(self._buffer, self._at)
        if found is None:
            if len(self._buffer) - self._at > BLANK_LIMIT:
                self._text_follows()
                return True
            return False
        match = self._syntax.tag.match(self._buffer, found.start())
        if match is not None:
            self._on_tag(self._syntax.read(match))
            return True
        rest = self._buffer[found.start() : found.start() + TAG_LIMIT + 1]
        half = len(rest) <= TAG_LIMIT and self._syntax.so_far.match(rest)
        if half and not self._ended:
            return False
        if rest[0] == "{" and self._state is _State.HEADER:
            self._give_header()
            self._begin_json(found.start())
        elif self._fenced and rest.startswith("```"):
            self._at = found.start() + len("```")
            self._fenced = False
        elif self._fenced and "```".startswith(rest) and not self._ended:
            return False
        elif (begun := self._begin_bare_call(found.start())) is not None:
            return begun
        elif half and not rest[0].isalpha():
            return False
        else:
            self._text_follows()
        return True

    def _on_tag(self, tag: Tag) -> None:
        if self._state is _State.SECTION:
            self._in_section_on(tag)
        elif self._state is _State.HEADER:
            if tag.kind in (TagKind.ARGUMENT, TagKind.JSON, TagKind.CALL_END):
                self._give_header()
                self._in_call_on(tag)
            else:
                self._events.append(NoHeader())
                self._state = _State.OVER
        elif self._state is _State.CALL:
            self._in_call_on(tag)
        elif self._state is _State.ENDED:
            self._after_section_on(tag)
        elif tag.kind is TagKind.JSON_END:
            self._at = tag.end
        else:
            self._at = tag.end if tag.kind is TagKind.CALL_END else tag.start
            self._leave_call()

    def _in_section_on(self, tag: Tag) -> None:
        if tag.kind is TagKind.CALL:
            self._at = tag.end
            self._begin_call(tag)
        elif tag.kind is TagKind.SECTION_END:
            self._at = tag.end
            self._state = _State.ENDED if self._calls else _State.OVER
            if not self._calls:
                self._events.append(Dropped("empty section"))
        elif tag.kind in (TagKind.OTHER, TagKind.OTHER_END) and self._calls:
            self._state = _State.ENDED
        elif tag.kind is TagKind.SECTION and self._calls:
            self._state = _State.OVER
        elif self._calls or tag.kind is TagKind.SECTION:
            self._at = tag.end
            self._events.append(Dropped(f"stray {tag.kind.value}"))
        else:
            self._text_follows()

    def _after_section_on(self, tag: Tag) -> None:
        if tag.kind is TagKind.OTHER_END:
            self._at = tag.end
            self._events.append(Dropped("channel marker after a section"))
        else:
            self._state = _State.OVER

    def _in_call_on(self, tag: Tag) -> None:
        if tag.kind is TagKind.ARGUMENT:
            self._at = tag.end
            self._arguments.begin(tag.name, tag.type)
            self._state = _State.VALUE
        elif tag.kind is TagKind.JSON and not self._arguments.begun:
            self._begin_json(tag.end)
        elif tag.kind in (TagKind.ARGUMENT_END, TagKind.JSON, TagKind.JSON_END):
            self._at = tag.end
            self._events.append(Dropped(f"stray {tag.kind.value}"))
        else:
            self._at = tag.end if tag.kind is TagKind.CALL_END else tag.start
            self._end_call()

    def _text_follows(self) -> None:
        """What comes is none of the section's tags."""
        if self._state is _State.CALL:
            self._end_call()
        elif self._state is _State.HEADER or not self._calls:
            self._events.append(NoHeader())
        self._state = _State.OVER

    # A call

    def _begin_call(self, tag: Tag) -> None:
        self._name = tag.name.strip()
        self._state = _State.HEADER
        if not _NAME.fullmatch(self._name):
            self._events.append(NoHeader())
            self._state = _State.OVER

    def _begin_bare_call(self, at: int) -> bool | None:
        """Begin the call of which no tag but the section's was written.  False if more has to
        tell whether it is one, None if it is none."""
        if self._state is not _State.SECTION or self._calls:
            return None
        found = _BARE_CALL.match(self._buffer, at)
        if found is None:
            so_far = _BARE_CALL_SO_FAR.match(self._buffer, at)
            waits = so_far and len(self._buffer) - at < HEADER_LIMIT and not self._ended
            return False if waits and so_far and self._tools.may_begin(so_far["name"]) else None
        if found["name"] not in self._tools:
            return None
        self._name, self._fenced = found["name"], found["fence"] is not None
        self._give_header()
        self._begin_json(found.end())
        return True

    def _give_header(self) -> None:
        self._calls += 1
        self._events.append(Header(self._name, self._name, "", "plain name"))
        self._arguments = self._syntax.arguments(schema_for(self._name, self._tools))
        self._state = _State.CALL

    def _end_call(self, *, cut: bool = False, unclosed: bool = False) -> None:
        self._arguments.end(cut=cut, unclosed=unclosed)
        self._events += self._arguments.take()
        self._leave_call()

    def _leave_call(self) -> None:
        self._state = _State.SECTION if self._in_section else _State.OVER

    # A value

    def _step_value(self) -> bool:
        syntax, quoted = self._syntax, self._quoted
        at = self._at + quoted.seen
        while (match := syntax.in_value.search(self._buffer, at)) is not None:
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
            at = match.end()
        end = len(self._buffer) - unfinished(syntax.in_value_so_far, self._buffer[at:])
        if not quoted.holds(self._buffer, self._at, at, end):
            self._give(end)
        self._events += self._arguments.take()
        return False

    def _end_value_in_doubt(self) -> None:
        """The value ended at the tag from which on text is held."""
        match = self._syntax.in_value.match(self._buffer, self._at)
        assert match is not None
        self._end_value(self._syntax.read(match))

    def _end_value(self, tag: Tag) -> None:
        self._quoted = QuotedTags()
        if tag.kind is TagKind.ARGUMENT and self._arguments.nests:
            self._at = tag.end
            self._arguments.begin(tag.name)
        elif tag.kind is TagKind.ARGUMENT_END:
            self._at = tag.end
            self._arguments.end_value(name=tag.name)
        else:
            self._arguments.end_value(implied=True)
        if not self._arguments.in_value:
            self._state = _State.CALL

    def _verdict(self, tag: Tag) -> Verdict:
        level = _LEVELS.get(tag.kind)
        if level is None:
            return Verdict.TEXT
        if not self._syntax.plain:
            return Verdict.TEXT if tag.kind is TagKind.SECTION else Verdict.END
        opens = tag.kind in _BEGINNINGS
        return self._quoted.verdict(level, opens=opens, may_end=opens and self._may_end(tag))

    def _may_end(self, tag: Tag) -> bool:
        """Whether a value may end where this tag opens something."""
        if tag.kind is TagKind.SECTION:
            return False
        if tag.kind is TagKind.CALL:
            declared = not self._tools or tool_of(tag.name, self._tools) is not None
            return declared and self._quoted.begins_line(self._buffer, self._at, tag.start)
        schema = schema_for(self._name, self._tools)
        declared = schema is None or declares(schema, tag.name)
        return declared and not self._arguments.has(tag.name)

    def _give(self, end: int) -> None:
        if self._at < end:
            self._arguments.text(self._buffer[self._at : end])
            self._quoted.gave(self._buffer[self._at : end])
            self._at = end

    # Arguments that are JSON

    def _begin_json(self, start: int) -> None:
        self._state = _State.JSON
        pattern, held = self._syntax.in_value, self._syntax.in_value_so_far
        self._json = JsonArguments(pattern.search, lambda text: unfinished(held, text), {})
        self._json.push(self._buffer[start:])
        self._buffer, self._at = "", 0

    def _take_json(self, arguments: JsonArguments) -> None:
        self._events += arguments.take()
        if not arguments.over:
            return
        self._json, self._buffer, self._at = None, arguments.rest, 0
        self._state = _State.CLOSING
