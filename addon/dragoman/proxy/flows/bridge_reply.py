"""A bridged reply, from its headers to its end, streamed or whole.

``bytes -> repair -> bridge -> bytes``: the stages are composed in `bridge.reply.bridge_pipeline`;
here is what surrounds them: the record, the log, the clock and the store.  After a fault of ours
the client of a stream gets its one terminal, a failure, and whatever still comes from the upstream
is ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from mitmproxy import http
from mitmproxy.net.http import status_codes

from ...bridge.reply.bridge_pipeline import Answer, BridgePipeline, answer, failed
from ...bridge.reply.converter import ReplyConverter
from ...chat.repair import ChatRepair
from ...notes import Evidence, printable
from ...reply.stage import Steps
from ...stored.store import NotOpened, StoreError
from ...wire.errors import Refused
from ...wire.json_codec import Json, NotJson
from ...wire.reply_bounds import MAX_REPLY
from ...wire.sse import Frame, joined
from ..content_decoding import DecodingError
from ..error_responses import unusable
from ..flow_state import state_of
from ..http_headers import (
    body_of,
    encoding_of,
    is_encoded,
    set_event_stream,
    set_stream_framing,
)
from ..observe.flow_name import name_of
from ..observe.monitor import FlowMonitor
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from .bridge_request import SENT_AGAIN
from .client_api import BridgedTurn
from .live_stream import NEVER, Commands, LiveStream, ReplyContext

logger = logging.getLogger(__name__)

UPSTREAM_END = 0.1
"""Seconds after its terminal event for which a reply waits for the end of the upstream's: of a
connection on which that comes, another request can be sent.  Hosts that send it do so at once."""
TURN_END = 3.0
"""Seconds after the finish reason for which a turn waits for its usage and the end of the
stream.  Hosts that send them do so at once; openai-python would wait for minutes."""
MISSED_HEADER = "x-dragoman"
"""The header of a bridged reply that says what the client asked for and did not get."""
MAX_MISSED = 2000
"""Characters of its value: clients take 8 kB of all headers at least."""
_MISSED = frozenset(
    {"dropped", "downgraded to auto", "changed", "ignored", "lost", SENT_AGAIN, "sent at once"}
)
"""What the notes in this header are about."""


class BridgeReplies:
    def __init__(self, monitor: FlowMonitor, store: AsyncStore, *, has_layer: bool) -> None:
        """`has_layer`: see `ReplyContext.of`."""
        self._monitor = monitor
        self._store = store
        self._has_layer = has_layer

    def begin(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        """The upstream's headers have come: stream the reply if it can be streamed."""
        self._monitor.take_stream(flow, response)
        test = bridged.settings.repair
        bridged.repair = test is None or test(flow)
        if missed := _missed(bridged.record.evidence):
            response.headers[MISSED_HEADER] = missed
        if _streams(response, bridged) and not is_encoded(response):
            self._stream(flow, response, bridged)

    def _stream(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        try:
            context = ReplyContext.of(
                flow,
                response,
                bridged.record,
                name_of(flow),
                heartbeat=bridged.settings.heartbeat,
                has_layer=self._has_layer,
            )
            keeps, reply = bridged.keeping is not None, bridged.reply()
            prior = len(bridged.keeping.prior) if bridged.keeping else 0
            response.stream = BridgeStream(
                reply, bridged.repair_stage(), context, keeps=keeps, prior=prior
            )
        except Exception:  # the reply is then converted when it is whole, or refused
            logger.exception("%s: the bridge failed", name_of(flow))
            return
        if keeps:
            bridged.running = reply
        self._monitor.streams(flow)
        set_event_stream(response)
        set_stream_framing(flow.request, response)

    @staticmethod
    def is_unreadable(response: http.Response, bridged: BridgedTurn) -> bool:
        """Whether the reply, whose headers have come, is a stream that is compressed."""
        return _streams(response, bridged) and is_encoded(response)

    def give_up(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        """Answer with an error in the place of a reply that is that, or too large."""
        what, code = "too large", "upstream_too_large"
        why = f"{what}: more than {MAX_REPLY} bytes"
        if self.is_unreadable(response, bridged):
            encoding = printable(encoding_of(response))
            what = why = f"a compressed stream ({encoding}), although none was asked for"
            code = "upstream_compressed"
        logger.error("%s: the upstream's answer is %s", name_of(flow), why)
        bridged.record.evidence.note("failed", f"the answer is {what}")
        flow.response = unusable(why, code, bridged.errors)

    async def keep(self, flow: http.HTTPFlow) -> None:
        """Keep the response that is about to end."""
        bridged = state_of(flow).turn
        reply = bridged.running if bridged is not None else None
        if bridged is not None and reply is not None and reply.writer.ended:
            await self._keep(flow, bridged, reply, streamed=True)
            # Before the client receives its end, and continues it.
            bridged.running = None

    async def end(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        """The upstream's reply has ended: convert it if it was not streamed, and keep it if it has
        not been: without our layer, or where another addon has wrapped its stream."""
        if not response.stream:
            await self._give_whole(flow, response, bridged)
        else:
            await self.keep(flow)
        state_of(flow).turn = None

    async def _give_whole(
        self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn
    ) -> None:
        """Convert a reply that was received whole, whatever the client asked for."""
        reply, record = bridged.reply(), bridged.record
        try:
            body = body_of(response)
            record.reply.add_received(body)
            steps = answer(
                reply,
                body,
                status=response.status_code,
                stream=bridged.turn.stream,
                retry_after=response.headers.get("retry-after", ""),
                repair=bridged.repair_stage(),
            )
            made = await in_slices(steps, flow)
            if made.read is not None:
                prior = len(bridged.keeping.prior) if bridged.keeping is not None else 0
                made.read.ended(_without(reply.response, prior))
                record.read = made.read
        except ClientLeft:
            return
        except DecodingError as error:
            logger.error("%s: the upstream's body is unusable: %s", name_of(flow), error)
            made = failed(bridged.errors, f"The upstream's body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", name_of(flow))
            made = failed(bridged.errors, "Dragoman could not convert the upstream's reply.")
        _send(made, response)
        if bridged.keeping is not None and reply.writer.ended and made.status < 400:
            await self._keep(flow, bridged, reply, streamed=made.stream)

    async def _keep(
        self, flow: http.HTTPFlow, bridged: BridgedTurn, reply: ReplyConverter, *, streamed: bool
    ) -> None:
        keeping = bridged.keeping
        assert keeping is not None
        dialect = bridged.dialect if streamed else ""
        try:
            kept = keeping.kept(reply.response, dialect, reply.writer.events.number)
            if kept is not None:
                await self._store.keep(keeping.asker, kept, keeping.used)
        except NotOpened as error:
            logger.debug("%s: this response is not kept: %s", name_of(flow), error)
        except (StoreError, Refused, NotJson) as error:
            level = self._store.level_of(error)
            logger.log(level, "%s: this response is not kept: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: this response is not kept", name_of(flow))


def _streams(response: http.Response, bridged: BridgedTurn) -> bool:
    return bridged.turn.stream and 200 <= response.status_code < 300


def _send(answer: Answer, response: http.Response) -> None:
    if response.status_code != answer.status:
        response.status_code = answer.status
        response.reason = status_codes.RESPONSES.get(answer.status, "")
    if answer.retry_after:
        response.headers["retry-after"] = answer.retry_after
    for header in ("content-encoding", "location"):
        response.headers.pop(header, None)
    if answer.stream:
        set_event_stream(response)
    else:
        response.headers["content-type"] = "application/json"
    response.content = answer.body


def _without(response: Json, prior: int) -> Json:
    """The response without the items of earlier turns, which have been counted."""
    return {**response, "output": response["output"][prior:]} if prior else response


def _missed(evidence: Evidence) -> str:
    """What of the request could not be had, as the value of a header."""
    text = "; ".join(evidence.request_lines(_MISSED)).replace("×", "x")
    return text.encode("ascii", "replace").decode()[:MAX_MISSED]


class BridgeStream(LiveStream):
    """The stream of a bridged reply."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: ChatRepair | None,
        context: ReplyContext,
        *,
        keeps: bool,
        prior: int = 0,
    ) -> None:
        """`keeps`: the reply is kept before the client receives its end.
        `prior`: how many items an earlier turn has left in the response."""
        super().__init__(context)
        self._keeps = keeps
        self._prior = prior
        self.reply = reply
        self._pipeline: BridgePipeline = BridgePipeline(
            reply,
            repair,
            labelled=context.labelled,
            max_document=MAX_REPLY,
            breaks=context.breaks,
        )
        context.record.read = self._pipeline.read

    def opening(self) -> Commands:
        self.started = True
        return self._commands(self._recorded(self._written(self.reply.open)))

    def _feed(self, data: bytes) -> bytes:
        try:
            frames = self._pipeline.feed(data)
        except Exception:
            frames = self._fault("Dragoman could not convert the upstream's reply.")
        if self.reply.turn_end.settled and (frames or self._ends_at == NEVER):
            self._ends_at = time.monotonic() + TURN_END
        return self._leaving(frames)

    def _close(self) -> bytes:
        frames: list[Frame] = []
        try:
            if not self.reply.writer.ended:
                if (document := self._pipeline.document()) is not None:
                    self._document = self._converted(document)
                    return b""
                frames = self._pipeline.close()
        except Exception:
            frames = self._fault("Dragoman could not convert the upstream's reply.")
        return self._leaving(frames)

    def _converted(self, document: Steps[list[Frame]]) -> Steps[bytes]:
        try:
            frames = yield from document
        except Exception:
            frames = self._fault("Dragoman could not convert the upstream's reply.")
        return self._leaving(frames)

    def _keep_waiting(self) -> bytes:
        return self._written(self.reply.heartbeat)

    def _conclude(self) -> bytes:
        if self.reply.writer.ended:
            return b""
        self._record.evidence.note("inferred", "end of a stream that its host held open")
        return self._written(self._pipeline.conclude)

    def _break_off(self, error: str) -> bytes:
        return self._written(lambda: self._pipeline.give_up(error))

    def _written(self, write: Callable[[], list[Frame]]) -> bytes:
        """What is sent while the upstream is silent."""
        try:
            frames = write()
        except Exception:
            frames = self._fault("Dragoman could not write the reply.")
        return self._leaving(frames)

    def _leaving(self, frames: list[Frame]) -> bytes:
        if self.reply.writer.ended and not self._over:
            self._end()
            if self._keeps:
                at = len(frames) - self.reply.writer.events.last
                self._held, frames = joined(frames[at:]), frames[:at]
        elif self._pipeline.broken:
            self._over = True
        return frames[0].raw if len(frames) == 1 else joined(frames)

    def _end(self) -> None:
        self._over = True
        self._pipeline.read.ended(_without(self.reply.response, self._prior))
        self._ends_at = time.monotonic() + UPSTREAM_END

    def _fault(self, message: str) -> list[Frame]:
        """The end of the reply after a fault of ours."""
        logger.exception("%s: the bridge failed", self._name)
        return self._failed(message)

    def _failed(self, message: str) -> list[Frame]:
        try:
            return self._pipeline.fail(message)
        except Exception:
            logger.exception("%s: not even the failure could be sent", self._name)
            return self.reply.drain()
