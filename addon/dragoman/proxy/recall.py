"""What is answered about kept responses, without asking any upstream.

Responses that still run are known here too: they can be read as far as they are, and
cancelled.
"""

from __future__ import annotations

import logging
import re
import weakref
from dataclasses import dataclass

from mitmproxy import http

from ..bridge.errors import Refused
from ..jsonio import dumps
from ..state import answers
from ..state.going_on import not_found
from ..state.kept import Json
from ..state.store import StoreError
from .addresses import Address
from .archive import Archive
from .bridge_stream import BridgeStream
from .credentials import asker_of
from .refusals import error_response, refusal

logger = logging.getLogger(__name__)

try:
    from .layer import wake
except (ImportError, AttributeError):
    wake = None  # type: ignore[assignment]  # the reply then ends with what comes next


@dataclass(frozen=True, slots=True)
class _Running:
    flow: weakref.ref[http.HTTPFlow]
    stream: BridgeStream


class Recall:
    """Answers for `Archive`, and for what runs."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._running: dict[tuple[bytes, str], _Running] = {}

    def began(self, flow: http.HTTPFlow, asker: bytes, stream: BridgeStream) -> None:
        """The reply to `flow` runs, and is somebody's."""
        key = asker, str(stream.response["id"])
        self._running[key] = _Running(weakref.ref(flow), stream)

    def ended(self, flow: http.HTTPFlow) -> None:
        """The reply to `flow` does not run any more."""
        over = [key for key, running in self._running.items() if running.flow() in (None, flow)]
        for key in over:
            del self._running[key]

    async def has(self, request: http.Request, response_id: str) -> bool:
        """Whether this response runs, or is kept, for who sends the request."""
        asker = asker_of(request)
        if (asker, response_id) in self._running:
            return True
        try:
            (kept,) = await self._archive.get(asker, [response_id])
        except (Refused, StoreError) as error:
            logger.error("Stored responses cannot be had: %s", error)
            return False
        return kept is not None

    async def answer(self, request: http.Request, address: Address) -> http.Response:
        """The answer to a request that generates nothing."""
        try:
            return await self._answer(request, address)
        except (Refused, StoreError) as error:
            return refusal(error)
        except Exception:
            logger.exception("A request about a kept response could not be answered")
            return error_response(500, "Dragoman could not answer this.", type="server_error")

    async def _answer(self, request: http.Request, address: Address) -> http.Response:
        asker, response_id = asker_of(request), address.response_id
        streams = request.query.get("stream") == "true"
        plain = request.method == "GET" and not address.action and not streams
        if (running := self._running.get((asker, response_id))) is not None:
            if address.action != "cancel" and not plain:
                raise Refused("This response still runs: cancel it, or wait.", status=409)
            return _json(dumps(running.stream.response if plain else _cancelled(running)))
        if request.method == "DELETE":
            if not await self._archive.delete(asker, response_id):
                raise not_found(response_id, previous=False)
            return _json(answers.deleted(response_id))
        if address.action == "input_items":
            chain = await self._archive.chain(asker, response_id)
            return _json(answers.input_items(chain, dict(request.query)))
        kept = await self._archive.one(asker, response_id)
        if streams and not address.action:
            return _stream(answers.events_after(kept, _starting_after(request)))
        return _json(dumps(kept.response))


def _cancelled(running: _Running) -> Json:
    running.stream.cancel()
    flow = running.flow()
    if wake is not None and flow is not None:
        wake(flow, running.stream)
    return running.stream.response


def _starting_after(request: http.Request) -> int:
    text = request.query.get("starting_after", "-1")
    if not re.fullmatch(r"-1|[0-9]{1,9}", text):
        raise Refused("'starting_after' must be a sequence number.", param="starting_after")
    return int(text)


def _json(body: bytes) -> http.Response:
    return http.Response.make(200, body, {"content-type": "application/json"})


def _stream(body: bytes) -> http.Response:
    return http.Response.make(200, body, {"content-type": "text/event-stream; charset=utf-8"})
