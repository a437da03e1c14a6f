"""A bridged turn, between its request and its reply, and what differs by the API of its client.

Which turns run is known by `flow_state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from mitmproxy import http

from ...bridge.reply.converter import ReplyConverter
from ...bridge.request.conversion import Conversion
from ...chat.repair import ChatRepair
from ...notes import Evidence
from ...reply.turn_context import TurnContext
from ...stored.save_context import SaveContext
from ...wire.errors import ErrorForm, Refused
from ...wire.json_codec import NotJson, TooDeep
from ..content_decoding import DecodingError, UnknownEncodingError
from ..flow_state import running_turns
from ..http_headers import encoding_of, request_body, request_value
from ..observe.recorder import ClientRequest, FlowRecorder
from ..options import Settings
from ..routes import Route
from .learned_refusals import Asked
from .repair_reply import new_second


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """A client's request with all that it refers to."""

    received: bytes
    """The body as the client sent it, decoded."""
    body: object
    """What is converted."""
    earlier: list[dict[str, Any]] | None = None
    """The items before its own input; None if responses are not kept."""
    echoed: Any = None
    """The request as the response echoes it, if it is not `body`."""
    keeping: SaveContext | None = None
    resumes: bytes = b""
    """See `ClientRequest`."""


class BridgedApi(ABC):
    """All in which a bridged turn differs by the API of its client."""

    def dialect(self, asked: str, settings: Settings, request: http.Request, _: Evidence) -> str:  # noqa: ARG002
        """The name of the one in which events are written, where the API has several; `asked`: of
        the request's own header."""
        return ""

    @abstractmethod
    async def read(self, flow: http.HTTPFlow, route: Route, evidence: Evidence) -> WholeRequest:
        """The client's request.  Raises `Refused` and `StoreError`."""

    @abstractmethod
    async def read_again(self, sent: ClientRequest, evidence: Evidence) -> WholeRequest:
        """That of a flow that is replayed, and not kept.  Raises `Refused`."""

    @abstractmethod
    def convert(
        self, request: WholeRequest, settings: Settings, evidence: Evidence
    ) -> Generator[None, None, Conversion]:
        """Yields where others may have their turn.  Raises `Refused` and `NotJson`."""

    @abstractmethod
    def to_chat(self, request: http.Request, base: str) -> None:
        """Address the request to the chat completions at `base`."""

    @abstractmethod
    def reply(self, bridged: BridgedTurn) -> ReplyConverter:
        """The reply of a turn, before anything of it has come."""


@dataclass(slots=True)
class BridgedTurn:
    """What the reply needs of its request."""

    api: BridgedApi
    errors: ErrorForm
    """How its client reads errors."""
    turn: TurnContext
    dialect: str
    settings: Settings
    record: FlowRecorder
    keeping: SaveContext | None = None
    """None if the response is not to be kept."""
    repair: bool = True
    """Whether the user wants the reply repaired: known when its headers have come."""
    running: ReplyConverter | None = None
    """The reply while it streams, and is to be kept."""
    asked: Asked = (b"", "")
    """By whom, and which model."""
    refusals: tuple[str, ...] = ()
    """The words with which its host has refused it, before it was changed and sent again."""

    @property
    def resumed(self) -> tuple[bytes, str] | None:
        """Whose response it continues with outputs of tools, and its id; None for a new one."""
        keeping = self.keeping
        if keeping is None or keeping.resumes is None:
            return None
        return keeping.asker, keeping.resumes.response["id"]

    def reply(self) -> ReplyConverter:
        """The reply of this turn, before anything of it has come."""
        return self.api.reply(self)

    def repair_stage(self) -> ChatRepair | None:
        """What repairs the words of the upstream, if the user wants it."""
        if not self.repair:
            return None
        repair_options = self.settings.repair_options
        return ChatRepair(self.record.tools, repair_options, self.record.evidence, new_second())


def running_reply(asker: bytes, response_id: str) -> ReplyConverter | None:
    """The reply that is this response; None if it does not run, or has another owner."""
    for turn in running_turns():
        reply, owner = turn.running, turn.keeping.asker if turn.keeping else b""
        if reply and owner == asker and reply.response["id"] == response_id:
            return reply
    return None


async def received_body(request: http.Request) -> bytes:
    """The request's body, decoded; raises `Refused`."""
    try:
        return await request_body(request)
    except UnknownEncodingError:
        encoding = encoding_of(request).strip().lower()[:40]
        raise Refused(f"Content-Encoding {encoding!r} cannot be read here.", status=415) from None
    except DecodingError as error:
        raise Refused(f"The compressed request body is unusable: {error}.") from None


async def received_value(received: bytes) -> Any:
    """The JSON value of a body; raises `Refused`."""
    try:
        return await request_value(received)
    except TooDeep as error:
        raise Refused(f"The request body is {error}.", code="nested_too_deeply") from None
    except NotJson:
        raise Refused("The request body is not valid JSON.", code="invalid_json") from None
