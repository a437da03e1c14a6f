"""The messages of a chat request in the order and form that its host takes, segment by segment.

A segment is what the assistant sent, and all until it sends again.  A host wants each in one order:
the assistant's message, the output of each of its calls in the order of the calls, then all else.
A client may send it in another, with outputs missing, doubled or without their call.  A call whose
output is missing when its segment ends gets a stand-in; an output without a call is sent as a
message of the user's.

The invariant: a segment's messages depend on it and on what came before it alone.  A client asks
for the next reply where a segment ends, and the reply begins the next; so the messages of one
turn begin with those of the turn before, and a provider's prefix cache holds.  For the same
reason a stand-in stays for good, and an output that comes later is the user's.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any

from ...chat.texts import reasoning
from ...notes import Evidence
from ...wire.json_codec import Json, NotJson, array, dumps, loads, marks_in, string
from ...wire.request_bounds import MAX_VALUES
from ..host_requirements import Family
from ..sent_call_ids import CallIds
from .tool_names import ToolNames

NO_OUTPUT = "No output of this call was recorded."
"""The text of a stand-in."""
_SEE_BELOW = "The output is in the next user message."
_BETWEEN = "Understood."
"""What the assistant says where it must say something."""
_LOOKS_ENCODED = re.compile("\ufeff|.{0,3}\0", re.DOTALL).match
"""What JSON in other encodings begins with: `loads` would take the text for that."""


def accepted_messages(
    messages: list[Any], family: Family, names: ToolNames, evidence: Evidence
) -> Generator[None, None, list[Any]]:
    """The messages as the family's hosts take them, the same objects if they do.  Yields where
    others may have their turn."""
    history = ChatHistory(family, names, evidence)
    for message in messages:
        history.feed(message)
        yield
    return history.end_segment() or messages


@dataclass(slots=True)
class _Call:
    name: str
    client_id: str
    sent_id: str
    output: Json | None = None


@dataclass(slots=True)
class _Segment:
    assistant: list[tuple[Any, list[_Call]]] = field(default_factory=list)
    """The messages of the assistant, and the calls of each."""
    names: dict[str, str] = field(default_factory=dict)
    """The function of the first call with an id, by the client's ids."""
    reminders: list[str] = field(default_factory=list)
    """What joins the last output."""
    others: list[Any] = field(default_factory=list)
    """The messages to be sent after the outputs."""
    interrupted: bool = False
    """Whether anyone else has sent a message since the assistant."""
    _waiting: dict[str, deque[_Call]] = field(default_factory=dict)
    """The calls without an output, by the client's ids."""

    def expect(self, call: _Call) -> None:
        self.names.setdefault(call.client_id, call.name)
        self._waiting.setdefault(call.client_id, deque()).append(call)

    def answer(self, call_id: str, output: Json) -> bool:
        """Assign an output to the first call of this id that has none; False if there is none."""
        waiting = self._waiting.get(call_id)
        if not waiting:
            return False
        waiting.popleft().output = output
        self.interrupted = True
        return True

    def add(self, message: Any) -> None:
        self.others.append(message)
        self.interrupted = True


