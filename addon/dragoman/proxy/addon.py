"""The mitmproxy addon: its hooks, and what is done with a flow in each.

A flow to ``…/chat/completions`` is cured and repaired, one to ``…/responses`` is repaired, or
bridged where its host speaks only Chat Completions (see `chat_only_hosts`).  Of every other flow
only event streams are streamed.  Flows loaded from a file are not `live`, and left alone.
"""

from __future__ import annotations

import gc
import logging
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
from .chat_only_hosts import Hosts
from .flow_choice import FlowChoice
from .flows import bridge_turn
from .flows.bridge_flow import BridgeFlow
from .flows.cure_flow import CureFlow
from .flows.live_stream import LiveStream
from .flows.repair_flow import RepairFlow
from .observe import views
from .observe.commands import Commands
from .observe.metrics import Metrics
from .observe.monitor import FlowMonitor, name_of
from .observe.recorder import client_request_of, recorder_of
from .routes import (
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

try:
    from .mitm.http_layer import adopt, close_what_is_left, connect_when_asked
except (ImportError, AttributeError) as missing:
    LAYER_MISSING = str(missing)
else:
    LAYER_MISSING = ""


class Dragoman:
    """Repairs and bridges LLM streams in flight."""

    def __init__(self) -> None:
        self._running = False
        self._dialects: WeakKeyDictionary[http.HTTPFlow, str] = WeakKeyDictionary()
        """Those that requests have asked for by their headers."""
        self._monitor = FlowMonitor()
        self._repair = RepairFlow(self._monitor, breaks=not LAYER_MISSING)
        self._bridge = BridgeFlow(self._monitor, holds=not LAYER_MISSING)
        self._cure = CureFlow(self._monitor, self._bridge.store)
        self._hosts = Hosts(self._bridge.store)
        self._choice = FlowChoice(
            self._monitor, self._repair, self._bridge, self._cure, self._hosts
        )
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
            self._bridge.store.choose(
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
        self._choice.settings = settings
        self._monitor.keep = settings.keep

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
            self._bridge.store.place,
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
            adopt(next_layer, self._choice)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        if not LAYER_MISSING:
            close_what_is_left(data)

    # The request

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Ask the upstream not to compress, and keep the request's body readable, even where the
        user streams large bodies."""
        if not flow.live or is_question(flow):
            return
        if dialect := flow.request.headers.get(bridge_turn.DIALECT_HEADER, ""):
            self._dialects[flow] = dialect
        for name in set(flow.request.headers):
            if name.lower().startswith(bridge_turn.OWN_HEADERS):
                del flow.request.headers[name]
        again = is_replayed(flow) and client_request_of(flow) is not None
        ours = again or self._choice.converts(flow) or self._choice.refuses(flow)
        if ours or self._choice.repairs(flow):
            flow.request.headers["accept-encoding"] = "identity"
        if ours or self._choice.reads_request_whole(flow):
            flow.request.stream = False

    async def request(self, flow: http.HTTPFlow) -> None:
        """Bridge, cure or answer a request."""
        if flow.response or flow.error or not flow.live or is_question(flow):
            return
        settings = self._choice.settings
        client_request = client_request_of(flow) if is_replayed(flow) else None
        if client_request is not None and is_chat(flow.request):
            dialect = self._dialects.pop(flow, "")
            if await self._bridge.convert_again(flow, client_request, settings, dialect):
                return
        address = responses_route(flow.request)
        if address is not None and self._bridge.endpoints.runs(flow.request, address):
            await self._bridge.answer(flow, address)
            return
        if is_chat(flow.request):
            await self._send_on(flow)
            return
        why = await self._choice.why_bridged(flow, address)
        if flow.error is not None:
            return  # it was ended while its upstream was asked
        if not why:
            await self._send_on(flow)
        elif is_upgrade(flow.request):
            self._monitor.of(flow, "bridge").evidence.note(REFUSED, "a WebSocket")
            flow.response = error_responses.no_upgrade()
        elif part := unserved(flow.request):
            self._monitor.of(flow, "bridge").evidence.note(REFUSED, part)
            flow.response = error_responses.not_bridged(part)
        elif address is not None and self._choice.is_served(address):
            if address.generates:
                dialect = self._dialects.pop(flow, "")
                await self._bridge.convert(flow, address, settings, dialect, why)
            else:
                await self._bridge.answer(flow, address)

    async def _send_on(self, flow: http.HTTPFlow) -> None:
        """A request that is not bridged."""
        asks = is_chat(flow.request) or flow.request.method == "POST"
        if asks and self._choice.repairs(flow):
            self._monitor.of(flow, "repair")
        elif is_responses(flow.request):
            self._monitor.of(flow, "watch")
        await self._cure.send(flow, self._choice.settings)

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
        await self._repair.begin_reply(
            flow,
            response,
            self._choice.settings,
            repairs=self._choice.is_repairable(flow),
            turns=self._cure.reader(flow),
            names=self._cure.tool_names(flow),
        )

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
        response, settings = flow.response, self._choice.settings
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
        elif self._choice.refuses_upgrade(flow, response):
            self._monitor.of(flow, "watch").evidence.note(REFUSED, "a WebSocket")
            flow.response = error_responses.no_upgrade()
        elif self._choice.is_repairable(flow):
            await self._repair.whole(flow, response, settings, self._cure.tool_names(flow))
        await self._cure.end_reply(flow, response)
        self._monitor.close(flow, await self._monitor.summary(flow))

    def error(self, flow: http.HTTPFlow) -> None:
        """Close the record of a flow that ended early."""
        if question := self._hosts.question(flow):
            question.ended()
        self._bridge.forget(flow)
        self._cure.forget(flow)
        self._monitor.close(flow)
