"""The hooks: which flows they take, and what each does to a request and a reply."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from mitmproxy import exceptions, http
from mitmproxy.test import taddons, tflow

from dragoman.proxy.addon import Dragoman
from tests.proxy.exchange import EVENT_STREAM, Exchange
from tests.repair.streams import chunk, read, sse
from tests.repair.turns import REQUEST

LEAK = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|>'
JSON = "content-type: application/json"


def completion(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    return json.dumps({"id": "1", "choices": [choice | {"finish_reason": "stop"}]}).encode()


def received(exchange: Exchange) -> tuple[bytes, Any]:
    head, _, body = exchange.to_client().partition(b"\r\n\r\n")
    return head, json.loads(body)


def test_a_leaked_call_of_a_whole_reply_becomes_one_and_the_flow_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Exchange(monkeypatch) as exchange:
        exchange.ask(REQUEST)
        exchange.answer(JSON, body=completion(LEAK))
        head, body = received(exchange)
        (call,) = body["choices"][0]["message"]["tool_calls"]
        assert call["function"] == {"name": "bash", "arguments": '{"command":"ls"}'}
        assert f"content-length: {len(json.dumps(body, separators=(',', ':')))}".encode() in head
        assert exchange.flow is not None and "1 call" in exchange.flow.comment


def test_a_leaked_call_of_a_stream_becomes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with Exchange(monkeypatch) as exchange:
        exchange.ask({**REQUEST, "stream": True})
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        sent = exchange.piece(sse([chunk({"content": LEAK}), chunk({}, "stop")]))
        assert [call["name"] for call in read(sent).calls] == ["bash"]
        assert read(sent).finish == ["tool_calls"]


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/v1/embeddings", {}),
        ("/v1/chat/completions", {"dragoman_repair": "off"}),
        ("/v1/chat/completions", {"dragoman_repair": "~d elsewhere"}),
    ],
)
def test_what_is_not_asked_for_passes(
    monkeypatch: pytest.MonkeyPatch, path: str, options: dict[str, str]
) -> None:
    with Exchange(monkeypatch, dragoman_cure="off", **options) as exchange:
        assert exchange.ask(REQUEST, path) == REQUEST
        exchange.answer(JSON, body=completion(LEAK))
        assert exchange.to_client().endswith(b"\r\n\r\n" + completion(LEAK))
        assert exchange.flow is not None and exchange.flow.comment == ""


@pytest.mark.parametrize(("path", "ours"), [("/v1/chat/completions", True), ("/index", False)])
def test_headers_of_ours_are_not_sent_on_and_only_what_is_read_comes_uncompressed(
    path: str, ours: bool
) -> None:
    flow = tflow.tflow(req=http.Request.make("POST", f"http://llm.example{path}", b"{}"))
    flow.live = True
    flow.request.headers["x-dragoman-dialect"] = "codex"
    flow.request.headers["accept-encoding"] = "gzip"
    addon = Dragoman()
    with taddons.context(addon) as context:
        context.configure(addon, dragoman_store="off")
        addon.requestheaders(flow)
    assert "x-dragoman-dialect" not in flow.request.headers
    assert flow.request.headers["accept-encoding"] == ("identity" if ours else "gzip")


def test_a_saved_flow_that_is_only_loaded_is_not_touched() -> None:
    flow = tflow.tflow(req=http.Request.make("POST", "http://a.b/v1/chat/completions", b"{}"))
    flow.response = http.Response.make(200, completion(LEAK), {"content-type": "application/json"})
    flow.live = False
    before = flow.get_state()
    addon = Dragoman()

    async def hooks() -> None:
        with taddons.context(addon) as context:
            context.configure(addon, dragoman_store="off")
            addon.requestheaders(flow)
            await addon.request(flow)
            await addon.responseheaders(flow)
            await addon.response(flow)
            addon.error(flow)

    asyncio.run(hooks())
    assert flow.get_state() == before


def test_a_request_to_a_host_that_speaks_only_chat_is_converted_and_its_reply_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"model": "kimi-k2.5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with Exchange(monkeypatch, dragoman_bridge="~all") as exchange:
        assert exchange.ask(asked, "/v1/messages")["messages"] == asked["messages"]
        exchange.answer(JSON, body=completion("Hello."))
        _, body = received(exchange)
        assert (body["type"], body["content"]) == ("message", [{"type": "text", "text": "Hello."}])


def test_what_no_chat_host_can_serve_is_answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {"model": "kimi-k2.5", "messages": [{"role": "user", "content": "Hi there."}]}
    with Exchange(monkeypatch, dragoman_bridge="~all") as exchange:
        assert exchange.ask(counted, "/v1/messages/count_tokens") == {}
        assert received(exchange)[1]["input_tokens"] > 0
        assert exchange.ask({}, "/v1/responses/compact") == {}
        head, body = received(exchange)
        assert b" 200 " not in head.splitlines()[0] and body["error"]["message"]


def test_a_wrong_option_at_the_start_is_one_line_of_the_log_and_later_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    addon = Dragoman()
    with taddons.context(addon) as context:
        context.options.update(dragoman_store="off")
        with caplog.at_level(logging.ERROR):
            context.options.update(dragoman_formats="nonsense")
        assert "nonsense" in caplog.text and "Traceback" not in caplog.text
        context.options.update(dragoman_formats="auto")
        addon.running()
        with pytest.raises(exceptions.OptionsError, match="nonsense"):
            context.options.update(dragoman_formats="nonsense")
        addon.done()