class ChatHistory:
    """Takes messages in the client's order, gives them in the host's.  A bridged request is laid
    out by it, too: `request.chat_messages` makes the messages that a chat client would send."""

    def __init__(self, family: Family, names: ToolNames, evidence: Evidence) -> None:
        self._family = family
        self._refuses = family.refuses
        self._tool_names = names
        self._evidence = evidence
        self._sent: list[Any] = []
        self._segment = _Segment()
        self._system_at_start = family.system_messages == "start"
        self._started = False
        """Whether a system message would not be at the start any more."""
        takes_any_id = family.call_ids == "message" and not family.renumbers
        form = "kept" if takes_any_id else family.call_ids
        self._ids = CallIds(form, keeps_own=not family.renumbers)
        self._names: dict[str, str] = {}
        """The functions of the calls of earlier segments, by the client's id."""
        self._unread_values = MAX_VALUES
        """JSON values of arguments that may still be read."""
        self._has_reasoned = False
        """Whether an assistant message before had reasoning."""

    def feed(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._add_other(message)
            return
        role = message.get("role")
        if self._refuses.empty_messages:
            message = self._without_empty(message)
        elif self._refuses.null_messages and _is_null(message):
            self._evidence.note("left out", "an empty assistant message")
            message = {}
        match role:
            case _ if not message:
                # Left out, it still counts: it was a reply, or a client has asked for one with it.
                if role == "assistant":
                    self.skip_reply()
                else:
                    self.interrupt()
            case "assistant":
                self._add_assistant(self._with_reasoning(message))
            case "tool" if self._refuses.broken_history:
                self._add_output(message)
            case "developer" if self._refuses.developer_role or self._system_at_start:
                self._evidence.note("made a system message of", "a developer message")
                self._add_system(message | {"role": "system"}, "developer")
            case "system":
                self._add_system(message, "system")
            case _:
                self._add_other(message)

    def remind(self, text: str) -> None:
        """Take a reminder of the client's.  After calls it joins the last of their outputs: where a
        message of the user's follows, templates drop the thoughts before."""
        segment = self._segment
        if segment.others or not any(calls for _, calls in segment.assistant):
            self._add_other({"role": "user", "content": text})
        else:
            segment.reminders.append(text)
            segment.interrupted = True

    def interrupt(self) -> None:
        """Anyone else has sent a message that is left out."""
        self._segment.interrupted = True

    def skip_reply(self) -> None:
        """The assistant has sent a message that is left out.  System messages at the start are one
        segment all the same."""
        if self._started and self._segment.interrupted:
            self.end_segment()

    def end_segment(self) -> list[Any]:
        """All messages so far."""
        segment, self._segment = self._segment, _Segment()
        media: list[Json] = []
        last = 0
        for message, calls in segment.assistant:
            self._sent.append(message)
            for call in calls:
                output = self._output(call)
                if self._refuses.media_of_tools:
                    output = _without_media(output, call.name, media)
                last = len(self._sent)
                self._sent.append(output)
                self._names[call.client_id] = call.name
        if segment.reminders:
            content = _joined(self._sent[last].get("content"), *segment.reminders)
            self._sent[last] = self._sent[last] | {"content": content}
        others = segment.others
        if self._system_at_start:
            of_system = list(takewhile(lambda message: _role(message) == "system", others))
            if len(of_system) > 1:
                others = [_as_one(of_system), *others[len(of_system) :]]
        if media:
            self._evidence.note("moved to a user message", "media of tool outputs")
            others = [{"role": "user", "content": media}, *others]
        self._sent += self._alternating(others) if self._family.alternates else others
        return self._sent

    def _alternating(self, messages: list[Any]) -> list[Any]:
        """The messages after the assistant's and the outputs, with the user's joined, and words of
        the assistant's before them where it has to speak."""
        made: list[Any] = []
        for of_user, run in groupby(messages, lambda message: _role(message) == "user"):
            if not of_user:
                made += run
                continue
            before = [None, *self._sent[-1:], *made[-1:]][-1]
            if _role(before) in ("user", "tool"):
                self._evidence.note("put before a user message", "words of the assistant's")
                made.append({"role": "assistant", "content": _BETWEEN})
            of_the_user = [*run]
            if more := len(of_the_user) - 1:
                self._evidence.note("joined to the one before", "a user message", more)
            made.append(_as_one(of_the_user))
        return made

    def _output(self, call: _Call) -> Json:
        output = call.output
        if output is None:
            self._evidence.note("answered with a stand-in", f"a call of {call.name}")
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
        if not self._system_at_start:
            self._add_other(message)
        elif self._started:
            self._evidence.note("made a user message of", f"a {role} message")
            self._add_other(_headed(f"[Message of the {role}:]", message.get("content")))
        else:
            if self._segment.others:
                self._evidence.note("joined to the one at the start", f"a {role} message")
            self._segment.add(message)

    def _add_assistant(self, message: Json) -> None:
        self._started = True
        if self._segment.interrupted:
            self.end_segment()
        tool_calls = message.get("tool_calls")
        if not isinstance(tool_calls, list):
            self._segment.assistant.append((message, []))
            return
        sent, calls = [], []
        self._ids.new_message()
        for tool_call in tool_calls:
            accepted, call = self._call(tool_call)
            sent.append(accepted)
            if call is not None:
                calls.append(call)
                self._segment.expect(call)
        self._segment.assistant.append((with_member(message, "tool_calls", sent), calls))

    def _call(self, tool_call: Any) -> tuple[Any, _Call | None]:
        """A call as it is sent: with arguments that can be parsed, and where the history is made
        whole with an id of its own, and arguments even if it has none."""
        function = tool_call.get("function") if isinstance(tool_call, dict) else None
        if not isinstance(function, dict):
            return tool_call, None
        client_id = string(tool_call.get("id"))
        name = self._tool_names.sent(string(function.get("name")))
        if name:
            function = with_member(function, "name", name)
        is_whole, given = self._refuses.broken_history, function.get("arguments")
        arguments = None
        if is_whole or (isinstance(given, str) and given.strip()):
            arguments = self._object_text(given)
        if arguments is not None:
            if isinstance(given, str) and given.strip():
                self._evidence.note("wrapped", f"invalid arguments of {name}")
            else:
                self._evidence.note("written as JSON", f"the arguments of {name}")
            function = with_member(function, "arguments", arguments)
        if not is_whole:
            return with_member(tool_call, "function", function), None
        sent_id = self._ids.sent(client_id, name)
        if sent_id != client_id and (client_id or self._family.renumbers):
            self._evidence.note("renamed", f"call ids for {self._family.name}")
            self._tool_names.called(client_id, name)
        elif sent_id != client_id:
            self._evidence.note("given an id", "a call without one of its own")
        tool_call = with_member(with_member(tool_call, "function", function), "id", sent_id)
        return tool_call, _Call(name, client_id, sent_id)

    def _object_text(self, arguments: Any) -> str | None:
        """The text of a JSON object to be sent for invalid arguments; None if they are valid, or
        those before them were too much to be read.  vLLM parses the arguments of past calls, and
        answers 400 for ever if it cannot."""
        if isinstance(arguments, dict):
            return dumps(arguments).decode()
        if not isinstance(arguments, str) or not arguments.strip():
            return "{}"
        text, value = arguments.encode("utf-8", "surrogatepass"), None
        self._unread_values -= marks_in(text)
        if self._unread_values < 0:
            return None
        with suppress(NotJson):
            if not _LOOKS_ENCODED(arguments):
                value = loads(text)
        if isinstance(value, dict):
            return None
        return dumps({"invalid_arguments": arguments}).decode()

    def _add_output(self, message: Json) -> None:
        """Assign it to the first call of its id that has none; else it becomes a user message."""
        segment, call_id = self._segment, string(message.get("tool_call_id"))
        if segment.answer(call_id, message):
            if segment.others:
                self._evidence.note("moved behind the tool outputs", "a message")
            return
        self._evidence.note("told by the user", "a tool output without its call")
        name = segment.names.get(call_id, self._names.get(call_id, ""))
        what = f"an earlier call of {name}" if name else "an earlier tool call"
        # Without the client's call id, which would teach a Kimi model to write such ids.
        self._add_other(_headed(f"[Output of {what}:]", message.get("content")))

    def _without_empty(self, message: Json) -> Json:
        """Without empty parts; nothing is left of a message without content."""
        content = message.get("content")
        if isinstance(content, list):
            parts = [part for part in content if not _is_empty(part)]
            if len(parts) < len(content):
                self._evidence.note("left out", "an empty part of a message")
                message = message | {"content": parts or ""}
                content = parts
        if content or message.get("role") == "tool" or any(map(message.get, _OTHER_CONTENT)):
            return message
        self._evidence.note("left out", f"an empty {message.get('role')} message")
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
            self._evidence.note("filled in", what)
            message = message | {"reasoning_content": known or missing}
        self._has_reasoned = self._has_reasoned or present or must
        return message


_OTHER_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""The content of an assistant's message beside its text."""


def with_member(holder: Json, name: str, value: Any) -> Json:
    """`holder` with this member; the same object if it has it, or a list of the same members."""
    old = holder.get(name)
    same = value is old or (isinstance(value, str) and value == old)
    if isinstance(value, list) and isinstance(old, list) and len(value) == len(old):
        same = all(map(operator.is_, value, old))
    return holder if same else {**holder, name: value}


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _is_null(message: Json) -> bool:
    has_content = message.get("content") is not None or any(map(message.get, _OTHER_CONTENT))
    return message.get("role") == "assistant" and not has_content


def _is_empty(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and not part.get("text")


def _without_media(output: Json, name: str, media: list[Json]) -> Json:
    """An output with its text alone; what else it has is added to `media`."""
    parts = array(output.get("content"))
    others = [part for part in parts if part["type"] != "text"]
    if not others:
        return output
    media += [{"type": "text", "text": f"[Returned by {name}:]"}, *others]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    return {**output, "content": text or _SEE_BELOW}


def _headed(heading: str, content: Any) -> Json:
    """A user message with the content of another."""
    if isinstance(content, list):
        return {"role": "user", "content": [{"type": "text", "text": heading}, *content]}
    return {"role": "user", "content": f"{heading}\n{content or ''}".rstrip("\n")}


def _as_one(messages: list[Json]) -> Json:
    """Messages of one role, joined; one alone is the very object."""
    if len(messages) == 1:
        return messages[0]
    return messages[0] | {"content": _joined(*(message.get("content") for message in messages))}


def _joined(*contents: Any) -> Any:
    """The contents of several messages in one; what precedes all parts is one text."""
    texts = list(takewhile(lambda content: not isinstance(content, list), contents))
    text = "\n\n".join(filter(None, map(string, texts)))
    if len(texts) == len(contents):
        return text
    parts: list[Any] = []
    for content in filter(None, [text, *contents[len(texts) :]]):
        parts += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return parts
