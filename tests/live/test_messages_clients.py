"""The official Anthropic clients read repaired messages through a real mitmdump."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.bridge.messages_streams import K2, REQUEST, document, pieces, read, repaired, stream
from tests.live.clients import PYTHON, SCRIPTS, Client, Clients, need
from tests.live.mitmdump import Mitmdump
from tests.messages.test_repair import NATIVE, PLACES, TEXT, leaked

ASKED = {name: REQUEST[name] for name in ("model", "max_tokens", "messages", "tools")}
CUT = stream([("text", pieces(K2.partition(" -la")[0]))], "max_tokens")
STREAMS = {
    **{
        f"{place}, {size}": stream(leaked(place, K2, size))
        for place, size in zip(PLACES, itertools.cycle((1, 500)), strict=False)
    },
    "cut": CUT,
    "twins": stream([("text", ["So. ", K2]), NATIVE]),
    "clean": stream([TEXT, NATIVE], "tool_use"),
}


@pytest.fixture(params=["anthropic_python.py", "anthropic_node.mjs"])
def client(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    script: str = request.param
    packages = next((PYTHON.parent.parent / "lib").glob("python*")) / "site-packages"
    sdk = SCRIPTS / "node_modules" / "@anthropic-ai" / "sdk"
    need(packages / "anthropic" if script.endswith(".py") else sdk, "`make test` sets it up")
    return clients.get(script, mitmdump().client_environment())


def blocks_of(message: dict[str, Any]) -> list[Any]:
    """What each block says, or calls."""
    return [
        (block["type"], block.get("input") or block.get("text") or block.get("thinking"))
        for block in message["content"]
    ]


@pytest.mark.parametrize("name", STREAMS)
def test_its_accumulator_gets_the_repaired_blocks(
    client: Client, tls_upstream: Upstream, name: str
) -> None:
    tls_upstream.replies["messages/v1/messages"] = Reply(STREAMS[name])
    got = client.ask("stream", f"{tls_upstream.url}/messages;cut=bytes:100", ASKED)
    wanted = read(repaired(STREAMS[name]))
    assert got["stop_reason"] == wanted.stop_reason
    if name != "cut":
        for block in wanted.blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"])
        assert blocks_of(got) == blocks_of({"content": wanted.blocks})
    calls = [block["id"] for block in got["content"] if block["type"] == "tool_use"]
    assert len(set(calls)) == len(calls)


def test_it_gets_a_message_that_came_whole(client: Client, tls_upstream: Upstream) -> None:
    body = json.dumps(document([("text", [f"I look.\n{K2}"])])).encode()
    tls_upstream.replies["messages/v1/messages"] = Reply(body, "application/json")
    got = client.ask("create", f"{tls_upstream.url}/messages", ASKED)
    assert got["stop_reason"] == "tool_use"
    assert blocks_of(got) == [("text", "I look.\n"), ("tool_use", {"command": "ls -la"})]


def test_a_leaked_call_of_a_tool_that_anthropic_has_defined_is_a_call(
    client: Client, tls_upstream: Upstream
) -> None:
    """It has no schema in the request, and the client runs it."""
    asked = ASKED | {"tools": [{"type": "bash_20250124", "name": "bash"}]}
    tls_upstream.replies["messages/v1/messages"] = Reply(stream([("text", [f"I look.\n{K2}"])]))
    got = client.ask("stream", f"{tls_upstream.url}/messages", asked)
    assert blocks_of(got) == [("text", "I look.\n"), ("tool_use", {"command": "ls -la"})]
    assert tls_upstream.requests[-1].json["tools"] == asked["tools"]
