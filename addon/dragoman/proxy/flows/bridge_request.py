"""A bridged request: read with all that it refers to, converted, and sent.

What its reply needs of it, a `BridgedTurn`, is kept beside the flow, never in it: flows are saved
to files and shown to people.
"""

from __future__ import annotations

import atexit
import logging
import re
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...bridge.chat_to_responses import responses_reply
from ...bridge.native.reply_repair import declared
from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.chat_shapes import formed
from ...bridge.request.convert import convert_request, without_stored
from ...inspect.outcome import REFUSED
from ...notes import Evidence
from ...repair.chat_stream import ChatRepair
from ...repair.declared_tools import DeclaredTools
from ...reply.turn_context import TurnContext
from ...responses.dialects import DIALECTS, Dialect, choose
from ...stored.continuation import (
    Continuation,
    in_progress,
    previous_id,
    resuming,
    submitted,
)
from ...stored.save_context import SaveContext
from ...stored.store import StoreError
from ...stored.stored_response import resolved_items
from ...wire.errors import Refused
from ...wire.json_codec import NotJson, dumps
from ..content_decoding import DecodingError, UnknownEncodingError
from ..decision import Decision
from ..error_responses import error_response, refusal
from ..http_headers import encoding_of, request_body, request_value, set_json
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..response_owner import asker_of
from ..routes import Route, is_replayed
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from .repair_reply import new_second, read_request

logger = logging.getLogger(__name__)

_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class BridgedTurn:
    """What the reply needs of its request."""

    turn: TurnContext
    dialect: Dialect
    settings: Settings
    record: FlowRecorder
    keeping: SaveContext | None
    """None if the response is not to be kept."""
    repair: bool = True
    """Whether the user wants the reply repaired: known when its headers have come."""
    running: ReplyConverter | None = None
    """The reply while it streams, and is to be kept."""

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
        return responses_reply(
            self.turn,
            self.dialect,
            self.record.evidence,
            response_id=resumes.response["id"] if resumes else f"resp_{uuid.uuid4().hex}",
            created_at=resumes.response["created_at"] if resumes else int(time.time()),
            clock=time.time,
            prior=self.keeping.prior if self.keeping else (),
        )

    def chunk_repair(self) -> ChatRepair | None:
        """The repair stage before the bridge, if the user wants it."""
        if not self.repair:
            return None
        policy = self.settings.policy.bridged
        return ChatRepair(self.record.tools, policy, self.record.evidence, new_second())


class BridgedTurns(WeakKeyDictionary[http.HTTPFlow, BridgedTurn]):
    """The bridged turns whose reply has not ended."""

    def running(self, asker: bytes, response_id: str) -> ReplyConverter | None:
        """The reply that is this response; None if it does not run, or has another owner."""
        for turn in self.values():
            reply, owner = turn.running, turn.keeping.asker if turn.keeping else b""
            if reply and owner == asker and reply.response["id"] == response_id:
                return reply
        return None

    def resumes(self, resumed: tuple[bytes, str]) -> bool:
        """Whether one continues this response with outputs of tools."""
        return any(turn.resumed == resumed for turn in self.values())


# A script that is loaded anew takes over what still runs, and the open store: that is closed when
# the process ends, after the last stream.
STORE = AsyncStore()
atexit.register(STORE.close)
BRIDGED = BridgedTurns()


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
    """The request as the response echoes it, if it is not `body`."""
    keeping: SaveContext | None = None
    resumes: bytes = b""
    """See `ClientRequest`."""


