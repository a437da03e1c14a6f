"""A bridged flow, from its request to the end of its reply."""

from __future__ import annotations

import atexit
import logging
from dataclasses import replace
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...bridge.reply.converter import ReplyConverter
from ...bridge.reply.pipeline import Answer, answering, failed
from ...inspect.outcome import REFUSED, Ending, Outcome
from ...notes import Evidence
from ...stored.save_context import SaveContext
from ...stored.store import NotOpened, StoreError
from ...stored.stored_response import StoredResponse
from ...wire.errors import Refused
from ...wire.json_codec import NotJson
from ...wire.slices import Slices, emptied
from ..content_decoding import DecodingError, decoder_for, is_unreadable
from ..error_responses import error_response, refusal
from ..http_headers import (
    EVENT_STREAM,
    encoding_of,
    media_type,
    reading_body,
    set_event_stream,
    set_stream_framing,
)
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..routes import ResponsesRoute, is_replayed
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from ..stored.endpoints import Running, StoredEndpoints
from .bridge_stream import BridgeStream
from .bridge_turn import BridgedTurn, replaying, send_as_chat

logger = logging.getLogger(__name__)

MISSED_HEADER = "x-dragoman"
"""Of a bridged reply: what the client asked for and did not get."""
MAX_MISSED = 2000
"""Characters of its value: clients take 8 kB of all headers at least."""
_MISSED = ("dropped ", "downgraded ", "changed ", "ignored ", "lost ")
"""How notes begin that say so."""

# The state of `BridgeFlow`. A script that is loaded anew makes another one, which takes over what
# still runs, and the open store: that is closed when the process ends, after the last stream.
_STORE = AsyncStore()
atexit.register(_STORE.close)
_RUNNING = Running()
_BRIDGED: WeakKeyDictionary[http.HTTPFlow, BridgedTurn] = WeakKeyDictionary()


