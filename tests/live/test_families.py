"""Each format, as a model of its family leaks it, through a real mitmdump on each API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.bridge.hosts import VLLM
from tests.live.chat import Chat
from tests.live.mitmdump import Mitmdump
from tests.repair.formats.test_all_formats import CALLS
from tests.repair.formats.test_json_alone import OBJECT
from tests.repair.formats.turns import TOOLS
from tests.repair.streams import chunk, read, sse
from tests.repair.test_call_finder import MODELS

LEAKS = {
    **{name: (MODELS[name], "Look. " + CALLS[name].replace("¦", "")) for name in CALLS},
    "json": ("qwen2.5-coder:14b", f"Look.\n\n```json\n{OBJECT}\n```\n"),
    "json, bare": ("llama3.1:8b", OBJECT),
    "json, after a thought": ("qwen3:8b", f"<think>\nLook.\n</think>\n\n{OBJECT}"),
}
FUNCTIONS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": properties}}
    for name, properties in TOOLS.items()
]
CHAT = {"messages": [], "tools": [{"type": "function", "function": each} for each in FUNCTIONS]}
RESPONSES = {"input": "List them.", "tools": FUNCTIONS}


def of_response(body: bytes) -> tuple[str, list[tuple[str, str]]]:
    """The text and the calls of a stream of the Responses API."""
    lines = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
    output: list[Any] = json.loads(lines[-1].removeprefix(b"data: "))["response"]["output"]
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    calls = [(item["name"], item["arguments"]) for item in output if "name" in item]
    return "".join(part["text"] for part in parts), calls


def ask(chat: Chat, api: str, model: str, text: str) -> tuple[str, list[tuple[str, str]]]:
    """What the client of this API gets of such a leak."""
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    chunks = [chunk({"content": piece}, model=model) for piece in pieces]
    request = {"model": model, "stream": True, **(CHAT if api == "chat" else RESPONSES)}
    path = "/v1/chat/completions" if api == "chat" else "/v1/responses"
    chat.upstream.replies.update(
        {
            "leak/v1/chat/completions": Reply(sse([*chunks, chunk({}, "stop", model=model)])),
            "leak/v1/responses": Reply(VLLM.stream([("text", pieces)], model=model)),
        }
    )
    body = chat.ask("leak", ";cut=bytes:400", path=path, request=request).body
    if api != "chat":
        return of_response(body)
    got = read(body)
    assert got.finish == ["tool_calls"]
    return got.content, [(call["name"], call["arguments"]) for call in got.calls]


@pytest.mark.parametrize("api", ["chat", "bridge", "native"])
def test_a_client_of_each_api_gets_the_call(
    api: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    bridge = f"dragoman_bridge={'~all' if api == 'bridge' else 'off'}"
    mode = f"reverse:{plain_upstream.url}"
    chat = Chat(plain_upstream, mitmdump("--mode", mode, "--set", bridge))
    for name, (model, leak) in LEAKS.items():
        text, calls = ask(chat, api, model, leak)
        arguments = [(tool, json.loads(each)) for tool, each in calls]
        assert (name, arguments) == (name, [("bash", {"command": "ls"})])
        silent = name == "json, bare" or (name.endswith("thought") and api == "bridge")
        assert re.sub("</?think>", "", text).strip() == ("" if silent else "Look."), name
        chat.proxy.wait_for_log(f"from {name.partition(',')[0]}")
