"""The two ends of a bridged flow: the request as it leaves, the reply as it returns.

What a flow's request leaves for its reply is kept beside the flow (`BridgedTurn`), never
in it: flows are saved to files and shown to people.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mitmproxy import http

from ...bridge.native.reply_repair import declared
from ...bridge.reply.answer import Answer, answering, failed
from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.chat_shapes import forming
from ...bridge.request.convert import converting
from ...bridge.responses.dialects import DIALECTS, Dialect, choose
from ...bridge.turn_context import TurnContext
from ...inspect.outcome import REFUSED
from ...notes import Evidence
from ...repair.chat_stream import ChatStreamRepair
from ...repair.declared_tools import DeclaredTools
from ...stored.continuation import (
    Continuation,
    going_on,
    in_progress,
    previous_id,
    resuming,
    submitted,
    with_references,
)
from ...stored.save_context import SaveContext
from ...stored.store import StoreError
from ...stored.stored_response import StoredResponse
from ...wire.errors import Refused
from ...wire.json_codec import NotJson
from ...wire.json_slices import MAX_ITEM_VALUES, TooMuch, reading, writing
from ...wire.slices import Slices, emptied
from ..content_decoding import (
    CutOffError,
    DecodingError,
    TooLargeError,
    UnknownEncodingError,
    decoder_for,
)
from ..error_responses import error_response, refusal
from ..http_headers import decoded, encoding_of, reading_body, set_event_stream, set_json
from ..observe.monitor import name_of
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..response_owner import asker_of
from ..routes import ResponsesRoute, is_replayed
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from ..stored.running_responses import Running
from .bridge_stream import BridgeStream
from .repair_flow import asking

logger = logging.getLogger(__name__)

OWN_HEADERS = "x-dragoman-"
"""How the names of headers begin that mean something only here, and never go upstream."""
DIALECT_HEADER = "x-dragoman-dialect"
MAX_PLAIN = 128 * 1024 * 1024
"""Bytes of a request's body, decompressed: hosts take 50 MB at most, images included, and one
that is copied, as its parts are joined, holds others up by a fourth of a millisecond each."""
_MAY_BE_LEFT = ("input", "messages")
"""Where the items of a request are that has been made into another."""
_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class BridgedTurn:
    """What a bridged request leaves for its reply."""

    turn: TurnContext
    dialect: Dialect
    tools: DeclaredTools
    settings: Settings
    evidence: Evidence
    client_request: ClientRequest
    keeping: SaveContext | None
    """What it takes to keep the response; None if it is not to be kept."""
    repair: bool = True
    """Whether the user wants the reply repaired: known when its headers have come."""

    def resumes(self, asker: bytes, response_id: str) -> bool:
        """Whether this goes on with that response."""
        keeping = self.keeping
        if keeping is None or keeping.resumes is None or keeping.asker != asker:
            return False
        return bool(keeping.resumes.response["id"] == response_id)

    def reply(self) -> ReplyConverter:
        """A reply of this turn that has not begun, or one that goes on."""
        resumes = self.keeping.resumes if self.keeping else None
        return ReplyConverter(
            self.turn,
            self.dialect,
            self.evidence,
            response_id=resumes.response["id"] if resumes else f"resp_{uuid.uuid4().hex}",
            created_at=resumes.response["created_at"] if resumes else int(time.time()),
            clock=time.time,
            prior=self.keeping.prior if self.keeping else (),
        )

    def chunk_repair(self) -> ChatStreamRepair | None:
        """The repair stage in front of the reply, if the user wants it."""
        if not self.repair:
            return None
        return ChatStreamRepair(self.tools, self.settings.policy, self.evidence, int(time.time()))

    def stream(
        self, encoding: str, name: str, record: FlowRecorder, *, labelled: bool, holds: bool
    ) -> BridgeStream:
        """The stream callable of this turn's reply; `labelled`, `holds`: see `BridgeStream`."""
        return BridgeStream(
            self.reply(),
            self.chunk_repair(),
            decoder_for(encoding),
            name=name,
            record=record,
            heartbeat=self.settings.heartbeat,
            labelled=labelled,
            keeps=holds and self.keeping is not None,
            waits=holds,
        )


@dataclass(frozen=True, slots=True)
class _ClientRequest:
    """A request for something to be generated, with all that it refers to."""

    plain: bytes
    """The body as the client sent it, decoded."""
    body: object
    """What is converted."""
    earlier: Sequence[dict[str, Any]] | None = None
    """The items that it goes on from; None if responses are not kept."""
    shown: Any = None
    """The request as the response echoes it, if that is another."""
    keeping: SaveContext | None = None


