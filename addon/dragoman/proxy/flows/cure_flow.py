"""What happens to a request that its host would refuse, and to the reasoning of its reply.

The request leaves as its own bytes unless something in it would be refused.  Of a model whose
hosts want the reasoning of past calls back, the reply is read for it, and it is kept before
the client receives the turn's end: the next request may come at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...bridge.cure.chat_request import cure_request
from ...bridge.cure.messages_request import as_chat, cure_messages
from ...bridge.cure.refusals import Cure, refusal_in
from ...bridge.cure.tool_names import ToolNames
from ...bridge.model_families import Family, family_of
from ...bridge.native.request_calls import rename_calls
from ...notes import Evidence
from ...stored.store import NotOpened, StoreError
from ...stored.turn_reasoning import History, Remembered, with_reasoning
from ...wire.errors import Refused
from ...wire.json_codec import Json, NotJson, dumps, loads, string
from ...wire.reply_reader import ChoiceTurn, read_reply
from ...wire.request_bounds import (
    MAX_VALUES,
    TooLarge,
    marks_in,
)
from ..body_clues import MAX_ERROR
from ..content_decoding import DecodingError
from ..http_headers import body_of, request_body, request_value, set_json
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import recorder_of
from ..options import Settings
from ..response_owner import asker_of
from ..routes import Route, route_of
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore

logger = logging.getLogger(__name__)

CURED = "cured:"
"""How the notes begin of what was changed in a chat request."""
_MODEL = re.compile(rb'"model"\s*:\s*"((?:[^"\\]|\\.){1,500})"')
_ARGUMENTS = re.compile(rb'"arguments"\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL)
_ERROR_START = 8192
"""Bytes of an error in which a refusal is looked for: gateways have it in a text of their own."""


@dataclass(frozen=True, slots=True)
class _StrictRequest:
    """A request with messages, for a model whose hosts refuse something."""

    body: bytes
    """Without content encoding."""
    value: Json
    family: Family
    history: History | None
    """None if its hosts do not want reasoning back."""
    of_messages: bool
    """Whether it is one of the Messages API."""


@dataclass(frozen=True, slots=True)
class _KeptTurn:
    """What it takes to keep the reasoning of a reply."""

    asker: bytes
    history: History
    """Up to its request."""
    used: Sequence[str]


class CureFlow:
    """Makes chat requests acceptable, and keeps what the next ones need in `store`."""

    def __init__(self, monitor: FlowMonitor, store: AsyncStore) -> None:
        self._monitor = monitor
        self._store = store
        self._kept_turns: WeakKeyDictionary[http.HTTPFlow, _KeptTurn] = WeakKeyDictionary()
        self._tool_names: WeakKeyDictionary[http.HTTPFlow, ToolNames] = WeakKeyDictionary()
        self._cures: WeakKeyDictionary[http.HTTPFlow, Cure] = WeakKeyDictionary()
        """Of requests for models whose hosts refuse something."""

    async def send(self, flow: http.HTTPFlow, route: Route, settings: Settings) -> None:
        """Send a request in the form that its host takes."""
        try:
            if route.creates:
                await self._rename_calls(flow)
                return
            repairs = settings.repair is None or settings.repair(flow)
            request = await _strict_request(flow, renames=repairs)
            if request is not None:
                await self._cure(flow, request)
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

    async def _cure(self, flow: http.HTTPFlow, received: _StrictRequest) -> None:
        request, remembered = received.value, 0
        if received.history is not None and self._store.opened:
            request, remembered = await self._with_reasoning(flow, request, received.history)
        evidence = Evidence()
        if remembered:
            evidence.note("put back", "remembered reasoning", remembered)
        if received.of_messages:
            sent = cure_messages(request, received.family, evidence)
        else:
            cured = await in_slices(cure_request(request, received.family, evidence), flow)
            sent = cured.request
            if cured.tool_names:
                self._tool_names[flow] = cured.tool_names
        self._cures[flow] = "on" if sent is received.value else "cured"
        if sent is not received.value:
            await self._send_changed(flow, sent, received.body, evidence)

    async def _rename_calls(self, flow: http.HTTPFlow) -> None:
        """A request to a host that speaks the Responses API itself: only its call ids."""
        body, value = await _read(flow.request)
        if not isinstance(value, dict):
            return
        evidence = Evidence()
        names = ToolNames(family_of(string(value.get("model"))), evidence)
        request, renamed = rename_calls(value, names)
        if renamed:
            self._tool_names[flow] = names
            evidence.note("renamed", "call ids", renamed)
            await self._send_changed(flow, request, body, evidence)

    async def _send_changed(
        self, flow: http.HTTPFlow, request: Json, received: bytes, evidence: Evidence
    ) -> None:
        await asyncio.sleep(0)  # others have their turn
        set_json(flow.request, dumps(request))
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
        self._kept_turns[flow] = _KeptTurn(asker, history, used)
        if known:
            messages = with_reasoning(request["messages"], lacking, found)
            request = request | {"messages": messages}
        return request, len(known)

    # The reply

    def keeps(self, flow: http.HTTPFlow) -> bool:
        """Whether the reasoning of the reply is to be kept."""
        response = flow.response
        return flow in self._kept_turns and response is not None and response.status_code == 200

    def tool_names(self, flow: http.HTTPFlow) -> ToolNames | None:
        """The names of the client's tools, and its call ids, where these may have been changed."""
        return self._tool_names.get(flow)

    async def keep(self, flow: http.HTTPFlow, *, last: bool = False) -> None:
        """Keep the turns of a streamed reply that have ended; `last`: the whole reply has."""
        record = recorder_of(flow)
        if record is not None and record.read is not None and record.read.knows:
            await self._keep_turns(flow, record.read.client.turns(last=last))

    async def _keep_turns(self, flow: http.HTTPFlow, turns: Sequence[ChoiceTurn]) -> None:
        kept, renamed = self._kept_turns.get(flow), self._tool_names.get(flow)
        if kept is None:
            return
        try:
            for turn in turns:
                calls = turn.call_deltas
                if renamed is not None:
                    for call in calls:
                        call.name = renamed.client_name(call.name)
                names = kept.history.names(calls)
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
        if response.status_code == 400 and route_of(flow.request).api in ("chat", "messages"):
            record = recorder_of(flow)
            if record is not None and record.job == "bridge" and family_of(record.model).is_strict:
                self._cures[flow] = "cured"
            _advise(flow, response, self._cures.get(flow, "off"))
        if self.keeps(flow) and not response.stream:
            try:
                turns = read_reply(body_of(response), keeps=True).turns(last=True)
                await self._keep_turns(flow, turns)
            except DecodingError:
                pass
            except Exception:
                logger.exception("%s: its reasoning is not remembered", name_of(flow))
        else:
            await self.keep(flow, last=True)
        self.forget(flow)

    def forget(self, flow: http.HTTPFlow) -> None:
        self._tool_names.pop(flow, None)
        self._kept_turns.pop(flow, None)


