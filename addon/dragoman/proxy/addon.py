"""The mitmproxy addon: which flows are Dragoman's, and what happens to them when.

The hooks decide and delegate.  A flow to ``…/chat/completions`` is repaired, one to
``…/responses`` of a host that speaks only Chat Completions is bridged (and repaired on
the way); every other flow is left alone, except that event streams are streamed.  Flows
that are loaded from a file come by as well; they are not `live`, and stay as they are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy.layer import NextLayer
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from ..evidence import Evidence
from ..jsonio import NotJson, loads
from ..kimi.chunks import ChunkRepair
from ..kimi.headers import Tools
from ..kimi.message import repair_whole
from . import bridging, options, views
from .bridging import Bridged
from .commands import Commands
from .decoding import MAX_REQUEST, DecodingError, decode_whole, decoder_for
from .hosts import ChatOnlyHosts
from .metrics import Metrics
from .record import record_of
from .repair_stream import RepairStream
from .stream import LiveStream, WatchedStream
from .witness import Witness, name_of

logger = logging.getLogger(__name__)

try:
    from .layer import adopt, close_what_is_left
except (ImportError, AttributeError) as missing:
    LAYER_MISSING = str(missing)
else:
    LAYER_MISSING = ""


# Of the module, so that a script that is loaded anew finds what still runs.
_bridged: WeakKeyDictionary[http.HTTPFlow, Bridged] = WeakKeyDictionary()


class Dragoman:
    """Repairs and bridges LLM streams in flight."""

    def __init__(self) -> None:
        self.settings = options.Settings()
        self._running = False
        self._hosts = ChatOnlyHosts()
        self._asked: WeakKeyDictionary[http.HTTPFlow, str] = WeakKeyDictionary()
        """The dialect that a request's header asked for."""
        self._witness = Witness()
        self._metrics = Metrics(self._witness.stats)
        self.addons = [Commands(self._witness.stats)]

    def load(self, loader: Loader) -> None:
        """Declare the options."""
        options.declare(loader)
        views.install()
        if LAYER_MISSING:
            logger.warning(
                "No heartbeats while an upstream is silent, no last word when its connection "
                "breaks, and stream_large_bodies streams past the bridge: %s.",
                LAYER_MISSING,
            )

    def configure(self, updated: Iterable[str]) -> None:
        """Check and take over changed options; running streams keep theirs."""
        if not any(name.startswith("dragoman_") for name in updated):
            return
        try:
            settings = options.Settings.of(ctx.options)
            self._metrics.listen(settings.metrics)
        except exceptions.OptionsError as error:
            if self._running:
                raise
            # What a script raises while it loads is shown as a traceback.  An error in
            # the log does as well: mitmproxy does not start with one.
            logger.error("%s", error)
            return
        self.settings = settings
        self._witness.keep(settings.keep)
        self._witness.capture_into = settings.capture

    def running(self) -> None:
        """From now on mitmproxy refuses invalid options, and shows why."""
        self._running = True

    def done(self) -> None:
        """mitmproxy ends, or the script is loaded anew."""
        self._metrics.stop()
        self._witness.done()

    def next_layer(self, next_layer: NextLayer) -> None:
        """Have the connection's streams speak for themselves: see `layer`."""
        if not LAYER_MISSING:
            adopt(next_layer, self)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        """An upstream's connection has ended."""
        if not LAYER_MISSING:
            close_what_is_left(data)

    # The request

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Ask the upstream not to compress, and keep the request's body readable, even
        where the user has large bodies streamed."""
        if not flow.live:
            return
        asked = flow.request.headers.get(bridging.DIALECT_HEADER, "")
        if asked:
            self._asked[flow] = asked
        for name in set(flow.request.headers):
            if name.lower().startswith(bridging.OWN_HEADERS):
                del flow.request.headers[name]
        converts = self._converts(flow)
        if converts or self._repairs(flow):
            flow.request.headers["accept-encoding"] = "identity"
            flow.request.stream = False

    def request(self, flow: http.HTTPFlow) -> None:
        """Bridge what is to be bridged, and watch what an LLM will answer."""
        if flow.response is not None or not flow.live:
            return
        if _is_chat(flow.request):
            if self._repairs(flow):
                self._witness.of(flow, "repair")
        elif not self._bridges(flow):
            if bridging.is_create(flow.request):
                self._witness.of(flow, "watch")
            elif flow.request.method == "POST" and self._repairs(flow):
                self._witness.of(flow, "repair")
        elif bridging.is_upgrade(flow.request):
            self._witness.of(flow, "bridge").evidence.note("refused:", "a WebSocket")
            flow.response = bridging.refuse_upgrade()
        elif self._converts(flow):
            self._convert(flow)

    # The response

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream event streams, converted or repaired where that is asked for; have other
        replies that are Dragoman's collected until they are whole."""
        response = flow.response
        if response is None or not flow.live:
            return
        if flow.is_replay == "response":
            _bridged.pop(flow, None)  # what was saved is what the client got
        if response.data.content is not None:
            return  # it was made here or by another addon, and is whole already
        streams = _media_type(response) == "text/event-stream"
        bridged = _bridged.get(flow)
        if bridged is not None:
            response.stream = False
            test = bridged.settings.repair
            bridged = replace(bridged, repair=test is None or test(flow))
            _bridged[flow] = bridged
            record = self._witness.of(flow, "bridge")
            record.upstream_status = response.status_code
            record.options = self.settings.in_words(
                repair=bridged.repair, dialect=bridged.dialect.name
            )
            if streams and response.status_code < 300 and bridged.turn.stream:
                self._bridge_stream(flow, response, bridged)
        elif streams:
            if not (self._is_repairable(flow) and self._repair_stream(flow, response)):
                self._pass_stream(flow, response)
        elif _media_type(response) == "application/json" and self._is_repairable(flow):
            response.stream = False

    def response(self, flow: http.HTTPFlow) -> None:
        """Convert or repair a reply that was not streamed, and tell of any."""
        response = flow.response
        if response is None or not (flow.live or record_of(flow)):
            return
        if isinstance(response.stream, LiveStream) and not response.stream.began:
            # The reply ended with its headers.
            if isinstance(response.stream, RepairStream):
                response.content = b"".join(response.stream(b""))
            response.stream = False
        bridged = _bridged.pop(flow, None)
        if bridged is not None:
            if not response.stream:
                if response.status_code in (404, 405):
                    self._hosts.forget(flow.request)
                bridging.give_whole(
                    bridged, response, name_of(flow), self._witness.of(flow, "bridge")
                )
        elif self._learns(flow) and self._hosts.learn(flow.request, response):
            logger.info("%s: no Responses API; bridged from now on", name_of(flow))
            flow.comment = flow.comment or "no Responses API; bridged from now on"
            record = self._witness.of(flow, "watch")
            record.came(response.content or b"")
            record.upstream_status = response.status_code
            flow.response = bridging.learned_response()
        elif self._is_repairable(flow) and not response.stream:
            self._repair_whole(flow, response)
        self._witness.close(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        """Tell of a flow that ended early."""
        _bridged.pop(flow, None)
        self._witness.close(flow)

    def converts_reply(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to a flow, once it comes, is to be converted or repaired."""
        return flow in _bridged or (_is_chat(flow.request) and self._repairs(flow))

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response:
        """The reply to a flow that is Dragoman's, whose upstream failed before it had one."""
        _bridged.pop(flow, None)
        return bridging.unreachable(error)

    # Which flows

    def _repairs(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to this request is to be repaired."""
        test = self.settings.repair
        return _is_chat(flow.request) if test is None else test(flow)

    def _is_repairable(self, flow: http.HTTPFlow) -> bool:
        return (
            flow.response is not None and flow.response.status_code == 200 and self._repairs(flow)
        )

    def _bridges(self, flow: http.HTTPFlow) -> bool:
        """Whether the upstream of this request is to be bridged."""
        test = self.settings.bridge
        return flow.request in self._hosts if test is None else test(flow)

    def _converts(self, flow: http.HTTPFlow) -> bool:
        """Whether this request is one that the bridge converts."""
        return bridging.is_create(flow.request) and self._bridges(flow)

    def needs_whole(self, flow: http.HTTPFlow, request: bool) -> bool:
        """Whether this request, or the response to it, is read or converted as a whole."""
        if request:
            return self._converts(flow) or self._repairs(flow)
        response = flow.response
        if response is None:
            return False
        missing = response.status_code in (404, 405) and self._learns(flow)
        json = _media_type(response) == "application/json" and self._is_repairable(flow)
        return flow in _bridged or missing or json

    def _learns(self, flow: http.HTTPFlow) -> bool:
        return self.settings.bridge is None and bridging.is_create(flow.request)

    # What happens to them

    def _convert(self, flow: http.HTTPFlow) -> None:
        """Send the request as a chat completions request, or have it refused."""
        evidence = Evidence()
        asked = self._asked.pop(flow, "")
        bridged = bridging.send_as_chat(flow, self.settings, evidence, asked=asked)
        if bridged is None:
            self._witness.open(flow, "bridge", evidence).answered_here = True
        else:
            _bridged[flow] = bridged
            self._witness.open(
                flow,
                "bridge",
                evidence,
                model=bridged.turn.model,
                client_request=bridged.client_request,
            )

    def _bridge_stream(self, flow: http.HTTPFlow, response: http.Response, to: Bridged) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if _unreadable(encoding):
            logger.warning("%s: cannot decode %r on the way", name_of(flow), encoding)
            return
        try:
            record = self._witness.of(flow, "bridge")
            response.stream = to.stream(encoding, name_of(flow), record)
        except Exception:  # the reply is then converted when it is whole, or refused
            logger.exception("%s: the bridge failed", name_of(flow))
            return
        self._witness.streams(flow, record)
        response.headers["content-type"] = "text/event-stream; charset=utf-8"
        _set_framing(flow, response)

    def _repair_stream(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Put a `RepairStream` in place; False if the body has to pass as it comes."""
        encoding = response.headers.get("content-encoding", "identity")
        try:
            record = self._witness.of(flow, "repair")
            if _unreadable(encoding):
                logger.warning("%s: cannot decode %r; not repaired", name_of(flow), encoding)
                return False
            asked = _asked(flow)
            wants_stream = isinstance(asked, dict) and asked.get("stream") is True
            tools, policy = Tools.of_request(asked), self.settings.policy
            response.stream = RepairStream(
                ChunkRepair(tools, policy, record.evidence, int(time.time())),
                decoder_for(encoding),
                name=name_of(flow),
                record=record,
                heartbeat=self.settings.heartbeat if wants_stream else 0,
                open_ended=_is_chat(flow.request) and _ends_with_connection(response),
            )
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
            return False
        record.options = self.settings.in_words(repair=True, dialect="")
        self._witness.streams(flow, record)
        _set_framing(flow, response)
        return True

    def _pass_stream(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have an event stream pass as it comes; recorded, if it is an LLM's."""
        record = record_of(flow)
        if record is not None and not callable(response.stream):
            encoding = response.headers.get("content-encoding", "identity")
            response.stream = WatchedStream(record, decoder_for(encoding), name_of(flow))
            self._witness.streams(flow, record)
        response.stream = response.stream or True

    def _repair_whole(self, flow: http.HTTPFlow, response: http.Response) -> None:
        if _media_type(response) not in ("application/json", "text/event-stream"):
            return
        record = self._witness.of(flow, "repair")
        record.options = self.settings.in_words(repair=True, dialect="")
        encoding = response.headers.get("content-encoding", "identity")
        try:
            body = decode_whole(response.raw_content or b"", encoding)
            repaired = repair_whole(
                body,
                Tools.of_request(_asked(flow)),
                self.settings.policy,
                record.evidence,
                int(time.time()),
            )
        except DecodingError as error:
            logger.warning("%s: not repaired: the body cannot be read: %s", name_of(flow), error)
            return
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", name_of(flow))
            return
        if repaired != body:
            record.came(body)
            response.headers.pop("content-encoding", None)
            response.content = repaired


def _is_chat(request: http.Request) -> bool:
    path = request.path.partition("?")[0].rstrip("/")
    return request.method == "POST" and path.endswith("/chat/completions")


def _media_type(response: http.Response) -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def _unreadable(encoding: str) -> bool:
    return encoding.strip().lower() not in ("", "identity") and decoder_for(encoding) is None


def _ends_with_connection(response: http.Response) -> bool:
    """Whether nothing but the end of its connection says that a body is whole."""
    framed = "content-length" in response.headers or "transfer-encoding" in response.headers
    return response.http_version.startswith("HTTP/1") and not framed


def _set_framing(flow: http.HTTPFlow, response: http.Response) -> None:
    """The body that leaves is not encoded, and of unknown length."""
    response.headers.pop("content-encoding", None)
    response.headers.pop("content-length", None)
    if flow.request.http_version == "HTTP/1.1":
        response.headers["transfer-encoding"] = "chunked"


def _asked(flow: http.HTTPFlow) -> object:
    """The JSON value of the request's body; None as far as it cannot be read."""
    request = flow.request
    encoding = request.headers.get("content-encoding", "identity")
    try:
        return loads(decode_whole(request.raw_content or b"null", encoding, MAX_REQUEST))
    except (NotJson, DecodingError):
        return None
