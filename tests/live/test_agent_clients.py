"""Clients that run tools themselves, at a chat host: the AI SDK, openai-agents, pydantic-ai, and
the tool runners of Anthropic's clients.

The host leaks the call into its reasoning; the client runs it and sends the output; the
host answers with text.  Then calls whose ids would come twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.live.clients import Client, Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import to_last_message
from tests.repair.streams import chunk, sse

SCRIPTS = {
    "ai-sdk": "ai_sdk.mjs",
    "openai-agents": "openai_agents.py",
    "openai-agents-js": "openai_agents.mjs",
    "pydantic-ai": "pydantic_agent.py",
    "anthropic": "anthropic_agent.py",
    "anthropic-js": "anthropic_agent.mjs",
}
APIS = {
    **dict.fromkeys(("openai-agents", "openai-agents-js"), ("chat", "responses")),
    **dict.fromkeys(("pydantic-ai", "anthropic", "anthropic-js"), ("messages",)),
    "ai-sdk": ("chat", "responses", "messages"),
}


@pytest.fixture
def client_of(mitmdump: Callable[..., Mitmdump], clients: Clients) -> Callable[[str], Client]:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return lambda name: clients.get(SCRIPTS[name], proxy.client_environment())


@pytest.mark.parametrize("mode", ["stream", "create"])
@pytest.mark.parametrize(
    "asker", [(name, api) for name in APIS for api in APIS[name]], ids="-".join
)
def test_the_client_runs_a_leaked_call_and_gets_the_answer(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    client_of: Callable[[str], Client],
    mode: str,
    asker: tuple[str, str],
) -> None:
    name, api = asker
    key = re.sub(r"\W", "-", request.node.name)
    fixture = "agent_sdk" if mode == "stream" else "agent_sdk_whole"
    base_url = f"{tls_upstream.url}/{fixture};cut=event;key={key}/v1"

    result = client_of(name).ask(f"{api}.{mode}", base_url, {"prompt": "Run the echo command."})

    assert result["executed"] == ["echo from-the-tool"]
    assert result["text"] == "The command printed from-the-tool."
    first, second = tls_upstream.requests_of(fixture, key)
    assert second.json["messages"][: len(first.json["messages"])] == first.json["messages"]
    if api != "chat":
        assert second.body.startswith(to_last_message(first))
    *_, call, output = second.json["messages"]
    assert [c["function"]["name"] for c in call["tool_calls"]] == ["bash"]
    if api != "chat":
        assert call["reasoning_content"].startswith("I will run it.")
    assert output["role"] == "tool"
    assert output["tool_call_id"] == call["tool_calls"][0]["id"]
    assert "from-the-tool" in json.dumps(output["content"])


def test_a_tool_that_a_runner_adds_meanwhile_is_declared_last(
    tls_upstream: Upstream, client_of: Callable[[str], Client]
) -> None:
    asked: dict[str, Any] = {"prompt": "Run the echo command.", "adds": True}
    base_url = f"{tls_upstream.url}/agent_sdk;cut=event;key=adds/v1"
    result = client_of("anthropic").ask("messages.stream", base_url, asked)
    assert result["executed"] == ["echo from-the-tool"]
    first, second = [sent.json for sent in tls_upstream.requests_of("agent_sdk", "adds")]
    assert [tool["function"]["name"] for tool in second["tools"]] == ["bash", "brew"]
    assert second["tools"][:1] == first["tools"]
    assert "Loaded: brew" in second["messages"][-1]["content"]


ANSWER = [chunk({"content": "Done."}), chunk({}, "stop")]
BASH = '{"command": "echo from-the-tool"}'


def k2(name: str, arguments: str) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0"
        f"<|tool_call_argument_begin|>{arguments}<|tool_call_end|><|tool_calls_section_end|>"
    )


def qwen(name: str, arguments: str) -> str:
    parameters = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n"
        for name, value in json.loads(arguments).items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def outputs(request: Request) -> int:
    return sum(message["role"] == "tool" for message in request.json["messages"])


def whole(chunks: list[Any]) -> bytes:
    message: dict[str, Any] = {"role": "assistant"}
    for delta in (each["choices"][0]["delta"] for each in chunks):
        message |= delta
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(chunks[0] | {"object": "chat.completion", "choices": [choice]}).encode()


@pytest.mark.parametrize("name", ["openai-agents", "openai-agents-js"])
@pytest.mark.parametrize(
    "said",
    [
        *(("no ids", api) for api in ("chat.stream", "responses.stream", "responses.create")),
        ("leaked ids from 0", "chat.create"),
        ("native ids from 0", "chat.stream"),
        ("native ids from 0", "responses.stream"),
    ],
    ids="-".join,
)
def test_openai_agents_never_gets_an_id_twice(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    client_of: Callable[[str], Client],
    name: str,
    said: tuple[str, str],
) -> None:
    """Three turns of a run, all within one second.  If an id comes twice, the run ends (Python), or
    the second call is sent in the place of the first, until its turns are used up (JavaScript)."""
    how, api = said
    call: dict[str, Any] = {"index": 0, "id": "functions.bash:0", "type": "function"}
    call["function"] = {"name": "bash", "arguments": BASH}
    delta = {
        "no ids": {"content": qwen("bash", BASH)},
        "leaked ids from 0": {"content": k2("bash", BASH)},
        "native ids from 0": {"tool_calls": [call]},
    }[how]

    def reply(asked: Request) -> Reply:
        chunks = ANSWER if outputs(asked) >= 3 else [chunk(delta), chunk({}, "stop")]
        if not asked.json.get("stream"):
            return Reply(whole(chunks), "application/json")
        return Reply(sse(chunks))

    key = re.sub(r"\W", "-", request.node.name)
    tls_upstream.replies[key] = reply
    asked = {"prompt": "Run it.", "name": "qwen3" if how == "no ids" else "kimi-k2.5"}
    result = client_of(name).ask(api, f"{tls_upstream.url}/{key};key={key}/v1", asked)
    assert result == {"text": "Done.", "executed": ["echo from-the-tool"] * 3}
    *_, last = tls_upstream.requests_of(key, key)
    made = [each["id"] for m in last.json["messages"] for each in m.get("tool_calls", ())]
    assert len(set(made)) == 3
