"""The pieces of a conversation as the messages of a chat request: see `cure.output_pairing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import Json, array, dumps
from ...wire.slices import Slices
from ..conversation import (
    AssistantText,
    ContentPart,
    ConversationItem,
    InputMessage,
    Reasoning,
    Remark,
    Role,
    ToolCall,
    ToolOutput,
)
from ..cure.output_pairing import NO_OUTPUT, Call, Segment, lost_call
from ..model_families import Family
from .content import merged
from .input_items import Reader
from .toolbox import Toolbox
from .validation import RequestObject, missing, wrong_type

_OutputKey = tuple[str, str, bytes]

_SEE_BELOW = "The output is in the next user message."
_BREAK = "\n\n"
"""Separates reasoning of several items in one message.  The texts around a call were one
text upstream."""


def chat_messages(
    request: RequestObject, toolbox: Toolbox, evidence: Evidence, earlier: Sequence[Json] = ()
) -> Slices[list[Json]]:
    """The messages of a Responses request's ``instructions``, the items of an `earlier`
    conversation, and its ``input``, which may then be missing. Tools that items declare are added
    to `toolbox`. Raises `Refused`."""
    layout = _Layout(toolbox.family, evidence)
    if instructions := request.string("instructions"):
        yield from layout.feed(InputMessage("system", instructions))
    value = request.get("input")
    reader = Reader(toolbox, evidence)
    for path, item in _items(earlier, value, request.at("input")):
        for piece in reader.read(item, path):
            yield from layout.feed(piece)
        yield
    if isinstance(value, str):
        yield from layout.feed(InputMessage("user", value))
    elif value is None and not earlier:
        raise missing(request.at("input"))
    elif value is not None and not isinstance(value, list):
        raise wrong_type(value, "a string or an array", request.at("input"))
    if messages := (yield from layout.end_segment()):
        return messages
    raise Refused("'input' says nothing.", param="input")


def _items(earlier: Sequence[Any], value: object, path: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(earlier):
        yield f"an earlier item ({index})", item
    for index, item in enumerate(array(value)):
        yield f"{path}[{index}]", item


@dataclass(slots=True)
class _Call(Call[ToolOutput]):
    arguments: str = ""


@dataclass(slots=True)
class _Segment(Segment[ToolOutput]):
    """What the assistant sent becomes one message."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Lines before the text."""
    calls: list[_Call] = field(default_factory=list)
    received: set[ToolCall | _OutputKey] = field(default_factory=set)
    """To recognize what is sent twice."""

    @property
    def content(self) -> str:
        return "\n".join([*self.remarks, *(["".join(self.texts)] if self.texts else [])])

    def ends_before(self, piece: Reasoning | AssistantText | Remark | ToolCall) -> bool:
        """Whether the assistant begins a new message with this piece.

        It does after a message of anyone else; and with text or reasoning after text, unless
        calls were made, whose outputs must follow at once.
        """
        is_complete = bool(self.texts) and not self.calls and not isinstance(piece, ToolCall)
        return self.interrupted or is_complete


