"""The messages of a chat request as strict hosts want them: see `segment`."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any

from ...wire.chat_text import reasoning
from ...wire.json_codec import Json, NotJson, array, dumps, string
from ...wire.json_slices import reading
from ...wire.slices import Slices, emptied
from ..model_families import Family
from .output_pairing import NO_OUTPUT, Call, Segment, lost_call
from .tool_names import ToolNames

_DIGITS = re.compile("[0-9]+").fullmatch
_AT_ONCE = 1000
"""Parts of a message that are looked at by one call: some tenths of a millisecond."""


def accepted_messages(
    messages: list[Any], family: Family, names: ToolNames, notes: list[tuple[str, str]]
) -> Slices[list[Any]]:
    """The messages as the family's hosts take them; the same list if they do."""
    history = _History(family, names, notes)
    for message in messages:
        yield from history.feed(message)
        yield
    sent = yield from history.end_segment()
    if len(sent) == len(messages) and all(map(operator.is_, sent, messages)):
        return messages
    return sent or messages


_Call = Call[Json]


@dataclass(slots=True)
class _Segment(Segment[Json]):
    assistant: list[tuple[Any, list[_Call]]] = field(default_factory=list)
    """The messages of the assistant, and the calls of each."""


class _History:
    """Takes messages in the client's order, gives them in the host's."""

    def __init__(self, family: Family, names: ToolNames, notes: list[tuple[str, str]]) -> None:
        self._family = family
        self._refuses = family.refuses
        self._tool_names = names
        self._notes = notes
        self._sent: list[Any] = []
        self._segment = _Segment()
        self._system_at_start = family.system_messages == "start"
        self._started = False
        """Whether a system message would not be at the start any more."""
        self._calls = self._number = 0
        """Calls so far, and the least number that is in no id that was made here."""
        self._used: set[str] = set()
        self._minted: set[str] = set()
        """The ids of all calls so far, and those of them that were made here."""
        self._names: dict[str, str] = {}
        """The functions of the calls of earlier segments, by the client's id."""
        self._has_reasoned = False
        """Whether an assistant message before had reasoning."""

    def feed(self, message: Any) -> Slices[None]:
        if not isinstance(message, dict):
            self._add_other(message)
            return
        role = message.get("role")
        if self._refuses.empty_messages:
            message = yield from self._without_empty(message)
        elif self._refuses.null_messages and _is_null(message):
            self._notes.append(("left out", "an empty assistant message"))
            message = {}
        match role:
            case _ if not message:
                # Left out, it still counts: it was a reply, or a client has asked for one with it.
                if role != "assistant":
                    self._segment.interrupted = True
                elif self._segment.interrupted:
                    yield from self.end_segment()
            case "assistant":
                yield from self._add_assistant(self._with_reasoning(message))
            case "tool" if self._refuses.broken_history:
                self._add_output(message)
            case "developer" if self._refuses.developer_role or self._system_at_start:
                self._notes.append(("sent as a system message", "a developer message"))
                self._add_system(message | {"role": "system"}, "developer")
            case "system":
                self._add_system(message, "system")
            case _:
                self._add_other(message)

    def end_segment(self) -> Slices[list[Any]]:
        """All messages so far."""
        segment, self._segment = self._segment, _Segment()
        for message, calls in segment.assistant:
            self._sent.append(message)
            for call in calls:
                self._sent.append(self._output(call))
                self._names[call.client_id] = call.name
                yield
        self._sent += segment.others
        return self._sent

    def _output(self, call: _Call) -> Json:
        output = call.output
        if output is None:
            self._notes.append(("answered with a stand-in", f"a call of {call.name}"))
            return {"role": "tool", "tool_call_id": call.sent_id, "content": NO_OUTPUT}
        output = with_member(output, "tool_call_id", call.sent_id)
        name = string(output.get("name"))
        return with_member(output, "name", self._tool_names.sent(name)) if name else output

    def _add_other(self, message: Any) -> None:
        self._started = True
        self._segment.add(message)

    def _add_system(self, message: Json, role: str) -> None:
        """A model that takes one system message, at the start, gets later ones as the user's:
        moved to the start, they would change all turns before."""
        others = self._segment.others
        if not self._system_at_start:
            self._add_other(message)
        elif self._started:
            self._notes.append(("sent as a user message", f"a {role} message"))
            self._add_other(_headed(f"[Message of the {role}:]", message.get("content")))
        elif others:
            self._notes.append(("joined to the one at the start", f"a {role} message"))
            contents = others[0].get("content"), message.get("content")
            others[0] = others[0] | {"content": _joined(*contents)}
        else:
            self._segment.add(message)

    def _add_assistant(self, message: Json) -> Slices[None]:
        self._started = True
        if self._segment.interrupted:
            yield from self.end_segment()
        tool_calls = message.get("tool_calls")
        if not self._refuses.broken_history or not isinstance(tool_calls, list):
            self._segment.assistant.append((message, []))
            return
        sent, calls = [], []
        used: set[str] = set()
        for tool_call in tool_calls:
            accepted, call = yield from self._call(tool_call, used)
            sent.append(accepted)
            if call is not None:
                calls.append(call)
                self._segment.expect(call, call.client_id)
            yield
        if not all(map(operator.is_, sent, tool_calls)):
            message = message | {"tool_calls": sent}
        self._segment.assistant.append((message, calls))

    def _call(self, tool_call: Any, used: set[str]) -> Slices[tuple[Any, _Call | None]]:
        """A call as it is sent: with an id of its own, and arguments that can be parsed."""
        function = tool_call.get("function") if isinstance(tool_call, dict) else None
        if not isinstance(function, dict):
            return tool_call, None
        client_id = string(tool_call.get("id"))
        name = self._tool_names.sent(string(function.get("name")))
        if name:
            function = with_member(function, "name", name)
        arguments = yield from _object_text(function.get("arguments"))
        if arguments is not None:
            self._notes.append(("wrapped", f"invalid arguments of {name}"))
            function = with_member(function, "arguments", arguments)
        sent_id = self._sent_id(client_id, name, used)
        tool_call = with_member(with_member(tool_call, "function", function), "id", sent_id)
        return tool_call, _Call(name, client_id, sent_id)

    def _sent_id(self, client_id: str, name: str, used: set[str]) -> str:
        """The id that a call is sent with, unlike those `used` in its message.  An id that is
        made here is like none before it, and none after it."""
        by_name = self._family.call_ids == "conversation" and name
        sent, stays = client_id, bool(client_id)
        if by_name:  # the model's own stays, though it may have counted otherwise
            head, _, number = client_id.rpartition(":")
            stays = head == f"functions.{name}" and _DIGITS(number) is not None
        self._number = max(self._number, self._calls)
        while not stays or sent in used or sent in self._minted:
            named = self._family.call_id(name, self._number, 0) if by_name else ""
            sent = named or f"{client_id or 'call'}_{self._number}"
            stays = sent not in self._used
            self._number += 1
        if sent != client_id:
            self._minted.add(sent)
            if client_id:
                self._notes.append(("renamed", f"call ids for {self._family.name}"))
            else:
                self._notes.append(("given an id", "a call without one of its own"))
        self._calls += 1
        used.add(sent)
        self._used.add(sent)
        return sent

    def _add_output(self, message: Json) -> None:
        """Assign it to the first call of its id that has none; else it becomes a user message."""
        segment, call_id = self._segment, string(message.get("tool_call_id"))
        if segment.answer(call_id, message):
            if segment.others:
                self._notes.append(("moved behind the tool outputs", "a message"))
            return
        self._notes.append(("told by the user", "a tool output without its call"))
        name = segment.names.get(call_id, self._names.get(call_id, ""))
        self._add_other(_headed(lost_call(name), message.get("content")))

    def _without_empty(self, message: Json) -> Slices[Json]:
        """Without empty parts; nothing is left of a message without content."""
        content = message.get("content")
        if isinstance(content, list):
            parts = []
            for begin in range(0, len(content), _AT_ONCE):
                parts += [p for p in content[begin : begin + _AT_ONCE] if not _is_empty(p)]
                yield
            if len(parts) < len(content):
                self._notes.append(("left out", "an empty part of a message"))
                message = message | {"content": parts or ""}
                content = parts
        if content or message.get("role") == "tool" or any(map(message.get, _OTHER_CONTENT)):
            return message
        self._notes.append(("left out", f"an empty {message.get('role')} message"))
        return {}

    def _with_reasoning(self, message: Json) -> Json:
        missing = self._refuses.missing_reasoning
        if missing is None:
            return message
        text = message.get("reasoning_content")
        present = isinstance(text, str) and (text != "" or missing == "")
        after_reasoning = self._family.reasoning == "all" and self._has_reasoned
        must = after_reasoning or bool(message.get("tool_calls"))
        if must and not present:
            known = reasoning(message)
            what = "reasoning of another field" if known else "reasoning that is not known"
            self._notes.append(("filled in", what))
            message = message | {"reasoning_content": known or missing}
        self._has_reasoned = self._has_reasoned or present or must
        return message


