"""The pieces of a conversation as the messages of a chat request.

Here the pieces of one reply become one message, and what came twice is sent once.  The order that
hosts want, outputs that are missing and the ids of calls are for `cure.chat_history`, as in a chat
client's request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import Json, array, dumps
from ...wire.request_bounds import MAX_PARTS, TooLarge
from ..conversation import (
    AssistantText,
    ConversationItem,
    InputMessage,
    Reasoning,
    Remark,
    Reminder,
    ToolCall,
    ToolOutput,
)
from ..cure.chat_history import ChatHistory
from ..cure.tool_names import ToolNames
from ..host_requirements import Family
from .input_items import Reader
from .toolbox import Toolbox
from .validation import RequestObject, missing, wrong_type

_OutputKey = tuple[str, str | bytes]
"""The id of a call, and what an output of it says."""

_BREAK = "\n\n"
"""Separates reasoning of several items in one message.  The texts around a call were one
text upstream."""


def chat_messages(
    request: RequestObject,
    toolbox: Toolbox,
    names: ToolNames,
    evidence: Evidence,
    earlier: Sequence[Json] = (),
) -> Generator[None, None, list[Json]]:
    """The messages of a Responses request's ``instructions``, the items of an `earlier`
    conversation, and its ``input``, which may then be missing. Tools that items declare are added
    to `toolbox`, earlier calls that get another id to `names`.  Yields after each item.
    Raises `Refused`."""
    layout = Layout(toolbox.family, names, evidence)
    if instructions := request.string("instructions"):
        layout.feed(InputMessage("system", instructions))
    value = request.get("input")
    reader = Reader(toolbox, evidence)
    for path, item in _items(earlier, value, request.at("input")):
        for piece in reader.read(item, path):
            layout.feed(piece)
        yield
    if isinstance(value, str):
        layout.feed(InputMessage("user", value))
    elif value is None and not earlier:
        raise missing(request.at("input"))
    elif value is not None and not isinstance(value, list):
        raise wrong_type(value, "a string or an array", request.at("input"))
    layout.end_reply()
    if messages := layout.history.end_segment():
        return messages
    raise Refused("'input' says nothing.", param="input")


def _items(earlier: Sequence[Any], value: object, path: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(earlier):
        yield f"an earlier item ({index})", item
    for index, item in enumerate(array(value)):
        yield f"{path}[{index}]", item


_OfAssistant = AssistantText | Reasoning | Remark | ToolCall


@dataclass(slots=True)
class _Reply:
    """What the assistant sent before anyone else did: one message."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Lines before the text."""
    calls: list[ToolCall] = field(default_factory=list)
    received: set[ToolCall | _OutputKey] = field(default_factory=set)
    """The calls and the outputs that answer them, to recognize one that is sent twice."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """How many calls with an id have no output."""
    is_sent: bool = False

    def ends_before(self, piece: _OfAssistant) -> bool:
        """Whether the assistant begins a new message with this piece.

        It does after a message of anyone else; and with text or reasoning after text, unless
        calls were made, whose outputs must follow at once.
        """
        is_complete = bool(self.texts) and not self.calls and not isinstance(piece, ToolCall)
        return self.is_sent or is_complete


class Layout:
    """Pieces in, messages out, both in the client's order; of a request of any API."""

    def __init__(self, family: Family, names: ToolNames, evidence: Evidence) -> None:
        self._family = family
        self._evidence = evidence
        self.history = ChatHistory(family.bridged, names, evidence)
        self._reply = _Reply()
        self._call_ids: dict[str, str] = {}
        """The ids of calls by all ids that an output may name them by."""
        self._last_outputs: dict[str, _OutputKey] = {}
        """By the id of their call, since its latest one."""

    def feed(self, piece: ConversationItem) -> None:
        match piece:
            case InputMessage():
                message = self._message(piece)
            case ToolOutput():
                message = self._tool_message(piece)
            case Reminder(text):
                self.end_reply()
                self.history.remind(text)
                return
            case AssistantText("") | Reasoning(""):
                return
            case _:
                if self._reply.ends_before(piece):
                    self.end_reply()
                    self._reply = _Reply()
                self._add(piece)
                return
        if message is not None:
            self.end_reply()
            self.history.feed(message)
        elif isinstance(piece, ToolOutput):  # a client has asked for a reply with it
            self.end_reply()
            self.history.interrupt()

    def _add(self, piece: _OfAssistant) -> None:
        reply = self._reply
        match piece:
            case AssistantText(text):
                reply.texts.append(text)
            case Remark(text):
                reply.remarks.append(text)
            case Reasoning(text):
                reply.thoughts.append(text)
            case ToolCall(call_id) if call_id and piece in reply.received:
                self._evidence.note("dropped", "a call sent twice")
            case ToolCall() if len(reply.calls) == MAX_PARTS:  # they are sent at once
                raise TooLarge(f"{MAX_PARTS:,} calls in a turn")
            case ToolCall(call_id):
                reply.calls.append(piece)
                reply.received.add(piece)
                reply.unanswered[call_id] += 1
                self._last_outputs.pop(call_id, None)
                self._call_ids[call_id] = self._call_ids[piece.item_id or call_id] = call_id

    def _message(self, message: InputMessage) -> Json | None:
        role = message.role
        if not message.content:  # Moonshot refuses such a message
            self._evidence.note("dropped", f"an empty {role} message")
            return None
        if role == "developer" and self._family.system_messages == "anywhere":
            role = "system"  # else the history says whose it is
        return {"role": role, "content": message.content}

    def _tool_message(self, output: ToolOutput) -> Json | None:
        """None if it repeats what answered a call of this reply, or the last output of its call.
        Without an id, two equal outputs may be of two calls."""
        reply, content = self._reply, output.content
        call_id = self._call_ids.get(output.call_id, output.call_id)
        key = call_id, content if isinstance(content, str) else dumps(content)
        if reply.unanswered[call_id]:
            reply.unanswered[call_id] -= 1
            reply.received.add(key)
        elif call_id and (key in reply.received or key == self._last_outputs.get(call_id)):
            self._evidence.note("dropped", "a tool output sent twice")
            return None
        if not reply.unanswered[call_id]:  # else the next one is of another call
            self._last_outputs[call_id] = key
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    def end_reply(self) -> None:
        """Send the assistant's message; with calls and no text, its content is "": some templates
        print a null as None."""
        reply = self._reply
        if reply.is_sent:
            return
        reply.is_sent = True
        lines = [*reply.remarks, *(["".join(reply.texts)] if reply.texts else [])]
        if not lines and not reply.calls:
            if reply.thoughts:
                self._evidence.note("dropped", "reasoning that led to nothing")
                self.history.skip_reply()
            return
        message: Json = {"role": "assistant", "content": "\n".join(lines)}
        reasoning, wanted = _BREAK.join(reply.thoughts), self._family.reasoning
        if reasoning and (wanted in ("known", "all") or (wanted == "calls" and reply.calls)):
            message["reasoning_content"] = reasoning
        elif reasoning:
            self._evidence.note("left out", "reasoning")
        if reply.calls:
            message["tool_calls"] = [_tool_call(call) for call in reply.calls]
        self.history.feed(message)


def _tool_call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}
