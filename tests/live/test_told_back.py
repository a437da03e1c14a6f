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
from tests.repair.streams import chunk, sse
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
    proxy.wait_for_log("left as text a call_end in quoted code")