_OTHER_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""The content of an assistant's message beside its text."""


def with_member(holder: Json, name: str, value: Any) -> Json:
    """`holder` with this member; the same object if it has it."""
    old = holder.get(name)
    same = value is old or (isinstance(value, str) and value == old)
    return holder if same else {**holder, name: value}


def _is_null(message: Json) -> bool:
    has_content = message.get("content") is not None or any(map(message.get, _OTHER_CONTENT))
    return message.get("role") == "assistant" and not has_content


def _is_empty(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and not part.get("text")


def _headed(heading: str, content: Any) -> Json:
    """A user message with the content of another."""
    if isinstance(content, list):
        return {"role": "user", "content": [{"type": "text", "text": heading}, *content]}
    return {"role": "user", "content": f"{heading}\n{content or ''}".rstrip("\n")}


def _joined(*contents: Any) -> Any:
    """The contents of several messages in one."""
    if not any(isinstance(content, list) for content in contents):
        return "\n\n".join(filter(None, map(string, contents)))
    parts: list[Any] = []
    for content in filter(None, contents):
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return parts


def _object_text(arguments: Any) -> Slices[str | None]:
    """The text of a JSON object to be sent for invalid arguments; None if they are valid.
    vLLM parses the arguments of past calls, and answers 400 for ever if it cannot."""
    if isinstance(arguments, dict):
        return dumps(arguments).decode()
    if not isinstance(arguments, str) or not arguments.strip():
        return "{}"
    try:
        value = yield from reading(arguments.encode("utf-8", "surrogatepass"))
    except NotJson:
        value = None
    if not isinstance(value, dict):
        return dumps({"invalid_arguments": arguments}).decode()
    for member in value.values():
        yield from emptied(array(member))
    return None
