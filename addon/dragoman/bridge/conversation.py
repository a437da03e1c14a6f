"""The neutral pieces of a conversation, whatever the client's API.

A reader makes them of the items of a Responses request (`request.input_items`), or of the blocks of
a Messages request (`request.messages_history`), and `request.chat_messages` makes the messages of a
chat request of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ContentPart = dict[str, Any]
"""A part of a chat message's content."""
Role = Literal["system", "developer", "user"]


@dataclass(frozen=True, slots=True)
class InputMessage:
    role: Role
    content: str | list[ContentPart]


@dataclass(frozen=True, slots=True)
class Reminder:
    """What a client tells the model between messages, in the tags of a reminder."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantText:
    """Text of the assistant, a refusal too."""

    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """One line on what a provider's tool did for the assistant."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    call_id: str
    """As the client has it; "" if it sent none."""
    name: str
    """The function's name upstream."""
    arguments: str
    """Should be the text of a JSON object."""
    item_id: str = ""
    """Set if the call may also be answered by this id."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    call_id: str
    content: str | list[ContentPart]
    """A list has media in it."""


ConversationItem = (
    InputMessage | Reminder | AssistantText | Remark | Reasoning | ToolCall | ToolOutput
)
