"""Which API a reply is of: its first object says so.  By what it is read, repaired and bridged, and
the facts of any.  The type of its request's tools says which stage repairs it.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, get_args

from ..chat.delta import is_chunk
from ..chat.reader import ChatReader
from ..chat.repair import ChatRepair
from ..messages import names as messages
from ..messages.reader import MessagesReader
from ..messages.repair import MessagesRepair
from ..messages.tools import MessagesTools
from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.repair_options import RepairOptions
from ..reply.facts import ReplyReader, TurnReader, read_body
from ..reply.frame_queue import QueuedRepair
from ..reply.repair_pipeline import RepairPipeline
from ..reply.stage import RepairStage, Steps, at_once
from ..reply.unrepaired import Unrepaired
from ..reply.words import Reader
from ..responses import names as responses
from ..responses.reader import ResponsesReader
from ..responses.repair import ResponsesRepair
from ..wire.errors import unlisted
from ..wire.json_codec import Json
from ..wire.sse import Document, is_event_stream, split
from .reply.converter import ReplyConverter
from .responses_tools import ResponsesTools

Api = Literal["chat", "responses", "messages"]
APIS: tuple[Api, ...] = get_args(Api)
READERS: dict[Api, type[ChatReader | ResponsesReader | MessagesReader]] = {
    "chat": ChatReader,
    "responses": ResponsesReader,
    "messages": MessagesReader,
}
SHOWN: dict[type[Reader], str] = {
    ChatReader: "chat",
    ResponsesReader: "Responses",
    MessagesReader: "Messages",
}
"""How people are told which it is."""
_BEGIN = 64
"""Events of a recorded reply that are looked at."""
Tools = DeclaredTools | ResponsesTools | MessagesTools
"""Those of a chat request, of a Responses request, or of a Messages request."""


def reader_for(value: Json) -> Reader | None:
    """A reader for a reply that begins with an object; None if that does not show its API: some
    hosts send a ping or an error first."""
    api = _api_shown(value)
    return None if api is None else READERS[api]()


def _api_shown(value: Json) -> Api | None:
    if messages.is_event(value) or messages.is_message(value):
        return "messages"
    if is_chunk(value):
        return "chat"
    if value.get("type") in ("ping", "error"):
        return None
    return "responses" if responses.is_event(value) or responses.is_response(value) else None


def api_of(request: object, reply: bytes) -> Api:
    """The API of a recorded reply, as it itself shows, or for Responses the request; chat if
    neither does."""
    if isinstance(request, dict) and "input" in request and "messages" not in request:
        return "responses"
    frames = split(reply) if is_event_stream(reply) else [Document(reply)]
    values = (unlisted(frame.json) for frame in islice(frames, _BEGIN))
    shown = (_api_shown(value) for value in values if isinstance(value, dict))
    return next(filter(None, shown), "chat")


def tools_of(request: object, api: str, received: object = None) -> Tools:
    """`api`: `responses`, `messages`, or any other. `received`: the client's request, if another
    was sent."""
    if api == "responses":
        return ResponsesTools.of_request(request)
    if api == "messages":
        return MessagesTools.of_request(request, received)
    return DeclaredTools.of_request(request)


def declared(tools: Tools) -> DeclaredTools:
    """The tools as repair knows them."""
    return tools if isinstance(tools, DeclaredTools) else tools.declared


def stage_for(tools: Tools, options: RepairOptions, evidence: Evidence, now: int) -> RepairStage:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, ResponsesTools):
        return ResponsesRepair(tools, options, evidence, now)
    if isinstance(tools, MessagesTools):
        return MessagesRepair(tools, options, evidence, now)
    return ChatRepair(tools, options, evidence, now)


def bridge_stage(
    reply: ReplyConverter, repair: QueuedRepair | None, reader: Reader | None, facts: TurnReader
) -> RepairStage:
    """The reader of the upstream's API, repair if there is any, and the writer of the client's.
    Without `repair` the `reader` reads the reply; without both it is Chat Completions."""
    if repair is None:
        reader = reader or ChatReader(reply.names)
        reply.reader = reader
        return Unrepaired(reader, reply, facts)
    repair.facts = facts
    reply.reader = repair.reader
    repair.write_by(reply, reply.budget)
    return repair


def repair_whole(
    body: bytes, tools: Tools, options: RepairOptions, evidence: Evidence, now: int
) -> bytes:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    return at_once(repair_in_steps(body, tools, options, evidence, now))


def repair_in_steps(
    body: bytes,
    tools: Tools,
    options: RepairOptions,
    evidence: Evidence,
    now: int,
    *,
    read: TurnReader | None = None,
) -> Steps[bytes]:
    """As `repair_whole`; other flows may run where it yields.  `read` notes the facts."""
    repair = stage_for(tools, options, evidence, now)
    if is_event_stream(body):
        return RepairPipeline(repair, evidence, read=read).whole(body)
    if read is not None:
        read.whole(len(body))
    repair.facts = read
    return repair.document(body)


def turn_reader(*, keeps: bool = False) -> TurnReader:
    return TurnReader(reader_for, keeps=keeps)


def read_reply(body: bytes, *, keeps: bool = False) -> ReplyReader:
    """The facts of a body, perhaps unfinished, or without its middle."""
    return read_body(body, reader_for, keeps=keeps)