class BridgeRequests:
    def __init__(self, monitor: FlowMonitor, store: AsyncStore, bridged: BridgedTurns) -> None:
        self._monitor = monitor
        self._store = store
        self._bridged = bridged

    async def send(self, flow: http.HTTPFlow, decision: Decision, settings: Settings) -> None:
        """Send the request as a chat completions request, or refuse it."""
        record = self._monitor.open(flow, "bridge")
        record.evidence.note("bridged:", decision.why)
        try:
            await self._as_chat(flow, decision, settings, record)
        except ClientLeft:
            if flow.killable:
                flow.kill()
            return
        except (NotJson, Refused, StoreError) as error:
            flow.response, reason = refusal(error), str(error)
        except Exception:
            logger.exception("%s: the request could not be converted", name_of(flow))
            reason, message = "it could not be converted", "Dragoman could not convert the request."
            flow.response = error_response(500, message)
        else:
            return
        record.evidence.note(REFUSED, reason)
        record.evidence.request_left()

    async def send_again(
        self, flow: http.HTTPFlow, client: ClientRequest, settings: Settings, dialect: str
    ) -> bool:
        """Have the reply to a replayed flow, whose request was converted when it first ran,
        converted again as `client` asked, and not kept; False if that is impossible.  Its chat
        request is sent as it is, whoever has edited it.  `dialect`: of the replay's own header."""
        record = self._monitor.open(flow, "bridge")
        record.evidence.note("bridged:", "it was when it ran first")
        record.client_request = client = replace(client, dialect=dialect or client.dialect)
        try:
            body = without_stored(await _loaded(client.resumes or client.body, record.evidence))
            whole = _WholeRequest(client.body, body, [], body)
            _, turn, _ = await in_slices(_converted(whole, settings, record.evidence), flow)
            record.tools = declared((await read_request(flow.request)).tools)
        except (ClientLeft, NotJson, Refused) as error:
            logger.warning("%s: replayed as a chat client's: %s", name_of(flow), error)
            self._monitor.open(flow, "watch")
            return False
        chosen = _dialect(client.dialect, flow.request)
        self._begin(flow, BridgedTurn(turn, chosen, settings, record, None))
        return True

    def _begin(self, flow: http.HTTPFlow, bridged: BridgedTurn) -> None:
        self._bridged[flow], record = bridged, bridged.record
        record.evidence.request_left()
        record.model = bridged.turn.model
        self._monitor.begin(flow, record)

    async def _as_chat(
        self, flow: http.HTTPFlow, decision: Decision, settings: Settings, record: FlowRecorder
    ) -> None:
        """Make a chat completions request of it.  No response is resumed a second time, and none
        that runs is continued.  Raises `Refused`, `NotJson`, `StoreError`, `ClientLeft`."""
        request, address, evidence = flow.request, decision.route, record.evidence
        option = decision.dialect.strip().lower() or settings.dialect
        if option not in ("auto", *DIALECTS):
            evidence.note("unknown dialect asked for", option)
            option = settings.dialect
        # HTTP/1.1 would end such an address early: mitmproxy 11 takes it from HTTP/2 clients.
        if _NOT_IN_AN_ADDRESS.search(request.path):
            raise Refused("The request's address holds blanks or control characters.")
        whole = await self._read(flow, address, evidence)
        if whole.earlier:
            evidence.note("continued with", f"{len(whole.earlier)} items from the store")
        body, context, tools = await in_slices(_converted(whole, settings, evidence), flow)
        chosen = _dialect(option, request)
        path = request.data.path.decode(errors="replace")  # a file of flows takes no other text
        client = ClientRequest(whole.received, path, chosen.name, whole.resumes)
        turn = BridgedTurn(context, chosen, settings, record, whole.keeping)
        # From here until this turn is listed nothing is awaited.
        if turn.resumed and self._bridged.resumes(turn.resumed):
            raise Refused("The outputs for this response have been sent, and it runs.", status=409)
        query = request.path.partition("?")[1:]
        request.path = f"{address.base}/chat/completions{''.join(query)}"
        set_json(request, body)
        record.client_request, record.tools = client, tools
        self._begin(flow, turn)

    async def _read(self, flow: http.HTTPFlow, address: Route, evidence: Evidence) -> _WholeRequest:
        """Raises `Refused` and `StoreError`."""
        request, store = flow.request, self._store
        received = await _received(request)
        body = await _loaded(received, evidence)
        if not store.opened or not isinstance(body, dict):
            return _WholeRequest(received, body)
        asker = asker_of(request)
        if not address.response_id:
            previous = previous_id(body)
            if previous and self._bridged.running(asker, previous):
                raise in_progress(previous, previous=True)
            earlier = await store.earlier(asker, body)
            whole = body
            if earlier.references:
                whole = {**body, "input": resolved_items(body["input"], earlier.references)}
            keeping = None
            if body.get("store") is not False and not is_replayed(flow):
                store.warn_if_anonymous(request)
                own = {name: value for name, value in body.items() if name != "input"}
                items = resolved_items(whole.get("input"), {})
                keeping = SaveContext(asker, own, dumps(items), replace(earlier, items=[]))
            return _WholeRequest(received, whole, earlier.items, body, keeping)
        kept = await store.one(asker, address.response_id)
        before = [
            item async for each in store.chain(asker, kept.ancestors) for item in each.turn_items()
        ]
        outputs = submitted(body, kept)
        stream = {"stream": body.get("stream") is True}
        original = kept.request | stream
        earlier = Continuation([], kept.ancestors)
        keeping = SaveContext(asker, kept.request, kept.items, earlier, kept, outputs)
        resumed = resuming(kept, outputs) | stream
        return _WholeRequest(received, resumed, before, original, keeping, dumps(original))


def _dialect(option: str, request: http.Request) -> Dialect:
    headers = request.headers
    return choose(
        option, originator=headers.get("originator", ""), user_agent=headers.get("user-agent", "")
    )


def _converted(
    request: _WholeRequest, settings: Settings, evidence: Evidence
) -> Generator[None, None, tuple[bytes, TurnContext, DeclaredTools]]:
    """The body that is sent, and what its reply needs of it.  Raises `Refused` and `NotJson`."""
    conversion = yield from convert_request(
        request.body,
        unsupported=settings.unsupported_tools,
        evidence=evidence,
        earlier=request.earlier,
    )
    turn, chat = conversion.turn, conversion.chat
    if request.echoed is not None:
        echoed = {name: value for name, value in request.echoed.items() if name != "input"}
        turn = replace(turn, request=echoed)
    yield
    body = dumps(chat)
    yield
    tools = conversion.declared()
    return body, replace(turn, called=tools.called), tools


async def _received(request: http.Request) -> bytes:
    """The request's body, decoded; raises `Refused`."""
    try:
        return await request_body(request)
    except UnknownEncodingError:
        encoding = encoding_of(request).strip().lower()[:40]
        raise Refused(f"Content-Encoding {encoding!r} cannot be read here.", status=415) from None
    except DecodingError as error:
        raise Refused(f"The compressed request body is unusable: {error}.") from None


async def _loaded(received: bytes, evidence: Evidence) -> Any:
    """The request's JSON value in the form of the Responses API; raises `Refused`."""
    try:
        value = await request_value(received)
    except NotJson:
        raise Refused("The request body is not valid JSON.", code="invalid_json") from None
    return formed(value, evidence)
