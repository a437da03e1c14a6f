"""The base classes of a leak format, that is a way of writing tool calls as text.

A `LeakFormat` finds its markers in text outside of calls, and says which of them begin a
section or a call.  From such a marker on its `LeakParser` reads, until it is `over`.  A parser
only says what it reads; whether a call was meant (quoted code, the request, the name) is
decided by the scanner, in one way for all formats.

The invariant of both: the result, joined, does not depend on how the text was cut.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..declared_tools import DeclaredTools
from ..events import Damaged, Drop, Dropped, Header, NoHeader, ParseEvent, Text, Whole
from .marker_set import HeaderPattern, MarkerPattern, Missing

WORD = r"[A-Za-z0-9_.:/()@-]{1,128}"
"""The name of a tool in a header."""


TextKind = Literal["content", "reasoning"] | None


@dataclass(slots=True)
class MarkerMatch:
    """A marker found in a text, which nobody changes (`events` says why it is not frozen)."""

    format: LeakFormat
    name: str
    """Its name in the evidence: ``section_begin``."""
    start: int
    end: int
    is_opener: bool
    """Whether a section, a call, or a text of a kind begins here, whatever the text around it."""
    tool: str | None = None
    """The name in a marker that begins a call."""
    kind: TextKind = None
    """The kind of the text after it, up to the format's next marker."""
    within_call: bool = False
    """Whether part of a call begins here: alone it is what is left of a damaged one."""
    alone: bool = False
    """Whether nothing but a call that ends the text makes it a marker."""

    @property
    def opens_call(self) -> bool:
        """Whether a section or a call begins here."""
        return self.is_opener and self.kind is None

    def moved(self, by: int) -> MarkerMatch:
        """The same marker, where text was added before it, or removed."""
        return replace(self, start=self.start + by, end=self.end + by)


Parser = Callable[["MarkerMatch", str, int, DeclaredTools], "LeakParser"]
"""Makes a parser of the text after a marker, which begins at this offset of the whole text.  The
second parameter is the header of `LeakFormat.header_before`."""


