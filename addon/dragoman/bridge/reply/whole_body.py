"""A reply that came as one body, whatever the client asked for.

It goes through the very same stages as a stream, so the response object is the same.  A
message that repair may have to do with is cut into the chunks of a stream for that: a
repaired message could not say what of its text stood before a call and what after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...repair.chat_stream import ChatStreamRepair
from ...repair.formats.kimi_k2.markers import may_hold_marker
from ...wire.chat_text import passages, written
from ...wire.errors import error_body, error_json
from ...wire.json_codec import NotJson, dumps, loads
from ...wire.sse import DONE, Frame, encode, is_event_stream, joined, split
from .converter import ReplyConverter

_MARKER_STARTS = re.compile(r"(?=<\|)")


def feed_body(
    reply: ReplyConverter, body: bytes, repair: ChatStreamRepair | None = None
) -> list[Frame]:
    """Drive `reply` to its end with a whole body; ``reply.response`` is the result.

    The body is a ``chat.completion``, or, from an upstream that streams whatever it is
    asked for, an event stream; what is neither fails the turn.
    """
    frames = reply.open()
    if is_event_stream(body):
        return frames + _feed(reply, split(body), repair)
    return frames + feed_document(reply, body, repair)


def feed_document(
    reply: ReplyConverter, body: bytes, repair: ChatStreamRepair | None = None
) -> list[Frame]:
    """The same with a body that is no event stream, once the reply is open."""
    try:
        value = loads(body)
    except NotJson:
        return reply.fail("server_error", "The upstream's answer is not JSON.")
    if repair is None or not may_hold_marker(body) or not _is_completion(value):
        return reply.message(value)
    return _feed(reply, _as_stream(value), repair)


def _feed(
    reply: ReplyConverter, arrived: Iterable[Frame], repair: ChatStreamRepair | None
) -> list[Frame]:
    frames: list[Frame] = []
    for frame in arrived:
        frames += reply.feed_repaired(repair.feed(frame) if repair else [frame], frame)
    return frames + reply.close(repair.close() if repair else ())


def _is_completion(value: Any) -> bool:
    choices = value.get("choices") if isinstance(value, dict) else None
    return isinstance(choices, list) and all(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices
    )


def _as_stream(completion: dict[str, Any]) -> Iterator[Frame]:
    """A completion as the stream that says the same."""
    yield _chunk(completion | {"choices": []})
    for choice in completion["choices"]:
        rest = {name: value for name, value in choice.items() if name != "message"}
        index = {"index": rest["index"]} if "index" in rest else {}
        for delta in _deltas(choice["message"]):
            shared = {"logprobs": rest.pop("logprobs", None)} if "content" in delta else {}
            yield _chunk({"choices": [index | shared | {"delta": delta}]})
        yield _chunk({"choices": [rest | {"delta": {}}]})
    yield DONE


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The texts of a message, each marker at the start of an event, then the rest of it."""
    rest = dict(message)
    for passage in passages(message):
        for name in passage.fields:
            del rest[name]
        for text in _MARKER_STARTS.split(passage.text):
            if text:
                yield {name: written(name, text, message[name]) for name in passage.fields}
    calls = rest.get("tool_calls")
    if isinstance(calls, list):
        rest["tool_calls"] = [
            {"index": index} | call if isinstance(call, dict) else call
            for index, call in enumerate(calls)
        ]
    yield rest


def _chunk(value: dict[str, Any]) -> Frame:
    return encode(dumps(value))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets for an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""


def answer(
    reply: ReplyConverter,
    body: bytes,
    *,
    status: int,
    stream: bool,
    retry_after: str = "",
    repair: ChatStreamRepair | None = None,
) -> Answer:
    """Convert the upstream's `body`, which came with `status`, for a client that asked for
    a `stream` or did not.  `retry_after` is that header of the upstream's."""
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        told = status if status >= 400 else 502
        return Answer(told, error_body(status, body, retry_after=retry_after))
    frames = feed_body(reply, body, repair)
    if stream:
        return Answer(200, joined(frames), stream=True)
    if reply.error is not None:
        return failed(reply.error.message, code=reply.error.code)
    return Answer(200, dumps(reply.response))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
