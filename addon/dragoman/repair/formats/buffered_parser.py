"""What the parsers of several formats have in common: a buffer, and the loop that is pulled.

A parser is in a state, which is a method that reads as much of the buffer as one decision
needs.  The arguments of an open call are an object of their own, which then holds the text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from ..events import Arguments, CallEnd, Dropped, Header, NoHeader, NoJson, ParseEvent
from .protocol import NOTHING_HELD, Held

WORD = r"[A-Za-z0-9_.:/()@-]{1,128}"
"""The name of a tool in a header."""


class CallArguments(Protocol):
    """The arguments of one call, read from the text of its format."""

    @property
    def rest(self) -> str:
        """What was pushed, and not given."""

    @property
    def held(self) -> Held:
        """See `LeakParser.held`."""

    @property
    def over(self) -> bool:
        """Whether what comes is no more of them."""

    @property
    def complete(self) -> bool:
        """Whether nothing is missing but an end marker."""

    def takes(self, text: str) -> str | None:
        """See `LeakParser.takes`."""

    def push(self, text: str) -> None:
        """More of the text."""

    def step(self) -> bool:
        """Decide as much as can be; False when more text is needed."""

    def finish(self) -> None:
        """The text has ended: decide what can be told now only."""

    def take(self) -> Sequence[Arguments | NoJson | CallEnd | Dropped]:
        """What was decided, once; a `CallEnd` is the last."""


class BufferedParser:
    """See `LeakParser`.  `start` is the offset of what is pushed first.  A format says how it
    reads a header (`_read_header`), and what may follow a call (`_read_after`)."""

    end_is_marked = True
    """Whether a call whose arguments are whole lacks something where the text ends."""

    def __init__(self, start: int) -> None:
        self._state = self._read_header
        self._in_head = True
        """Whether a call has begun, or may have, whose header has not been given."""
        self._end = start
        """The offset after what was pushed."""
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has become an event."""
        self._events: deque[ParseEvent] = deque()
        self._ended = False
        self._is_over = False
        self._arguments: CallArguments | None = None
        """Those of the open call: they hold what is not decided, and the buffer nothing."""

    def _read_header(self) -> bool:
        """Reads on where a call begins; False when more text is needed."""
        raise NotImplementedError

    def _read_after(self) -> bool:
        """Reads on after a call."""
        raise NotImplementedError

    # What is asked

    @property
    def over(self) -> bool:
        return self._is_over and not self._events

    @property
    def rest(self) -> str:
        return self._arguments.rest if self._arguments else self._buffer[self._at :]

    @property
    def held(self) -> Held:
        return self._arguments.held if self._arguments else NOTHING_HELD

    @property
    def in_header(self) -> bool:
        return self._in_head

    @property
    def in_call(self) -> bool:
        return self._arguments is not None or self.in_header

    @property
    def whole(self) -> bool:
        return self._arguments.complete if self._arguments else not self._in_head

    def takes(self, text: str) -> str | None:
        if self._arguments is None or self._events:
            return None
        given = self._arguments.takes(text)
        self._end += len(text) if given is not None else 0
        return given

    # What comes and goes

    def push(self, text: str) -> None:
        self._end += len(text)
        if self._arguments is not None:
            self._arguments.push(text)
        else:
            self._buffer = self._buffer[self._at :] + text
            self._at = 0

    def next(self) -> ParseEvent | None:
        while not (self._events or self._is_over):
            if self._step() or self._events:
                continue
            if not self._ended:
                return None
            self._finish()
        return self._events.popleft() if self._events else None

    def end(self) -> None:
        self._ended = True

    def _step(self) -> bool:
        if self._arguments is None:
            return self._state()
        decided = self._arguments.step()
        self._take_arguments(self._arguments)
        return decided

    def _finish(self) -> None:
        """Nothing more can be decided by what has come."""
        if self._arguments is not None:
            self._arguments.finish()
            self._take_arguments(self._arguments)
        elif self._in_head:
            self._refuse()
        else:
            self._is_over = True

    def _take_arguments(self, arguments: CallArguments) -> None:
        for event in arguments.take():
            unmarked = isinstance(event, CallEnd) and event.valid and not self.end_is_marked
            self._give(CallEnd(valid=True, cut=False) if unmarked else event)
        if arguments.over:
            self._arguments = None
            self._buffer, self._at = arguments.rest, 0
            self._state = self._read_after

    def _give(self, event: ParseEvent) -> None:
        self._events.append(event)

    # What a format decides

    def _refuse(self) -> bool:
        """This is no header."""
        self._events.append(NoHeader())
        self._is_over = True
        return True

    def _start_call(self, header: Header, arguments: CallArguments, at: int) -> bool:
        """A call begins, and its arguments at this place in the buffer."""
        self._events.append(header)
        self._in_head = False
        self._open(arguments, at)
        return True

    def _open(self, arguments: CallArguments, at: int) -> None:
        """These arguments begin at this place in the buffer."""
        self._arguments = arguments
        arguments.push(self._buffer[at:])
        self._buffer, self._at = "", 0

    def _call_without_arguments(self, header: Header, at: int) -> bool:
        """The same of a call that ends there."""
        self._events += [header, CallEnd(valid=True, cut=False)]
        self._in_head = False
        self._at = at
        self._state = self._read_after
        return True

    def _leave(self, at: int) -> bool:
        """All is done up to this place in the buffer."""
        self._at = at
        self._is_over = True
        return True


def named(name: str | None, literal: str, call_id: str = "") -> Header:
    """A header that names a tool, or has no name."""
    return Header(name, literal, call_id, "plain name")
