"""Requests of many items, through a real mitmdump: served as ever, up to their limits."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from dragoman.proxy.flows.bridge_turn import MAX_PLAIN
from tests.live.responses import REQUEST, Bridge

MESSAGE = {"role": "user", "content": "x"}
TOOL = {"type": "function", "name": "bash", "parameters": {}}


@pytest.mark.slow
def test_a_body_that_is_too_large_is_refused_in_words(bridge: Bridge) -> None:
    body = json.dumps(REQUEST | {"input": "x" * MAX_PLAIN}).encode()
    exchange = bridge.ask("clean_text", body)
    error = exchange.error(413)
    assert error["code"] == "request_too_large"
    assert f"{MAX_PLAIN:,} bytes" in error["message"]
    assert exchange.sent == []


def test_many_items_arrive_in_their_order(bridge: Bridge) -> None:
    items = [{"role": "user", "content": f"number {n} ü"} for n in range(50_000)]
    body = gzip.compress(json.dumps(REQUEST | {"input": items}).encode())
    exchange = bridge.ask("clean_text", body, ("content-encoding", "gzip"))
    exchange.story()
    assert [message["content"] for message in exchange.chat["messages"]] == [
        item["content"] for item in items
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"input": [MESSAGE | {"content": [1] * 50_000}]}, "50,000"),
        ({"tools": [TOOL] * 20_001}, "20,000"),
        ({"input": [MESSAGE] * 800_001}, "800,000"),
        ({"input": [[]] * 1_000_001}, "1,000,000"),
    ],
    ids=["values of an item", "tools", "items", "values"],
)
def test_what_is_more_is_refused_in_words(
    bridge: Bridge, fields: dict[str, Any], says: str
) -> None:
    exchange = bridge.ask("clean_text", json.dumps(REQUEST | fields).encode())
    error = exchange.error(400)
    assert says in error["message"]
    assert error["type"] == "invalid_request_error"
    assert exchange.sent == []
