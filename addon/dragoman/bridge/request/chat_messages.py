"""The pieces of a conversation, laid out as the messages of a chat request.

A conversation is cut into segments: what the assistant said, thought and called, and
everything that came until it spoke again.  A chat upstream wants each segment in one
order: the assistant's message with its calls, the output of every call in the order
of the calls, then all else.  A client may send it in another, with outputs missing,
doubled or without their call.

The invariant: a segment's messages depend on it and on what came before it alone.  A
client asks for the next reply where a segment ends, and the reply begins the next; so
the messages of one turn begin with those of the turn before, and a provider's prefix
cache holds.  For the same reason a call whose output is missing when its segment ends
gets a stand-in for good, and an output that comes later is sent as a message of the user's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.json_codec import array, dumps
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
from ..cure.chat_history import NO_OUTPUT, lost_call
from ..model_families import Family
from .content import merged
from .input_items import Reader
from .toolbox import Toolbox
from .validation import RequestObject, missing, wrong_type

Message = dict[str, Any]
_AnswerKey = tuple[str, str, bytes]

_SEE_BELOW = "The output is in the next user message."
_BREAK = "\n\n"
"""Separates reasoning of several items in one message.  The texts around a call were one
text upstream."""


def chat_messages(
    request: RequestObject,
    toolbox: Toolbox,
    evidence: Evidence,
    earlier: Sequence[dict[str, Any]] = (),
) -> Slices[list[Message]]:
    """The messages of a Responses request's ``instructions``, the items of an `earlier`
    conversation, and its ``input``, which may then be missing. Tools that items declare are added
    to `toolbox`. Raises `Refused`."""
    thread = _Thread(toolbox.family, evidence)
    if instructions := request.string("instructions"):
        yield from thread.feed(InputMessage("system", instructions))
    value = request.get("input")
    reader = Reader(toolbox, evidence)
    for path, item in _items(earlier, value, request.at("input")):
        for piece in reader.read(item, path):
            yield from thread.feed(piece)
        yield
    if isinstance(value, str):
        yield from thread.feed(InputMessage("user", value))
    elif isinstance(value, list) or (value is None and earlier):
        pass
    elif value is None:
        raise missing(request.at("input"))
    else:
        raise wrong_type(value, "a string or an array", request.at("input"))
    if messages := (yield from thread.close()):
        return messages
    raise Refused("'input' says nothing.", param="input")


def _items(earlier: Sequence[Any], value: object, path: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(earlier):
        yield f"an earlier item ({index})", item
    for index, item in enumerate(array(value)):
        yield f"{path}[{index}]", item


@dataclass(slots=True)
class _Call:
    called: ToolCall
    answer: ToolOutput | None = None


@dataclass(slots=True)
class _SameId:
    """The calls of a segment with one id, usually one."""

    name: str
    """The function of the first."""
    waiting: deque[_Call] = field(default_factory=deque)

    def next(self) -> _Call | None:
        """The first call that waits for its output. An answered one is skipped, once: it may be
        listed under two ids."""
        while self.waiting:
            if self.waiting[0].answer is None:
                return self.waiting.popleft()
            self.waiting.popleft()
        return None


@dataclass(slots=True)
class _Segment:
    """What the assistant sent, and what followed until its next message."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What tools of a provider did: lines before the text."""
    calls: list[_Call] = field(default_factory=list)
    calls_by_id: dict[str, _SameId] = field(default_factory=dict)
    called: set[ToolCall] = field(default_factory=set)
    answered: set[_AnswerKey] = field(default_factory=set)
    """To recognize what is sent twice."""
    others: list[Message] = field(default_factory=list)
    """Messages to be sent after the outputs."""
    interrupted: bool = False
    """Whether the user, the system or a tool has sent anything since."""

    @property
    def content(self) -> str:
        return "\n".join([*self.notes, *(["".join(self.texts)] if self.texts else [])])

    def ends_before(self, piece: Reasoning | AssistantText | Remark | ToolCall) -> bool:
        """Whether the assistant begins a new message with this piece.

        It does after a message of anyone else; and with text or reasoning after text, unless
        calls were made, whose outputs must follow at once.
        """
        is_complete = bool(self.texts) and not self.calls and not isinstance(piece, ToolCall)
        return self.interrupted or is_complete


