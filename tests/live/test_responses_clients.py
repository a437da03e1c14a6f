"""The official OpenAI clients speak the Responses API to a host that speaks only chat.

They are processes of their own that only know `HTTPS_PROXY` and the certificate.
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

SCRIPTS = {"python": "openai_python.py", "node": "openai_node.mjs"}
ECHO = "echo from-the-tool"
REQUEST = {
    "model": "kimi-k2.5",
    "input": "Where are the assembler headers, and what is in errno.h?",
    "tools": [
        {
            "type": "function",
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string"}},
                "required": [argument],
                "additionalProperties": False,
            },
            "strict": True,
        }
        for name, argument in [("bash", "command"), ("read", "path")]
    ],
}


@pytest.fixture
def python(mitmdump: Callable[..., Mitmdump], clients: Clients) -> Client:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return clients.get("openai_python.py", proxy.client_environment())


@pytest.fixture(params=SCRIPTS)
def client(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return clients.get(SCRIPTS[request.param], proxy.client_environment())


def check_calls(client: Client, how: str, base_url: str) -> None:
    result = client.ask(how, base_url, REQUEST)
    assert [(call["name"], json.loads(call["arguments"])) for call in result["calls"]] == [
        ("bash", {"command": "ls -la /usr/include | grep asm"}),
        ("read", {"path": "/usr/include/asm-generic/errno.h"}),
    ]
    assert len({call["id"] for call in result["calls"]}) == 2
    assert result["reasoning"].strip() == "I need to look at the headers first."
    assert result["status"] == "completed"
    assert "<|" not in json.dumps(result)


@pytest.mark.parametrize("cut", ["event;pace=0.005", "bytes:9"])
def test_a_leaked_section_arrives_as_function_calls_streamed(
    client: Client, tls_upstream: Upstream, cut: str
) -> None:
    base_url = f"{tls_upstream.url}/kimi_specification;cut={cut}/v1"
    check_calls(client, "responses.stream", base_url)


def test_a_request_that_is_not_streamed_gets_the_same(
    client: Client, tls_upstream: Upstream
) -> None:
    """This host answers it with a stream all the same."""
    check_calls(client, "responses.create", f"{tls_upstream.url}/kimi_specification/v1")


def test_a_hand_written_tool_loop_comes_to_its_answer(
    request: pytest.FixtureRequest, client: Client, tls_upstream: Upstream
) -> None:
    key = re.sub(r"\W", "-", request.node.name)
    base_url = f"{tls_upstream.url}/agent_sdk;cut=event;key={key}/v1"
    result = client.ask("responses.loop", base_url, REQUEST)
    assert result == {"text": "The command printed from-the-tool.", "executed": [ECHO]}
    first, second = tls_upstream.requests_of("agent_sdk", key)
    assert second.body.startswith(to_last_message(first))
    *_, call, output = second.json["messages"]
    assert call["reasoning_content"].startswith("I will run it.")
    assert call["tool_calls"][0]["id"] == output["tool_call_id"] == "functions.bash:0"
    assert output == {
        "role": "tool",
        "tool_call_id": "functions.bash:0",
        "content": "from-the-tool",
    }


@pytest.mark.parametrize("how", ["responses.parse", "responses.stream parse"])
def test_structured_output_parses(python: Client, tls_upstream: Upstream, how: str) -> None:
    request = {"model": "kimi-k2.5", "input": "Which file, and how long is it?"}
    key = how.replace(" ", "-")
    base_url = f"{tls_upstream.url}/clean_structured_output;key={key}/v1"
    assert python.ask(how, base_url, request) == {"parsed": {"path": "README.md", "lines": 12}}
    (sent,) = tls_upstream.requests_of("clean_structured_output", key)
    assert sent.json["response_format"]["type"] == "json_schema"
    assert sent.json["response_format"]["json_schema"]["name"] == "Answer"
