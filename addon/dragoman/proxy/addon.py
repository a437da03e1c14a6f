"""The mitmproxy addon: which flows are Dragoman's, and what is done with them.

A flow to ``…/chat/completions`` is cured and repaired, one to ``…/responses`` is repaired, or
bridged where its host speaks only Chat Completions (see `chat_only_hosts`).  Of every other flow
only event streams are streamed.  Flows loaded from a file are not `live`, and left alone.
"""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.connection import Client
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from .. import __version__
from ..inspect.outcome import REFUSED
from . import error_responses, options
from .ask_upstream import ASKING_MISSING, is_question
from .chat_only_hosts import Hosts, is_chosen
from .flows import bridge_turn
from .flows.bridge_flow import BridgeFlow
from .flows.cure_flow import CureFlow
from .flows.live_stream import LiveStream
from .flows.repair_flow import RepairFlow
from .http_headers import EVENT_STREAM, media_type
from .observe import views
from .observe.commands import Commands
from .observe.metrics import Metrics
from .observe.monitor import FlowMonitor, name_of
from .observe.recorder import client_request_of, recorder_of
from .routes import (
    ResponsesRoute,
    beside,
    gives_response,
    is_chat,
    is_replayed,
    is_responses,
    is_upgrade,
    responses_route,
    unserved,
)
from .run_slices import ClientLeft, in_slices
from .self_test import SelfTest

logger = logging.getLogger(__name__)

_ID = re.compile("resp_[0-9a-f]{32}")

try:
    from .mitm.http_layer import adopt, close_what_is_left
    from .mitm.lazy_connect import connect_when_asked
except (ImportError, AttributeError) as missing:
    LAYER_MISSING = str(missing)
else:
    LAYER_MISSING = ""


