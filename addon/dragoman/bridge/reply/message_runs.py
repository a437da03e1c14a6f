"""Cuts a long message into runs with the same content.

A message may hold long lists: parts of text, log probabilities, annotations, calls.  Each list is
cut, and what `ReplyConverter` reads before it comes before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from ...wire.chat_delta import KNOWN_FIELDS
from ...wire.chat_text import DETAILS, FIELDS_OF, reasoning
from ...wire.json_codec import Json

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
    """Of a message or a delta; a short one as it is."""
    if len(message) <= RUN and not any(map(is_long, message.values())):
        yield message
        return
    run: Json = {}
    for name in _FIELDS:
        value = message.get(name)
        if name == DETAILS and reasoning(run):
            continue  # the same once more
        if not is_long(value):
            run |= {name: value} if name in message else {}
            continue
        for some in runs(value):
            yield run | {name: some}
            run = {}
    # That there are others is all that is read of them.
    others = (name for name in message if name not in KNOWN_FIELDS and message[name])
    yield run | {name: message[name] for name in [*others][:1]}


def choice_in_runs(choice: Json) -> Iterator[Json]:
    """Of a choice of a whole reply; its other fields in the last run."""
    name = "delta" if isinstance(choice.get("delta"), dict) else "message"
    message, logprobs = choice.get(name), choice.get("logprobs")
    where = {"index": choice["index"]} if "index" in choice else {}
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    if is_long(tokens):
        choice = {field: value for field, value in choice.items() if field != "logprobs"}
        for run in runs(tokens):
            yield where | {name: {}, "logprobs": {"content": run}}
    if isinstance(message, dict):
        *before, last = message_in_runs(message)
        for some in before:
            yield where | {name: some}
        choice = choice | {name: last}
    yield choice


def completion_in_runs(value: Json) -> Iterator[Json]:
    """A whole reply as several, which say the same one after the other."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        yield value
        return
    yield value | {"choices": []}
    for position, choice in enumerate(choices):
        for run in choice_in_runs(choice) if isinstance(choice, dict) else ():
            yield {"choices": [{"index": position} | run]}