class BridgeFlow:
    def __init__(self, monitor: FlowMonitor, *, holds: bool) -> None:
        """`holds`: whether the end of a stream can be held until its response is kept."""
        self.store, self._running, self._bridged = _STORE, _RUNNING, _BRIDGED
        self.endpoints = StoredEndpoints(self.store, self._running)
        self._monitor = monitor
        self._holds = holds

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        """Whether `flow` was converted, and its reply has not ended."""
        return flow in self._bridged

    async def convert(
        self,
        flow: http.HTTPFlow,
        address: ResponsesRoute,
        settings: Settings,
        dialect: str,
        why: str,
    ) -> None:
        """Send the request as a chat completions request, or refuse it.  `why` says in words
        why it is bridged."""
        evidence = Evidence()
        evidence.note("bridged:", why)
        try:
            bridged = await send_as_chat(
                flow,
                address,
                settings,
                self.store,
                evidence,
                dialect=dialect,
                bridged=self._bridged,
                running=self._running,
            )
        except ClientLeft:
            _end_unanswered(flow, "its request was read")
            return
        except (NotJson, Refused, StoreError) as error:
            flow.response, reason = refusal(error), str(error)
        except Exception:
            logger.exception("%s: the request could not be converted", name_of(flow))
            reason, message = "it could not be converted", "Dragoman could not convert the request."
            flow.response = error_response(500, message)
        else:
            self._begin(flow, bridged)
            return
        evidence.note(REFUSED, reason)
        evidence.request_left()
        self._monitor.open(flow, "bridge", evidence).answered_here = True

    async def answer(self, flow: http.HTTPFlow, address: ResponsesRoute) -> None:
        """Answer from the stored responses."""
        try:
            flow.response = await self.endpoints.answer(flow, address)
        except ClientLeft:
            _end_unanswered(flow, "its answer was there")
            return
        ending: Ending = "answered" if flow.response.status_code < 400 else "failed"
        outcome = Outcome(ending, "answered from the stored responses")
        flow.comment = flow.comment or str(outcome)

    async def convert_again(
        self, flow: http.HTTPFlow, client: ClientRequest, settings: Settings, dialect: str
    ) -> bool:
        """Have the reply to a replayed flow, whose request was converted when it first ran,
        converted again; False if that is impossible. `dialect`: of the replay's own header."""
        evidence = Evidence()
        evidence.note("bridged:", "it was when it ran first")
        client = replace(client, dialect=dialect or client.dialect)
        try:
            bridged = await replaying(flow, client, settings, evidence)
        except (ClientLeft, NotJson, Refused) as error:
            logger.warning("%s: replayed as a chat client's: %s", name_of(flow), error)
            return False
        self._begin(flow, bridged)
        return True

    def _begin(self, flow: http.HTTPFlow, bridged: BridgedTurn) -> None:
        self._bridged[flow] = bridged
        evidence, model = bridged.evidence, bridged.turn.model
        evidence.request_left()
        client = bridged.client_request
        record = self._monitor.open(flow, "bridge", evidence, model=model, client_request=client)
        record.tools = bridged.tools

    def begin_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's headers have come: stream the reply if it can be streamed."""
        bridged = self._bridged[flow]
        response.stream = False
        test = bridged.settings.repair
        bridged = replace(bridged, repair=test is None or test(flow))
        self._bridged[flow] = bridged
        record = self._monitor.of(flow, "bridge")
        record.upstream_status = response.status_code
        dialect = bridged.dialect.name
        record.options = bridged.settings.in_words(repair=bridged.repair, dialect=dialect)
        if missed := _missed(bridged.evidence):
            response.headers[MISSED_HEADER] = missed
        if bridged.turn.stream and 200 <= response.status_code < 300:
            self._stream(flow, response, bridged)

    def _stream(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        encoding = encoding_of(response)
        if is_unreadable(encoding):
            logger.warning("%s: cannot decode %r on the way", name_of(flow), encoding)
            return
        try:
            record = self._monitor.of(flow, "bridge")
            holds = self._holds and not is_replayed(flow)
            stream = BridgeStream(
                bridged.reply(),
                bridged.chunk_repair(),
                decoder_for(encoding),
                name=name_of(flow),
                record=record,
                heartbeat=bridged.settings.heartbeat,
                labelled=media_type(response) == EVENT_STREAM,
                keeps=holds and bridged.keeping is not None,
                waits=holds,
            )
        except Exception:  # the reply is then converted when it is whole, or refused
            logger.exception("%s: the bridge failed", name_of(flow))
            return
        response.stream = stream
        if bridged.keeping is not None:
            self._running.began(flow, bridged.keeping.asker, stream)
        self._monitor.streams(flow)
        set_event_stream(response)
        set_stream_framing(flow.request, response)

    async def keep_stream(self, flow: http.HTTPFlow) -> None:
        """Keep the response that is about to end."""
        stream = flow.response.stream if flow.response else None
        bridged = self._bridged.get(flow)
        if bridged is not None and bridged.keeping is not None and isinstance(stream, BridgeStream):
            await self._keep(flow, bridged.keeping, stream.reply, streamed=True)
            self._running.ended(flow)  # before the client receives its end, and continues it

    async def end_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's reply has ended: convert and keep it if it was not streamed."""
        bridged = self._bridged[flow]
        if not response.stream:
            await self._give_whole(flow, response, bridged)
        elif not self._holds:
            await self.keep_stream(flow)
        if isinstance(response.stream, BridgeStream):
            await in_slices(response.stream.reply.freeing(), None)
        self.forget(flow)

    async def _give_whole(
        self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn
    ) -> None:
        """Convert a reply that was received whole, whatever the client asked for."""
        reply, record = bridged.reply(), self._monitor.of(flow, "bridge")
        try:
            answer = await in_slices(_answer(bridged, reply, response, record), flow)
        except ClientLeft:
            logger.info("%s: the client has left before its reply was read", name_of(flow))
            await in_slices(reply.freeing(), None)
            return
        except DecodingError as error:
            logger.error("%s: the upstream's body is unusable: %s", name_of(flow), error)
            answer = failed(f"The upstream's body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", name_of(flow))
            answer = failed("Dragoman could not convert the upstream's reply.")
        _send(answer, response)
        if bridged.keeping is not None and reply.writer.ended and answer.status < 400:
            kept = await self._keep(flow, bridged.keeping, reply, streamed=answer.stream)
            if kept is not None:
                await in_slices(emptied(kept.response["output"]), None)
        await in_slices(reply.freeing(), None)

    async def _keep(
        self, flow: http.HTTPFlow, keeping: SaveContext, reply: ReplyConverter, *, streamed: bool
    ) -> StoredResponse | None:
        cuts = await in_slices(reply.writer.writing_cuts(), None) if streamed else b""
        kept = keeping.kept(reply.response, cuts)
        try:
            if kept is not None:
                await self.store.keep(keeping.asker, kept)
        except NotOpened as error:
            logger.debug("%s: this response is not kept: %s", name_of(flow), error)
        except (StoreError, Refused, NotJson) as error:
            logger.error("%s: this response is not kept: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: this response is not kept", name_of(flow))
        return kept

    def forget(self, flow: http.HTTPFlow) -> None:
        """The flow is no longer bridged, if it was."""
        self._running.ended(flow)
        self._bridged.pop(flow, None)


def _end_unanswered(flow: http.HTTPFlow, what: str) -> None:
    logger.info("%s: the client has left before %s", name_of(flow), what)
    if flow.killable:
        flow.kill()


def _answer(
    bridged: BridgedTurn, reply: ReplyConverter, response: http.Response, record: FlowRecorder
) -> Slices[Answer]:
    """Raises `DecodingError`."""
    body = yield from reading_body(response)
    record.reply.add_received(body)
    return (
        yield from answering(
            reply,
            body,
            status=response.status_code,
            stream=bridged.turn.stream,
            retry_after=response.headers.get("retry-after", ""),
            repair=bridged.chunk_repair(),
        )
    )


def _send(answer: Answer, response: http.Response) -> None:
    response.status_code = answer.status
    if answer.retry_after:
        response.headers["retry-after"] = answer.retry_after
    for header in ("content-encoding", "location"):
        response.headers.pop(header, None)
    if answer.stream:
        set_event_stream(response)
    else:
        response.headers["content-type"] = "application/json"
    response.content = answer.body


def _missed(evidence: Evidence) -> str:
    """What of the request could not be had, as the value of a header."""
    lines = (line for line in evidence.request_lines() if line.startswith(_MISSED))
    text = "; ".join(lines).replace("×", "x")
    return text.encode("ascii", "replace").decode()[:MAX_MISSED]