class Dragoman:
    """Repairs and bridges LLM streams in flight."""

    def __init__(self) -> None:
        self.settings = options.Settings()
        self._running = False
        self._asked: WeakKeyDictionary[http.HTTPFlow, str] = WeakKeyDictionary()
        self._monitor = FlowMonitor()
        self._repair = RepairFlow(self._monitor, breaks=not LAYER_MISSING)
        self._bridge = BridgeFlow(self._monitor, holds=not LAYER_MISSING)
        self._cure = CureFlow(self._monitor, self._bridge.archive)
        self._hosts = Hosts(self._bridge.archive)
        self._metrics = Metrics(self._monitor.stats)
        self.addons = [Commands(self._monitor.stats), self._hosts, SelfTest()]

    def load(self, loader: Loader) -> None:
        """Declare the options."""
        options.declare(loader)
        options.take_over(ctx.options.deferred)
        views.install(self._monitor.stats)
        for missing, what in (
            (
                LAYER_MISSING,
                "No heartbeats while an upstream is silent, no last word when its connection "
                "breaks, and stream_large_bodies streams past the bridge",
            ),
            (
                ASKING_MISSING,
                "No upstream can be asked whether it speaks Responses: set dragoman_bridge for "
                "those that are not on the built-in list",
            ),
        ):
            if missing:
                logger.warning("%s: %s.", what, missing)

    def configure(self, updated: Iterable[str]) -> None:
        """Check and apply changed options; running streams keep theirs."""
        if not any(name.startswith("dragoman_") for name in updated):
            return
        try:
            settings = options.Settings.of(ctx.options)
            self._metrics.listen(settings.metrics)
            self._bridge.archive.choose(
                settings.store,
                confdir=Path(ctx.options.confdir).expanduser(),
                limits=settings.store_limits,
                running=self._running,
            )
        except exceptions.OptionsError as error:
            if self._running:
                raise
            # It would be shown as a traceback.  An error in the log stops mitmproxy as well.
            logger.error("%s", error)
            return
        self.settings = settings
        self._monitor.keep(settings.keep)

    def running(self) -> None:
        """From now on mitmproxy refuses invalid options."""
        self._running = True
        logger.info(
            "Dragoman %s: repair %s, cure %s, bridge %s (%d hosts known), responses kept in %s",
            __version__,
            ctx.options.dragoman_repair,
            ctx.options.dragoman_cure,
            ctx.options.dragoman_bridge,
            len(self._hosts.listed()),
            self._bridge.archive.place,
        )
        # A collection of everything stops all streams, for some 50 ms only for what mitmproxy
        # and its libraries have made at the start; none of that is ever garbage.
        gc.freeze()

    def done(self) -> None:
        """Streams may still run, so their store stays open."""
        self._metrics.stop()
        gc.unfreeze()

    def client_connected(self, client: Client) -> None:
        if not LAYER_MISSING:
            connect_when_asked(client)

    def next_layer(self, next_layer: NextLayer) -> None:
        """See `http_stream`."""
        if not LAYER_MISSING:
            adopt(next_layer, self)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        if not LAYER_MISSING:
            close_what_is_left(data)

    # The request

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Ask the upstream not to compress, and keep the request's body readable, even where the
        user streams large bodies."""
        if not flow.live or is_question(flow):
            return
        if asked := flow.request.headers.get(bridge_turn.DIALECT_HEADER, ""):
            self._asked[flow] = asked
        for name in set(flow.request.headers):
            if name.lower().startswith(bridge_turn.OWN_HEADERS):
                del flow.request.headers[name]
        again = is_replayed(flow) and client_request_of(flow) is not None
        ours = again or self._converts(flow) or self._refuses(flow)
        if ours or self._repairs(flow):
            flow.request.headers["accept-encoding"] = "identity"
        if ours or self.needs_whole(flow, request=True):
            flow.request.stream = False

    async def request(self, flow: http.HTTPFlow) -> None:
        """Bridge, cure or answer a request."""
        if flow.response or flow.error or not flow.live or is_question(flow):
            return
        asked = client_request_of(flow) if is_replayed(flow) else None
        if asked is not None and is_chat(flow.request):
            dialect = self._asked.pop(flow, "")
            if await self._bridge.convert_again(flow, asked, self.settings, dialect):
                return
        address = responses_route(flow.request)
        if address is not None and self._bridge.endpoints.runs(flow.request, address):
            await self._bridge.answer(flow, address)
            return
        if is_chat(flow.request):
            if self._repairs(flow):
                self._monitor.of(flow, "repair")
            await self._cure.send(flow, self.settings)
            return
        why = await self._why_bridged(flow, address)
        if flow.error is not None:
            return  # it was ended while its upstream was asked
        if not why:
            if flow.request.method == "POST" and self._repairs(flow):
                self._monitor.of(flow, "repair")
            elif is_responses(flow.request):
                self._monitor.of(flow, "watch")
            await self._cure.send(flow, self.settings)
        elif is_upgrade(flow.request):
            self._monitor.of(flow, "bridge").evidence.note(REFUSED, "a WebSocket")
            flow.response = error_responses.no_upgrade()
        elif part := unserved(flow.request):
            self._monitor.of(flow, "bridge").evidence.note(REFUSED, part)
            flow.response = error_responses.not_bridged(part)
        elif address is not None and self._is_ours(address):
            if address.generates:
                dialect = self._asked.pop(flow, "")
                await self._bridge.convert(flow, address, self.settings, dialect, why)
            else:
                await self._bridge.answer(flow, address)

    # The response

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream event streams, converted or repaired; have other replies of ours collected until
        they are whole."""
        response = flow.response
        if response is None or not flow.live:
            return
        if is_question(flow):
            if question := self._hosts.question(flow):
                question.responseheaders()
            return
        if flow.is_replay == "response":
            self._bridge.forget(flow)  # what was saved is what the client got
        if response.data.content is not None:
            return  # it was made here or by another addon, and is whole already
        self._hosts.answered(flow, response)
        if flow in self._bridge:
            self._bridge.begin_reply(flow, response)
            return
        repairable, reader = self._is_repairable(flow), self._cure.reader(flow)
        if repairable or reader:
            await self._repair.read(flow)
        if (repairable or reader) and self._repair.streams(flow, response):
            names = self._cure.tool_names(flow)
            if not self._repair.stream(flow, response, self.settings, reader, names):
                self._repair.pass_on(flow, response)
        elif repairable and self._repair.collects(flow, response):
            response.stream = False
        elif media_type(response) == EVENT_STREAM:
            self._repair.pass_on(flow, response)

    async def dragoman_read(self, flow: http.HTTPFlow) -> None:
        """There is work in slices for a stream: a hook of our own, see `http_stream`."""
        if flow.response and isinstance(flow.response.stream, LiveStream):
            try:
                await in_slices(flow.response.stream.slow_work(), flow)
            except ClientLeft:
                logger.info("%s: the client has left before its reply was read", name_of(flow))
                flow.response.stream.drop_slow_work()
            await self._cure.keep(flow)

    async def dragoman_keep(self, flow: http.HTTPFlow) -> None:
        """A reply of which something is kept is about to end: our own hook, see `http_stream`."""
        await self._bridge.keep_stream(flow)
        await self._cure.keep(flow)

    async def response(self, flow: http.HTTPFlow) -> None:
        """Convert or repair a reply that was not streamed, and close the record of any."""
        if question := self._hosts.question(flow):
            question.ended()
        response = flow.response
        if response is None or not (flow.live or recorder_of(flow)):
            return
        if isinstance(response.stream, LiveStream) and not response.stream.started:
            response.stream = False  # the reply ended with its headers
        if flow in self._bridge:
            if response.status_code in (404, 405):
                self._hosts.refused_chat(flow, response)
            await self._bridge.end_reply(flow, response)
        elif response.stream:
            pass  # it has left already
        elif response.status_code in (404, 405) and self._hosts.refused(flow, response):
            logger.info("%s: no Responses API; bridged from now on", name_of(flow))
            flow.comment = flow.comment or "no Responses API; bridged from now on"
        elif self._refuses_upgrade(flow, response):
            self._monitor.of(flow, "watch").evidence.note(REFUSED, "a WebSocket")
            flow.response = error_responses.no_upgrade()
        elif self._is_repairable(flow):
            await self._repair.whole(flow, response, self.settings, self._cure.tool_names(flow))
        await self._cure.end_reply(flow, response)
        self._monitor.close(flow, await self._monitor.look(flow))

    def error(self, flow: http.HTTPFlow) -> None:
        """Close the record of a flow that ended early."""
        if question := self._hosts.question(flow):
            question.ended()
        self._bridge.forget(flow)
        self._cure.forget(flow)
        self._monitor.close(flow)

    def converts_reply(self, flow: http.HTTPFlow) -> bool:
        """See `Interpreter`."""
        gives = is_chat(flow.request) or gives_response(flow.request)
        return flow in self._bridge or (gives and self._repairs(flow))

    def give_up_whole(self, flow: http.HTTPFlow) -> None:
        if flow in self._bridge:
            self._bridge.forget(flow)
            logger.error("%s: the upstream's answer is too large", name_of(flow))
            self._monitor.of(flow, "bridge").evidence.note("failed", "the answer is too large")
            flow.response = error_responses.too_large()
        elif flow.response is not None:
            self._repair.pass_unread(flow, flow.response)

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response:
        self._bridge.forget(flow)
        return error_responses.unreachable(error)

    # Which flows

    def _repairs(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to this request, unless bridged, is to be repaired."""
        renamed = self._cure.tool_names(flow) is not None  # whatever a filter says of the reply
        test, gives = self.settings.repair, is_chat(flow.request) or gives_response(flow.request)
        return gives if test is None else renamed or test(flow)

    def _is_repairable(self, flow: http.HTTPFlow) -> bool:
        return bool(flow.response and flow.response.status_code == 200 and self._repairs(flow))

    async def _why_bridged(self, flow: http.HTTPFlow, address: ResponsesRoute | None) -> str:
        """Why this request is bridged, in words; empty if it is not."""
        request = flow.request
        if self.settings.bridge is not None:
            chosen = self._bridges(flow, address or beside(request))
            return "dragoman_bridge says so" if chosen else ""
        if address is not None or is_upgrade(request):
            try:
                await self._hosts.find_out(flow, address)
            except Exception:
                logger.exception("%s: nothing could be found out of its host", name_of(flow))
        why = self._hosts.why_bridged(request, address or beside(request))
        if why or address is None or not self._may_be_kept(address):
            return why
        kept = await self._bridge.endpoints.has(request, address.response_id)
        return "its response is kept here" if kept else ""

    def _may_be_kept(self, address: ResponsesRoute) -> bool:
        """Whether this id may be one of ours."""
        return self._bridge.archive.opened and _ID.fullmatch(address.response_id) is not None

    def _may_convert(self, flow: http.HTTPFlow) -> bool:
        """Whether this request may turn out to be one to bridge."""
        address = responses_route(flow.request)
        if address is None or self.settings.bridge is not None or not address.generates:
            return False
        return self._may_be_kept(address) or self._hosts.may_be_found_out(flow.request, address)

    def _bridges(self, flow: http.HTTPFlow, address: ResponsesRoute | None) -> bool:
        """Whether the upstream of this request is to be bridged, as far as is known."""
        test = self.settings.bridge
        if test is None:
            return bool(self._hosts.why_bridged(flow.request, address))
        return test(flow) and (
            # Many sites have an address of this name, for something else.
            unserved(flow.request) != "conversations"
            or bool(self._hosts.why_bridged(flow.request, address))
            or is_chosen(flow, test)
        )

    def _converts(self, flow: http.HTTPFlow) -> bool:
        address = responses_route(flow.request)
        return (
            address is not None
            and address.generates
            and self._bridges(flow, address)
            and self._is_ours(address)
        )

    def _refuses(self, flow: http.HTTPFlow) -> bool:
        address = beside(flow.request)
        return address is not None and self._bridges(flow, address)

    def _is_ours(self, address: ResponsesRoute) -> bool:
        """Whether a bridged host's address is served here."""
        return not address.response_id or self._bridge.archive.opened

    def needs_whole(self, flow: http.HTTPFlow, request: bool) -> bool:
        """Whether this request, or the response to it, is read whole."""
        if request:
            ours = self._converts(flow) or self._refuses(flow) or self._may_convert(flow)
            return ours or self._repairs(flow) or self._cure.wants(flow, self.settings)
        response = flow.response
        if response is None:
            return False
        missing = response.status_code in (404, 405) and self._hosts.is_decisive(flow)
        missing = missing or self._refuses_upgrade(flow, response)
        collected = self._is_repairable(flow) and self._repair.may_collect(flow, response)
        return flow in self._bridge or missing or collected

    def _refuses_upgrade(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a host has no WebSocket of the Responses API and says so with a status that
        clients do not understand at once."""
        missing = response.status_code in (404, 405) and self.settings.bridge is None
        return missing and is_upgrade(flow.request)
