"""The mitmproxy addon: its hooks, and what is done with a flow in each.

A flow to ``…/chat/completions`` is cured and repaired; one to ``…/responses`` or ``…/v1/messages``
is bridged where its host speaks only Chat Completions, else repaired: that is a `Decision`, and the
hooks here do what it says.  Of every other flow only event streams are streamed.  Flows loaded from
a file are not `live`: they are counted (`observe/summary`), and left alone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable
from pathlib import Path

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.connection import Client
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from .. import __version__
from ..inspect.outcome import REFUSED, Ending, Outcome
from . import error_responses, options
from .body_clues import names_something
from .chat_only_hosts import Hosts, name_of_api
from .decision import OWN_HEADERS, Decisions
from .flow_state import state_of
from .flows import messages_endpoints
from .flows.bridge_reply import BridgeReplies
from .flows.bridge_request import STORE, BridgeRequests
from .flows.client_api import running_reply
from .flows.cure_flow import CureFlow
from .flows.live_stream import LiveStream
from .flows.repair_reply import RepairReplies
from .http_headers import set_json
from .observe import views
from .observe.commands import Commands
from .observe.flow_name import name_of
from .observe.metrics import Metrics
from .observe.monitor import FlowMonitor
from .observe.recorder import client_request_of, recorder_of
from .observe.summary import Summary
from .routes import is_replayed, route_of
from .self_test import SelfTest
from .stored.endpoints import StoredEndpoints

logger = logging.getLogger(__name__)

PAUSE = 0.001
"""Seconds after more than ten milliseconds of work on a reply."""

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
        self._monitor = FlowMonitor()
        self._store, layer = STORE, not LAYER_MISSING
        self._endpoints = StoredEndpoints(self._store, running_reply)
        self._requests = BridgeRequests(self._monitor, self._store)
        self._replies = BridgeReplies(self._monitor, self._store, has_layer=layer)
        self._cure = CureFlow(self._monitor, self._store)
        self._repair = RepairReplies(self._monitor, self._cure, has_layer=layer)
        self._hosts = Hosts(self._store)
        self._decisions = Decisions(self._hosts, self._store, self._endpoints)
        self._metrics = Metrics(self._monitor.stats)
        stats = self._monitor.stats
        self.addons = [Commands(stats), Summary(stats), self._hosts, SelfTest(self._hosts)]

    def load(self, loader: Loader) -> None:
        """Declare the options."""
        options.declare(loader)
        options.take_over(ctx.options.deferred)
        views.install(self._monitor.stats)
        if LAYER_MISSING:
            logger.warning(
                "%s: No heartbeats while an upstream is silent, no last word when its connection "
                "breaks, and stream_large_bodies streams past the bridge.",
                LAYER_MISSING,
            )

    def configure(self, updated: Iterable[str]) -> None:
        """Check and apply changed options; running streams keep theirs."""
        if not any(name.startswith("dragoman_") for name in updated):
            return
        try:
            settings = options.Settings.of(ctx.options)
            self._metrics.listen(settings.metrics)
            self._store.choose(
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
        if not self._running:
            settings.repair_options.formats.compile()
        self._decisions.settings = settings
        self._monitor.keep = settings.keep

    def running(self) -> None:
        """From now on mitmproxy refuses invalid options."""
        self._running = True
        logger.info(
            "Dragoman %s: repair %s, cure %s, bridge %s (%d hosts known), responses kept %s",
            __version__,
            ctx.options.dragoman_repair,
            ctx.options.dragoman_cure,
            ctx.options.dragoman_bridge,
            len(self._hosts.listed()),
            self._store.place,
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
        if not flow.live:
            return
        way = self._decisions.at_head(flow).way
        for name in set(flow.request.headers):
            if name.lower().startswith(OWN_HEADERS):
                del flow.request.headers[name]
        again = is_replayed(flow) and client_request_of(flow) is not None
        if again or way != "send" or self._repair.is_wanted(flow, self._decisions.settings):
            flow.request.headers["accept-encoding"] = "identity"
        if again or self.reads_request_whole(flow):
            flow.request.stream = False

    async def request(self, flow: http.HTTPFlow) -> None:
        """Bridge, cure or answer a request."""
        if flow.response or flow.error or not flow.live:
            return
        settings = self._decisions.settings
        decision = await self._decisions.at_body(flow)
        route, method = decision.route, flow.request.method
        if flow.error is not None:
            return  # it was ended while the store was read
        again = client_request_of(flow) if is_replayed(flow) and route.api == "chat" else None
        if again and await self._requests.send_again(flow, again, settings, decision.dialect):
            return
        if decision.way == "bridge":
            await self._requests.send(flow, decision, settings)
        elif decision.way == "count":
            flow.response = await messages_endpoints.count_tokens(flow)
            flow.comment = flow.comment or str(Outcome("answered", "tokens estimated"))
        elif decision.way == "list":
            messages_endpoints.ask_for_models(flow.request, route)
        elif decision.way == "answer":
            flow.response = await self._endpoints.answer(flow, route)
            ending: Ending = "answered" if flow.response.status_code < 400 else "failed"
            outcome = Outcome(ending, "answered from the stored responses")
            flow.comment = flow.comment or str(outcome)
        elif decision.way == "refuse":
            part, refused = route.action, error_responses.not_bridged
            self._monitor.of(flow, "bridge").evidence.note(REFUSED, part or "a WebSocket")
            flow.response = refused(part) if part else error_responses.no_upgrade()
        else:
            if method == "POST" and self._repair.is_wanted(flow, settings):
                self._monitor.of(flow, "repair")
            elif route.creates:
                self._monitor.of(flow, "watch")
            sent = await self._cure.send(flow, route, settings) if decision.cured else None
            if sent is not None and self._repair.is_wanted(flow, settings):
                self._repair.request_read(flow, sent)

    def reads_request_whole(self, flow: http.HTTPFlow) -> bool:
        """See `Interpreter`, as for all methods here that are no hooks of mitmproxy's."""
        decision = self._decisions.from_head(flow)
        counts = decision.route.api == "count_tokens"
        ours = decision.way != "send" or decision.unsure or decision.cured or counts
        return ours or self._repair.is_wanted(flow, self._decisions.settings)

    # The response

    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream event streams, converted or repaired; have other replies of ours collected until
        they are whole."""
        response = flow.response
        if response is None or not flow.live:
            return
        if flow.is_replay == "response":
            state_of(flow).turn = None  # what was saved is what the client got
        if response.data.content is not None:
            return  # it was made here or by another addon, and is whole already
        self._decisions.answered(flow, response)
        if (bridged := state_of(flow).turn) is not None:
            self._requests.answered(response, bridged)
            self._replies.begin(flow, response, bridged)
        else:
            await self._repair.begin(flow, response, self._decisions.settings)
        if record := recorder_of(flow):
            record.received = response

    async def dragoman_refused(self, flow: http.HTTPFlow) -> None:
        """The host has refused a request that was sent before it was known what it speaks, or a
        bridged one: our own hook, see `http_stream`."""
        response = flow.response
        if response is not None and (bridged := state_of(flow).turn) is not None:
            await self._requests.ask_again(flow, response, bridged)
            return
        if response is None or not self._decisions.at_missing(flow, response):
            return
        flow.response = None
        if (record := recorder_of(flow)) is not None and record.client_request is not None:
            set_json(flow.request, record.client_request.body)
        await self._requests.send(flow, self._decisions.of(flow), self._decisions.settings)

    async def dragoman_pause(self, _: http.HTTPFlow) -> None:
        """A reply has taken long: our own hook, see `http_stream`.  What has come for other flows
        takes several turns of the event loop to get through mitmproxy."""
        await asyncio.sleep(PAUSE)

    async def dragoman_keep(self, flow: http.HTTPFlow) -> None:
        """A reply of which something is kept is about to end: our own hook, see `http_stream`."""
        await self._replies.keep(flow)
        await self._cure.keep(flow)

    async def response(self, flow: http.HTTPFlow) -> None:
        """Convert or repair a reply that was not streamed, and close the record of any."""
        response, settings = flow.response, self._decisions.settings
        if response is None or not (flow.live or recorder_of(flow)):
            return
        if isinstance(response.stream, LiveStream) and not response.stream.started:
            response.stream = False  # the reply ended with its headers
        if (bridged := state_of(flow).turn) is not None:
            self._decisions.at_missing_chat(flow, response)
            self._monitor.check_stream(flow, response)
            await self._replies.end(flow, response, bridged)
        elif response.stream:  # it has left already
            if self._repair.is_possible(flow, settings):
                self._monitor.check_stream(flow, response)
        elif self._decisions.at_missing(flow, response):
            api = name_of_api(route_of(flow.request))
            logger.info("%s: no %s API; bridged from now on", name_of(flow), api)
            flow.comment = flow.comment or f"no {api} API; bridged from now on"
        elif self._decisions.lacks_count(flow, response):
            if not names_something(flow.request, response):
                flow.response = await messages_endpoints.count_tokens(flow)
        elif self._decisions.gives_models(flow, response):
            listed = self._decisions.of(flow).way == "list"
            messages_endpoints.answer_models(flow, response, bridged=listed)
        elif self._decisions.refuses_upgrade(flow, response):
            self._monitor.of(flow, "watch").evidence.note(REFUSED, "a WebSocket")
            flow.response = error_responses.no_upgrade()
        elif self._repair.is_possible(flow, settings):
            await self._repair.whole(flow, response, settings)
        elif self._repair.may_reword(flow, settings):
            self._repair.reword(flow, response)
        await self._cure.end_reply(flow, response)
        decision = self._decisions.of(flow)
        if self._monitor.close(flow).is_turn:
            self._decisions.gave_turn(flow, response, decision)

    def error(self, flow: http.HTTPFlow) -> None:
        """Close the record of a flow that ended early."""
        self._monitor.close(flow)

    def reads_reply_whole(self, flow: http.HTTPFlow) -> bool:
        response = flow.response
        if response is None or state_of(flow).turn is not None:
            return response is not None
        decisions = self._decisions
        refused = decisions.missing_decides(flow, response)
        refused = refused or decisions.lacks_count(flow, response)
        refused = refused or decisions.gives_models(flow, response)
        collected = self._repair.is_collected(flow, decisions.settings)
        collected = collected or self._repair.may_reword(flow, decisions.settings)
        return refused or decisions.refuses_upgrade(flow, response) or collected

    def converts_reply(self, flow: http.HTTPFlow) -> bool:
        if state_of(flow).turn is not None:
            return True
        if not route_of(flow.request).gives_turn:
            return False
        return self._repair.is_wanted(flow, self._decisions.settings)

    def may_ask_again(self, flow: http.HTTPFlow) -> bool:
        response = flow.response
        if response is None:
            return False
        if (bridged := state_of(flow).turn) is not None:
            return self._requests.may_ask_again(flow, response, bridged)
        return self._decisions.may_send_again(flow, response)

    def give_up_whole(self, flow: http.HTTPFlow) -> None:
        state = state_of(flow)
        bridged, state.turn = state.turn, None
        if flow.response is not None and bridged is not None:
            self._replies.give_up(flow, flow.response, bridged)
        elif flow.response is not None:
            self._repair.pass_unread(flow, flow.response)

    def is_unreadable(self, flow: http.HTTPFlow) -> bool:
        response, bridged = flow.response, state_of(flow).turn
        if response is None or bridged is None:
            return False
        return self._replies.is_unreadable(response, bridged)

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response:
        state = state_of(flow)
        bridged, state.turn = state.turn, None
        errors = bridged.errors if bridged else error_responses.errors_for(route_of(flow.request))
        return error_responses.unreachable(error, errors)