async def _asked(
    flow: http.HTTPFlow,
    address: ResponsesRoute,
    archive: AsyncStore,
    running: Running,
    *,
    evidence: Evidence,
) -> _ClientRequest:
    """Raises `Refused`, `StoreError` and `ClientLeft`.  A request that refers to nothing needs
    no store."""
    request = flow.request
    plain = await in_slices(_plain(request), flow)
    body = await in_slices(_formed(plain, evidence), flow)
    if not archive.opened or not isinstance(body, dict):
        return _ClientRequest(plain, body)
    asker = asker_of(request)
    if not address.response_id:
        previous = previous_id(body)
        if previous and running.find(asker, previous):
            raise in_progress(previous, previous=True)
        earlier = await archive.earlier(asker, body, flow)
        keeping = None
        if body.get("store") is not False and not is_replayed(flow):
            archive.warn_of_nobody(request)
            keeping = SaveContext(asker, plain, earlier)
        whole = await in_slices(with_references(body, earlier.references), flow)
        return _ClientRequest(plain, whole, earlier.items, body, keeping)
    *before, kept = await archive.chain(asker, address.response_id)
    outputs = await in_slices(submitted(body, kept), flow)
    stream = {"stream": body.get("stream") is True}
    earlier = Continuation((), kept.before, kept.references, tuple(kept.inherited))
    said = await in_slices(going_on([], before, {}), flow)
    return _ClientRequest(
        plain,
        await in_slices(resuming(kept, outputs), flow) | stream,
        said.items,
        await in_slices(kept.asking(), flow) | stream,
        SaveContext(asker, kept.request, earlier, kept, outputs),
    )


async def send_as_chat(
    flow: http.HTTPFlow,
    address: ResponsesRoute,
    settings: Settings,
    archive: AsyncStore,
    evidence: Evidence,
    *,
    dialect: str,
    bridged: Mapping[http.HTTPFlow, BridgedTurn],
    running: Running,
) -> BridgedTurn | None:
    """Turn the request into a chat completions request; None if it was refused, in which
    case the flow has its response.  `dialect` is the value of `DIALECT_HEADER`; of those
    that are `bridged` now none is resumed a second time, and none that is `running` is gone
    on from.  Raises `ClientLeft`."""
    request = flow.request
    option = dialect.strip().lower() or settings.dialect
    if option not in ("auto", *DIALECTS):
        evidence.note("unknown dialect asked for", option)
        option = settings.dialect
    try:
        _check_address(request)
        asked = await _asked(flow, address, archive, running, evidence=evidence)
        if asked.earlier:
            evidence.note("continued with", f"{len(asked.earlier)} items from the store")
        sent = await in_slices(_sent(asked, settings, evidence), flow)
        # From here to the end nothing is awaited: then this one is among those that run.
        _check_resumed(asked.keeping, bridged.values())
    except ClientLeft:
        raise
    except (NotJson, Refused, StoreError) as error:
        flow.response = refusal(error)
        evidence.note(REFUSED, str(error))
        return None
    except Exception:
        logger.exception("%s: the request could not be converted", request.pretty_host)
        evidence.note(REFUSED, "it could not be converted")
        flow.response = error_response(
            500, "Dragoman could not convert the request.", type="server_error"
        )
        return None
    chosen = _chosen(option, request)
    client = ClientRequest(asked.plain, request.path, chosen.name)
    query = request.path.partition("?")[1:]
    request.path = f"{address.base}/chat/completions{''.join(query)}"
    set_json(request, sent.body)
    return BridgedTurn(sent.turn, chosen, sent.tools, settings, evidence, client, asked.keeping)


async def replaying(
    flow: http.HTTPFlow, client: ClientRequest, settings: Settings, evidence: Evidence
) -> BridgedTurn:
    """The turn of a flow that was bridged and is sent once more.  Its chat request leaves as it
    stands, whoever has edited it, with all that it had from the store; what `client` asked for
    says what its reply becomes, which is not kept.  Raises `Refused`, `NotJson`, `ClientLeft`."""
    body = await in_slices(_formed(client.body, evidence), flow)
    if isinstance(body, dict) and isinstance(items := body.get("input"), list):
        known = [item for item in items if not _is_reference(item)]
        body = body | {"input": known or "(of the store)"}
    asked = _ClientRequest(client.body, body, (), body)
    sent = await in_slices(_sent(asked, settings, evidence), flow)
    tools = declared((await in_slices(asking(flow), flow)).tools)
    chosen = _chosen(client.dialect, flow.request)
    return BridgedTurn(sent.turn, chosen, tools, settings, evidence, client, None)


