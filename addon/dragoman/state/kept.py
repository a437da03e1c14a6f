"""A response as it is kept, and its bytes.

The request is kept as the client sent it and the stream as it was sent, so that keeping
a turn costs no more than writing its answer once: a conversation of megabytes is neither
read nor written as JSON for it.

What a response adds to its conversation is its own input and what came of it; a
conversation is read off a chain of responses, oldest first, and is never kept whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bridge.chat_shapes import responses_form
from ..jsonio import NotJson, dumps, loads

Json = dict[str, Any]
_VERSION = 1
_STREAMED_CALLS = ("function_call", "tool_call", "custom_tool_call")
"""The calls that may be cut: they are then listed as ``incomplete``, and the client never
got their end."""


class Unreadable(ValueError):  # noqa: N818 - the name says what is the matter
    """The bytes are not those of a kept response, or of another version."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One response."""

    response: Json
    """The response object as the client got it last."""
    request: bytes
    """The body that asked for it, as the client sent it."""
    trail: bytes = b""
    """The ids of the responses it goes on from, oldest first, with blanks between.  Of a
    long chain only the last one's is ever read, so it is no part of the JSON."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which the request's ``item_reference`` items refer, by id."""
    said: Sequence[Json] | None = None
    """What came of the input, if that is more than the response's output: the outputs of
    tools that were submitted stand between the output items."""
    events: bytes = b""
    """The stream as the client got it; empty if it was not streamed, or too long."""

    @property
    def before(self) -> tuple[str, ...]:
        """The ids of the responses it goes on from, oldest first."""
        return tuple(self.trail.decode().split())

    def ask(self) -> Json:
        """The request's body, in the form of the Responses API."""
        ask: Json = responses_form(loads(self.request))
        return ask

    def own_input(self) -> list[Json]:
        """The items of the request's ``input``, whatever form it had."""
        return input_items(self.ask().get("input"), self.references)

    def items(self) -> list[Json]:
        """What this response adds to its conversation."""
        return [*self.own_input(), *self.outcome()]

    def outcome(self) -> list[Json]:
        """What came of its input, without a call that was cut: that is never history."""
        came = self.response["output"] if self.said is None else self.said
        return [
            item
            for item in came
            if item.get("status") != "incomplete" or item.get("type") not in _STREAMED_CALLS
        ]

    def encoded(self) -> bytes:
        """The bytes to keep."""
        response = dumps(self.response)
        head = {
            "version": _VERSION,
            "sizes": [len(self.trail), len(response), len(self.request)],
            "references": self.references,
            "said": self.said,
        }
        return b"".join((dumps(head), b"\n", self.trail, response, self.request, self.events))

    @classmethod
    def decoded(cls, blob: bytes) -> Kept:
        """What `encoded` was given; raises `Unreadable`."""
        head_text, _, rest = blob.partition(b"\n")
        try:
            head = loads(head_text)
            if head["version"] != _VERSION:
                raise Unreadable(f"it is of version {head['version']}")
            answer, asked, events = itertools.accumulate(head["sizes"])
            return cls(
                response=loads(rest[answer:asked]),
                request=rest[asked:events],
                trail=rest[:answer],
                references=head["references"],
                said=head["said"],
                events=rest[events:],
            )
        except (NotJson, KeyError, TypeError, ValueError) as error:
            raise Unreadable(str(error)) from None


def input_items(value: object, references: Mapping[str, Json]) -> list[Json]:
    """The items of an ``input`` that was accepted, references replaced."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    items = value if isinstance(value, list) else []
    return [references.get(item["id"], item) if refers(item) else item for item in items]


def refers(item: object) -> bool:
    """Whether an input item stands for one that was sent before."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("id"), str)
        and (item.get("type") == "item_reference" or not item.keys() - {"id", "type"})
        and item.get("type") in ("item_reference", None)
    )


def conversation(chain: Iterable[Kept]) -> list[Json]:
    """All items of a chain of responses, oldest first."""
    return [item for kept in chain for item in kept.items()]
