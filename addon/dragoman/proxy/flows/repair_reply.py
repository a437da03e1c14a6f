"""A reply that is repaired, or only watched, from its headers to its end, streamed or whole.

``bytes -> repair -> bytes``: the stages are composed in `reply.repair_pipeline`; here is what
surrounds them: the record and the log.  A stream that is compressed passes unread, and says so.
After a fault the log has one traceback, what is held is released, and the rest passes as it comes.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from mitmproxy import http

from ...bridge.cure.tool_names import ToolNames
from ...bridge.reader_writer_pairs import (
    Tools,
    declared,
    repair_in_steps,
    stage_for,
    tools_of,
    turn_reader,
)
from ...inspect.outcome import UNREAD
from ...messages.repair import OVERFLOW_REWORDED
from ...repair.declared_tools import DeclaredTools
from ...reply.repair_pipeline import RepairPipeline
from ...reply.stage import RepairStage, Steps
from ...wire.chat_end import EARLY, TAIL, broken_off, has_ended
from ...wire.context_overflow import reworded_body
from ...wire.json_codec import NotJson
from ...wire.reply_bounds import MAX_REPLY
from ...wire.request_bounds import TooLarge
from ...wire.sse import is_event_stream
from ..body_clues import MAX_ERROR
from ..content_decoding import DecodingError
from ..error_responses import unreachable
from ..flow_state import state_of
from ..http_headers import (
    EVENT_STREAM,
    body_of,
    encoding_of,
    is_encoded,
    media_type,
    request_body,
    request_value,
    set_stream_framing,
)
from ..observe.flow_name import name_of
from ..observe.monitor import FlowMonitor
from ..observe.recorder import FlowRecorder, recorder_of
from ..options import Settings
from ..routes import is_of_anthropic, route_of
from ..run_slices import ClientLeft, in_slices
from .cure_flow import CureFlow, SentRequest
from .live_stream import LiveStream, ReplyContext, WatchedStream

logger = logging.getLogger(__name__)

_KINDS = ("application/json", EVENT_STREAM)
_latest_second = 0


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What the repair of a reply needs of its request."""

    stream: bool | None
    """Whether it asks for a stream; None if it is unreadable."""
    tools: Tools


