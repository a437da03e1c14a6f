"""A model that tells a document about the tokens calls nothing: through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live.chat import REQUEST as CHAT
from tests.live.chat import Chat
from tests.live.mitmdump import Mitmdump
from tests.live.responses import REQUEST as RESPONSES
from tests.live.responses import Bridge
from tests.repair.streams import chunk, read, sse
from tests.repair.test_told_back import DOCUMENTS, cuts

JSON = "application/json"
LARGEST = max(DOCUMENTS, key=lambda path: path.stat().st_size)
every_document_and_model = pytest.mark.parametrize(
    ("document", "model"),
    [*((path, "kimi-k2.5") for path in DOCUMENTS), (LARGEST, "gpt-5.5"), (LARGEST, "my-model")],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
"""Not every pair: the stages are proved with all of them."""


@pytest.fixture
def proxy(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Mitmdump:
    return mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")


def streamed(text: str, model: str, field: str = "content") -> bytes:
    deltas = [chunk({field: piece}) for piece in cuts(text, "tokens")]
    chunks = [chunk({"role": "assistant"}), *deltas, chunk({}, "stop")]
    return sse([{**value, "model": model} for value in chunks])


def whole(text: str, model: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c", "model": model, "choices": [choice]}).encode()


@every_document_and_model
def test_a_chat_client_gets_every_byte(
    plain_upstream: Upstream, proxy: Mitmdump, document: Path, model: str
) -> None:
    chat = Chat(plain_upstream, proxy)
    text = document.read_text()
    for field in ("content", "reasoning_content"):
        told = streamed(text, model, field)
        assert chat.ask(told, request=CHAT | {"model": model}).body == told
    reply = Reply(whole(text, model), JSON)
    request: dict[str, Any] = CHAT | {"model": model, "stream": False}
    assert chat.ask(reply, request=request).body == reply.body


@every_document_and_model
def test_a_responses_client_gets_one_message_with_all_of_it(
    plain_upstream: Upstream, proxy: Mitmdump, document: Path, model: str
) -> None:
    bridge = Bridge(plain_upstream, proxy)
    text = document.read_text()
    request = RESPONSES | {"model": model}
    story = bridge.ask(Reply(streamed(text, model)), request).story()
    (item,) = story.response["output"]
    assert (item["type"], item["content"][0]["text"]) == ("message", text)
    got = bridge.ask(Reply(whole(text, model), JSON), request | {"stream": False}).json
    (item,) = got["output"]
    assert (item["type"], item["content"][0]["text"]) == ("message", text)


def test_what_was_left_as_text_is_logged(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}")
    Chat(plain_upstream, proxy).ask(sse([chunk({"content": "`<|tool_call_end|>`"}, "stop")]))
    proxy.wait_for_log("left as text call_end in quoted code")


K2 = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>'
)
HERMES = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
EXAMPLES = [
    ("kimi-k2.5", K2, "> {}\n\nThat is one.", 0),
    ("kimi-k2.5", K2, "So:\n\n    {}\n\nThat is one.", 0),
    ("kimi-k2.5", K2, "<pre>\n{}\n</pre>", 0),
    ("kimi-k2.5", K2, 'It writes "{}".', 0),
    ("kimi-k2.5", K2, "So:\n\n    {}", 1),
    ("kimi-k2.5", K2, "I check the `foo function: {}", 1),
    ("qwen2.5-72b", HERMES, "I check the `foo function: {}", 1),
    ("qwen2.5-72b", HERMES, "It writes `{}`.", 0),
]


def test_an_example_is_no_call_for_clients_of_either_api_and_an_odd_backtick_quotes_none(
    plain_upstream: Upstream, proxy: Mitmdump
) -> None:
    chat, bridge = Chat(plain_upstream, proxy), Bridge(plain_upstream, proxy)
    for model, call, shape, calls in EXAMPLES:
        told = streamed(shape.replace("{}", call), model)
        got = chat.ask(told, request=CHAT | {"model": model}).body
        assert (got == told) is (calls == 0)
        out = read(got)
        assert [made["name"] for made in out.calls] == ["bash"] * calls
        story = bridge.ask(Reply(told), RESPONSES | {"model": model}).story()
        kinds = [item["type"] for item in story.response["output"]]
        assert kinds == ["message", *["function_call"] * calls]
        text = shape.replace("{}", "" if calls else call)
        assert out.content == text
        assert story.response["output"][0]["content"][0]["text"] == text


def test_a_call_by_the_clients_own_id_is_one_of_its_tool(
    plain_upstream: Upstream, proxy: Mitmdump
) -> None:
    """The ids are sent with others, which Kimi's models understand."""
    leaked = K2.replace("functions.bash:0", "call_123").replace('{"command":"ls"}', "{}")
    function = {"name": "bash", "arguments": '{"command":"pwd"}'}
    call = {"id": "call_123", "type": "function", "function": function}
    done = {"role": "tool", "tool_call_id": "call_123", "content": "/"}
    messages = [*CHAT["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}]
    told = streamed(leaked, "kimi-k2.5")
    request = CHAT | {"model": "kimi-k2.5", "messages": [*messages, done]}
    out = read(Chat(plain_upstream, proxy).ask(told, request=request).body)
    assert [made["name"] for made in out.calls] == ["bash"]
    assert b"call_123" not in plain_upstream.requests[-1].body
    items = [{"type": "function_call", "call_id": "call_123", **function}]
    items += [{"type": "function_call_output", "call_id": "call_123", "output": "/"}]
    request = RESPONSES | {"model": "kimi-k2.5", "input": items}
    got = Bridge(plain_upstream, proxy).ask(Reply(told), request)
    assert "call_123" not in json.dumps(got.chat)
    assert [item["name"] for item in got.story().response["output"]] == ["bash"]
