"""What a reply says, in the words of no API.

| word      | Chat Completions            | Responses              | Messages                   |
|-----------|-----------------------------|------------------------|----------------------------|
| Part      | the fields of a choice      | a part of an item      | a block                    |
| Text      | content, reasoning_content… | output_text.delta …    | text_delta, thinking_delta |
| Cited     | annotations, citations …    | …text.annotation.added | –                          |
| CallBegin | tool_calls with a name      | output_item.added      | content_block_start        |
| Arguments | tool_calls without one      | …_arguments.delta      | input_json_delta           |
| PartEnd   | arguments are complete      | output_item.done       | content_block_stop         |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..wire.json_codec import Json

Kind = Literal["text", "reasoning", "refusal", "call"]

# Not frozen, as one is made for nearly every frame.


@dataclass(slots=True, eq=False)
class Part:
    """One text, or one call, of a choice; known by its identity, as hosts number them wrongly."""

    kind: Kind
    choice: int = 0


@dataclass(slots=True, eq=False)
class Text:
    part: Part
    text: str
    logprobs: Sequence[Json] = ()
    """Of its tokens, in the form of the Responses API."""


@dataclass(slots=True, eq=False)
class Cited:
    """What the text of the answer rests on, in the form of the Responses API."""

    annotations: list[Json]


@dataclass(slots=True, eq=False)
class CallBegin:
    """A call begins, perhaps with arguments; or more of its name or its id has come."""

    part: Part
    id: str
    name: str
    text: str = ""


@dataclass(slots=True, eq=False)
class Arguments:
    part: Part
    text: str


@dataclass(slots=True, eq=False)
class PartEnd:
    """A call is complete; or, if it is `cut`, it ends within its arguments, and may not run."""

    part: Part
    cut: bool = False


Delta = Text | Cited | CallBegin | Arguments | PartEnd
