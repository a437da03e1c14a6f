"""A bridged request: how it is sent, and what its reply needs of it (`BridgedTurn`).

That is kept beside the flow, never in it: flows are saved to files and shown to people.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mitmproxy import http

from ...bridge.native.reply_repair import declared
from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.chat_shapes import forming
from ...bridge.request.convert import converting, without_stored
from ...bridge.responses.dialects import DIALECTS, Dialect, choose
from ...bridge.turn_context import TurnContext
from ...notes import Evidence
from ...repair.chat_stream import ChatStreamRepair
from ...repair.declared_tools import DeclaredTools
from ...stored.continuation import (
    Continuation,
    in_progress,
    previous_id,
    resuming,
    submitted,
    with_references,
)
from ...stored.save_context import SaveContext
from ...wire.errors import Refused
from ...wire.json_codec import NotJson
from ...wire.json_slices import MAX_ITEM_VALUES, TooMuch, reading, writing
from ...wire.slices import Slices, emptied
from ..content_decoding import CutOffError, DecodingError, TooLargeError, UnknownEncodingError
from ..http_headers import decoded, encoding_of, set_json
from ..observe.recorder import ClientRequest
from ..options import Settings
from ..response_owner import asker_of
from ..routes import ResponsesRoute, is_replayed
from ..run_slices import in_slices
from ..stored.async_store import AsyncStore
from ..stored.endpoints import Running
from .repair_flow import reading_request

OWN_HEADERS = "x-dragoman-"
"""How the names of our own headers begin, which are never sent upstream."""
DIALECT_HEADER = "x-dragoman-dialect"
MAX_PLAIN = 128 * 1024 * 1024
"""Bytes of a request's body, decompressed: hosts take 50 MB at most, images included, and to
copy one takes a fourth of a millisecond a megabyte, in which all other flows wait."""
_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class BridgedTurn:
    """What the reply needs of its request."""

    turn: TurnContext
    dialect: Dialect
    tools: DeclaredTools
    settings: Settings
    evidence: Evidence
    client_request: ClientRequest
    keeping: SaveContext | None
    """None if the response is not to be kept."""
    repair: bool = True
    """Whether the user wants the reply repaired: known when its headers have come."""

    @property
    def resumed(self) -> tuple[bytes, str] | None:
        """Whose response it continues with outputs of tools, and its id; None for a new one."""
        keeping = self.keeping
        if keeping is None or keeping.resumes is None:
            return None
        return keeping.asker, keeping.resumes.response["id"]

    def reply(self) -> ReplyConverter:
        """The reply of this turn, before anything of it has come."""
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
        """The repair stage before the bridge, if the user wants it."""
        if not self.repair:
            return None
        return ChatStreamRepair(self.tools, self.settings.policy, self.evidence, int(time.time()))


@dataclass(frozen=True, slots=True)
class _WholeRequest:
    """A client's request with all that it refers to."""

    received: bytes
    """The body as the client sent it, decoded."""
    body: object
    """What is converted."""
    earlier: list[dict[str, Any]] | None = None
    """The items before its own input; None if responses are not kept."""
    echoed: Any = None
    """The request as the response echoes it, if that is another."""
    keeping: SaveContext | None = None
    resumes: bytes = b""
    """See `ClientRequest`."""


async def _read_request(
    flow: http.HTTPFlow,
    address: ResponsesRoute,
    store: AsyncStore,
    running: Running,
    evidence: Evidence,
) -> _WholeRequest:
    """Raises `Refused`, `StoreError` and `ClientLeft`."""
    request = flow.request
    received = await in_slices(_decoding(request), flow)
    body = await in_slices(_formed(received, evidence), flow)
    if not store.opened or not isinstance(body, dict):
        return _WholeRequest(received, body)
    asker = asker_of(request)
    if not address.response_id:
        previous = previous_id(body)
        if previous and running.find(asker, previous):
            raise in_progress(previous, previous=True)
        earlier = await store.earlier(asker, body, flow)
        keeping = None
        if body.get("store") is not False and not is_replayed(flow):
            store.warn_if_anonymous(request)
            keeping = SaveContext(asker, received, replace(earlier, items=[]))
        whole = await in_slices(with_references(body, earlier.references), flow)
        return _WholeRequest(received, whole, earlier.items, body, keeping)
    kept = await store.one(asker, address.response_id)
    items = await store.items(asker, kept.ancestors, flow)
    outputs = await in_slices(submitted(body, kept), flow)
    stream = {"stream": body.get("stream") is True}
    earlier = Continuation([], kept.ancestors, kept.references, tuple(kept.inherited))
    original = await in_slices(kept.request_body(), flow) | stream
    without_input = {name: value for name, value in original.items() if name != "input"}
    return _WholeRequest(
        received,
        await in_slices(resuming(kept, outputs), flow) | stream,
        items,
        original,
        SaveContext(asker, kept.request, earlier, kept, outputs),
        await in_slices(writing(without_input), flow),
    )