class _Thread:
    """Pieces in the client's order in, messages in the upstream's order out."""

    def __init__(self, family: Family, evidence: Evidence) -> None:
        self._family = family
        self._evidence = evidence
        self._messages: list[Message] = []
        self._segment = _Segment()
        self._calls_before = 0
        self._past: dict[str, tuple[str, ToolOutput | None]] = {}
        """The calls that are past by the client's id: name, and the answer passed on."""

    def feed(self, piece: ConversationItem) -> Slices[None]:
        match piece:
            case InputMessage(role, content):
                self._add_other(role, content)
            case ToolOutput():
                self._add_output(piece)
            case AssistantText("") | Reasoning(""):
                pass
            case _:
                if self._segment.ends_before(piece):
                    yield from self._end_segment()
                self._add(piece)

    def close(self) -> Slices[list[Message]]:
        """End the last segment; returns all messages."""
        yield from self._end_segment()
        return self._messages

    def _add(self, piece: AssistantText | Remark | Reasoning | ToolCall) -> None:
        match piece:
            case AssistantText(text):
                self._segment.texts.append(text)
            case Remark(text):
                self._segment.notes.append(text)
            case Reasoning(text):
                self._segment.thoughts.append(text)
            case ToolCall():
                self._call(piece)

    def _call(self, called: ToolCall) -> None:
        segment = self._segment
        if called.call_id and called in segment.called:
            self._evidence.note("dropped", "a call sent twice")
            return
        call = _Call(called)
        segment.calls.append(call)
        segment.called.add(called)
        for answerable in {called.call_id, called.item_id or called.call_id}:
            same_id = segment.calls_by_id.setdefault(answerable, _SameId(called.name))
            same_id.waiting.append(call)

    def _add_other(self, role: Role, content: str | list[ContentPart]) -> None:
        if not content:  # Moonshot refuses such a message
            self._evidence.note("dropped", f"an empty {role} message")
            return
        if role == "developer" and self._family.system_messages == "anywhere":
            role = "system"  # else the cure says whose it is
        self._segment.others.append({"role": role, "content": content})
        self._segment.interrupted = True

    def _add_output(self, answer: ToolOutput) -> None:
        """Assign it to the first matching call that waits; else it has lost its call."""
        segment = self._segment
        same_id = segment.calls_by_id.get(answer.call_id)
        waiting = same_id.next() if same_id else None
        if waiting is not None:
            waiting.answer = answer
            segment.answered.add(_answer_key(answer))
            segment.interrupted = True
            if segment.others:
                self._evidence.note("moved behind the tool outputs", "a message")
            return
        name, earlier = self._past.get(answer.call_id, ("", None))
        twice = _answer_key(answer) in segment.answered
        if twice or (answer.call_id and earlier == answer):
            self._evidence.note("dropped", "a tool output sent twice")
            return
        self._evidence.note("told by the user", "a tool output without its call")
        name = same_id.name if same_id else name
        self._past[answer.call_id] = (name, answer)
        self._add_other("user", _as_user_message(name, answer))

    def _end_segment(self) -> Slices[None]:
        segment, self._segment = self._segment, _Segment()
        if segment.texts or segment.notes or segment.calls:
            self._messages.append((yield from self._assistant_message(segment)))
        elif segment.thoughts:
            self._evidence.note("dropped", "reasoning that led to nothing")
        if segment.calls:
            yield from self._outputs(segment.calls, self._messages[-1]["tool_calls"])
        self._messages += segment.others

    def _assistant_message(self, segment: _Segment) -> Slices[Message]:
        """With calls and no text, content is "": some templates print a null as None."""
        message: Message = {"role": "assistant", "content": segment.content}
        reasoning = _BREAK.join(segment.thoughts)
        if self._carries_reasoning(reasoning, bool(segment.calls)):
            message["reasoning_content"] = reasoning
        elif reasoning:
            self._evidence.note("left out", "reasoning")
        if segment.calls:
            message["tool_calls"] = yield from self._tool_calls(segment.calls)
        return message

    def _carries_reasoning(self, reasoning: str, with_calls: bool) -> bool:
        match self._family.reasoning:
            case "known" | "all":
                return bool(reasoning)
            case "calls":
                return bool(reasoning) and with_calls
            case "never":
                return False

    def _tool_calls(self, calls: list[_Call]) -> Slices[list[dict[str, Any]]]:
        taken: set[str] = set()
        tool_calls = []
        for position, call in enumerate(calls):
            tool_calls.append(
                {
                    "id": self._upstream_id(call.called, position, taken),
                    "type": "function",
                    "function": {"name": call.called.name, "arguments": call.called.arguments},
                }
            )
            yield
        self._calls_before += len(calls)
        return tool_calls

    def _upstream_id(self, called: ToolCall, position: int, taken: set[str]) -> str:
        """The call's id as the model's family wants it; unique in its message."""
        number = self._calls_before + position
        call_id = self._family.call_id(called.name, number, position)
        if not call_id:
            call_id = called.call_id or f"call_{number}"
            while call_id in taken:
                call_id = f"{call_id}_{number}"
        taken.add(call_id)
        if call_id != called.call_id:
            self._evidence.note("renamed", f"call ids for {self._family.name}")
        return call_id

    def _outputs(self, calls: list[_Call], tool_calls: list[dict[str, Any]]) -> Slices[None]:
        """A tool message for each call, and one user message for all their media."""
        media: list[ContentPart] = []
        for call, tool_call in zip(calls, tool_calls, strict=True):
            answer = call.answer
            if answer is None:
                self._evidence.note("answered with a stand-in", f"a call of {call.called.name}")
                text = NO_OUTPUT
            else:
                text = answer.text or (_SEE_BELOW if answer.media else "")
                if answer.media:
                    remark = f"[Returned by {call.called.name}:]"
                    media += [{"type": "text", "text": remark}, *answer.media]
            self._messages.append(
                {"role": "tool", "tool_call_id": tool_call["id"], "content": text}
            )
            if call.called.call_id:
                self._past[call.called.call_id] = (call.called.name, answer)
            yield
        if media:
            self._evidence.note("moved to a user message", "media of tool outputs")
            self._messages.append({"role": "user", "content": media})


def _answer_key(answer: ToolOutput) -> _AnswerKey:
    return answer.call_id, answer.text, dumps(answer.media) if answer.media else b""


def _as_user_message(name: str, answer: ToolOutput) -> str | list[ContentPart]:
    """An output as a user's message; without the client's call id, which would teach a
    Kimi model to write such ids."""
    parts: list[ContentPart] = [{"type": "text", "text": lost_call(name)}]
    if answer.text:
        parts.append({"type": "text", "text": answer.text})
    return merged(parts + answer.media)
