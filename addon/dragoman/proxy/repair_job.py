"""What happens to a flow whose reply is to be repaired, and to one that only passes."""

from __future__ import annotations

import logging
import time
from weakref import WeakKeyDictionary

from mitmproxy import http

from ..evidence import Evidence
from ..jsonio import NotJson, loads
from ..kimi.broken import EARLY, TAIL, has_ended
from ..kimi.chunks import ChunkRepair
from ..kimi.headers import Tools
from ..kimi.message import repair_body, repair_whole
from ..kimi.parts import Policy
from ..sse import is_event_stream
from .addresses import is_chat
from .decoding import MAX_REQUEST, DecodingError, decode_whole, decoder_for, is_unreadable
from .headers import EVENT_STREAM, encoding_of, media_type, set_stream_framing
from .options import Settings
from .record import record_of
from .refusals import unreachable
from .repair_stream import RepairStream
from .stream import WatchedStream
from .witness import Witness, name_of

logger = logging.getLogger(__name__)

_FAULT = object()
"""In place of a request that could not be read for a fault of ours."""


class RepairJob:
    """Repairs replies; what cannot be repaired passes as it comes."""

    def __init__(self, witness: Witness, *, breaks: bool) -> None:
        """`breaks`: whether the reply to a client can be broken off."""
        self._witness = witness
        self._breaks = breaks
        self._asked: WeakKeyDictionary[http.HTTPFlow, object] = WeakKeyDictionary()
        """What was asked for, until the reply has come that far that it is needed."""

    def streams(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether the reply is to be repaired while it streams: where the request asked for a
        stream, and in an API that is not known, where the reply says that it is one."""
        if flow not in self._asked:
            try:
                self._asked[flow] = _asked(flow)
            except Exception:
                logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
                self._asked[flow] = _FAULT
        asked = self._asked[flow]
        if isinstance(asked, dict) and (is_chat(flow.request) or asked.get("stream")):
            return bool(asked.get("stream"))
        return media_type(response) == EVENT_STREAM

    def collects(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether the reply is to be repaired when it has been received whole."""
        is_document = is_chat(flow.request) or media_type(response) == "application/json"
        return is_document and not self.streams(flow, response)

    def stream(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> bool:
        """Have the reply repaired while it streams; False if it has to pass as it comes."""
        encoding = encoding_of(response)
        if self._asked.get(flow) is _FAULT:
            return False
        try:
            record = self._witness.of(flow, "repair")
            if is_unreadable(encoding):
                logger.warning("%s: cannot decode %r; not repaired", name_of(flow), encoding)
                return False
            asked = self._asked.get(flow)
            wants_stream = isinstance(asked, dict) and bool(asked.get("stream"))
            self._asked[flow] = {"stream": wants_stream}  # all that is needed of it from now on
            tools, policy = Tools.of_request(asked), settings.policy
            response.stream = RepairStream(
                ChunkRepair(tools, policy, record.evidence, int(time.time())),
                decoder_for(encoding),
                name=name_of(flow),
                record=record,
                heartbeat=settings.heartbeat if wants_stream else 0,
                labelled=media_type(response) == EVENT_STREAM,
                whole=_Whole(tools, policy, record.evidence),
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

    def pass_unread(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have a reply pass that is too large to be read as a whole."""
        self._asked.pop(flow, None)
        logger.warning("%s: not repaired: the body is too large", name_of(flow))
        record = record_of(flow)
        if record is not None:
            record.evidence.note("not repaired", "a body too large to be read as a whole")
        self.pass_on(flow, response)

    def whole(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> None:
        """Repair a reply that was received whole."""
        came = flow in self._asked  # from the upstream now, and not from a file or an addon
        asked = self._asked.pop(flow) if came else _asked(flow)
        if asked is _FAULT:
            return
        if not is_chat(flow.request) and media_type(response) not in (
            "application/json",
            EVENT_STREAM,
        ):
            return
        record = self._witness.of(flow, "repair")
        record.options = settings.in_words(repair=True, dialect="")
        try:
            body = decode_whole(response.raw_content or b"", encoding_of(response))
            tools = Tools.of_request(asked)
            now = int(time.time())
            if came and is_chat(flow.request) and _is_cut(body, asked):
                logger.error("%s: %s", name_of(flow), EARLY)
                record.came(body)
                record.upstream_status = response.status_code
                flow.response = unreachable(EARLY)
                return
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


class _Whole:
    """Repairs a document that came where a stream was asked for."""

    def __init__(self, tools: Tools, policy: Policy, evidence: Evidence) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence

    def __call__(self, body: bytes) -> bytes:
        now = int(time.time())
        return repair_body(body, self._tools, self._policy, self._evidence, now) or body


def _is_cut(body: bytes, asked: object) -> bool:
    """Whether a chat completion that came whole is a stream that was cut off; one of which
    nothing came is, where a stream was asked for."""
    if is_event_stream(body):
        return not has_ended(body[-TAIL:])
    return not body.strip() and isinstance(asked, dict) and bool(asked.get("stream"))


def _asked(flow: http.HTTPFlow) -> object:
    """The JSON value of the request's body; None as far as it cannot be read."""
    request = flow.request
    try:
        return loads(
            decode_whole(request.raw_content or b"null", encoding_of(request), MAX_REQUEST)
        )
    except (NotJson, DecodingError):
        return None
