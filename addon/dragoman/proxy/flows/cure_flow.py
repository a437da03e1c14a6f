"""What happens to a request that its host would refuse, and to the reasoning of its reply.

The request leaves as its own bytes unless something in it would be refused.  Of a model whose
hosts want the reasoning of past calls back, the reply is read for it, and it is kept before
the client receives the turn's end: the next request may come at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mitmproxy import http

from ...bridge.cure.chat_request import cure_request
from ...bridge.cure.messages_request import as_chat, cure_messages
from ...bridge.cure.tool_names import ToolNames
from ...bridge.host_requirements import family_of
from ...bridge.reader_writer_pairs import read_reply
from ...bridge.request_calls import rename_calls
from ...inspect.refusals import Cure, refusal_in
from ...notes import Evidence
from ...reply.choice_turn import ChoiceTurn
from ...stored.store import NotOpened, StoreError
from ...stored.turn_reasoning import History, Remembered, with_reasoning
from ...wire.errors import MAX_SAID, Refused
from ...wire.json_codec import Json, NotJson, dumps_in_steps, string
from ...wire.request_bounds import TooLarge
from ..body_clues import MAX_ERROR
from ..content_decoding import DecodingError
from ..flow_state import state_of
from ..http_headers import body_of, request_body, request_value, set_json
from ..observe.flow_name import name_of
from ..observe.monitor import FlowMonitor
from ..observe.recorder import ClientRequest, recorder_of
from ..options import Settings
from ..response_owner import asker_of
from ..routes import Route, route_of
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """What it takes to keep the reasoning of a reply."""

    asker: bytes
    history: History
    """Up to its request."""
    used: Sequence[str]


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The value of a request, as it is sent and as it was received."""

    value: Any
    received: Any