class _Layout:
    """Pieces in the client's order in, messages in the upstream's order out."""

    def __init__(self, family: Family, evidence: Evidence) -> None:
        self._family = family
        self._evidence = evidence
        self._messages: list[Json] = []
        self._segment = _Segment()
        self._calls_before = 0
        self._past: dict[str, tuple[str, _OutputKey | None]] = {}
        """The calls of earlier segments by the client's id: the name, and the output sent."""

    def feed(self, piece: ConversationItem) -> Slices[None]:
        match piece:
            case InputMessage(role, content):
                self._add_other(role, content)
                return
            case ToolOutput():
                self._add_output(piece)
                return
            case AssistantText("") | Reasoning(""):
                return
        if self._segment.ends_before(piece):
            yield from self.end_segment()
        match piece:
            case AssistantText(text):
                self._segment.texts.append(text)
            case Remark(text):
                self._segment.remarks.append(text)
            case Reasoning(text):
                self._segment.thoughts.append(text)
            case ToolCall():
                self._add_call(piece)

    def _add_call(self, piece: ToolCall) -> None:
        segment = self._segment
        if piece.call_id and piece in segment.received:
            self._evidence.note("dropped", "a call sent twice")
            return
        call = _Call(piece.name, piece.call_id, arguments=piece.arguments)
        segment.calls.append(call)
        segment.received.add(piece)
        for call_id in {piece.call_id, piece.item_id or piece.call_id}:
            segment.expect(call, call_id)

    def _add_other(self, role: Role, content: str | list[ContentPart]) -> None:
        if not content:  # Moonshot refuses such a message
            self._evidence.note("dropped", f"an empty {role} message")
            return
        if role == "developer" and self._family.system_messages == "anywhere":
            role = "system"  # else the cure says whose it is
        self._segment.add({"role": role, "content": content})

    def _add_output(self, output: ToolOutput) -> None:
        """Assign it to the first call of its id that waits; else it has lost its call."""
        segment, call_id = self._segment, output.call_id
        if segment.answer(call_id, output):
            segment.received.add(_key(output))
            if segment.others:
                self._evidence.note("moved behind the tool outputs", "a message")
            return
        name, earlier = self._past.get(call_id, ("", None))
        key = _key(output)
        if key in segment.received or (call_id and earlier == key):
            self._evidence.note("dropped", "a tool output sent twice")
            return
        self._evidence.note("told by the user", "a tool output without its call")
        name = segment.names.get(call_id, name)
        self._past[call_id] = name, key
        # Without the client's call id, which would teach a Kimi model to write such ids.
        texts = filter(None, (lost_call(name), output.text))
        parts: list[ContentPart] = [{"type": "text", "text": text} for text in texts]
        self._add_other("user", merged(parts + output.media))

    def end_segment(self) -> Slices[list[Json]]:
        """All messages so far."""
        segment, self._segment = self._segment, _Segment()
        if segment.texts or segment.remarks or segment.calls:
            self._messages.append((yield from self._assistant_message(segment)))
        elif segment.thoughts:
            self._evidence.note("dropped", "reasoning that led to nothing")
        yield from self._add_outputs(segment.calls)
        self._messages += segment.others
        return self._messages

    def _assistant_message(self, segment: _Segment) -> Slices[Json]:
        """With calls and no text, content is "": some templates print a null as None."""
        message: Json = {"role": "assistant", "content": segment.content}
        reasoning, wanted = _BREAK.join(segment.thoughts), self._family.reasoning
        if reasoning and (wanted in ("known", "all") or (wanted == "calls" and segment.calls)):
            message["reasoning_content"] = reasoning
        elif reasoning:
            self._evidence.note("left out", "reasoning")
        used: set[str] = set()
        for position, call in enumerate(segment.calls):
            call.sent_id = self._upstream_id(call, position, used)
            used.add(call.sent_id)
            function = {"name": call.name, "arguments": call.arguments}
            tool_call = {"id": call.sent_id, "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(tool_call)
            yield
        self._calls_before += len(segment.calls)
        return message

    def _upstream_id(self, call: _Call, position: int, used: set[str]) -> str:
        """The call's id as the model's family wants it; unique in its message."""
        number = self._calls_before + position
        call_id = self._family.call_id(call.name, number, position)
        if not call_id:
            call_id = call.client_id or f"call_{number}"
            while call_id in used:
                call_id = f"{call_id}_{number}"
        if call_id != call.client_id:
            self._evidence.note("renamed", f"call ids for {self._family.name}")
        return call_id

    def _add_outputs(self, calls: list[_Call]) -> Slices[None]:
        """A tool message for each call, and one user message for all their media."""
        media: list[ContentPart] = []
        for call in calls:
            output = call.output
            if output is None:
                self._evidence.note("answered with a stand-in", f"a call of {call.name}")
                text = NO_OUTPUT
            else:
                text = output.text or (_SEE_BELOW if output.media else "")
                if output.media:
                    heading = f"[Returned by {call.name}:]"
                    media += [{"type": "text", "text": heading}, *output.media]
            self._messages.append({"role": "tool", "tool_call_id": call.sent_id, "content": text})
            if call.client_id:
                self._past[call.client_id] = call.name, None if output is None else _key(output)
            yield
        if media:
            self._evidence.note("moved to a user message", "media of tool outputs")
            self._messages.append({"role": "user", "content": media})


def _key(output: ToolOutput) -> _OutputKey:
    return output.call_id, output.text, dumps(output.media) if output.media else b""
