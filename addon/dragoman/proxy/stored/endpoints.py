"""Answers about kept responses, and about those that still run, without asking any upstream."""

from __future__ import annotations

import logging
import re
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...stored import endpoint_bodies
from ...stored.continuation import in_progress, not_found
from ...stored.store import StoreError
from ...wire.errors import Refused
from ...wire.json_slices import writing
from ..error_responses import error_response, refusal
from ..flows.bridge_stream import BridgeStream
from ..http_headers import set_event_stream
from ..response_owner import asker_of
from ..routes import ResponsesRoute
from ..run_slices import ClientLeft, in_slices
from .async_store import AsyncStore

logger = logging.getLogger(__name__)

try:
    from ..mitm.http_layer import wake
except (ImportError, AttributeError):
    wake = None  # type: ignore[assignment]  # the reply then ends with what comes next


class Running:
    """The responses that are being streamed: each can be read as far as it is, and cancelled."""

    def __init__(self) -> None:
        self._streams: WeakKeyDictionary[http.HTTPFlow, tuple[bytes, BridgeStream]]
        self._streams = WeakKeyDictionary()

    def began(self, flow: http.HTTPFlow, asker: bytes, stream: BridgeStream) -> None:
        self._streams[flow] = asker, stream

    def ended(self, flow: http.HTTPFlow) -> None:
        self._streams.pop(flow, None)

    def find(self, asker: bytes, response_id: str) -> tuple[http.HTTPFlow, BridgeStream] | None:
        """None if it does not run, or has another owner."""
        for flow, (owner, stream) in self._streams.items():
            if owner == asker and stream.reply.response["id"] == response_id:
                return flow, stream
        return None


class StoredEndpoints:
    def __init__(self, store: AsyncStore, running: Running) -> None:
        self._store = store
        self._running = running

    def runs(self, request: http.Request, address: ResponsesRoute) -> bool:
        """Whether a request is about a response that runs here, and is the asker's."""
        response_id = address.response_id
        return bool(response_id and self._running.find(asker_of(request), response_id))

    async def has(self, request: http.Request, response_id: str) -> bool:
        """Whether this response runs, or is kept, for who sends the request."""
        asker = asker_of(request)
        if self._running.find(asker, response_id) is not None:
            return True
        try:
            (kept,) = await self._store.get(asker, [response_id])
        except (Refused, StoreError) as error:
            logger.error("Stored responses cannot be had: %s", error)
            return False
        return kept is not None

    async def answer(self, flow: http.HTTPFlow, address: ResponsesRoute) -> http.Response:
        """The answer to a request that generates nothing.  Raises `ClientLeft`."""
        try:
            return await self._answer(flow, address)
        except ClientLeft:
            raise
        except (Refused, StoreError) as error:
            return refusal(error)
        except Exception:
            logger.exception("A request about a kept response could not be answered")
            return error_response(500, "Dragoman could not answer this.")

    async def _answer(self, flow: http.HTTPFlow, address: ResponsesRoute) -> http.Response:
        request = flow.request
        asker, response_id = asker_of(request), address.response_id
        streams = request.query.get("stream") == "true"
        plain = request.method == "GET" and not address.action and not streams
        if (running := self._running.find(asker, response_id)) is not None:
            stream = running[1]
            if address.action == "cancel":
                stream.cancel()
                if wake is not None:
                    wake(*running)
            elif not plain:
                raise in_progress(response_id)
            return _json(await in_slices(writing(stream.reply.response), flow))
        if request.method == "DELETE":
            if not await self._store.delete(asker, response_id):
                raise not_found(response_id)
            return _json(endpoint_bodies.deleted(response_id))
        if address.action == "input_items":
            chain = await self._store.chain(asker, response_id)
            work = endpoint_bodies.input_items(chain, dict(request.query))
            return _json(await in_slices(work, flow))
        kept = await self._store.one(asker, response_id)
        if address.action == "cancel" and kept.response["status"] != "cancelled":
            raise Refused("Cannot cancel a synchronous response.", param="response_id")
        if streams and not address.action:
            again = endpoint_bodies.events_after(kept, _starting_after(request))
            response = http.Response.make(200, await in_slices(again, flow))
            set_event_stream(response)
            return response
        return _json(await in_slices(writing(kept.response), flow))


def _starting_after(request: http.Request) -> int:
    text = request.query.get("starting_after", "-1")
    if not re.fullmatch(r"-1|[0-9]{1,9}", text):
        raise Refused("'starting_after' must be a sequence number.", param="starting_after")
    return int(text)


def _json(body: bytes) -> http.Response:
    return http.Response.make(200, body, {"content-type": "application/json"})
