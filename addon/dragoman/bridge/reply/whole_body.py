"""A reply that came as one body, whatever the client asked for.

It goes through the very same stages as a stream, so the response object is the same.  A
message that repair may have to do with is cut into the chunks of a stream for that: a
repaired message could not say what of its text stood before a call and what after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...repair.chat_stream import ChatStreamRepair
from ...repair.formats import ALL, at_markers, begins_with_marker
from ...wire.chat_delta import choice_index
from ...wire.chat_text import let_go, passages, written
from ...wire.errors import error_body, error_json
from ...wire.json_codec import NotJson, dumps
from ...wire.json_slices import reading, writing
from ...wire.slices import Slices, drained
from ...wire.sse import DONE, Frame, encode, is_event_stream, split
from ..runs import choice_in_runs, message_in_runs
from .converter import ReplyConverter

Tell = Callable[[list[Frame]], object] | None
"""Takes the frames of a reply as they come of it; None where they are not wanted."""
_ENDED = object()


def feed_body(
    reply: ReplyConverter, body: bytes, repair: ChatStreamRepair | None = None
) -> list[Frame]:
    """Drive `reply` to its end with a whole body; ``reply.response`` is the result.

    The body is a ``chat.completion``, or, from an upstream that streams whatever it is
    asked for, an event stream; what is neither fails the turn.
    """
    frames: list[Frame] = []
    drained(_feeding_body(reply, body, repair, frames.extend))
    return frames


def _feeding_body(
    reply: ReplyConverter, body: bytes, repair: ChatStreamRepair | None, tell: Tell
) -> Slices[None]:
    if tell is not None:
        tell(reply.open())
    if is_event_stream(body):
        yield from _feeding(reply, split(body), repair, tell)
    else:
        yield from feeding_document(reply, body, repair, tell)


def feeding_document(
    reply: ReplyConverter, body: bytes, repair: ChatStreamRepair | None, tell: Tell
) -> Slices[None]:
    """The same with a body that is no event stream, once the reply is open."""
    try:
        value = yield from reading(body)
    except NotJson:
        frames = reply.fail("server_error", "The upstream's answer is not JSON.")
        if tell is not None:
            tell(frames)
        return
    if repair is not None and _is_completion(value) and (yield from ALL.holding_marker(body)):
        yield from _feeding(reply, _as_stream(value), repair, tell)
    else:
        yield from _telling(reply, reply.message(value), tell)
    yield from let_go(value)


def _feeding(
    reply: ReplyConverter, arrived: Iterable[Frame], repair: ChatStreamRepair | None, tell: Tell
) -> Slices[None]:
    for frame in arrived:
        repaired = repair.feed(frame) if repair else [frame]
        yield from _telling(reply, reply.taking(repaired, frame), tell)
    yield from _telling(reply, reply.closing(repair.close() if repair else ()), tell)


def _telling(reply: ReplyConverter, work: Slices[None], tell: Tell) -> Slices[None]:
    working = True
    while working:
        working = next(work, _ENDED) is not _ENDED
        if tell is None:
            reply.forget()
        else:
            tell((yield from reply.draining()))
        yield


def _is_completion(value: Any) -> bool:
    choices = value.get("choices") if isinstance(value, dict) else None
    return isinstance(choices, list) and all(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices
    )


def _as_stream(completion: dict[str, Any]) -> Iterator[Frame]:
    """A completion as the stream that says the same."""
    yield _chunk(completion | {"choices": []})
    for position, choice in enumerate(completion["choices"]):
        rest = {name: value for name, value in choice.items() if name != "message"}
        index = {"index": choice_index(choice, position)}
        for delta in _deltas(choice["message"]):
            shared = {"logprobs": rest.pop("logprobs", None)} if "content" in delta else {}
            said = index | shared | {"delta": delta}
            # Those of a call must stand where it does: repair drops them.
            is_marked = begins_with_marker(str(delta.get("content", "")))
            for run in [said] if is_marked else choice_in_runs(said):
                yield _chunk({"choices": [run]})
        yield _chunk({"choices": [rest | index | {"delta": {}}]})
    yield DONE


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The texts of a message, each marker at the start of an event, then the rest of it."""
    rest = dict(message)
    for passage in passages(message):
        for name in passage.fields:
            del rest[name]
        for text in at_markers(passage.text):
            yield {name: written(name, text, message[name]) for name in passage.fields}
    count = 0
    for run in message_in_runs(rest):
        calls = run.get("tool_calls")
        if isinstance(calls, list):
            numbered = [
                {"index": index} | call if isinstance(call, dict) else call
                for index, call in enumerate(calls, count)
            ]
            count += len(calls)
            run = run | {"tool_calls": numbered}  # noqa: PLW2901
        yield run


def _chunk(value: dict[str, Any]) -> Frame:
    return encode(dumps(value))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets for an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""


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
        told = status if status >= 400 else 502
        return Answer(told, error_body(status, body, retry_after=retry_after))
    raws: list[bytes] = []

    def tell(frames: list[Frame]) -> None:
        raws.extend(frame.raw for frame in frames)

    yield from _feeding_body(reply, body, repair, tell if stream else None)
    if stream:
        return Answer(200, b"".join(raws), stream=True)
    if reply.error is not None:
        return failed(reply.error.message, code=reply.error.code)
    return Answer(200, (yield from writing(reply.response)))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
