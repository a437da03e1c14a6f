"""Short texts that are hard for a regular expression, and calls that are damaged: through a real
mitmdump, beside which a ticker wakes every 10 ms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live import wire
from tests.live.chat import REQUEST as CHAT
from tests.live.chat import Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.responses import REQUEST, Bridge
from tests.repair.streams import chunk, read, sse

TICKER = Path(__file__).with_name("ticker.py")
LONGEST = 500
"""Milliseconds: some 20 in truth, on a computer that has nothing else to do."""
HARD = {
    "a header of Kimi's": ("kimi-k2.5", "<|tool_call_begin|>a" + ":" * 60 + "!"),
    "attributes": ("minimax-m2", "<tool_calls><invoke " + "aaaaaa=" * 200 + "!<"),
    "blanks in an attribute": ("minimax-m3", "]<]minimax[>[<invoke name=" + " " * 3000 + "!"),
    "recipients": ("gpt-oss-120b", "<|channel|>commentary " + "to=functions.a " * 200 + "!"),
    "blanks before a member": ("qwen2.5", "<tool_call>{" + " " * 60_000 + "!"),
}


class Proxied:
    """One upstream behind one mitmdump."""

    def __init__(self, upstream: Upstream, proxy: Mitmdump) -> None:
        self.chat, self.bridge = Chat(upstream, proxy), Bridge(upstream, proxy)
        self._proxy = proxy

    def longest(self) -> int:
        """Milliseconds for which nobody else was served."""
        return int(wire.exchange(f"{self._proxy.url}/ticker", b"").body)


@pytest.fixture
def proxied(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Proxied:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Proxied(plain_upstream, mitmdump(*arguments, scripts=(ADDON, TICKER)))


def stream(text: str, model: str) -> bytes:
    chunks = [*(chunk({"content": piece}) for piece in (text[:9], text[9:])), chunk({}, "stop")]
    return sse([{**value, "model": model} for value in chunks])


@pytest.mark.parametrize(("model", "text"), HARD.values(), ids=list(HARD))
def test_no_text_stops_the_others(proxied: Proxied, model: str, text: str) -> None:
    proxied.longest()
    reply = proxied.chat.ask(stream(text, model), request=CHAT | {"model": model})
    assert (reply.status, reply.complete) == (200, True)
    assert read(reply.body).content.endswith("!" if text.endswith("!") else "<")
    assert proxied.longest() < LONGEST


def test_no_output_of_a_tool_stops_the_others(proxied: Proxied) -> None:
    output = json.dumps([{"type": "x", "b64_json": "A" + " " * 60_000 + "!"}])
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": output}
    question = {"role": "user", "content": "Look."}
    proxied.longest()
    request: dict[str, Any] = REQUEST | {"input": [question, call, result]}
    story = proxied.bridge.ask(Reply(stream("Hello.", "my-model")), request).story()
    assert story.response["status"] == "completed"
    assert proxied.longest() < LONGEST


LS = {"command": "ls"}
CALLED = {
    "args": ("qwen2.5", '<tool_call>{"name": "bash", "args": {"command": "ls"}}</tool_call>'),
    "members": ("qwen2.5", '<tool_call>{"name": "bash", "command": "ls"}</tool_call>'),
    "a list of Mistral's": (
        "devstral",
        '[TOOL_CALLS][{"name": "bash", "input": {"command": "ls"}}]',
    ),
    "no token": ("devstral", 'bash[ARGS]{"command": "ls"}'),
    "a string": (
        "kimi-k2.5",
        "<|tool_call_begin|>bash:0<|tool_call_argument_begin|>"
        r'"{\"command\": \"ls\"}"<|tool_call_end|>',
    ),
    "no argument marker": (
        "kimi-k2.5",
        '<|tool_call_begin|>bash:0 {"command": "ls"} <|tool_call_end|>',
    ),
    "a glued name": (
        "gpt-oss-120b",
        '<|channel|>commentary to=functions.bashjson<|message|>{"command": "ls"}<|call|>',
    ),
    "a header again": (
        "gpt-oss-120b",
        '<|channel|>commentary to=functions.bash json<|message|>{"command": "ls"}<|call|>'
        "<|start|>assistant<|channel|>commentary to=functions.bash <|constrain|>json",
    ),
}
DAMAGED = {
    "no such argument": ("qwen2.5", '<tool_call>{"name": "bash", "folder": "/"}</tool_call>'),
    "no JSON": ("qwen2.5", '<tool_call>{"name": "bash", "arguments": command=ls}</tool_call>'),
    "a list of Mistral's": ("devstral", '[TOOL_CALLS][{"name": "bash", "args": "ls"}]'),
}


@pytest.mark.parametrize(("model", "text"), CALLED.values(), ids=list(CALLED))
def test_a_damaged_call_is_the_call_that_was_meant(proxied: Proxied, model: str, text: str) -> None:
    reply = proxied.chat.ask(stream(text, model), request=CHAT | {"model": model})
    out = read(reply.body)
    assert [(call["name"], json.loads(call["arguments"])) for call in out.calls] == [("bash", LS)]
    assert (out.content, out.finish) == ("", ["tool_calls"])
    response = (
        proxied.bridge.ask(Reply(stream(text, model)), REQUEST | {"model": model}).story().response
    )
    (item,) = response["output"]
    assert (item["name"], json.loads(item["arguments"])) == ("bash", LS)


@pytest.mark.parametrize(("model", "text"), DAMAGED.values(), ids=list(DAMAGED))
def test_what_is_no_call_for_certain_is_text(proxied: Proxied, model: str, text: str) -> None:
    reply = proxied.chat.ask(stream(text, model), request=CHAT | {"model": model})
    out = read(reply.body)
    assert (out.content, out.calls) == (text, [])
