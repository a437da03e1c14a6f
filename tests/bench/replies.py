"""Turns that are much work: their requests, and the replies that the upstream has for them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.bench.client import CHAT, RESPONSES
from tests.bench.streams import MODEL

Json = dict[str, Any]
TURN = 1_400_000
"""Bytes of a request of the chain."""
TURNS = 20
"""As many as the bound of a request allows."""
SMALLER = 100
"""What a trial has so many times less of."""


def _tool(name: str, properties: Json) -> Json:
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _many_tools(part: int) -> Json:
    tools = [_tool(f"tool_{n}", {f"key_{n}": {"type": "string"}}) for n in range(20_000 // part)]
    return {"messages": [{"role": "user", "content": "x"}], "tools": tools, "stream": True}


def _long_enum(part: int) -> Json:
    values = [f"value_{n}" for n in range(8_000 // part)]
    tools = [
        _tool(name, {"all": {"type": "array", "items": {"enum": values}}}) for name in ("a", "b")
    ]
    return {"messages": [{"role": "user", "content": "x"}], "tools": tools, "stream": True}


def _many_items(part: int) -> Json:
    said = (str(number * 7919 % 1_000_003) for number in range(760_000 // part))
    return {"input": [{"role": "user", "content": text} for text in said]}


def _turn(part: int) -> Json:
    item = {"role": "user", "content": "Where are the headers? " * 12}
    return {"input": [item] * (TURN // 320 // part)}


@dataclass(frozen=True, slots=True)
class Case:
    """One turn that is much work."""

    what: str
    api: str
    reply: str
    """The stream, or what is in `document`, that it is answered with."""
    asked: Callable[[int], Json]
    """The fields of its request that are its own, or a part of them."""
    packed: bool = False
    """Whether the request is compressed."""
    turns: int = 1
    """Requests, each of which goes on from the one before; the last is looked at."""

    def body(self, part: int, **fields: Any) -> bytes:
        """The request."""
        body = json.dumps({"model": MODEL, **self.asked(part), **fields}).encode()
        return gzip.compress(body, 6) if self.packed else body


def _short(_: int) -> Json:
    return {"input": "x"}


def _short_stream(_: int) -> Json:
    return {"input": "x", "stream": True}


def _short_chat(_: int) -> Json:
    return {"messages": [{"role": "user", "content": "x"}]}


CASES = {
    "nameless": Case("300 nameless calls, 20,000 tools", CHAT, "nameless", _many_tools),
    "enum": Case("one nameless call, an enum of 8,000", CHAT, "enum", _long_enum),
    "items": Case("gzip of 760,000 items", RESPONSES, "clean-1", _many_items, packed=True),
    "document": Case("a JSON reply of 50 MB", RESPONSES, "document", _short),
    "calls": Case("a JSON reply of 30 MB, 300,000 calls", RESPONSES, "calls", _short),
    "values": Case("a JSON reply of 30 MB, 130,000 tokens", RESPONSES, "values", _short),
    "streamed": Case("such a reply where a stream was asked", RESPONSES, "values", _short_stream),
    "leaked": Case("a JSON reply of 30 MB, 150,000 leaked calls", CHAT, "leaked", _short_chat),
    "arguments": Case("50 MB of arguments", RESPONSES, "arguments", _short_stream),
    "chain": Case("turn 20 of a chain of 1.4 MB", RESPONSES, "clean-1", _turn, turns=TURNS),
}


def _chunk(delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _nameless(*arguments: Json) -> bytes:
    calls = "".join(
        f"<|tool_call_begin|>{number}<|tool_call_argument_begin|>{json.dumps(given)}"
        "<|tool_call_end|>"
        for number, given in enumerate(arguments)
    )
    text = f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    return _chunk({"content": text}) + _chunk({}, "stop") + b"data: [DONE]\n\n"


def _arguments(size: int) -> bytes:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "bash"}}
    call["function"] |= {"arguments": '{"command": "'}  # type: ignore[operator]
    more = {"index": 0, "function": {"arguments": "x" * 4000}}
    end = {"index": 0, "function": {"arguments": '"}'}}
    return (
        _chunk({"tool_calls": [call]})
        + _chunk({"tool_calls": [more]}) * (size // 4000)
        + _chunk({"tool_calls": [end]})
        + _chunk({}, "tool_calls")
        + b"data: [DONE]\n\n"
    )


def _document(size: int) -> bytes:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return _completion({"content": "x", "tool_calls": [call] * (size // 100)}, "tool_calls")


def _values(size: int) -> bytes:
    token = {"token": "x", "logprob": -0.25, "bytes": [120]}
    content = [token | {"top_logprobs": [token, token]}] * (size // 225)
    return _completion({"content": "x" * len(content)}, "stop", logprobs={"content": content})


def _leaked(size: int) -> bytes:
    call = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
        "{}<|tool_call_end|><|tool_calls_section_end|>\n"
    )
    calls = [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
    content = call * (size // 200)
    return _completion({"content": content, "tool_calls": calls * (size // 2000)}, "stop")


def _completion(message: Json, finish: str, **fields: Any) -> bytes:
    said = {"role": "assistant", **message}
    choice = {"index": 0, "message": said, "finish_reason": finish, **fields}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()


@lru_cache
def document(name: str) -> tuple[str, bytes] | None:
    """The label and the body of a reply that is sent at once; None for the name of a stream."""
    name, _, part = name.partition("~")
    size = 50_000_000 // int(part or 1)
    most = 30_000_000 // int(part or 1)
    """Of a reply that is within the bound of what is read as a whole."""
    match name:
        case "nameless":
            return "text/event-stream", _nameless(*({f"key_{n}": "x"} for n in range(300)))
        case "enum":
            values = [f"value_{n}" for n in range(8_000 // int(part or 1))]
            return "text/event-stream", _nameless({"all": values})
        case "document":
            return "application/json", _document(size)
        case "calls":
            return "application/json", _document(most)
        case "values":
            return "application/json", _values(most)
        case "leaked":
            return "application/json", _leaked(most)
        case "arguments":
            return "text/event-stream", _arguments(size)
        case _:
            return None
