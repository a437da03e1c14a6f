"""Clients of the Responses API, which may refer to what is stored of earlier responses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from mitmproxy import http

from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.chat_shapes import formed
from ...bridge.request.conversion import Conversion
from ...bridge.request.convert import convert_request, without_stored
from ...bridge.responses_reply import responses_reply
from ...notes import Evidence
from ...responses.dialects import DIALECTS, choose
from ...stored.continuation import (
    Continuation,
    in_progress,
    previous_id,
    resuming,
    submitted,
)
from ...stored.save_context import SaveContext
from ...stored.stored_response import resolved_items
from ...wire.json_codec import dumps, dumps_in_steps
from ..observe.recorder import ClientRequest
from ..options import Settings
from ..response_owner import asker_of
from ..routes import Route, is_replayed
from ..run_slices import in_slices
from ..stored.async_store import AsyncStore
from .client_api import (
    BridgedApi,
    BridgedTurn,
    WholeRequest,
    received_body,
    received_value,
    running_reply,
)


class ResponsesClient(BridgedApi):
    def __init__(self, store: AsyncStore) -> None:
        self._store = store

    def dialect(
        self, asked: str, settings: Settings, request: http.Request, evidence: Evidence
    ) -> str:
        option = asked.strip().lower() or settings.dialect
        if option not in ("auto", *DIALECTS):
            evidence.note("unknown dialect asked for", option)
            option = settings.dialect
        originator = request.headers.get("originator", "")
        user_agent = request.headers.get("user-agent", "")
        return choose(option, originator=originator, user_agent=user_agent).name

    async def read(self, flow: http.HTTPFlow, route: Route, evidence: Evidence) -> WholeRequest:
        request, store = flow.request, self._store
        received = await received_body(request)
        body = formed(await received_value(received), evidence)
        if not store.opened or not isinstance(body, dict):
            return WholeRequest(received, body)
        asker = asker_of(request)
        if not route.response_id:
            previous = previous_id(body)
            if previous and running_reply(asker, previous):
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
                written = await in_slices(dumps_in_steps(items), flow)
                keeping = SaveContext(asker, own, written, replace(earlier, items=[]))
            return WholeRequest(received, whole, earlier.items, body, keeping)
        kept = await store.one(asker, route.response_id)
        before: list[dict[str, Any]] = [
            item async for each in store.chain(asker, kept.ancestors) for item in each.turn_items()
        ]
        outputs = submitted(body, kept)
        stream = {"stream": body.get("stream") is True}
        original = kept.request | stream
        earlier = Continuation([], kept.ancestors)
        keeping = SaveContext(asker, kept.request, kept.items, earlier, kept, outputs)
        resumed = resuming(kept, outputs) | stream
        return WholeRequest(received, resumed, before, original, keeping, dumps(original))

    async def read_again(self, sent: ClientRequest, evidence: Evidence) -> WholeRequest:
        value = await received_value(sent.resumes or sent.body)
        body = without_stored(formed(value, evidence))
        return WholeRequest(sent.body, body, [], body)

    def convert(
        self, request: WholeRequest, settings: Settings, evidence: Evidence
    ) -> Generator[None, None, Conversion]:
        conversion = yield from convert_request(
            request.body,
            unsupported=settings.unsupported_tools,
            evidence=evidence,
            earlier=request.earlier,
        )
        if request.echoed is None:
            return conversion
        echoed = {name: value for name, value in request.echoed.items() if name != "input"}
        return replace(conversion, turn=replace(conversion.turn, request=echoed))

    def to_chat(self, request: http.Request, base: str) -> None:
        query = request.path.partition("?")[1:]
        request.path = f"{base}/chat/completions{''.join(query)}"

    def reply(self, bridged: BridgedTurn) -> ReplyConverter:
        resumes = bridged.keeping.resumes if bridged.keeping else None
        return responses_reply(
            bridged.turn,
            DIALECTS[bridged.dialect],
            bridged.record.evidence,
            response_id=resumes.response["id"] if resumes else f"resp_{uuid.uuid4().hex}",
            created_at=resumes.response["created_at"] if resumes else int(time.time()),
            clock=time.time,
            prior=bridged.keeping.prior if bridged.keeping else (),
        )
