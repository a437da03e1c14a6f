"""What happens to a request that its host would refuse, and to the reasoning of its reply.

The request leaves as its own bytes unless something in it would be refused.  Of a model whose
hosts want the reasoning of past calls back, the reply is read for it, and it is kept before
the client receives the turn's end: the next request may come at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...bridge.cure.chat_request import curing
from ...bridge.cure.refusals import advice_on
from ...bridge.cure.tool_names import ToolNames
from ...bridge.model_families import Family, family_of
from ...bridge.native.request_calls import renaming_calls
from ...notes import Evidence
from ...stored.store import NotOpened, StoreError
from ...stored.turn_reader import TurnReader
from ...stored.turn_reasoning import History, Remembered, with_reasoning
from ...wire.errors import Refused
from ...wire.json_codec import Json, NotJson
from ...wire.json_slices import reading, writing
from ...wire.slices import Slices, emptied
from ..body_clues import MAX_ERROR
from ..content_decoding import MAX_REQUEST, DecodingError
from ..http_headers import body_of, reading_body, set_json
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import recorder_of
from ..options import Settings
from ..response_owner import asker_of
from ..routes import asks_a_model, is_chat, is_replayed, is_responses
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore

logger = logging.getLogger(__name__)

CURED = "cured:"
"""How the notes begin of what was changed in a chat request."""
_NAME = b'"model"'
_MODEL = re.compile(rb'"model"\s*:\s*"((?:[^"\\]|\\.){1,500})"')
_SEARCHED = 1024 * 1024
"""Bytes that are searched by one call: a fraction of a millisecond."""
_ERROR_START = 8192
"""Bytes of an error in which a refusal is looked for: gateways have it in a text of their own."""


@dataclass(frozen=True, slots=True)
class _StrictRequest:
    """A chat request for a model whose hosts refuse something."""

    body: bytes
    """Without content encoding."""
    value: Json
    family: Family
    history: History | None
    """None if its hosts do not want reasoning back."""


@dataclass(frozen=True, slots=True)
class _KeptTurn:
    """What it takes to keep the reasoning of a reply."""

    asker: bytes
    history: History
    """Up to its request."""
    used: Sequence[str]
    reader: TurnReader


class CureFlow:
    """Makes chat requests acceptable, and keeps what the next ones need in `store`."""

    def __init__(self, monitor: FlowMonitor, store: AsyncStore) -> None:
        self._monitor = monitor
        self._store = store
        self._kept_turns: WeakKeyDictionary[http.HTTPFlow, _KeptTurn] = WeakKeyDictionary()
        self._tool_names: WeakKeyDictionary[http.HTTPFlow, ToolNames] = WeakKeyDictionary()

    @staticmethod
    def wants(flow: http.HTTPFlow, settings: Settings) -> bool:
        if is_replayed(flow) or not asks_a_model(flow.request):
            return False  # what is sent again leaves as it was edited
        return settings.cure is None or settings.cure(flow)

    async def send(self, flow: http.HTTPFlow, settings: Settings) -> None:
        """Send a request in the form that its host takes."""
        if not self.wants(flow, settings):
            return
        try:
            if is_responses(flow.request):
                await self._rename_calls(flow)
                return
            repairs = settings.repair is None or settings.repair(flow)
            request = await in_slices(_reading_strict(flow.request, renames=repairs), flow)
            if request is not None:
                await self._cure(flow, request)
        except ClientLeft:
            logger.info("%s: the client has left before its request was read", name_of(flow))
            if flow.killable:
                flow.kill()
        except (NotJson, DecodingError) as error:
            logger.debug("%s: the request leaves as it came: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: the request leaves as it came", name_of(flow))

    async def _cure(self, flow: http.HTTPFlow, received: _StrictRequest) -> None:
        request, remembered = received.value, 0
        if received.history is not None and self._store.opened:
            request, remembered = await self._with_reasoning(flow, request, received.history)
        evidence = Evidence()
        if remembered:
            evidence.note("put back", "remembered reasoning", remembered)
        cured = await in_slices(curing(request, received.family, evidence), flow)
        if cured.tool_names:
            self._tool_names[flow] = cured.tool_names
        if cured.request is not received.value:
            await self._send_changed(flow, cured.request, received.body, evidence)
        for each in (cured.request, request, received.value):
            await in_slices(emptied(each["messages"]), None)

    async def _rename_calls(self, flow: http.HTTPFlow) -> None:
        """A request to a host that speaks the Responses API itself: only its call ids."""
        body, value = await in_slices(_reading(flow.request), flow)
        if not isinstance(value, dict):
            return
        request, renamed = await in_slices(renaming_calls(value), flow)
        if renamed:
            evidence = Evidence()
            evidence.note("renamed", "call ids", renamed)
            await self._send_changed(flow, request, body, evidence)
        for each in (request, value):
            if isinstance(items := each.get("input"), list):
                await in_slices(emptied(items), None)

    async def _send_changed(
        self, flow: http.HTTPFlow, request: Json, received: bytes, evidence: Evidence
    ) -> None:
        set_json(flow.request, await in_slices(writing(request), flow))
        record = recorder_of(flow) or self._monitor.of(flow, "watch")
        record.sent_another(received)
        for (what, detail), count in evidence.notes.items():
            record.evidence.note(f"{CURED} {what}", detail, count)
        record.evidence.request_left()

    async def _with_reasoning(
        self, flow: http.HTTPFlow, request: Json, history: History
    ) -> tuple[Json, int]:
        """The request with what is remembered of its conversation, and in how many messages."""
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
        self._kept_turns[flow] = _KeptTurn(asker, history, used, TurnReader())
        if known:
            messages = with_reasoning(request["messages"], lacking, found)
            request = request | {"messages": messages}
        return request, len(known)

    # The reply

    def reader(self, flow: http.HTTPFlow) -> TurnReader | None:
        """What reads the reply, if its reasoning is to be kept."""
        turn, response = self._kept_turns.get(flow), flow.response
        return turn.reader if turn and response and response.status_code == 200 else None

    def tool_names(self, flow: http.HTTPFlow) -> ToolNames | None:
        """The names of the client's tools, if some were sent with others."""
        return self._tool_names.get(flow)

    async def keep(self, flow: http.HTTPFlow, *, last: bool = False) -> None:
        """Keep the turns that have ended; `last`: the whole reply has."""
        kept = self._kept_turns.get(flow)
        if kept is None:
            return
        try:
            for turn in kept.reader.take(last=last):
                names = await in_slices(kept.history.names(turn.call_deltas), None)
                await self._store.keep_reasoning(kept.asker, names, turn.reasoning, used=kept.used)
        except NotOpened as error:
            logger.debug("%s: its reasoning is not remembered: %s", name_of(flow), error)
        except (StoreError, Refused) as error:
            logger.error("%s: its reasoning is not remembered: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: its reasoning is not remembered", name_of(flow))

    async def end_reply(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The upstream's reply has ended: keep what was not streamed, and say what can be done
        about a refusal."""
        if response.status_code == 400 and is_chat(flow.request):
            _advise(flow, response)
        kept = self._kept_turns.get(flow)
        if kept is not None and not response.stream and response.status_code == 200:
            try:
                body = await in_slices(reading_body(response), flow)
                await in_slices(kept.reader.reading(body), flow)
            except (ClientLeft, DecodingError):
                pass
            except Exception:
                logger.exception("%s: its reasoning is not remembered", name_of(flow))
        await self.keep(flow, last=True)
        self.forget(flow)

    def forget(self, flow: http.HTTPFlow) -> None:
        self._tool_names.pop(flow, None)
        self._kept_turns.pop(flow, None)


def _advise(flow: http.HTTPFlow, response: http.Response) -> None:
    """Log what a user can do, if the refusal is a known one."""
    try:
        error = body_of(response, MAX_ERROR)[:_ERROR_START].decode(errors="replace")
    except DecodingError:
        return
    if advice := advice_on(error):
        logger.warning("%s: refused by the host: %s.", name_of(flow), advice)


def _reading(request: http.Request) -> Slices[tuple[bytes, Any]]:
    """The body of a request, and its value if it may be for a model whose hosts refuse something;
    raises `NotJson` and `DecodingError`."""
    body = yield from reading_body(request, MAX_REQUEST)
    strict = yield from may_be_strict(body)
    return body, ((yield from reading(body)) if strict else None)


def _reading_strict(request: http.Request, *, renames: bool) -> Slices[_StrictRequest | None]:
    """The request, if it is for a model whose hosts refuse something; raises `NotJson` and
    `DecodingError`.  `renames`: whether the reply can be given the client's names."""
    body, value = yield from _reading(request)
    model = value.get("model") if isinstance(value, dict) else None
    family = family_of(model) if isinstance(model, str) else None
    if family is None or not family.is_strict or not isinstance(value.get("messages"), list):
        return None
    missing = family.refuses.missing_reasoning if family.thinks(value) else None
    renames = renames and family.refuses.tool_names
    refuses = replace(family.refuses, missing_reasoning=missing, tool_names=renames)
    history = (yield from History.reading(value["messages"])) if missing is not None else None
    return _StrictRequest(body, value, replace(family, refuses=refuses), history)


def may_be_strict(body: bytes) -> Slices[bool]:
    """Whether a model is named in the body, in whatever object, whose hosts refuse something:
    a look that costs nothing beside reading it."""
    for begin in range(0, len(body), _SEARCHED):
        end = begin + _SEARCHED + len(_NAME)
        at = body.find(_NAME, begin, end)
        while at >= 0:
            found = _MODEL.match(body, at)
            if found and family_of(found[1].decode(errors="replace")).is_strict:
                return True
            at = body.find(_NAME, at + 1, end)
        yield
    return False
