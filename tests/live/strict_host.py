"""A host that refuses as Moonshot's and DeepSeek's do, in their words, with thinking on.

It has the client's first tool called `TURNS` times, each time after a thought, every second
time as a leak, and then answers.  What would be refused it answers with the text that users
report.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from fixtures.server import Options, Reply, Upstream
from fixtures.wire import Request
from tests.bridge.json_schemas import refusals
from tests.repair.streams import chunk, sse

TURNS = 10
DONE = "All is done."
Json = dict[str, Any]
_TOOLS = re.compile("[bB]ash|1[.]sh|_?1_sh_[0-9a-f]{8}").fullmatch
_NAMES = re.compile("[a-zA-Z_][a-zA-Z0-9_-]{2,63}").fullmatch
_DEEPSEEK_NAMES = "^[a-zA-Z0-9_-]+$"
_LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_calls_section_end|>"
)


def thought(number: int) -> str:
    """What it thinks before a call."""
    return f"Thought «{number}»: I call it."


@dataclass(slots=True)
class StrictHost(Upstream):
    """Any first part of the path is a conversation of its own."""

    refused: list[str] = field(default_factory=list)
    """The errors it has answered with."""

    def _reply(self, request: Request, name: str, options: Options, rest: str) -> Reply:
        if not rest.endswith("/chat/completions"):
            return Upstream._reply(self, request, name, options, rest)
        try:
            body = json.loads(request.body)
        except ValueError:
            return Reply(b"{}", "application/json", 400)
        error = refusal_of(body)
        if error:
            self.refused.append(error)
            value = {"error": {"message": error, "type": "invalid_request_error"}}
            return Reply(json.dumps(value).encode(), "application/json", 400)
        return _answer(body)


def refusal_of(body: Json) -> str:
    """What Moonshot, or DeepSeek, would answer to a chat request; "" if it takes it."""
    return (_deepseek if "deepseek" in body["model"] else _moonshot)(body)


def calls_of(body: Json) -> list[Json]:
    """The assistant's messages with calls."""
    return [message for message in body["messages"] if message.get("tool_calls")]


def _names(body: Json) -> list[str]:
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    return [each["function"]["name"] for each in [*body.get("tools", ()), *calls]]


def _moonshot(body: Json) -> str:
    if not all(map(_NAMES, _names(body))):
        text = "function name is invalid, must start with a letter and can contain letters"
        return f"{text}, numbers, underscores, and dashes"
    for tool in body.get("tools", ()):
        with contextlib.suppress(KeyError):
            for refusal in refusals(tool["function"]["parameters"]):
                text = "tools.function.parameters is not a valid moonshot flavored json schema"
                return f"{text}, details: <{refusal}>"
    if body.get("temperature", 1) != 1 or body.get("top_p", 0.95) != 0.95:
        return "invalid temperature: only 1 is allowed for this model"
    if body.get("tool_choice") == "required":
        return "tool_choice 'required' is incompatible with thinking enabled"
    for place, message in enumerate(body["messages"]):
        role, content = message["role"], message.get("content")
        if role == "developer":
            return "Invalid request: role developer is not supported"
        if role == "assistant" and not (content or message.get("tool_calls")):
            text = f"the message at position {place} with role 'assistant' must not be empty"
            return f"Invalid request: {text}"
        if isinstance(content, list) and any(part.get("text") == "" for part in content):
            return "Invalid request: text content is empty"
        if message.get("tool_calls") and not message.get("reasoning_content"):
            text = "thinking is enabled but reasoning_content is missing in assistant tool call"
            return f"{text} message at index {place}"
    return _unpaired(body)


def _deepseek(body: Json) -> str:
    for number, name in enumerate(_names(body)):
        if not re.match(_DEEPSEEK_NAMES, name):
            text = "string does not match pattern. Expected a string that matches the pattern"
            return f"Invalid 'tools[{number}].function.name': {text} '{_DEEPSEEK_NAMES}'."
    has_it = False
    for message in body["messages"]:
        if message["role"] == "assistant":
            if message.get("content") is None and not message.get("tool_calls"):
                return "Invalid assistant message: content or tool_calls must be set"
            if (has_it or message.get("tool_calls")) and "reasoning_content" not in message:
                return "The reasoning_content in the thinking mode must be passed back to the API."
            has_it = has_it or "reasoning_content" in message
    return _unpaired(body)


def _unpaired(body: Json) -> str:
    waiting: list[str] = []
    for message in [*body["messages"], {"role": ""}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"tool_call_id {message['tool_call_id']} is not found"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return (
                "an assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(waiting)}"
            )
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    return ""


def _answer(body: Json) -> Reply:
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    name = next(filter(_TOOLS, names), "")
    number = len(calls_of(body))
    if not name or number >= TURNS:
        said = [chunk({"reasoning_content": "It is over."}), chunk({"content": DONE})]
        return _sent(body, [*said, chunk({}, "stop")])
    kimi = "deepseek" not in body["model"]
    call_id = f"functions.{name}:{number}" if kimi else f"call_00_{number}"
    arguments = json.dumps({"command": f"echo {number}", "description": "Say it"})
    think = [
        chunk({"reasoning_content": part}) for part in (thought(number)[:5], thought(number)[5:])
    ]
    if kimi and number % 2 and body.get("stream"):
        text = _LEAK.format(call_id, arguments)
        said = [chunk({"content": text[at : at + 20]}) for at in range(0, len(text), 20)]
        return _sent(body, [*think, *said, chunk({}, "stop")])
    head = {"index": 0, "id": call_id, "type": "function"}
    said = [
        chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}),
    ]
    return _sent(body, [*think, *said, chunk({}, "tool_calls")])


def _sent(body: Json, chunks: list[Json]) -> Reply:
    if body.get("stream"):
        return Reply(sse(chunks))
    message: Json = {"role": "assistant", "content": ""}
    for delta in (each["choices"][0]["delta"] for each in chunks):
        for field_name in ("reasoning_content", "content"):
            if delta.get(field_name):
                message[field_name] = message.get(field_name, "") + delta[field_name]
        for call in delta.get("tool_calls", ()):
            (made,) = message.setdefault("tool_calls", [{**call, "function": {"arguments": ""}}])
            given = call["function"]
            made["function"] |= {k: v for k, v in given.items() if k == "name"}
            made["function"]["arguments"] += given["arguments"]
    finish = chunks[-1]["choices"][0]["finish_reason"]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    value = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
    return Reply(json.dumps({**value, "choices": [choice]}).encode(), "application/json")
