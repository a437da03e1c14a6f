"""The stream of a reply: events come in, commands go out.

The events are the methods `opening`, `receive`, `wake` and `fail`.  Each returns commands, which
our layer of mitmproxy's executes in their order (`http_stream`): a command is made only when the
one before has been executed.  Without that layer mitmproxy calls the stream with each piece and at
the end, and only the bytes among the commands are sent.  No exception may escape from here
(mitmproxy would cut the stream), and both sides are recorded.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from mitmproxy import http

from ...bridge.reply.bridge_pipeline import BridgePipeline
from ...reply.repair_pipeline import RepairPipeline
from ...reply.stage import Steps
from ..http_headers import EVENT_STREAM, encoding_of, is_encoded, media_type
from ..observe.recorder import FlowRecorder
from ..routes import is_replayed

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Pause:
    """Other flows run first, if the work has taken long."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What has ended is kept before anything else is sent."""


@dataclass(frozen=True, slots=True)
class Break:
    """The client's reply breaks off."""

    why: str


@dataclass(frozen=True, slots=True)
class End:
    """The client's reply ends, whether or not the upstream's has."""


Command = bytes | Pause | Keep | Break | End
"""Bytes are sent.  None are empty: mitmproxy would write that as the end of a chunked body."""
Commands = list[bytes] | Iterator[Command]
"""A list, as for nearly all pieces, is of bytes alone; and `wakes_at` is no earlier than before."""


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What a stream needs of its flow."""

    name: str
    """The flow's, in the log."""
    record: FlowRecorder
    heartbeat: float = 0
    """Seconds of silence after which the client is sent something; 0: never."""
    labelled: bool = True
    """Whether the reply says that it is an event stream."""
    breaks: bool = True
    """Whether the client's reply can break off."""

    @classmethod
    def of(
        cls,
        flow: http.HTTPFlow,
        response: http.Response,
        record: FlowRecorder,
        name: str,
        *,
        heartbeat: float,
        has_layer: bool,
    ) -> ReplyContext:
        """`has_layer`: whether our stream layer is there, which executes commands."""
        return cls(
            name,
            record,
            heartbeat,
            labelled=media_type(response) == EVENT_STREAM,
            # How a body ends says nothing to a client of HTTP/1.0.
            breaks=has_layer and not is_replayed(flow) and flow.request.http_version != "HTTP/1.0",
        )


class LiveStream(ABC):
    """The stream of one reply.  Methods of subclasses return the bytes that are sent at once."""

    _pipeline: BridgePipeline | RepairPipeline
    started = False
    """Whether any of the reply, or its end, has come."""

    def __init__(self, context: ReplyContext) -> None:
        self._name = context.name
        self._record = context.record
        self._heartbeat = context.heartbeat or NEVER
        self._over = False
        """Whether what still comes is ignored."""
        self._held = b""
        """What is sent next, when what has ended is kept."""
        self._document: Steps[bytes] | None = None
        """The work on a reply that has ended, and is no event stream; its result is sent."""
        self._ends_at = NEVER
        """When the reply ends if its upstream does not end it."""
        self._sent_at = time.monotonic()

    # Events

    def __call__(self, data: bytes) -> list[bytes]:
        """What mitmproxy sends for a piece, or the end, where our layer is not there."""
        return [each for each in self.receive(data) if isinstance(each, bytes)]

    def opening(self) -> Commands:
        """The upstream's headers have come."""
        self.started = True
        return []

    def receive(self, data: bytes) -> Commands:
        """A piece of the upstream's body; ``b""``: its end."""
        self.started, ends = True, not data
        if self._over:
            data = sent = b""
        else:
            sent = self._feed(data) if data else self._close()
        self._record.reply.add(data, sent)
        if sent:
            self._sent_at = time.monotonic()
        pipeline = self._pipeline
        if ends or self._held or pipeline.waits or pipeline.broken or self._ends_at != NEVER:
            return self._commands(sent, ends=ends)
        return [sent] if sent else []

    @property
    def early(self) -> bool:
        """Whether the reply breaks off as the upstream's body has ended before its turn."""
        return bool(self._pipeline.broken) and self._pipeline.early

    @property
    def wakes_at(self) -> float:
        """When `wake` is due, by `time.monotonic`, if nothing comes till then."""
        return min(self._sent_at + self._heartbeat, self._ends_at)

    def wake(self) -> Commands:
        """Nothing has come for so long: the reply ends, or the client is kept waiting."""
        if self._ends_at <= time.monotonic():
            return self._commands(self._recorded(self._conclude()), ends=True)
        return self._commands(self._recorded(self._keep_waiting()))

    def fail(self, error: str) -> Commands:
        """The upstream broke off."""
        return self._commands(self._recorded(self._break_off(error)), ends=True)

    def _commands(self, sent: bytes, *, ends: bool = False) -> Iterator[Command]:
        """`sent`, what follows from the step that has returned it, and the steps that wait."""
        while True:
            if sent:
                yield sent
            yield Pause()
            if self._document is not None:
                sent = self._recorded(self._step(self._document))
                continue
            if self._held:
                yield Keep()
                held, self._held = self._held, b""
                yield self._recorded(held)
            if self._pipeline.broken:
                yield Break(self._pipeline.broken)
            elif ends:
                yield End()
            elif self._pipeline.waits and not self._over:
                sent = self._recorded(self._feed(b""))
                continue
            return

    def _step(self, document: Steps[bytes]) -> bytes:
        try:
            next(document)
        except StopIteration as end:
            self._document = None
            sent: bytes = end.value
            return sent
        return b""

    def _recorded(self, sent: bytes) -> bytes:
        """What is sent while the upstream is silent."""
        self._sent_at = time.monotonic()
        if sent:
            self._record.reply.add_sent_in_silence(sent)
        return sent

    # Steps

    @abstractmethod
    def _feed(self, data: bytes) -> bytes:
        """A piece of the body; ``b""``: more of what waits."""

    @abstractmethod
    def _close(self) -> bytes:
        """The end of the body."""

    @abstractmethod
    def _keep_waiting(self) -> bytes:
        """A heartbeat."""

    def _conclude(self) -> bytes:
        """The rest of a reply that ends at `_ends_at`."""
        return b""

    @abstractmethod
    def _break_off(self, error: str) -> bytes:
        """What is held when the upstream breaks off."""


class WatchedStream:
    """A stream that passes as it comes, in its content encoding, and is recorded."""

    def __init__(self, record: FlowRecorder, response: http.Response) -> None:
        self._reply = record.reply
        self._reply.encoding = encoding_of(response) if is_encoded(response) else ""

    def __call__(self, data: bytes) -> list[bytes]:
        self._reply.add(data, data)
        return [data] if data else []
