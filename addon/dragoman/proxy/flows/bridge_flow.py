"""What happens to a flow that is bridged, from its request to the end of its reply."""

from __future__ import annotations

import atexit
import logging
from dataclasses import replace
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...notes import Evidence
from ...stored.save_context import SaveContext
from ...stored.store import NotOpened, StoreError
from ...stored.stored_response import StoredResponse
from ...wire.errors import Refused
from ...wire.json_codec import NotJson
from ...wire.slices import emptied
from ..content_decoding import is_unreadable
from ..http_headers import (
    EVENT_STREAM,
    encoding_of,
    media_type,
    set_event_stream,
    set_stream_framing,
)
from ..observe.monitor import FlowMonitor, name_of
from ..options import Settings
from ..routes import ResponsesRoute
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from ..stored.endpoints import StoredEndpoints
from ..stored.running_responses import Running
from .bridge_stream import BridgeStream
from .bridge_turn import BridgedTurn, give_whole, send_as_chat

logger = logging.getLogger(__name__)

# Of the module, so that a script that is loaded anew finds what still runs, and a store
# that is open.  It is closed when the process ends, after the last stream.
_archive = AsyncStore()
_running = Running()
atexit.register(_archive.close)
_bridged: WeakKeyDictionary[http.HTTPFlow, BridgedTurn] = WeakKeyDictionary()


class BridgeFlow:
    """Bridges flows, and keeps their responses in `archive`."""

    def __init__(self, witness: FlowMonitor, *, holds: bool) -> None:
        """`holds`: whether the end of a stream can be held until its response is kept."""
        self.archive = _archive
        self.recall = StoredEndpoints(_archive, _running)
        self._witness = witness
        self._holds = holds

    def __contains__(self, flow: http.HTTPFlow) -> bool:
        """Whether `flow` was converted, and its reply has not ended."""
        return flow in _bridged

    async def convert(
        self,
        flow: http.HTTPFlow,
        address: ResponsesRoute,
        settings: Settings,
        dialect: str,
        why: str,
    ) -> None:
        """Send the request as a chat completions request, or have it refused.  `why` says in
        words why it is bridged."""
        evidence = Evidence()
        evidence.note("bridged:", why)
        try:
            bridged = await send_as_chat(
                flow,
                address,
                settings,
                self.archive,
                evidence,
                dialect=dialect,
                bridged=_bridged,
                running=_running,
            )
        except ClientLeft:
            logger.info("%s: the client has left before its request was read", name_of(flow))
            if flow.killable:
                flow.kill()
            return
        if bridged is None:
            self._witness.open(flow, "bridge", evidence).answered_here = True
            return
        _bridged[flow] = bridged
        evidence.request_left()
        asked = bridged.client_request
        model = bridged.turn.model
        self._witness.open(flow, "bridge", evidence, model=model, client_request=asked)

    def begin_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's headers have come: stream what can be streamed."""
        bridged = _bridged[flow]
        response.stream = False
        test = bridged.settings.repair
        bridged = replace(bridged, repair=test is None or test(flow))
        _bridged[flow] = bridged
        record = self._witness.of(flow, "bridge")
        record.upstream_status = response.status_code
        dialect = bridged.dialect.name
        record.options = bridged.settings.in_words(repair=bridged.repair, dialect=dialect)
        if bridged.turn.stream and 200 <= response.status_code < 300:
            self._stream(flow, response, bridged)

    def _stream(self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        encoding = encoding_of(response)
        if is_unreadable(encoding):
            logger.warning("%s: cannot decode %r on the way", name_of(flow), encoding)
            return
        try:
            record = self._witness.of(flow, "bridge")
            labelled = media_type(response) == EVENT_STREAM
            stream = bridged.stream(
                encoding, name_of(flow), record, labelled=labelled, holds=self._holds
            )
        except Exception:  # the reply is then converted when it is whole, or refused
            logger.exception("%s: the bridge failed", name_of(flow))
            return
        response.stream = stream
        if bridged.keeping is not None:
            _running.began(flow, bridged.keeping.asker, stream)
        self._witness.streams(flow, record)
        set_event_stream(response)
        set_stream_framing(flow.request, response)

    async def keep_stream(self, flow: http.HTTPFlow) -> None:
        """Keep the response that is about to end."""
        stream = flow.response.stream if flow.response else None
        bridged = _bridged.get(flow)
        if bridged is not None and bridged.keeping is not None and isinstance(stream, BridgeStream):
            kept = bridged.keeping.kept(stream.response, stream.cuts)
            await self._keep(flow, bridged.keeping, kept)
            _running.ended(flow)  # before the client hears of its end, and goes on from it

    async def end_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's reply has ended: convert and keep what was not streamed."""
        bridged = _bridged[flow]
        if not response.stream:
            await self._give_whole(flow, response, bridged)
        elif not self._holds:
            await self.keep_stream(flow)
        self.forget(flow)

    async def _give_whole(
        self, flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn
    ) -> None:
        reply, kept = bridged.reply(), None
        try:
            record = self._witness.of(flow, "bridge")
            kept = await give_whole(bridged, reply, response, flow, record)
        except ClientLeft:
            logger.info("%s: the client has left before its reply was read", name_of(flow))
        if bridged.keeping is not None:
            await self._keep(flow, bridged.keeping, kept)
        if kept is not None:
            await in_slices(emptied(kept.response["output"]), None)
        await in_slices(reply.letting_go(), None)

    async def _keep(
        self, flow: http.HTTPFlow, keeping: SaveContext, kept: StoredResponse | None
    ) -> None:
        try:
            if kept is not None:
                await self.archive.keep(keeping.asker, kept)
        except NotOpened as error:
            logger.debug("%s: this response is not kept: %s", name_of(flow), error)
        except (StoreError, Refused, NotJson) as error:
            logger.error("%s: this response is not kept: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: this response is not kept", name_of(flow))

    def forget(self, flow: http.HTTPFlow) -> None:
        """The flow is not bridged any more, if it was."""
        _running.ended(flow)
        _bridged.pop(flow, None)
