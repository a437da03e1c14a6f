"""The two ends of a bridged flow: the request as it leaves, the reply as it returns.

What a flow's request leaves for its reply is kept beside the flow (`Bridged`), never
in it: flows are saved to files and shown to people.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from mitmproxy import http

from ..bridge.dialects import DIALECTS, Dialect, choose
from ..bridge.errors import Refused, error_json
from ..bridge.message import answer, failed
from ..bridge.reply import Reply
from ..bridge.request import convert
from ..bridge.turn import Turn
from ..evidence import Evidence
from ..jsonio import NotJson, dumps, loads
from ..kimi.chunks import ChunkRepair
from ..kimi.headers import Tools
from ..kimi.message import repair_whole
from .bridge_stream import BridgeStream
from .decoding import MAX_REQUEST, DecodingError, decode_whole, decoder_for
from .hosts import base_path
from .options import Settings
from .record import Record

logger = logging.getLogger(__name__)

OWN_HEADERS = "x-dragoman-"
"""How the names of headers begin that mean something only here, and never go upstream."""
DIALECT_HEADER = "x-dragoman-dialect"
_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Bridged:
    """What a bridged request leaves for its reply."""

    turn: Turn
    dialect: Dialect
    tools: Tools
    settings: Settings
    evidence: Evidence
    client_request: bytes
    """The request's body as the client sent it, decoded."""
    repair: bool = True
    """Whether the user wants the reply repaired: known when its headers have come."""

    def reply(self) -> Reply:
        """A reply of this turn that has not begun."""
        return Reply(
            self.turn,
            self.dialect,
            self.evidence,
            response_id=f"resp_{uuid.uuid4().hex}",
            created_at=int(time.time()),
            clock=time.time,
        )

    def chunk_repair(self) -> ChunkRepair | None:
        """The repair stage in front of the reply, if the user wants it."""
        if not self.repair:
            return None
        return ChunkRepair(self.tools, self.settings.policy, self.evidence, int(time.time()))

    def stream(self, encoding: str, name: str, record: Record) -> BridgeStream:
        """The stream callable of this turn's reply."""
        return BridgeStream(
            self.reply(),
            self.chunk_repair(),
            decoder_for(encoding),
            name=name,
            record=record,
            heartbeat=self.settings.heartbeat,
        )


def is_create(request: http.Request) -> bool:
    """Whether this asks for a new response."""
    path = request.path.partition("?")[0].rstrip("/")
    return request.method == "POST" and path.endswith("/responses")


def is_upgrade(request: http.Request) -> bool:
    """Whether a client asks for a WebSocket in place of requests."""
    path = request.path.partition("?")[0].rstrip("/")
    upgrade = request.headers.get("upgrade", "")
    return path.endswith("/responses") and "websocket" in upgrade.lower()


def refuse_upgrade() -> http.Response:
    """Codex falls back to HTTP at once on 426, and only on that."""
    message = "This host is bridged to Chat Completions: use HTTP."
    return _error_response(426, error_json(message, type="invalid_request_error"))


def send_as_chat(
    flow: http.HTTPFlow, settings: Settings, evidence: Evidence, *, asked: str
) -> Bridged | None:
    """Turn the request into a chat completions request; None if it was refused, in which
    case the flow has its response.  `asked` is the value of `DIALECT_HEADER`."""
    request = flow.request
    option = asked.strip().lower() or settings.dialect
    if option not in ("auto", *DIALECTS):
        evidence.note("unknown dialect asked for", option)
        option = settings.dialect
    try:
        _check_address(request)
        plain = _plain(request)
        conversion = convert(_value(plain), unsupported=settings.unsupported, evidence=evidence)
        body = dumps(conversion.chat)
    except NotJson as error:
        flow.response = _error_response(
            400, error_json(f"The request is no JSON: {error}.", type="invalid_request_error")
        )
        return None
    except Refused as refused:
        evidence.note("refused:", refused.message)
        told = error_json(
            refused.message, type="invalid_request_error", param=refused.param, code=refused.code
        )
        flow.response = _error_response(refused.status, told)
        return None
    except Exception:
        logger.exception("%s: the request could not be converted", request.pretty_host)
        told = error_json("Dragoman could not convert the request.", type="server_error")
        flow.response = _error_response(500, told)
        return None
    headers = request.headers
    dialect = choose(
        option, originator=headers.get("originator", ""), user_agent=headers.get("user-agent", "")
    )
    query = request.path.partition("?")[1:]
    request.path = f"{base_path(request)}/chat/completions{''.join(query)}"
    headers.pop("content-encoding", None)
    headers["content-type"] = "application/json"
    headers["accept-encoding"] = "identity"
    request.content = body
    tools = Tools.of_request(conversion.chat)
    return Bridged(conversion.turn, dialect, tools, settings, evidence, plain)


