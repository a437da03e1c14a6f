"""A whole reply as the stream with the same content.

A message that repair may change is cut into chunks for that: a repaired message could not say
what of its text stood before a call and what after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...repair.formats import at_markers, begins_with_marker
from ...wire.chat_delta import choice_index
from ...wire.chat_text import passages, written
from ...wire.json_codec import dumps
from ...wire.sse import DONE, Frame, encode
from .message_runs import choice_in_runs, message_in_runs

_NO_CHOICES: dict[str, Any] = {"choices": []}


def is_completion(value: Any) -> bool:
    """Whether this is a chat completion that came whole."""
    choices = value.get("choices") if isinstance(value, dict) else None
    return isinstance(choices, list) and all(
        isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices
    )


def as_stream(completion: dict[str, Any]) -> Iterator[Frame]:
    """A completion as a stream with the same content."""
    # Sources of the text that follows come after it.
    last = {"citations": completion["citations"]} if "citations" in completion else {}
    yield _chunk({name: completion[name] for name in completion if name not in last} | _NO_CHOICES)
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
