"""The client's reply to an upstream's whole reply, through the same stages as a stream."""

from __future__ import annotations

from dataclasses import dataclass

from ...repair.chat_stream import ChatStreamRepair
from ...wire.errors import error_json, http_error
from ...wire.json_slices import writing
from ...wire.slices import Slices
from ...wire.sse import Frame, joined
from .converter import ReplyConverter
from .pipeline import BridgePipeline


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""
    retry_after: str = ""
    """The header of an error; empty for none."""


def answering(
    reply: ReplyConverter,
    body: bytes,
    *,
    status: int,
    stream: bool,
    retry_after: str = "",
    repair: ChatStreamRepair | None = None,
) -> Slices[Answer]:
    """Convert the upstream's `body`, which came with `status`, for a client that asked for
    a `stream` or did not.  `retry_after` is that header of the upstream's."""
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        error = http_error(status, body, retry_after=retry_after)
        sent = error.status if status >= 400 else 502
        return Answer(sent, error.body, retry_after=error.retry_after)
    frames: list[Frame] = []
    yield from BridgePipeline(reply, repair).reading_whole(body, frames.extend if stream else None)
    if stream:
        return Answer(200, joined(frames), stream=True)
    if reply.error is not None:
        return failed(reply.error.message, code=reply.error.code)
    return Answer(200, (yield from writing(reply.response)))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