def _advise(flow: http.HTTPFlow, response: http.Response, cure: Cure) -> None:
    """Log what a user can do, if the refusal is a known one."""
    try:
        error = body_of(response, MAX_ERROR)[:_ERROR_START].decode(errors="replace")
    except DecodingError:
        return
    if refusal := refusal_in(error):
        logger.warning("%s: refused by the host: %s.", name_of(flow), refusal.told(cure))


async def _read(request: http.Request) -> tuple[bytes, Any]:
    """The body of a request, and its value if it may be for a model whose hosts refuse something;
    raises `TooLarge`, `NotJson` and `DecodingError`."""
    body = await request_body(request)
    return body, await request_value(body) if may_be_strict(body) else None


async def _strict_request(flow: http.HTTPFlow, *, renames: bool) -> _StrictRequest | None:
    """The request, if it is for a model whose hosts refuse something.  `renames`: whether the reply
    can be given the client's names.  Raises `ClientLeft`, and what `_read` does."""
    body, value = await _read(flow.request)
    model = value.get("model") if isinstance(value, dict) else None
    family = family_of(model) if isinstance(model, str) else None
    if family is None or not isinstance(value.get("messages"), list):
        return None
    missing = family.refuses.missing_reasoning if family.thinks(value) else None
    renames = renames and family.refuses.tool_names
    refuses = replace(family.refuses, missing_reasoning=missing, tool_names=renames)
    of_messages, history = route_of(flow.request).api == "messages", None
    if missing is not None:
        messages = as_chat(value["messages"]) if of_messages else value["messages"]
        history = await in_slices(History.of(messages), flow)
    return _StrictRequest(body, value, replace(family, refuses=refuses), history, of_messages)


def may_be_strict(body: bytes) -> bool:
    """Whether the body has, in whatever object, a model whose hosts refuse something, or arguments
    that all hosts do: a look that costs nothing beside reading it.  Arguments after so many that
    reading them takes long are not looked at."""
    unread_values = MAX_VALUES
    for name in _NAMES.finditer(body):
        value, is_refused = _REFUSED[name[0]]
        found = value.match(body, name.start())
        if found is None:
            continue
        unread_values -= marks_in(found[1])
        if unread_values >= 0 and is_refused(found[1]):
            return True
    return False


def _is_strict(model: bytes) -> bool:
    return family_of(model.decode(errors="replace")).is_strict


def _is_broken(arguments: bytes) -> bool:
    """Whether the text in a JSON string is not that of an object."""
    try:
        text = loads(arguments)
        return bool(text.strip()) and not isinstance(loads(text.encode()), dict)
    except (NotJson, UnicodeEncodeError):
        return True


_REFUSED = {b'"model"': (_MODEL, _is_strict), b'"arguments"': (_ARGUMENTS, _is_broken)}
_NAMES = re.compile(b"|".join(_REFUSED))