async def send_as_chat(
    flow: http.HTTPFlow,
    address: ResponsesRoute,
    settings: Settings,
    store: AsyncStore,
    evidence: Evidence,
    *,
    dialect: str,
    bridged: Mapping[http.HTTPFlow, BridgedTurn],
    running: Running,
) -> BridgedTurn:
    """Turn the request into a chat completions request.  `dialect` is the value of
    `DIALECT_HEADER`; of those that are `bridged` now none is resumed a second time, and none
    that is `running` is continued.  Raises `Refused`, `NotJson`, `StoreError`, `ClientLeft`."""
    request = flow.request
    option = dialect.strip().lower() or settings.dialect
    if option not in ("auto", *DIALECTS):
        evidence.note("unknown dialect asked for", option)
        option = settings.dialect
    # HTTP/1.1 would end such an address early: mitmproxy 11 takes it from HTTP/2 clients.
    if _NOT_IN_AN_ADDRESS.search(request.path):
        raise Refused("The request's address holds blanks or control characters.")
    whole = await _read_request(flow, address, store, running, evidence)
    if whole.earlier:
        evidence.note("continued with", f"{len(whole.earlier)} items from the store")
    chat = await in_slices(_converting(whole, settings, evidence), flow)
    chosen = _dialect(option, request)
    client = ClientRequest(whole.received, request.path, chosen.name, whole.resumes)
    turn = BridgedTurn(chat.turn, chosen, chat.tools, settings, evidence, client, whole.keeping)
    # From here until the caller lists this turn nothing is awaited.
    if turn.resumed and any(other.resumed == turn.resumed for other in bridged.values()):
        raise Refused("The outputs for this response have been sent, and it runs.", status=409)
    query = request.path.partition("?")[1:]
    request.path = f"{address.base}/chat/completions{''.join(query)}"
    set_json(request, chat.body)
    return turn


async def replaying(
    flow: http.HTTPFlow, client: ClientRequest, settings: Settings, evidence: Evidence
) -> BridgedTurn:
    """The turn of a bridged flow that is sent once more.  Its chat request is sent as it is,
    whoever has edited it; the reply is converted as `client` asked, and not kept.  Raises
    `Refused`, `NotJson`, `ClientLeft`."""
    body = without_stored(await in_slices(_formed(client.resumes or client.body, evidence), flow))
    whole = _WholeRequest(client.body, body, [], body)
    chat = await in_slices(_converting(whole, settings, evidence), flow)
    tools = declared((await in_slices(reading_request(flow.request), flow)).tools)
    chosen = _dialect(client.dialect, flow.request)
    return BridgedTurn(chat.turn, chosen, tools, settings, evidence, client, None)


def _dialect(option: str, request: http.Request) -> Dialect:
    headers = request.headers
    return choose(
        option, originator=headers.get("originator", ""), user_agent=headers.get("user-agent", "")
    )


@dataclass(frozen=True, slots=True)
class _ChatRequest:
    """A request as it is sent, and what its reply needs of it."""

    body: bytes
    turn: TurnContext
    tools: DeclaredTools


def _converting(
    request: _WholeRequest, settings: Settings, evidence: Evidence
) -> Slices[_ChatRequest]:
    """Raises `Refused` and `NotJson`."""
    conversion = yield from converting(
        request.body,
        unsupported=settings.unsupported_tools,
        evidence=evidence,
        earlier=request.earlier,
    )
    turn, chat = conversion.turn, conversion.chat
    if request.echoed is not None:
        echoed = {name: value for name, value in request.echoed.items() if name != "input"}
        turn = replace(turn, request=echoed)
    body = yield from writing(chat)
    tools = yield from DeclaredTools.reading(conversion.declaring)
    yield from emptied(chat["messages"])
    yield from emptied(request.earlier or [])
    for each in (request.body, request.echoed):
        if isinstance(each, dict) and isinstance(items := each.get("input"), list):
            yield from emptied(items)
    return _ChatRequest(body, turn, tools)


def _decoding(request: http.Request) -> Slices[bytes]:
    """The request's body, decoded; raises `Refused`."""
    pieces = []
    try:
        for piece in decoded(request, MAX_PLAIN):
            pieces.append(piece)
            yield
    except UnknownEncodingError:
        encoding = encoding_of(request).strip().lower()[:40]
        raise Refused(f"Content-Encoding {encoding!r} cannot be read here.", status=415) from None
    except TooLargeError:
        message = f"The request body is too large: more than {MAX_PLAIN:,} bytes, decompressed."
        raise Refused(message, status=413, code="request_too_large") from None
    except CutOffError:
        pass  # perhaps only a checksum is missing; what is not JSON is refused later
    except DecodingError as error:
        raise Refused(f"The compressed request body is unusable: {error}.") from None
    return b"".join(pieces)


def _formed(received: bytes, evidence: Evidence) -> Slices[Any]:
    """The request's JSON value in the form of the Responses API; raises `Refused`."""
    try:
        value = yield from reading(received, item_values=MAX_ITEM_VALUES)
    except TooMuch as error:
        raise Refused(f"The request is too large. {error}", code="request_too_large") from None
    except NotJson:
        raise Refused("The request body is not valid JSON.", code="invalid_json") from None
    body = yield from forming(value, evidence)
    if body is not value and isinstance(body, dict):
        for name in ("input", "messages"):
            if isinstance(items := value.get(name), list) and items is not body.get("input"):
                yield from emptied(items)
    return body
