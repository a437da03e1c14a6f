"""A bridged request: read with all that it refers to, converted, and sent."""

from __future__ import annotations

import atexit
import logging
import re
import time
from collections.abc import Generator
from dataclasses import replace

from mitmproxy import http

from ...bridge.cure.resend_without import MAX_TIMES, once_more
from ...bridge.cure.resend_without import STATUSES as REFUSING
from ...bridge.reader_writer_pairs import declared
from ...inspect.outcome import REFUSED
from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...reply.turn_context import TurnContext
from ...stored.store import StoreError
from ...wire.errors import MAX_SAID, Refused, error_object
from ...wire.json_codec import NotJson, dumps_in_steps, loads, string
from ...wire.request_bounds import TooLarge
from ..body_clues import MAX_ERROR
from ..content_decoding import DecodingError
from ..decision import Decision
from ..error_responses import error_response, errors_for, refusal
from ..flow_state import running_turns, state_of
from ..http_headers import body_of, request_body, request_value, set_json
from ..observe.flow_name import name_of
from ..observe.monitor import FlowMonitor
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..response_owner import asker_of
from ..routes import Route, is_replayed, route_of_client
from ..run_slices import ClientLeft, in_slices
from ..stored.async_store import AsyncStore
from .client_api import BridgedApi, BridgedTurn, WholeRequest
from .learned_refusals import LearnedRefusals, adapted
from .messages_client import MessagesClient
from .repair_reply import read_request
from .responses_client import ResponsesClient

logger = logging.getLogger(__name__)

SENT_AGAIN = "sent again"
"""What is noted of a request that its host has refused, before how it was changed."""
_NOT_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")
# A script that is loaded anew takes over what still runs, and the open store: that is closed when
# the process ends, after the last stream.
STORE = AsyncStore()
atexit.register(STORE.close)
REFUSALS = LearnedRefusals()