class CureFlow:
    """Makes chat requests acceptable, and keeps what the next ones need in `store`."""

    def __init__(self, monitor: FlowMonitor, store: AsyncStore) -> None:
        self._monitor = monitor
        self._store = store

    async def send(
        self, flow: http.HTTPFlow, route: Route, settings: Settings
    ) -> SentRequest | None:
        """Send a request in the form that its host takes.  Returns what is sent; None if that was
        not read."""
        try:
            body = await request_body(flow.request)
            value = await request_value(body)
            evidence, sent = Evidence(), value
            if isinstance(value, dict) and route.api == "responses":
                sent = self._with_renamed_calls(flow, value, evidence)
            elif isinstance(value, dict):
                sent = await self._cured(flow, value, settings, evidence)
            if sent is not value:
                await asyncio.sleep(0)  # others have their turn
                changed = await in_slices(dumps_in_steps(sent), flow)
                self._send_changed(flow, changed, body, evidence)
            return SentRequest(sent, value)
        except ClientLeft:
            logger.info("%s: the client has left before its request was read", name_of(flow))
            if flow.killable:
                flow.kill()
        except TooLarge as error:
            record = recorder_of(flow) or self._monitor.of(flow, "watch")
            record.evidence.note("not cured:", str(error))
            record.evidence.request_left()
        except (NotJson, DecodingError) as error:
            logger.debug("%s: the request leaves as it came: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: the request leaves as it came", name_of(flow))
        return None

    async def _cured(
        self, flow: http.HTTPFlow, received: Json, settings: Settings, evidence: Evidence
    ) -> Json:
        """The request as it is sent: `received` itself if nothing in it would be refused."""
        messages, of_messages = received.get("messages"), route_of(flow.request).api == "messages"
        family = family_of(string(received.get("model")))
        if not isinstance(messages, list):
            return received
        missing = family.refuses.missing_reasoning if family.thinks(received) else None
        # Only a reply that is repaired can be given the client's names.
        renames = settings.repair is None or settings.repair(flow)
        renames = renames and family.refuses.tool_names
        refuses = replace(family.refuses, missing_reasoning=missing, tool_names=renames)
        accepting, request = replace(family, refuses=refuses), received
        if missing is not None and self._store.opened:
            work = History.of(as_chat(messages) if of_messages else messages)
            history = await in_slices(work, flow)
            request = await self._with_reasoning(flow, request, history, evidence)
        cure = cure_messages if of_messages else cure_request
        cured = await in_slices(cure(request, accepting, evidence), flow)
        if cured.tool_names:
            state_of(flow).tool_names = cured.tool_names
        is_changed = cured.request is not received
        if family.is_strict or (is_changed and not of_messages):
            state_of(flow).cure = "cured" if is_changed else "on"
        return cured.request

    def _with_renamed_calls(self, flow: http.HTTPFlow, request: Json, evidence: Evidence) -> Json:
        """A request to a host that speaks the Responses API itself: only its call ids."""
        names = ToolNames(family_of(string(request.get("model"))), evidence)
        request, renamed = rename_calls(request, names)
        if renamed:
            state_of(flow).tool_names = names
            evidence.note("renamed", "call ids", renamed)
        return request

    def _send_changed(
        self, flow: http.HTTPFlow, body: bytes, received: bytes, evidence: Evidence
    ) -> None:
        set_json(flow.request, body)
        record = recorder_of(flow) or self._monitor.of(flow, "watch")
        record.client_request = ClientRequest(received)
        record.evidence.cure(evidence)
        record.evidence.request_left()

    async def _with_reasoning(
        self, flow: http.HTTPFlow, request: Json, history: History, evidence: Evidence
    ) -> Json:
        """The request with what is remembered of its conversation."""
        asker, lacking = asker_of(flow.request), history.lacking
        found: Sequence[Remembered | None] = [None] * len(lacking)
        try:
            if lacking:
                found = await self._store.recall(asker, [each.names for each in lacking])
        except NotOpened as error:
            logger.debug("%s: its reasoning is not put back: %s", name_of(flow), error)
        except (StoreError, Refused) as error:
            logger.warning("%s: its reasoning is not put back: %s", name_of(flow), error)
        known = [each for each in found if each]
        used = [name for each in known for name in each.names]
        state_of(flow).kept_turn = KeptTurn(asker, history, used)
        if not known:
            return request
        evidence.note("put back", "remembered reasoning", len(known))
        return request | {"messages": with_reasoning(request["messages"], lacking, found)}

    # The reply

    def keeps(self, flow: http.HTTPFlow) -> bool:
        """Whether the reasoning of the reply is to be kept."""
        response = flow.response
        good = response is not None and 200 <= response.status_code < 300
        return good and state_of(flow).kept_turn is not None

    async def keep(self, flow: http.HTTPFlow, *, last: bool = False) -> None:
        """Keep the turns of a reply that have ended; `last`: the whole reply has."""
        state = state_of(flow)
        kept, renamed = state.kept_turn, state.tool_names
        if kept is None:
            return
        try:
            for turn in self._ended_turns(flow, last=last):
                calls = turn.call_deltas
                if renamed is not None:
                    for call in calls:
                        call.name = renamed.client_name(call.name)
                names = kept.history.names(calls)
                await self._store.keep_reasoning(kept.asker, names, turn.reasoning, used=kept.used)
        except NotOpened as error:
            logger.debug("%s: its reasoning is not remembered: %s", name_of(flow), error)
        except (StoreError, Refused) as error:
            level = self._store.level_of(error)
            logger.log(level, "%s: its reasoning is not remembered: %s", name_of(flow), error)
        except DecodingError:
            pass
        except Exception:
            logger.exception("%s: its reasoning is not remembered", name_of(flow))

    def _ended_turns(self, flow: http.HTTPFlow, *, last: bool) -> list[ChoiceTurn]:
        """The turns that have ended since the last time.  Raises `DecodingError`."""
        record, response = recorder_of(flow), flow.response
        read = record.read if record is not None else None
        if read is not None and read.knows:
            return read.client.turns(last=last)
        if last and self.keeps(flow) and response is not None and not response.stream:
            return read_reply(body_of(response), keeps=True).turns(last=True)
        return []

    async def end_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's reply has ended: keep what was not streamed, and say what can be done
        about a refusal."""
        if response.status_code == 400 and route_of(flow.request).api in ("chat", "messages"):
            record = recorder_of(flow)
            if record is not None and record.job == "bridge" and family_of(record.model).is_strict:
                state_of(flow).cure = "cured"
            _advise(flow, response, state_of(flow).cure)
        await self.keep(flow, last=True)


def _advise(flow: http.HTTPFlow, response: http.Response, cure: Cure) -> None:
    """Log what a user can do, if the refusal is a known one."""
    try:
        error = body_of(response, MAX_ERROR)[:MAX_SAID].decode(errors="replace")
    except DecodingError:
        return
    if refusal := refusal_in(error):
        logger.warning("%s: refused by the host: %s.", name_of(flow), refusal.told(cure))
