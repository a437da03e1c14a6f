"""A reply that came whole, cut into pieces with the same content.

`message_in_runs` and `choice_in_runs` cut a long message: its lists of text parts, log
probabilities, annotations and calls, each after what `ReplyConverter` reads before it.  `as_stream`
makes chunks of a message that repair may change: a repaired message could not say what of its text
stood before a call and what after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from ...repair.formats import at_markers, begins_with_marker
from ...wire.chat_delta import KNOWN_FIELDS, choice_index
from ...wire.chat_text import DETAILS, FIELDS_OF, passages, reasoning, written
from ...wire.json_codec import Json, dumps
from ...wire.sse import DONE, Frame, encode

RUN = 200
"""Members of a list that are read by one call: a few milliseconds."""
_FIELDS = (
    *("role", "name", *FIELDS_OF["reasoning"], *FIELDS_OF["text"]),
    *("annotations", "citations", "tool_calls", "function_call"),
)
"""The fields that are read, in that order."""


def is_long(value: Any) -> TypeGuard[list[Any]]:
    """Whether a list is too long to be read by one call."""
    return isinstance(value, list) and len(value) > RUN


def runs(members: list[Any]) -> Iterator[list[Any]]:
    """A list in runs; a short one is one."""
    for begin in range(0, max(1, len(members)), RUN):
        yield members[begin : begin + RUN]


def message_in_runs(message: Json) -> Iterator[Json]:
    """A message or a delta in runs; a short one as it is."""
    if len(message) <= RUN and not any(map(is_long, message.values())):
        yield message
        return
    run: Json = {}
    for name in _FIELDS:
        value = message.get(name)
        if name == DETAILS and reasoning(run):
            continue  # they repeat it
        if not is_long(value):
            run |= {name: value} if name in message else {}
            continue
        for members in runs(value):
            yield run | {name: members}
            run = {}
    # Of all others it only matters whether there are any.
    others = (name for name in message if name not in KNOWN_FIELDS and message[name])
    yield run | {name: message[name] for name in [*others][:1]}


def choice_in_runs(choice: Json) -> Iterator[Json]:
    """A choice in runs; the fields beside its message are in the last."""
    name = "delta" if isinstance(choice.get("delta"), dict) else "message"
    message, logprobs = choice.get(name), choice.get("logprobs")
    where = {"index": choice["index"]} if "index" in choice else {}
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if is_long(tokens):
        choice = {field: value for field, value in choice.items() if field != "logprobs"}
        for members in runs(tokens):
            yield where | {name: {}, "logprobs": {"content": members}}
    if isinstance(message, dict):
        *before, last = message_in_runs(message)
        for run in before:
            yield where | {name: run}
        choice = choice | {name: last}
    yield choice


def completion_in_runs(value: Json) -> Iterator[Json]:
    """A whole reply as several, which together have the same content."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        yield value
        return
    yield value | {"choices": []}
    for position, choice in enumerate(choices):
        for run in choice_in_runs(choice) if isinstance(choice, dict) else ():
            yield {"choices": [{"index": position} | run]}


def is_completion(value: Any) -> bool:
    """Whether this is a whole chat completion."""
    choices = value.get("choices") if isinstance(value, dict) else None
    return isinstance(choices, list) and all(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices
    )


def as_stream(completion: dict[str, Any]) -> Iterator[Frame]:
    """A completion as a stream with the same content."""
    # The sources of a text follow it.
    last = {"citations": completion["citations"]} if "citations" in completion else {}
    first = {name: completion[name] for name in completion if name not in last}
    yield _chunk(first | {"choices": []})
    for position, choice in enumerate(completion["choices"]):
        rest = {name: value for name, value in choice.items() if name != "message"}
        index = {"index": choice_index(choice, position)}
        for delta in _deltas(choice["message"]):
            shared = {"logprobs": rest.pop("logprobs", None)} if "content" in delta else {}
            whole = index | shared | {"delta": delta}
            # Those of a call must be in its chunk: repair drops them.
            is_marked = begins_with_marker(str(delta.get("content", "")))
            for run in [whole] if is_marked else choice_in_runs(whole):
                yield _chunk({"choices": [run]})
        yield _chunk({"choices": [rest | index | {"delta": {}}]} | last)
        last = {}
    yield DONE


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The texts of a message, each marker at the start of an event, then the rest."""
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
