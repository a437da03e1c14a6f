"""The one class that builds the events of a message's blocks, and the one of its end.

Its callers name the content, never the event.  It owns the indexes and what is open, so an illegal
order cannot be expressed:

- blocks are numbered 0, 1, 2 …; one is open at a time, and what begins another stops it;
- clients run a call the moment its block is stopped, whatever the stop reason says, and Claude Code
  of May 2026 takes a part of an input for none.  So the input of a call comes in deltas alone, at
  least one, a call that was cut before any never begins, and one that was cut later never stops;
- the stop reason is ``tool_use`` if, and only if, there is a call.
"""

from __future__ import annotations

from ..reply.event_queue import EventQueue
from ..wire.json_codec import Json, dumps
from ..wire.sse import encode_event
from . import names as api
from .names import TextKind


class BlockWriter:
    """Writes one message from its start or from a block on, as `events`."""

    def __init__(self, events: EventQueue, *, signature: str = "") -> None:
        """`signature`: of thoughts; empty if the host signs them."""
        self._events = events
        self._signature = signature
        self.index = -1
        """That of the last block."""
        self.kind = ""
        """The type of the open block."""
        self.called = False
        """Whether there is a call."""
        self._call: Json | None = None
        """The open call, if it has not been sent: it begins with its first delta."""

    def passed(self, index: int, kind: str) -> None:
        """A block of this type has begun in a frame that left as it came."""
        self.index, self.kind = index, kind
        self.called = self.called or kind == api.CALL

    def text(self, kind: TextKind, text: str) -> None:
        """More of the text, in the open block if it is of this kind."""
        if self.kind != kind:
            begun = {"signature": ""} if kind == "thinking" else {}
            self.begin({"type": kind, kind: "", **begun})
        self.delta({"type": f"{kind}_delta", kind: text})

    def start(self, message: Json) -> None:
        """The beginning of the message; its blocks follow."""
        self._write({"type": api.MESSAGE_START, "message": message})

    def begin(self, block: Json) -> None:
        """A block begins.  The input of a call is sent as a delta, if no other comes."""
        self.stop()
        self.index, self.kind = self.index + 1, block["type"]
        if self.kind == api.CALL:
            self._call = block
        else:
            self._begin(block)

    def arguments(self, text: str) -> None:
        """More of the input of the open call, which does not begin with white space."""
        if self._call is None or not text.isspace():
            self.delta({"type": api.ARGUMENTS, "partial_json": text})

    def delta(self, delta: Json) -> None:
        """A delta of the open block."""
        if self._call is not None:
            self._begin({**self._call, "input": {}})
            self._call, self.called = None, True
        self._write({"type": api.BLOCK_DELTA, "index": self.index, "delta": delta})

    def stop(self, *, cut: bool = False) -> None:
        """The open block, if there is one, ends; `cut`: within the input of a call,
        which has no end then."""
        if cut and self._call is not None:
            self.index -= 1
        elif self.kind and not cut:
            if self._call is not None:
                self.arguments(dumps(self._call.get("input") or {}).decode())
            if self.kind == "thinking" and self._signature:
                self.delta({"type": api.SIGNATURE, "signature": self._signature})
            self._write({"type": api.BLOCK_STOP, "index": self.index})
        self.kind, self._call = "", None

    def end(self, event: Json, stop_reason: str) -> None:
        """The event with the message's end, with this stop reason if that can be true."""
        self.stop()
        if stop_reason == api.TOOL_USE and not self.called:
            stop_reason = api.END_TURN
        self._write({**event, "delta": {**api.delta_of(event), "stop_reason": stop_reason}})

    def _begin(self, block: Json) -> None:
        self._write({"type": api.BLOCK_START, "index": self.index, "content_block": block})

    def _write(self, event: Json) -> None:
        if self._events.wanted:
            self._events.frames.append(encode_event(event))
