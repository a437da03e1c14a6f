"""What a client gets for a reply that came whole, whatever the client asked for.

It goes through the very same stages as a stream, so the response object is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...repair.chat_stream import ChatStreamRepair
from ...wire.errors import error_json, http_error
from ...wire.json_slices import writing
from ...wire.slices import Slices
from ...wire.sse import Frame
from .converter import ReplyConverter
from .pipeline import BridgePipeline


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets for an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""
    retry_after: str = ""
    """The value of that header of an error; empty for none."""


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
        told = error.status if status >= 400 else 502
        return Answer(told, error.body, retry_after=error.retry_after)
    raws: list[bytes] = []

    def tell(frames: list[Frame]) -> None:
        raws.extend(frame.raw for frame in frames)

    yield from BridgePipeline(reply, repair).reading_whole(body, tell if stream else None)
    if stream:
        return Answer(200, b"".join(raws), stream=True)
    if reply.error is not None:
        return failed(reply.error.message, code=reply.error.code)
    return Answer(200, (yield from writing(reply.response)))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
