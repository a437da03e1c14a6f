"""Answers about kept responses, and about those that still run, without asking any upstream."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from mitmproxy import http

from ...bridge.reply.converter import ReplyConverter
from ...stored import endpoint_bodies
from ...stored.continuation import in_progress, not_found
from ...stored.store import StoreError
from ...wire.errors import Refused
from ...wire.json_codec import Json, dumps
from ..error_responses import error_response, refusal
from ..http_headers import set_event_stream
from ..response_owner import asker_of
from ..routes import Route, query_of
from .async_store import AsyncStore

logger = logging.getLogger(__name__)

_CANNOT_CANCEL = Refused("Cannot cancel a synchronous response.", param="response_id")
"""OpenAI's words for a response that is not of the background, which is refused."""


class StoredEndpoints:
    def __init__(
        self, store: AsyncStore, running: Callable[[bytes, str], ReplyConverter | None]
    ) -> None:
        """`running` finds a response that streams by its owner and its id: it can be read as far as
        it is."""
        self._store = store
        self._running = running

    def runs(self, request: http.Request, address: Route) -> bool:
        """Whether a request is about a response that runs here, and is the asker's."""
        response_id = address.response_id
        return bool(response_id and self._running(asker_of(request), response_id))

    async def has(self, request: http.Request, response_id: str) -> bool:
        """Whether this response runs, or is kept, for who sends the request."""
        asker = asker_of(request)
        if self._running(asker, response_id) is not None:
            return True
        try:
            return await self._store.has(asker, response_id)
        except (Refused, StoreError) as error:
            logger.error("Stored responses cannot be had: %s", error)
            return False

    async def answer(self, flow: http.HTTPFlow, address: Route) -> http.Response:
        """The answer to a request that generates nothing."""
        try:
            return await self._answer(flow.request, address)
        except (Refused, StoreError) as error:
            return refusal(error)
        except Exception:
            logger.exception("A request about a kept response could not be answered")
            return error_response(500, "Dragoman could not answer this.")

    async def _answer(self, request: http.Request, address: Route) -> http.Response:
        asker, response_id = asker_of(request), address.response_id
        streams = query_of(request).get("stream") == "true"
        plain = request.method == "GET" and not address.action and not streams
        if (running := self._running(asker, response_id)) is not None:
            if address.action == "cancel":
                raise _CANNOT_CANCEL
            if not plain:
                raise in_progress(response_id)
            return _json(running.response)
        if request.method == "DELETE":
            if not await self._store.delete(asker, response_id):
                raise not_found(response_id)
            return _json(endpoint_bodies.deleted(response_id))
        kept = await self._store.one(asker, response_id)
        if address.action == "cancel":
            raise _CANNOT_CANCEL
        if address.action == "input_items":
            chain = [each async for each in self._store.chain(asker, kept.ancestors)]
            return _json(endpoint_bodies.input_items([*chain, kept], dict(query_of(request))))
        if streams:
            again = endpoint_bodies.events_after(kept, _starting_after(request))
            response = http.Response.make(200, again)
            set_event_stream(response)
            return response
        return _json(kept.response)


def _starting_after(request: http.Request) -> int:
    text = query_of(request).get("starting_after", "-1")
    if not re.fullmatch(r"-1|[0-9]{1,9}", text):
        raise Refused("'starting_after' must be a sequence number.", param="starting_after")
    return int(text)


def _json(body: Json) -> http.Response:
    return http.Response.make(200, dumps(body), {"content-type": "application/json"})
