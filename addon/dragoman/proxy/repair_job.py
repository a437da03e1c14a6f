"""What happens to a flow whose reply is to be repaired, and to one that only passes."""

from __future__ import annotations

import logging
import time

from mitmproxy import http

from ..jsonio import NotJson, loads
from ..kimi.chunks import ChunkRepair
from ..kimi.headers import Tools
from ..kimi.message import repair_whole
from .addresses import is_chat
from .decoding import MAX_REQUEST, DecodingError, decode_whole, decoder_for, is_unreadable
from .headers import encoding_of, media_type, set_stream_framing
from .options import Settings
from .record import record_of
from .repair_stream import RepairStream
from .stream import WatchedStream
from .witness import Witness, name_of

logger = logging.getLogger(__name__)


class RepairJob:
    """Repairs replies; what cannot be repaired passes as it comes."""

    def __init__(self, witness: Witness, *, breaks: bool) -> None:
        """`breaks`: whether the reply to a client can be broken off."""
        self._witness = witness
        self._breaks = breaks

    def stream(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> bool:
        """Have the reply repaired while it streams; False if it has to pass as it comes."""
        encoding = encoding_of(response)
        try:
            record = self._witness.of(flow, "repair")
            if is_unreadable(encoding):
                logger.warning("%s: cannot decode %r; not repaired", name_of(flow), encoding)
                return False
            asked = _asked(flow)
            wants_stream = isinstance(asked, dict) and asked.get("stream") is True
            tools, policy = Tools.of_request(asked), settings.policy
            response.stream = RepairStream(
                ChunkRepair(tools, policy, record.evidence, int(time.time())),
                decoder_for(encoding),
                name=name_of(flow),
                record=record,
                heartbeat=settings.heartbeat if wants_stream else 0,
                has_end=is_chat(flow.request),
                # How a body ends says nothing to a client of HTTP/1.0.
                breaks=self._breaks and flow.request.http_version != "HTTP/1.0",
            )
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
            return False
        record.options = settings.in_words(repair=True, dialect="")
        self._witness.streams(flow, record)
        set_stream_framing(flow.request, response)
        return True

    def pass_on(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have an event stream pass as it comes; recorded, if it is an LLM's."""
        record = record_of(flow)
        if record is not None and not callable(response.stream):
            decoder = decoder_for(encoding_of(response))
            response.stream = WatchedStream(record, decoder, name_of(flow))
            self._witness.streams(flow, record)
        response.stream = response.stream or True

    def whole(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> None:
        """Repair a reply that was received whole."""
        if media_type(response) not in ("application/json", "text/event-stream"):
            return
        record = self._witness.of(flow, "repair")
        record.options = settings.in_words(repair=True, dialect="")
        try:
            body = decode_whole(response.raw_content or b"", encoding_of(response))
            tools = Tools.of_request(_asked(flow))
            now = int(time.time())
            repaired = repair_whole(body, tools, settings.policy, record.evidence, now)
        except DecodingError as error:
            logger.warning("%s: not repaired: the body cannot be read: %s", name_of(flow), error)
            return
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", name_of(flow))
            return
        if repaired != body:
            record.came(body)
            response.headers.pop("content-encoding", None)
            response.content = repaired


def _asked(flow: http.HTTPFlow) -> object:
    """The JSON value of the request's body; None as far as it cannot be read."""
    request = flow.request
    try:
        return loads(
            decode_whole(request.raw_content or b"null", encoding_of(request), MAX_REQUEST)
        )
    except (NotJson, DecodingError):
        return None