class RepairReplies:
    """Repairs replies; what cannot be repaired passes as it comes."""

    def __init__(self, monitor: FlowMonitor, cure: CureFlow, *, has_layer: bool) -> None:
        """`has_layer`: see `ReplyContext.of`."""
        self._monitor = monitor
        self._cure = cure
        self._has_layer = has_layer

    def is_wanted(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        """Whether the reply to this request, unless bridged, is to be repaired."""
        if settings.repair is None:
            route = route_of(flow.request)
            return route.gives_turn and not is_of_anthropic(flow.request, route)
        # The names of tools are put back whatever a filter says of the reply.
        names = state_of(flow).tool_names
        return (names is not None and names.restores) or settings.repair(flow)

    def is_possible(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        """Whether a reply that has come is to be repaired."""
        good = flow.response is not None and 200 <= flow.response.status_code < 300
        return good and self.is_wanted(flow, settings)

    def is_collected(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        """Whether the reply, unless it streams, is repaired when it has been received whole."""
        if flow.response is None or not self.is_possible(flow, settings):
            return False
        return _is_chat(flow) or media_type(flow.response) == "application/json"

    def may_reword(self, flow: http.HTTPFlow, settings: Settings) -> bool:
        """Whether a reply is an error of a Messages host, which clients know by its words."""
        response, is_messages = flow.response, route_of(flow.request).api == "messages"
        is_error = response is not None and response.status_code >= 400
        return is_error and is_messages and self.is_wanted(flow, settings)

    def reword(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Say an overflow in these words; all other errors stay as they came."""
        try:
            body = body_of(response, MAX_ERROR)
            new = reworded_body(body, response.status_code)
        except DecodingError:
            return
        except Exception:
            logger.exception("%s: the error passes as it came", name_of(flow))
            return
        if new != body:
            record = self._monitor.of(flow, "repair")
            record.evidence.note(*OVERFLOW_REWORDED)
            record.reply.add_received(body)
            response.headers.pop("content-encoding", None)
            response.content = new

    def request_read(self, flow: http.HTTPFlow, sent: SentRequest) -> None:
        """A request is sent with this value: it need not be read again."""
        try:
            request: ReadRequest | None = _what_it_says(flow.request, sent.value, sent.received)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
            request = None
        state_of(flow).request = flow.request.raw_content, request

    async def begin(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> None:
        """The headers of a reply have come.  It streams, and is repaired meanwhile, or it is
        collected to be repaired; or it passes."""
        if self.may_reword(flow, settings):
            return
        repairs, keeps = self.is_possible(flow, settings), self._cure.keeps(flow)
        if repairs or keeps:
            request = await self._read(flow)
            if request is None:
                repairs = False
            elif _streams(flow, response, request):
                state_of(flow).request = None
                try:
                    self._stream(flow, response, request, settings, keeps=keeps)
                except Exception:
                    error = "%s: repair failed; the reply passes as it comes"
                    logger.exception(error, name_of(flow))
                    self._pass_on(flow, response)
                return
        if repairs and self.is_collected(flow, settings):
            self._monitor.of(flow, "repair")
            self._monitor.take_stream(flow, response)
        elif media_type(response) == EVENT_STREAM:
            self._pass_on(flow, response)

    async def _read(self, flow: http.HTTPFlow) -> ReadRequest | None:
        """What the request says; None after a fault, or if it is too large."""
        body, request = state_of(flow).request or (None, None)
        if body is None or body is not flow.request.raw_content:
            request = None
            try:
                request = await read_request(flow.request)
            except TooLarge as error:
                self._monitor.of(flow, "watch").evidence.note("not repaired:", str(error))
            except Exception:
                logger.exception("%s: repair failed; the reply passes as it comes", name_of(flow))
            state_of(flow).request = flow.request.raw_content, request
        return request

    def _stream(
        self,
        flow: http.HTTPFlow,
        response: http.Response,
        request: ReadRequest,
        settings: Settings,
        *,
        keeps: bool,
    ) -> None:
        """Have the reply repaired while it streams, or pass as it comes if that is impossible."""
        if is_encoded(response):
            encoding = encoding_of(response)
            self._monitor.of(flow, "watch").evidence.note(UNREAD, encoding)
            error = "%s: not repaired: its stream is compressed (%r), though identity was asked for"
            logger.warning(error, name_of(flow), encoding)
            self._pass_on(flow, response)
            return
        repairs = settings.repair is None or settings.repair(flow)
        record = self._monitor.of(flow, "repair" if repairs else "watch")
        names = state_of(flow).tool_names
        tools = _sent_tools(request, names, record)
        self._monitor.take_stream(flow, response)
        stage = RepairStage()
        if repairs:
            stage = stage_for(tools, settings.repair_options, record.evidence, new_second())
        context = ReplyContext.of(
            flow,
            response,
            record,
            name_of(flow),
            heartbeat=settings.heartbeat if request.stream else 0,
            has_layer=self._has_layer,
        )
        reports_end = repairs and _is_chat(flow)
        response.stream = RepairStream(
            stage, context, reports_end=reports_end, keeps=keeps, names=names
        )
        self._monitor.streams(flow)
        set_stream_framing(flow.request, response)

    def _pass_on(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have an event stream pass, recorded if it is an LLM's."""
        record = recorder_of(flow)
        if record is not None and not callable(response.stream):
            response.stream = WatchedStream(record, response)
            self._monitor.streams(flow)
        response.stream = response.stream or True

    def pass_unread(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """Have a reply pass that is too large to be read whole."""
        state_of(flow).request = None
        logger.warning("%s: not repaired: the body is too large", name_of(flow))
        record = recorder_of(flow)
        if record is not None:
            record.evidence.note("not repaired", "a body too large to be read as a whole")
        self._pass_on(flow, response)

    async def whole(self, flow: http.HTTPFlow, response: http.Response, settings: Settings) -> None:
        """Repair a reply that was received whole."""
        request, kind = await self._read(flow), media_type(response)
        state_of(flow).request = None
        if request is None or not (_is_chat(flow) or kind in _KINDS):
            return
        record, names = self._monitor.of(flow, "repair"), state_of(flow).tool_names
        tools = _sent_tools(request, names, record)
        repair_options, evidence = settings.repair_options, record.evidence
        try:
            body = body_of(response)
            if record.received is response and _is_chat(flow) and _is_cut(body, request):
                logger.error("%s: %s", name_of(flow), EARLY)
                record.reply.add_received(body)
                flow.response = unreachable(EARLY)
                return
            # With other names than the client's, its side is read as it was sent.
            read = turn_reader(keeps=self._cure.keeps(flow)) if names is None else None
            steps = repair_in_steps(body, tools, repair_options, evidence, new_second(), read=read)
            repaired = await in_slices(steps, flow)
            record.read = read
            repaired = repaired if names is None else names.restored(repaired)
        except ClientLeft:
            return
        except DecodingError as error:
            logger.warning("%s: not repaired: the body cannot be read: %s", name_of(flow), error)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", name_of(flow))
        else:
            if repaired != body:
                record.reply.add_received(body)
                response.headers.pop("content-encoding", None)
                response.content = repaired


def _is_chat(flow: http.HTTPFlow) -> bool:
    return route_of(flow.request).api == "chat"


def _streams(flow: http.HTTPFlow, response: http.Response, request: ReadRequest) -> bool:
    """Whether the reply streams: where the request asks for a stream, and in an unknown API, where
    the reply is labelled as one."""
    if is_encoded(response) and media_type(response) == "application/json":
        return False
    if request.stream is None or not (request.stream or _is_chat(flow)):
        return media_type(response) == EVENT_STREAM
    return request.stream


def _sent_tools(request: ReadRequest, names: ToolNames | None, record: FlowRecorder) -> Tools:
    """The tools with the names that were sent."""
    tools = request.tools
    if names is not None:
        known = names.with_aliases(declared(tools))
        tools = known if isinstance(tools, DeclaredTools) else replace(tools, declared=known)
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


async def read_request(request: http.Request) -> ReadRequest:
    """What is unreadable declares nothing.  Raises `TooLarge`."""
    value = None
    with suppress(NotJson, DecodingError):
        value = await request_value(await request_body(request) or b"null")
    return _what_it_says(request, value)


def _what_it_says(request: http.Request, value: object, received: object = None) -> ReadRequest:
    route = route_of(request)
    tools = tools_of(value, "responses" if route.gives_response else route.api, received)
    stream = bool(value.get("stream")) if isinstance(value, dict) else None
    return ReadRequest(stream, tools)


class RepairStream(LiveStream):
    """The stream of a repaired reply."""

    def __init__(
        self,
        repair: RepairStage,
        context: ReplyContext,
        *,
        reports_end: bool,
        keeps: bool = False,
        names: ToolNames | None = None,
    ) -> None:
        """`reports_end`: see `RepairPipeline`. `keeps`: a turn's end waits
        until its reasoning has been kept. `names`: if tools were sent with others than
        the client's."""
        super().__init__(context)
        self._read = turn_reader(keeps=keeps)
        self._pipeline: RepairPipeline = RepairPipeline(
            repair,
            context.record.evidence,
            labelled=context.labelled,
            max_document=MAX_REPLY,
            reports_end=reports_end,
            breaks=context.breaks,
            read=self._read,
        )
        context.record.read = self._read
        self._repair = repair
        self._keeps = keeps
        self._names = names

    def _feed(self, data: bytes) -> bytes:
        try:
            sent = self._pipeline.feed(data)
        except Exception:
            sent = self._fall_back()
        return self._until_turn_end(sent)

    def _close(self) -> bytes:
        try:
            sent = self._ended(self._pipeline.close())
        except Exception:
            sent = self._fall_back()
        if self._pipeline.error:
            self._say(self._pipeline.error)
        if self._pipeline.document is None:
            return self._until_turn_end(sent)
        self._document = self._repaired(self._pipeline.document)
        return b""

    def _keep_waiting(self) -> bytes:
        """Sent between two events: clients ignore it."""
        try:
            sent = self._pipeline.heartbeat()
        except Exception:
            sent = self._fall_back()
        return self._named(sent)

    def _break_off(self, error: str) -> bytes:
        if self._pipeline.ended:
            return b""
        message = broken_off(error)
        try:
            sent = self._ended(self._pipeline.break_off(message))
            self._say(message)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            sent = self._ended(self._pipeline.fall_back(message))
        return self._named(sent)

    def _repaired(self, document: bytes) -> Steps[bytes]:
        """A reply that is no event stream; as it came after a fault."""
        try:
            self._read.whole(len(document))
            sent = self._named((yield from self._repair.document(document)))
        except Exception:
            self._read.stopped = True
            logger.exception("%s: repair failed; the reply passes as it came", self._name)
            return document
        if not self._keeps:
            return sent
        self._held = sent
        return b""

    def _until_turn_end(self, sent: bytes) -> bytes:
        """`sent` up to the end of a turn that has to be kept first; the rest is held."""
        if kept_first := self._pipeline.kept_first:
            self._held = self._named(sent[-kept_first:])
            sent = sent[:-kept_first]
        return self._named(sent)

    def _named(self, sent: bytes) -> bytes:
        """`sent` with the client's names of tools."""
        if self._names is None:
            return sent
        try:
            return self._names.restored(sent)
        except Exception:
            logger.exception("%s: the names of tools stay as they came", self._name)
            self._names = None
            return sent

    def _say(self, error: str) -> None:
        """The line of a flow says why its reply has broken off."""
        if not self._pipeline.broken:
            logger.error("%s: %s", self._name, error)

    def _fall_back(self) -> bytes:
        """After a fault."""
        logger.exception("%s: repair failed; the rest passes as it comes", self._name)
        return self._ended(self._pipeline.fall_back())

    def _ended(self, sent: bytes) -> bytes:
        self._over = self._pipeline.ended
        return sent