def _is_reference(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _chosen(option: str, request: http.Request) -> Dialect:
    names = ("originator", "user-agent")
    originator, user_agent = (request.headers.get(name, "") for name in names)
    option = option if option in DIALECTS else "auto"
    return choose(option, originator=originator, user_agent=user_agent)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request as it leaves, and what its reply needs of it."""

    body: bytes
    turn: TurnContext
    tools: DeclaredTools


def _sent(asked: _ClientRequest, settings: Settings, evidence: Evidence) -> Slices[_Sent]:
    """Raises `Refused` and `NotJson`."""
    conversion = yield from converting(
        asked.body, unsupported=settings.unsupported, evidence=evidence, earlier=asked.earlier
    )
    turn, chat = conversion.turn, conversion.chat
    if asked.shown is not None:
        shown = {name: value for name, value in asked.shown.items() if name != "input"}
        turn = replace(turn, request=shown)
    body = yield from writing(chat)
    tools = yield from DeclaredTools.reading(conversion.declaring)
    yield from emptied(chat["messages"])
    for request in (asked.body, asked.shown):
        if isinstance(request, dict) and isinstance(items := request.get("input"), list):
            yield from emptied(items)
    return _Sent(body, turn, tools)


def _check_resumed(keeping: SaveContext | None, bridged: Iterable[BridgedTurn]) -> None:
    """Raises `Refused` for outputs of tools that are sent a second time."""
    if keeping is None or keeping.resumes is None:
        return
    response_id = keeping.resumes.response["id"]
    if any(other.resumes(keeping.asker, response_id) for other in bridged):
        raise Refused("The outputs for this response have been sent, and it runs.", status=409)


def _check_address(request: http.Request) -> None:
    """Raises `Refused` for an address that would end before its end in HTTP/1.1: mitmproxy
    11 takes such from HTTP/2 clients."""
    if _NOT_IN_AN_ADDRESS.search(request.path):
        raise Refused("The request's address holds blanks or control characters.")


def _plain(request: http.Request) -> Slices[bytes]:
    """The request's body, decoded; raises `Refused`."""
    body = []
    try:
        for piece in decoded(request, MAX_PLAIN):
            body.append(piece)
            yield
    except UnknownEncodingError:
        encoding = encoding_of(request).strip().lower()[:40]
        raise Refused(f"Content-Encoding {encoding!r} cannot be read here.", status=415) from None
    except TooLargeError:
        raise Refused(
            f"The request body is too large: more than {MAX_PLAIN:,} bytes, decompressed.",
            status=413,
            code="request_too_large",
        ) from None
    except CutOffError:
        pass  # a checksum alone may be missing; what is no JSON is refused by its reader
    except DecodingError as error:
        raise Refused(f"The compressed request body is unusable: {error}.") from None
    return b"".join(body)


def _formed(plain: bytes, evidence: Evidence) -> Slices[Any]:
    """The request's JSON value in the form of the Responses API; raises `Refused`."""
    try:
        value = yield from reading(plain, item_values=MAX_ITEM_VALUES)
    except TooMuch as error:
        raise Refused(f"The request is too large. {error}", code="request_too_large") from None
    except NotJson:
        raise Refused("The request body is not valid JSON.", code="invalid_json") from None
    body = yield from forming(value, evidence)
    if body is not value and isinstance(body, dict):
        for name in _MAY_BE_LEFT:
            if isinstance(left := value.get(name), list) and left is not body.get("input"):
                yield from emptied(left)
    return body


async def give_whole(
    bridged: BridgedTurn,
    reply: ReplyConverter,
    response: http.Response,
    flow: http.HTTPFlow,
    record: FlowRecorder,
) -> StoredResponse | None:
    """Convert a reply that was received whole, whatever the client asked for; `reply` has not
    begun.  Returns what is to be kept of it, if anything is.  Raises `ClientLeft`."""
    name = name_of(flow)
    try:
        given = await in_slices(_given(bridged, reply, response, record), flow)
    except ClientLeft:
        raise
    except DecodingError as error:
        logger.error("%s: the upstream's body is unusable: %s", name, error)
        given = failed(f"The upstream's body is unusable: {error}.")
    except Exception:
        logger.exception("%s: the bridge failed", name)
        given = failed("Dragoman could not convert the upstream's reply.")
    response.status_code = given.status
    if given.retry_after:
        response.headers["retry-after"] = given.retry_after
    for header in ("content-encoding", "location"):
        response.headers.pop(header, None)
    if given.stream:
        set_event_stream(response)
    else:
        response.headers["content-type"] = "application/json"
    response.content = given.body
    if bridged.keeping is None or not reply.finished or given.status >= 400:
        return None
    return bridged.keeping.kept(reply.response, reply.cuts if given.stream else b"")


def _given(
    bridged: BridgedTurn, reply: ReplyConverter, response: http.Response, record: FlowRecorder
) -> Slices[Answer]:
    """Raises `DecodingError`."""
    body = yield from reading_body(response)
    record.came(body)
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
