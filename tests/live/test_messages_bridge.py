"""A client of Anthropic's Messages API at a host that speaks only Chat Completions."""

from __future__ import annotations

import json
from typing import Any

from fixtures.server import Reply
from tests.bridge.messages_streams import K2, REQUEST, pieces, read
from tests.live import wire
from tests.live.unknown_host import Host
from tests.repair.streams import chunk, sse

VERSION = ("anthropic-version", "2023-06-01")
KEY = ("x-api-key", "sk-test")
PATH = "/v1/messages?beta=true"
COUNT = "/v1/messages/count_tokens?beta=true"


def said(*contents: str, finish: str = "stop") -> Reply:
    return Reply(sse([*(chunk({"content": text}) for text in contents), chunk({}, finish)]))


def ask(host: Host, path: str = PATH, **fields: Any) -> wire.Reply:
    return host.ask(REQUEST | fields, VERSION, KEY, path=path)


def test_a_host_without_the_api_is_bridged(host: Host) -> None:
    host.says(chat=said("I look.\n", *pieces(K2)))
    for _ in range(2):
        reply = ask(host)
        assert reply.complete
        got = read(reply.body)
        assert got.gist == 'I look. [bash {"command": "ls -la"}]'
        assert got.stop_reason == "tool_use"
    assert host.arrived == ["request", "chat", "chat"]
    host.proxy.wait_for_log("✓ 1 call bash · bridge · kimi-k2.5")


def test_nothing_of_anthropics_api_leaves(host: Host) -> None:
    host.says(chat=said("Well."))
    more = ("anthropic-beta", "claude-code-20250219"), ("x-stainless-os", "Linux"), ("x-app", "cli")
    host.ask(REQUEST | {"metadata": {"user_id": "me"}}, VERSION, KEY, *more, path=PATH)
    *_, sent = host.sent
    assert sent.path.endswith("/v1/chat/completions")
    assert sent.header("authorization") == "Bearer sk-test"
    names = {name.lower() for name, _ in sent.headers}
    assert not [name for name in names if name.startswith(("anthropic", "x-"))]
    assert b"user_id" not in sent.body


def test_a_whole_message(host: Host) -> None:
    host.says(chat=said("I look.\n", K2))
    message = json.loads(ask(host, stream=False).body)
    text, call = message["content"]
    assert (text["text"], call["input"]) == ("I look.\n", {"command": "ls -la"})
    assert message["stop_reason"] == "tool_use"
