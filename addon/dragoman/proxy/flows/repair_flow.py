"""A flow whose reply is repaired, or only watched."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from mitmproxy import http

from ...bridge.cure.tool_names import ToolNames
from ...bridge.native.reply_repair import Tools, declared, repair_whole, stage_for, tools_of
from ...bridge.native.request_tools import RequestTools
from ...repair.declared_tools import DeclaredTools
from ...repair.pipeline import StreamRepair, Untouched
from ...wire.chat_end import EARLY, TAIL, has_ended
from ...wire.json_codec import NotJson
from ...wire.request_bounds import TooLarge, load_request
from ...wire.sse import is_event_stream
from ..content_decoding import DecodingError, decoder_for, is_unreadable
from ..error_responses import unreachable
from ..http_headers import (
    EVENT_STREAM,
    body_in_steps,
    encoding_of,
    media_type,
    request_body,
    set_stream_framing,
)
from ..observe.monitor import FlowMonitor, name_of
from ..observe.recorder import FlowRecorder, recorder_of
from ..options import Settings
from ..routes import is_chat, route_of
from ..run_slices import ClientLeft, in_slices
from .live_stream import ReplyContext, WatchedStream
from .repair_stream import RepairStream

logger = logging.getLogger(__name__)

_KINDS = ("application/json", EVENT_STREAM)
_latest_second = 0


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What the repair of a reply needs of its request."""

    stream: bool | None
    """Whether it asks for a stream; None if it is unreadable."""
    tools: Tools


