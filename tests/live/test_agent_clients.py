"""Clients that run tools themselves: the AI SDK and openai-agents, on chat and Responses.

The host leaks the call into its reasoning; the client runs it and sends the output; the
host answers with text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from fixtures.server import Upstream
from tests.live.clients import Client, Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import to_last_message

SCRIPTS = {
    "ai-sdk": "ai_sdk.mjs",
    "openai-agents": "openai_agents.py",
    "openai-agents-js": "openai_agents.mjs",
}


@pytest.fixture(params=SCRIPTS)
def client(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return clients.get(SCRIPTS[request.param], proxy.client_environment())


@pytest.mark.parametrize("mode", ["stream", "create"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_the_client_runs_a_leaked_call_and_gets_the_answer(
    request: pytest.FixtureRequest, tls_upstream: Upstream, client: Client, mode: str, api: str
) -> None:
    key = re.sub(r"\W", "-", request.node.name)
    fixture = "agent_sdk" if mode == "stream" else "agent_sdk_whole"
    base_url = f"{tls_upstream.url}/{fixture};cut=event;key={key}/v1"

    result = client.ask(f"{api}.{mode}", base_url, {"prompt": "Run the echo command."})

    assert result["executed"] == ["echo from-the-tool"]
    assert result["text"] == "The command printed from-the-tool."
    first, second = tls_upstream.requests_of(fixture, key)
    assert second.json["messages"][: len(first.json["messages"])] == first.json["messages"]
    if api == "responses":
        assert second.body.startswith(to_last_message(first))
    *_, call, output = second.json["messages"]
    assert [c["function"]["name"] for c in call["tool_calls"]] == ["bash"]
    if api == "responses":
        assert call["reasoning_content"].startswith("I will run it.")
    assert output["role"] == "tool"
    assert output["tool_call_id"] == call["tool_calls"][0]["id"]
    assert "from-the-tool" in json.dumps(output["content"])