class LeakFormat:
    """A format.  It has no state of a reply, so one object serves them all."""

    look_back = 0
    """The longest header, in characters, that may precede a marker if the host has stripped the
    beginning of its call; 0 if a call always begins with a marker."""
    alone = False
    """Whether a call may begin where a text does, without a marker, if it is all of the text."""
    line_begins = ""
    """The characters with which a call may begin any line, without a marker, if the turn ends with
    it."""

    def __init__(
        self,
        name: str,
        beginnings: tuple[str, ...],
        markers: MarkerPattern,
        parser: Parser,
        *,
        openers: Collection[str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`name` is used in the evidence and the options.  Each of the `markers`, which are those
        outside of calls, begins with one of the `beginnings`.  A section or a call begins with the
        `openers`, or with any; `names` are those in the evidence, if markers have other names than
        themselves."""
        self.name = name
        self.beginnings = beginnings
        self.markers = markers
        self.parser = parser
        self._openers = openers
        self._names = names

    def match(self, text: str, at: int) -> MarkerMatch | None:
        """The marker at this position, if it means anything outside of a section."""
        found = self.markers.match(text, at)
        return self.meaning(found) if found else None

    def meaning(self, found: re.Match[str]) -> MarkerMatch | None:
        """What is meant by a marker that was found; None: it is text."""
        marker = found[0]
        name = self._names[marker] if self._names else marker.strip()
        is_opener = self._openers is None or marker in self._openers
        return MarkerMatch(self, name, found.start(), found.end(), is_opener)

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        """Whether `text`, where a call may begin, is or could grow into a header whose
        beginning was stripped."""
        return False

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        """Such a header at the end of `text`, which ends at the marker, with the blanks after it;
        empty if there is none."""
        return ""

    def at_start(self, text: str, tools: DeclaredTools) -> MarkerMatch | None:  # noqa: ARG002
        """The place at which a call begins, if all of `text` may be one; see `alone`."""
        return None

    def is_undecided(self, match: MarkerMatch, text: str) -> bool:  # noqa: ARG002
        """Whether text to come may make this marker of `text` part of another format's."""
        return False

    def named_end(self, match: MarkerMatch, text: str, *, ended: bool) -> int | None:  # noqa: ARG002
        """Where that ends in `text` which a line would name that has this marker: the marker, or a
        whole header; None if that depends on text to come, unless it has `ended`."""
        return match.end

    def stray_opens_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:  # noqa: ARG002
        """Whether a call begins, after this `header`, at a marker of `text` that is no opener; None
        if that depends on text to come.  If not, the marker is a stray one."""
        return False


class CallArguments:
    """Reads the arguments of one call from the text of its format; `LeakParser` says what its
    methods promise."""

    too_long = False
    """Whether there is too much in them for a call."""

    def __init__(self) -> None:
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has become an event."""
        self._events: list[Whole | Dropped | Damaged] = []
        self.over = False
        """Whether the `rest` is no part of them."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing but an end marker."""
        raise NotImplementedError

    @property
    def rest(self) -> str:
        return self.unread

    @property
    def unread(self) -> str:
        return self._buffer[self._at :]

    def take_more(self, text: str) -> bool:
        raise NotImplementedError

    def push(self, text: str) -> None:
        self._buffer = self._buffer[self._at :] + text
        self._at = 0

    def step(self) -> bool:
        """Decide as much as can be; False if more text is needed."""
        raise NotImplementedError

    def finish(self, *, whole: bool = True) -> None:
        """The text has ended, and if it is not `whole`, was cut: decide the rest."""
        raise NotImplementedError

    def take(self) -> Sequence[Whole | Dropped | Damaged]:
        """The new events; the call is the last."""
        events, self._events = self._events, []
        return events


class LeakParser:
    """Reads one section, or one call without a section.

    It is pulled: it reads nothing beyond the event that `next` returns, so the scanner can take
    back the `rest` if it decides that this is no call.  The events need not have the text that was
    read: arguments are JSON, however the format writes them, and a header comes once its name is
    known.

    Most formats implement two methods, which read as much of the buffer as one decision needs:
    `_begin` after its `header`, and `_read_after` after a call; Kimi K2 reads headers in its own
    way.  The arguments of an open call are read by a `CallArguments`, which then has the buffer.
    """

    header: HeaderPattern
    """What comes before the arguments of a call, or its first ones."""
    end_is_marked = True
    """Whether a call lacks something if its arguments are whole, and the text ends."""
    closer = ""
    """The marker that ends all calls, if the format has one that is always the same."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:  # noqa: ARG002
        """See `Parser`."""
        self._tools = tools
        self._read: Callable[[Any], bool] = type(self)._read_header
        """The method that reads next, if no arguments are open: unbound, as a cycle would keep the
        declared tools in memory until a collection."""
        self._in_head = True
        """Whether a call has begun, or may have, whose header has not been given."""
        self._end = start
        """The offset after what was pushed."""
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has become an event."""
        self._events: deque[ParseEvent] = deque()
        self._ended = self._whole = False
        self._is_over = False
        self._arguments: CallArguments | None = None

    def _read_header(self) -> bool:
        """Read where a call begins; False if more text is needed."""
        found = self.header.header_at(self._buffer, self._at)
        if not isinstance(found, Missing):
            return self._begin(found)
        return found is Missing.NONE and self._refuse()

    def _begin(self, found: re.Match[str]) -> bool:
        """A call begins with this header."""
        raise NotImplementedError

    def _read_after(self) -> bool:
        """Read after a call; False if more text is needed."""
        raise NotImplementedError

    # What the scanner asks

    @property
    def over(self) -> bool:
        """Whether the section has ended: the `rest` is text again."""
        return self._is_over and not self._events

    @property
    def rest(self) -> str:
        """The end of what was pushed, as it came, of which no event was given yet."""
        return self._arguments.rest if self._arguments else self.unread

    @property
    def unread(self) -> str:
        """The end of the `rest`, which was not looked at."""
        return self._arguments.unread if self._arguments else self._buffer[self._at :]

    @property
    def holds(self) -> bool:
        """Whether a call is open, of which nothing is given before it is whole."""
        return self._arguments is not None

    @property
    def too_long(self) -> bool:
        """Whether the open call is."""
        return self._arguments is not None and self._arguments.too_long

    @property
    def in_call(self) -> bool:
        """Whether a call has begun, or its header."""
        return self._arguments is not None or self.in_header

    @property
    def in_header(self) -> bool:
        """Whether a call has begun whose header has not been given."""
        return self._in_head

    @property
    def whole(self) -> bool:
        """Whether the text may end here, as far as this section goes, and a call was meant."""
        return self._arguments.complete if self._arguments else not self._in_head

    def take_more(self, text: str) -> bool:
        """Take `text` if it is only more of the open call's arguments; else nothing is taken."""
        taken = self._arguments is not None and not self._events and self._arguments.take_more(text)
        self._end += len(text) if taken else 0
        return taken

    # Text in, events out

    def push(self, text: str) -> None:
        """More of the text."""
        self._end += len(text)
        if self._arguments is not None:
            self._arguments.push(text)
        else:
            self._buffer = self._buffer[self._at :] + text
            self._at = 0

    def put_back(self, text: Text) -> None:
        """This text, the event that came last, is not read."""
        self._at -= len(text.text)

    def next(self) -> ParseEvent | None:
        """The next event; None if more text is needed, or the section is over."""
        events = self._events
        while not (events or self._is_over):
            arguments = self._arguments
            if arguments is None:
                decided = self._read(self)
            else:
                decided = arguments.step()
                self._take_arguments(arguments)
            if decided or events:
                continue
            if not self._ended:
                return None
            self._finish()
        return events.popleft() if events else None

    def end(self, *, whole: bool = True) -> None:
        """The text has ended, and if it is not `whole`, was cut: `next` gives what was held
        back, and ends an open call."""
        self._ended, self._whole = True, whole

    def _finish(self) -> None:
        """The text has ended: decide the rest."""
        if self._arguments is not None:
            self._arguments.finish(whole=self._whole)
            self._take_arguments(self._arguments)
        elif self._in_head:
            self._refuse()
        else:
            if self._is_half_marker(self.rest.strip()):
                self._drop_rest()
            self._is_over = True

    def _is_half_marker(self, rest: str) -> bool:
        """Whether the text has ended in a marker that follows calls."""
        return rest.startswith(("</", "<｜")) or bool(rest and self.closer.startswith(rest))

    def _drop_rest(self) -> None:
        if self._at < len(self._buffer):
            self._events.append(Dropped(Drop.HALF, "marker"))
            self._at = len(self._buffer)

    def _take_arguments(self, arguments: CallArguments) -> None:
        for event in arguments.take():
            if isinstance(event, Whole):
                event.unmarked = event.unmarked and self.end_is_marked
            self._events.append(event)
        if arguments.over:
            self._arguments = None
            self._buffer, self._at = arguments.rest, 0
            self._read = type(self)._read_after
            self._arguments_ended(arguments)

    def _arguments_ended(self, arguments: CallArguments) -> None:
        """These were the arguments of the open call."""

    # For the formats

    def _refuse(self) -> bool:
        """This is no header."""
        self._events.append(NoHeader())
        self._is_over = True
        return True

    def _give_call(self, header: Header) -> None:
        """A call without arguments."""
        self._events += [header, Whole(["{}"])]
        self._in_head = False

    def _start_call(self, header: Header, arguments: CallArguments, at: int) -> bool:
        """A call begins, and its arguments at this place in the buffer."""
        self._events.append(header)
        self._in_head = False
        self._arguments = arguments
        if at < len(self._buffer):
            arguments.push(self._buffer[at:])
        self._buffer, self._at = "", 0
        return True

    def _give_text(self, end: int, kind: TextKind = None) -> bool:
        """What comes up to this place in the buffer is text; False if that is nothing."""
        if end <= self._at:
            return False
        start = self._end - len(self._buffer) + self._at
        self._events.append(Text(self._buffer[self._at : end], start, kind=kind))
        self._at = end
        return True

    def _leave(self, at: int) -> bool:
        """The section has ended at this place in the buffer."""
        self._at = at
        self._is_over = True
        return True
