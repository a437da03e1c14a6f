"""A bridged flow, from its request to the end of its reply."""

from __future__ import annotations

import atexit
import logging
from dataclasses import replace

from mitmproxy import http
from mitmproxy.net.http import status_codes

from ...bridge.reply.converter import ReplyConverter
from ...bridge.reply.pipeline import Answer, answer, failed
from ...inspect.outcome import REFUSED, Ending, Outcome
from ...notes import Evidence
from ...stored.store import NotOpened, StoreError
from ...wire.errors import Refused
from ...wire.json_codec import NotJson
from ..content_decoding import DecodingError, is_unreadable
from ..decision import Decision
from ..error_responses import error_response, refusal
from ..http_headers import (
    body_in_steps,
    encoding_of,
    set_event_stream,
    set_stream_framing,
)
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..routes import Route
from ..run_slices import ClientLeft, Slices, in_slices
from ..stored.async_store import AsyncStore
from ..stored.endpoints import StoredEndpoints
from .bridge_stream import BridgeStream
from .bridge_turn import BridgedTurn, BridgedTurns, replaying, send_as_chat
from .live_stream import ReplyContext

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
_BRIDGED = BridgedTurns()


class BridgeFlow:
    def __init__(self, monitor: FlowMonitor, *, has_layer: bool) -> None:
        """`has_layer`: see `ReplyContext.of`. Only with it a response is kept before its end."""
        self.store, self._bridged = _STORE, _BRIDGED
        self.endpoints = StoredEndpoints(self.store, self._bridged.running)
        self._monitor = monitor
        self._has_layer = has_layer

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        """Whether `flow` was converted, and its reply has not ended."""
        return flow in self._bridged

    async def convert(self, flow: http.HTTPFlow, decision: Decision, settings: Settings) -> None:
        """Send the request as a chat completions request, or refuse it."""
        evidence = Evidence()
        evidence.note("bridged:", decision.why)
        try:
            bridged = await send_as_chat(
                flow, decision, settings, self.store, evidence, bridged=self._bridged
            )
        except ClientLeft:
            logger.info("%s: the client has left before its request was read", name_of(flow))
            if flow.killable:
                flow.kill()
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

    async def answer(self, flow: http.HTTPFlow, address: Route) -> None:
        """Answer from the stored responses."""
        flow.response = await self.endpoints.answer(flow, address)
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
        self._monitor.take_stream(flow, response)
        test = bridged.settings.repair
        bridged = replace(bridged, repair=test is None or test(flow))
        self._bridged[flow] = bridged
        record = self._monitor.of(flow, "bridge")
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
            context = ReplyContext.of(
                flow,
                response,
                self._monitor.of(flow, "bridge"),
                name_of(flow),
                heartbeat=bridged.settings.heartbeat,
                has_layer=self._has_layer,
            )
            keeps = bridged.keeping is not None
            stream = BridgeStream(bridged.reply(), bridged.chunk_repair(), context, keeps=keeps)
        except Exception:  # the reply is then converted when it is whole, or refused
            logger.exception("%s: the bridge failed", name_of(flow))
            return
        response.stream = stream
        if keeps:
            self._bridged[flow] = replace(bridged, stream=stream)
        self._monitor.streams(flow)
        set_event_stream(response)
        set_stream_framing(flow.request, response)

    async def keep_stream(self, flow: http.HTTPFlow) -> None:
        """Keep the response that is about to end."""
        stream = flow.response.stream if flow.response else None
        bridged = self._bridged.get(flow)
        if bridged is not None and bridged.keeping is not None and isinstance(stream, BridgeStream):
            await self._keep(flow, bridged, stream.reply, streamed=True)
            # Before the client receives its end, and continues it.
            self._bridged[flow] = replace(bridged, stream=None)

    async def end_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's reply has ended: convert and keep it if it was not streamed."""
        bridged = self._bridged[flow]
        if not response.stream:
            await self._give_whole(flow, response, bridged)
        elif not self._has_layer:
            await self.keep_stream(flow)
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
            return
        except DecodingError as error:
            logger.error("%s: the upstream's body is unusable: %s", name_of(flow), error)
            answer = failed(f"The upstream's body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", name_of(flow))
            answer = failed("Dragoman could not convert the upstream's reply.")
        _send(answer, response)
        if bridged.keeping is not None and reply.writer.ended and answer.status < 400:
            await self._keep(flow, bridged, reply, streamed=answer.stream)

    async def _keep(
        self, flow: http.HTTPFlow, bridged: BridgedTurn, reply: ReplyConverter, *, streamed: bool
    ) -> None:
        keeping = bridged.keeping
        assert keeping is not None
        dialect = bridged.dialect.name if streamed else ""
        try:
            kept = keeping.kept(reply.response, dialect, reply.writer.events.number)
            if kept is not None:
                await self.store.keep(keeping.asker, kept, keeping.used)
        except NotOpened as error:
            logger.debug("%s: this response is not kept: %s", name_of(flow), error)
        except (StoreError, Refused, NotJson) as error:
            logger.error("%s: this response is not kept: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: this response is not kept", name_of(flow))

    def forget(self, flow: http.HTTPFlow) -> None:
        """The flow is no longer bridged, if it was."""
        self._bridged.pop(flow, None)


def _answer(
    bridged: BridgedTurn, reply: ReplyConverter, response: http.Response, record: FlowRecorder
) -> Slices[Answer]:
    """Raises `DecodingError`."""
    body = yield from body_in_steps(response)
    record.reply.add_received(body)
    return answer(
        reply,
        body,
        status=response.status_code,
        stream=bridged.turn.stream,
        retry_after=response.headers.get("retry-after", ""),
        repair=bridged.chunk_repair(),
    )


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


def _missed(evidence: Evidence) -> str:
    """What of the request could not be had, as the value of a header."""
    lines = (line for line in evidence.request_lines() if line.startswith(_MISSED))
    text = "; ".join(lines).replace("×", "x")
    return text.encode("ascii", "replace").decode()[:MAX_MISSED]
