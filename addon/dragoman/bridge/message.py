"""A reply that came as one body, whatever the client asked for.

It goes through the very same `Reply` as a stream, so the response object is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..jsonio import NotJson, dumps, loads
from ..sse import Frame, is_event_stream, split
from .errors import error_body, error_json
from .reply import Reply


def feed_body(reply: Reply, body: bytes) -> list[Frame]:
    """Drive `reply` to its end with a whole body; ``reply.response`` is the result.

    The body is a ``chat.completion``, or, from an upstream that streams whatever it is
    asked for, an event stream; what is neither fails the turn.
    """
    frames = reply.open()
    if not is_event_stream(body):
        return frames + feed_document(reply, body)
    for frame in split(body):
        frames += reply.feed(frame)
    return frames + reply.close()


def feed_document(reply: Reply, body: bytes) -> list[Frame]:
    """The same with a body that is no event stream."""
    try:
        value = loads(body)
    except NotJson:
        return reply.fail("server_error", "The upstream's answer is not JSON.")
    return reply.message(value)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets for an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""


def answer(
    reply: Reply, body: bytes, *, status: int, stream: bool, retry_after: str = ""
) -> Answer:
    """Convert the upstream's `body`, which came with `status`, for a client that asked for
    a `stream` or did not.  `retry_after` is that header of the upstream's."""
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        told = status if status >= 400 else 502
        return Answer(told, error_body(status, body, retry_after=retry_after))
    frames = feed_body(reply, body)
    if stream:
        return Answer(200, b"".join(frame.raw for frame in frames), stream=True)
    error = reply.response.get("error")
    if reply.response.get("status") == "failed" and isinstance(error, dict):
        return failed(error["message"], code=error["code"])
    return Answer(200, dumps(reply.response))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
