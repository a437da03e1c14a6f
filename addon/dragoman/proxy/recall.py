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
        self._running: dict[tuple[str, str], _Running] = {}

    def began(self, flow: http.HTTPFlow, owner: str, stream: BridgeStream) -> None:
        """The reply to `flow` runs, and is somebody's."""
        key = owner, str(stream.response["id"])
        self._running[key] = _Running(weakref.ref(flow), stream)

    def ended(self, owner: str, stream: BridgeStream) -> None:
        """The reply does not run any more."""
        self._running.pop((owner, str(stream.response["id"])), None)

    async def answer(self, request: http.Request, address: Address) -> http.Response:
        """The answer to a request that generates nothing."""
        try:
            owner = await self._archive.owner(request)
            return await self._answer(request, address, owner)
        except (Refused, StoreError) as error:
            return refusal(error)
        except Exception:
            logger.exception("A request about a kept response could not be answered")
            return error_response(500, "Dragoman could not answer this.", type="server_error")

    async def _answer(self, request: http.Request, address: Address, owner: str) -> http.Response:
        running = self._running.get((owner, address.response_id))
        if request.method == "DELETE":
            if not await self._archive.delete(owner, address.response_id):
                raise not_found(address.response_id, previous=False)
            return _json(answers.deleted(address.response_id))
        if address.action == "cancel" and running is not None:
            return _json(dumps(_cancelled(running)))
        if running is not None and not address.action and "stream" not in request.query:
            return _json(dumps(running.stream.response))
        chain = await self._archive.chain(owner, address.response_id)
        if address.action == "input_items":
            return _json(answers.input_items(chain, dict(request.query)))
        if not address.action and request.query.get("stream") == "true":
            return _stream(answers.events_after(chain[-1], _starting_after(request)))
        return _json(dumps(chain[-1].response))


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