class RepairFlow:
    """Repairs replies; what cannot be repaired passes as it comes."""

    def __init__(self, monitor: FlowMonitor, *, has_layer: bool) -> None:
        """`has_layer`: see `ReplyContext.of`."""
        self._monitor = monitor
        self._has_layer = has_layer
        self._requests: WeakKeyDictionary[http.HTTPFlow, ReadRequest | None] = WeakKeyDictionary()
        """Each until its reply is repaired; None where it is too large, or a fault prevented
        reading it."""

    async def begin_reply(
        self,
        flow: http.HTTPFlow,
        response: http.Response,
        settings: Settings,
        *,
        repairs: bool,
        keeps: bool,
        names: ToolNames | None,
    ) -> None:
        """The headers of a reply have come.  It streams, and is repaired meanwhile, or it is
        collected if it `repairs`; or it passes.  `keeps`, `names`: see `RepairStream`."""
        if repairs or keeps:
            request = await self._read(flow)
            if request is None:
                repairs = False
            elif _streams(flow, response, request):
                # A reply that ends with its headers is repaired whole, which then needs no tools.
                self._requests[flow] = replace(request, tools=DeclaredTools({}))
                try:
                    self._stream(flow, response, request, settings, keeps=keeps, names=names)
                except Exception:
                    error = "%s: repair failed; the reply passes as it comes"
                    logger.exception(error, name_of(flow))
                    self.pass_on(flow, response)
                return
        if repairs and self.may_collect(flow, response):
            self._monitor.take_stream(flow, response)
        elif media_type(response) == EVENT_STREAM:
            self.pass_on(flow, response)

    @staticmethod
    def may_collect(flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether the reply, unless it streams, is to be repaired when it has been received
        whole."""
        return is_chat(flow.request) or media_type(response) == "application/json"

    async def _read(self, flow: http.HTTPFlow) -> ReadRequest | None:
        """What the request says; None after a fault, or if it is too large."""
        if flow not in self._requests:
            self._requests[flow] = None
            try:
                self._requests[flow] = await in_slices(read_request(flow.request), flow)
            except ClientLeft:
                pass
            except TooLarge as error:
                self._monitor.of(flow, "watch").evidence.note("not repaired:", str(error))
            except Exception:
                logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
        return self._requests[flow]

    def _stream(
        self,
        flow: http.HTTPFlow,
        response: http.Response,
        request: ReadRequest,
        settings: Settings,
        *,
        keeps: bool,
        names: ToolNames | None,
    ) -> None:
        """Have the reply repaired while it streams, or pass as it comes if that is impossible."""
        encoding = encoding_of(response)
        repairs = settings.repair is None or settings.repair(flow)
        record = self._monitor.of(flow, "repair" if repairs else "watch")
        if is_unreadable(encoding):
            logger.warning("%s: cannot decode %r; not repaired", name_of(flow), encoding)
            self.pass_on(flow, response)
            return
        record.options = settings.in_words(repair=repairs, dialect="")
        tools = _sent_tools(request, names, record)
        self._monitor.take_stream(flow, response)
        stage: StreamRepair = Untouched()
        if repairs:
            stage = stage_for(tools, settings.policy, record.evidence, new_second())
        context = ReplyContext.of(
            flow,
            response,
            record,
            name_of(flow),
            heartbeat=settings.heartbeat if request.stream else 0,
            has_layer=self._has_layer,
        )
        response.stream = RepairStream(
            stage,
            context,
            has_end=repairs and is_chat(flow.request),
            keeps=keeps,
            names=names,
        )
        self._monitor.streams(flow)
        set_stream_framing(flow.request, response)

    def pass_on(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have an event stream pass, recorded if it is an LLM's."""
        record = recorder_of(flow)
        if record is not None and not callable(response.stream):
            decoder = decoder_for(encoding_of(response))
            response.stream = WatchedStream(record, decoder, name_of(flow))
            self._monitor.streams(flow)
        response.stream = response.stream or True

    def pass_unread(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have a reply pass that is too large to be read whole."""
        self._requests.pop(flow, None)
        logger.warning("%s: not repaired: the body is too large", name_of(flow))
        record = recorder_of(flow)
        if record is not None:
            record.evidence.note("not repaired", "a body too large to be read as a whole")
        self.pass_on(flow, response)

    async def whole(
        self,
        flow: http.HTTPFlow,
        response: http.Response,
        settings: Settings,
        names: ToolNames | None,
    ) -> None:
        """Repair a reply that was received whole."""
        is_received = flow in self._requests  # now, and not made by an addon or read from a file
        request, kind = await self._read(flow), media_type(response)
        del self._requests[flow]
        if request is None or not (is_chat(flow.request) or kind in _KINDS):
            return
        record = self._monitor.of(flow, "repair")
        record.options = settings.in_words(repair=True, dialect="")
        tools = _sent_tools(request, names, record)
        policy, evidence = settings.policy, record.evidence
        try:
            body = await in_slices(body_in_steps(response), flow)
            if is_received and is_chat(flow.request) and _is_cut(body, request):
                logger.error("%s: %s", name_of(flow), EARLY)
                record.reply.add_received(body)
                flow.response = unreachable(EARLY)
                return
            repaired = repair_whole(body, tools, policy, evidence, new_second())
            repaired = repaired if names is None else names.restored(repaired)
        except ClientLeft:
            logger.info("%s: the client has left before its reply was read", name_of(flow))
        except DecodingError as error:
            logger.warning("%s: not repaired: the body cannot be read: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", name_of(flow))
        else:
            if repaired != body:
                record.reply.add_received(body)
                response.headers.pop("content-encoding", None)
                response.content = repaired


def _streams(flow: http.HTTPFlow, response: http.Response, request: ReadRequest) -> bool:
    """Whether the reply streams: where the request asks for a stream, and in an unknown API, where
    the reply is labelled as one."""
    if request.stream is None or not (request.stream or is_chat(flow.request)):
        return media_type(response) == EVENT_STREAM
    return request.stream


def _sent_tools(request: ReadRequest, names: ToolNames | None, record: FlowRecorder) -> Tools:
    """The tools with the names that were sent."""
    tools = request.tools
    if names is not None and isinstance(tools, DeclaredTools):
        tools = names.with_aliases(tools)
    elif names is not None and isinstance(tools, RequestTools):
        tools = replace(tools, declared=names.with_aliases(tools.declared))
    record.tools = declared(tools)
    return tools


def new_second() -> int:
    """The time in seconds, but none that another reply has had: ids of calls are made of it."""
    global _latest_second  # noqa: PLW0603
    _latest_second = max(int(time.time()), _latest_second + 1)
    return _latest_second


def _is_cut(body: bytes, request: ReadRequest) -> bool:
    """Whether a chat completion that came whole is a stream that was cut off; an empty body is,
    where a stream was asked for."""
    if is_event_stream(body):
        return not has_ended(body[-TAIL:])
    return not body.strip() and bool(request.stream)


def read_request(request: http.Request) -> Generator[None, None, ReadRequest]:
    """What is unreadable declares nothing.  Raises `TooLarge`."""
    value = None
    try:
        plain = yield from request_body(request)
        value = yield from load_request(plain or b"null")
    except (NotJson, DecodingError):
        pass
    yield
    route = route_of(request)
    tools = tools_of(value, "responses" if route.gives_response else route.api)
    stream = bool(value.get("stream")) if isinstance(value, dict) else None
    return ReadRequest(stream, tools)