def _check_address(request: http.Request) -> None:
    """Raises `Refused` for an address that would end before its end in HTTP/1.1: mitmproxy
    11 takes such from HTTP/2 clients."""
    if _NOT_IN_AN_ADDRESS.search(request.path):
        raise Refused("The request's address holds blanks or control characters.")


def _plain(request: http.Request) -> bytes:
    """The request's body, decoded; raises `Refused`."""
    raw = request.raw_content or b""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        decoder = decoder_for(encoding)
        if decoder is None:
            raise Refused(f"Content-Encoding {encoding[:40]!r} cannot be read here.", status=415)
        return _decoded(decoder.feed(raw))
    return raw


def _value(plain: bytes) -> object:
    """The request's JSON value; raises `Refused`."""
    try:
        return loads(plain)
    except NotJson:
        raise Refused("The request body is not valid JSON.", code="invalid_json") from None


def _decoded(pieces: Iterable[bytes]) -> bytes:
    body = bytearray()
    try:
        for piece in pieces:
            body += piece
            if len(body) > MAX_REQUEST:
                raise Refused("The request body is too large.", status=413)
    except DecodingError as error:
        raise Refused(f"The compressed request body is unusable: {error}.") from None
    return bytes(body)


def give_whole(bridged: Bridged, response: http.Response, name: str, record: Record) -> None:
    """Convert a reply that was received whole, whatever the client asked for."""
    try:
        encoding = response.headers.get("content-encoding", "identity")
        body = decode_whole(response.raw_content or b"", encoding)
        record.came(body)
        given = answer(
            bridged.reply(),
            _repaired(bridged, body, response.status_code),
            status=response.status_code,
            stream=bridged.turn.stream,
            retry_after=response.headers.get("retry-after", ""),
        )
    except DecodingError as error:
        logger.error("%s: the upstream's body is unusable: %s", name, error)
        given = failed(f"The upstream's body is unusable: {error}.")
    except Exception:
        logger.exception("%s: the bridge failed", name)
        given = failed("Dragoman could not convert the upstream's reply.")
    response.status_code = given.status
    for header in ("content-encoding", "location"):
        response.headers.pop(header, None)
    response.headers["content-type"] = (
        "text/event-stream; charset=utf-8" if given.stream else "application/json"
    )
    response.content = given.body


def _repaired(bridged: Bridged, body: bytes, status: int) -> bytes:
    if not (bridged.repair and 200 <= status < 300):
        return body
    return repair_whole(
        body, bridged.tools, bridged.settings.policy, bridged.evidence, int(time.time())
    )


def _error_response(status: int, body: bytes) -> http.Response:
    return http.Response.make(status, body, {"content-type": "application/json"})


def unreachable(error: str) -> http.Response:
    """The answer for an upstream that could not be reached, or broke off before its reply
    was whole; all clients try again after a 502."""
    message = f"The upstream gave no answer: {error}"
    return _error_response(
        502, error_json(message, type="server_error", code="upstream_unreachable")
    )


def learned_response() -> http.Response:
    """The answer after which a client tries again, and is bridged."""
    message = (
        "This host has no Responses API. From now on requests to it are bridged to Chat "
        "Completions: please try again."
    )
    response = _error_response(
        503, error_json(message, type="server_error", code="responses_not_supported")
    )
    response.headers["retry-after"] = "0"
    return response
