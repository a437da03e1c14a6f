"""Requests of many items, through a real mitmdump: served up to their bounds, which are named to
the client where a request is converted, and on record where it passes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.wire.request_bounds import MAX_BODY, MAX_ITEMS
from fixtures.server import Upstream
from tests.live.chat import fixture_bytes
from tests.live.mitmdump import ADDON, ROOT, Mitmdump
from tests.live.responses import REQUEST, Bridge

GetMitmdump = Callable[..., Mitmdump]
STEPS = ROOT / "tests" / "live" / "steps.py"
MESSAGE = {"role": "user", "content": "x"}
TOOL = {"type": "function", "name": "bash", "parameters": {}}


def test_many_items_arrive_in_their_order(bridge: Bridge) -> None:
    items = [{"role": "user", "content": f"number {n} ü"} for n in range(MAX_ITEMS)]
    body = gzip.compress(json.dumps(REQUEST | {"input": items}).encode())
    exchange = bridge.ask("clean_text", body, ("content-encoding", "gzip"))
    exchange.story()
    assert [message["content"] for message in exchange.chat["messages"]] == [
        item["content"] for item in items
    ]


BEYOND: list[tuple[dict[str, Any], str]] = [
    ({"input": "x" * MAX_BODY}, "33,554,432 bytes"),
    ({"input": [MESSAGE | {"content": [1] * 5_001}]}, "5,000 parts"),
    ({"tools": [TOOL] * 2_001}, "2,000 tools"),
    ({"input": [MESSAGE] * 20_001}, "20,000 items"),
    ({"input": [[]] * 400_001}, "400,000 JSON values"),
]


@pytest.mark.parametrize(("fields", "says"), BEYOND, ids=[says for _, says in BEYOND])
def test_what_is_more_is_refused_in_words(
    bridge: Bridge, fields: dict[str, Any], says: str
) -> None:
    exchange = bridge.ask("clean_text", json.dumps(REQUEST | fields).encode())
    error = exchange.error(413)
    assert says in error["message"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "request_too_large"
    assert exchange.sent == []


@pytest.mark.parametrize(("fields", "says"), BEYOND, ids=[says for _, says in BEYOND])
def test_what_is_not_converted_passes_as_it_came_and_unread(
    plain_upstream: Upstream, mitmdump: GetMitmdump, fields: dict[str, Any], says: str
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}")
    name = "messages" if "input" in fields else "tools"
    refused = {"role": "assistant", "content": None}  # by Kimi's hosts
    sent = {"model": "kimi-k2.6", "stream": True, "messages": [refused]}
    body = json.dumps(sent | {name: fields.get("input") or fields["tools"]}).encode()
    exchange = Bridge(plain_upstream, proxy).ask(
        "kimi_bare_call", body, path="/v1/chat/completions"
    )
    assert exchange.sent[0].body == body
    assert exchange.reply.body == fixture_bytes("kimi_bare_call")
    proxy.wait_for_log(f"not cured: .*{says}")
    proxy.wait_for_log(f"not repaired: .*{says}")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
def test_others_run_while_a_long_request_is_converted_or_cured(
    plain_upstream: Upstream, mitmdump: GetMitmdump, path: str
) -> None:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    proxy = mitmdump(*arguments, scripts=(ADDON, STEPS))
    request = {"model": "kimi-k2.6", "stream": True}
    request |= {"input" if path == "/v1/responses" else "messages": [MESSAGE] * 200}
    version = ("anthropic-version", "2023-06-01")
    bridge = Bridge(plain_upstream, proxy)
    (sent,) = bridge.ask("clean_text", json.dumps(request).encode(), version, path=path).sent
    assert len(sent.json["messages"]) == 200
    assert proxy.log.count("others run now") >= 200
