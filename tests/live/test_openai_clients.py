"""The official OpenAI clients read repaired chat replies through a real mitmdump.

They are processes of their own that only know `HTTPS_PROXY` and the certificate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import FOLDER, Upstream
from tests.live.clients import Client, Clients
from tests.live.mitmdump import Mitmdump

SCRIPTS = {"python": "openai_python.py", "node": "openai_node.mjs"}


@pytest.fixture(params=SCRIPTS)
def client(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    return clients.get(SCRIPTS[request.param], mitmdump().client_environment())


def ask(client: Client, how: str, upstream: Upstream, fixture: str) -> dict[str, Any]:
    request = json.loads((FOLDER / fixture / "request.json").read_bytes())
    del request["stream"]
    return client.ask(how, f"{upstream.url}/{fixture};cut=bytes:100/v1", request)


def calls(result: dict[str, Any]) -> list[tuple[str, Any]]:
    """The calls as (name, parsed arguments); their ids must be there and differ."""
    ids = [call["id"] for call in result["calls"]]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    return [(call["name"], json.loads(call["arguments"])) for call in result["calls"]]


@pytest.mark.parametrize("how", ["chat.create stream", "chat.stream"])
def test_a_leaked_section_arrives_as_tool_calls_streamed(
    client: Client, tls_upstream: Upstream, how: str
) -> None:
    result = ask(client, how, tls_upstream, "kimi_specification")
    assert calls(result) == [
        ("bash", {"command": "ls -la /usr/include | grep asm"}),
        ("read", {"path": "/usr/include/asm-generic/errno.h"}),
    ]
    assert result["finish_reason"] == "tool_calls"
    # The helpers keep only the last delta of a field they do not know.
    if how == "chat.create stream":
        assert result["reasoning"].strip() == "I need to look at the headers first."
    assert "<|" not in json.dumps(result)


def test_a_leaked_section_arrives_as_tool_calls_in_one_piece(
    client: Client, tls_upstream: Upstream
) -> None:
    result = ask(client, "chat.create", tls_upstream, "kimi_whole_message")
    assert calls(result) == [("bash", {"command": "uname -a"})]
    assert result["finish_reason"] == "tool_calls"
    assert result["text"].strip() == "Let me check the kernel."
    assert "<|" not in json.dumps(result)


@pytest.mark.parametrize("how", ["chat.create stream", "chat.stream"])
def test_native_calls_arrive_as_before(client: Client, tls_upstream: Upstream, how: str) -> None:
    result = ask(client, how, tls_upstream, "clean_native_tools")
    assert calls(result) == [
        ("bash", {"command": "date"}),
        ("read", {"path": "/etc/hostname", "limit": 1}),
    ]
    assert result["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("how", ["chat.create stream", "chat.stream"])
def test_text_arrives_as_before(client: Client, tls_upstream: Upstream, how: str) -> None:
    result = ask(client, how, tls_upstream, "clean_text")
    assert result["text"] == "The answer is 6 < 7, as the table says: <b>yes</b>."
    assert result["finish_reason"] == "stop"