class BridgeRequests:
    def __init__(self, monitor: FlowMonitor, store: AsyncStore) -> None:
        self._monitor = monitor
        self._responses, self._messages = ResponsesClient(store), MessagesClient()

    def _api(self, route: Route) -> BridgedApi:
        return self._messages if route.of_messages else self._responses

    async def send(self, flow: http.HTTPFlow, decision: Decision, settings: Settings) -> None:
        """Send the request as a chat completions request, or refuse it."""
        record = self._monitor.open(flow, "bridge")
        record.evidence.note("bridged:", decision.why)
        errors = errors_for(decision.route)
        try:
            await self._as_chat(flow, decision, settings, record)
        except ClientLeft:
            if flow.killable:
                flow.kill()
            return
        except (NotJson, Refused, StoreError) as error:
            flow.response, reason = refusal(error, errors), str(error)
            if isinstance(error, Refused) and (about := error.param or error.code):
                reason = f"{about}: {reason}"
        except Exception:
            logger.exception("%s: the request could not be converted", name_of(flow))
            reason, message = "it could not be converted", "Dragoman could not convert the request."
            flow.response = error_response(500, message, form=errors)
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
        route = route_of_client(client.path)
        api = self._api(route)
        try:
            whole = await api.read_again(client, record.evidence)
            work = _converted(api, whole, settings, record.evidence)
            _, turn, _ = await in_slices(work, flow)
            record.tools = declared((await read_request(flow.request)).tools)
        except (ClientLeft, NotJson, Refused) as error:
            logger.warning("%s: replayed as a chat client's: %s", name_of(flow), error)
            self._monitor.open(flow, "watch")
            return False
        chosen = api.dialect(client.dialect, settings, flow.request, record.evidence)
        errors = errors_for(route, turn.model)
        self._begin(flow, BridgedTurn(api, errors, turn, chosen, settings, record))
        return True

    def _begin(self, flow: http.HTTPFlow, bridged: BridgedTurn) -> None:
        state_of(flow).turn, record = bridged, bridged.record
        record.evidence.request_left()
        record.model = bridged.turn.model
        self._monitor.begin(flow, record)

    async def _as_chat(
        self,
        flow: http.HTTPFlow,
        decision: Decision,
        settings: Settings,
        record: FlowRecorder,
    ) -> None:
        """Make a chat completions request of it.  No response is resumed a second time, and none
        that runs is continued.  Raises `Refused`, `NotJson`, `StoreError`, `ClientLeft`."""
        request, evidence = flow.request, record.evidence
        api = self._api(decision.route)
        dialect = api.dialect(decision.dialect, settings, request, evidence)
        # HTTP/1.1 would end such an address early: mitmproxy 11 takes it from HTTP/2 clients.
        if _NOT_IN_AN_ADDRESS.search(request.path):
            raise Refused("The request's address holds blanks or control characters.")
        whole = await api.read(flow, decision.route, evidence)
        if whole.earlier:
            evidence.note("continued with", f"{len(whole.earlier)} items from the store")
        model = whole.body.get("model") if isinstance(whole.body, dict) else None
        asked = asker_of(request), string(model)
        known = REFUSALS.of(asked, time.monotonic())
        work = _converted(api, whole, settings, evidence, known)
        body, context, tools = await in_slices(work, flow)
        path = request.data.path.decode(errors="replace")  # a file of flows takes no other text
        client = ClientRequest(whole.received, path, dialect, whole.resumes)
        errors = errors_for(decision.route, context.model)
        turn = BridgedTurn(
            api, errors, context, dialect, settings, record, whole.keeping, asked=asked
        )
        # From here until this turn is listed nothing is awaited.
        if turn.resumed and turn.resumed in (each.resumed for each in running_turns()):
            raise Refused("The outputs for this response have been sent, and it runs.", status=409)
        api.to_chat(request, decision.route.base)
        set_json(request, body)
        record.client_request, record.tools = client, tools
        self._begin(flow, turn)

    # A host that refuses it

    @staticmethod
    def may_ask_again(flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> bool:
        """Whether the host may take the request of a bridged turn without something in it."""
        again = response.status_code in REFUSING and len(bridged.refusals) < MAX_TIMES
        return again and not is_replayed(flow)

    @staticmethod
    async def ask_again(flow: http.HTTPFlow, response: http.Response, bridged: BridgedTurn) -> None:
        """Change the request as the refusal says; the flow has no response then."""
        try:
            said = _said(body_of(response, MAX_ERROR))
            sent = await request_value(await request_body(flow.request))
            changed = once_more(sent, said) if isinstance(sent, dict) else None
            if changed is None:
                return
            body = await in_slices(dumps_in_steps(changed.chat), flow)
        except (ClientLeft, DecodingError, NotJson, TooLarge) as error:
            logger.debug("%s: its refusal stays: %s", name_of(flow), error)
            return
        except Exception:
            logger.exception("%s: its refusal stays", name_of(flow))
            return
        bridged.record.evidence.note(SENT_AGAIN, changed.how)
        bridged.record.evidence.request_left()
        bridged.refusals = *bridged.refusals, said
        set_json(flow.request, body)
        flow.response = None

    @staticmethod
    def answered(response: http.Response, bridged: BridgedTurn) -> None:
        """The headers of a bridged reply have come."""
        if bridged.refusals and 200 <= response.status_code < 300:
            REFUSALS.learn(bridged.asked, bridged.refusals, time.monotonic())


def _said(error: bytes) -> str:
    """The message of an error, and all of it: the name of a field may stand beside that."""
    text = error[:MAX_SAID].decode(errors="replace")
    try:
        return f"{error_object(loads(error)).message[: MAX_SAID // 2]}\n{text}"
    except NotJson:
        return text


def _converted(
    api: BridgedApi,
    request: WholeRequest,
    settings: Settings,
    evidence: Evidence,
    known: tuple[str, ...] = (),
) -> Generator[None, None, tuple[bytes, TurnContext, DeclaredTools]]:
    """The body that is sent, and what its reply needs of it; `known`: refusals of earlier ones.
    Raises `Refused` and `NotJson`."""
    conversion = yield from api.convert(request, settings, evidence)
    yield
    body = yield from dumps_in_steps(adapted(conversion.chat, known, evidence))
    yield
    tools = conversion.declared()
    return body, replace(conversion.turn, called=tools.called), tools
