"""Calls that come twice, and ids that would: what clients that run tools make of them.

Codex runs each call that it gets, whether it has run the same one before or not.  If an id comes
twice, openai-agents ends the run (Python), or sends the second call in the place of the first, and
so is asked for it until its turns are used up (JavaScript).
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
from tests.live.test_codex import Codex, codex  # noqa: F401 - a fixture
from tests.repair.streams import chunk, sse

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


@pytest.mark.heavy
@pytest.mark.parametrize("first", ["leaked", "native"])
def test_codex_runs_a_call_that_comes_twice_once(codex: Codex, first: str) -> None:  # noqa: F811
    arguments = json.dumps({"cmd": "echo pushed >> pushes"})
    text = k2("exec_command", arguments)
    leaked = [chunk({"content": text[at : at + 9]}) for at in range(0, len(text), 9)]
    head = {"index": 0, "id": "functions.exec_command:0", "type": "function"}
    function = {"name": "exec_command", "arguments": ""}
    native = [chunk({"tool_calls": [head | {"function": function}]})]
    for at in range(0, len(arguments), 9):
        part = {"index": 0, "function": {"arguments": arguments[at : at + 9]}}
        native.append(chunk({"tool_calls": [part]}))
    called = leaked + native if first == "leaked" else native + leaked
    end = [chunk({}, "tool_calls")]

    def reply(request: Request) -> Reply:
        return Reply(sse(ANSWER if outputs(request) else called + end))

    codex.upstream.replies[f"twice_{first}"] = reply
    items = codex.turn(f"twice_{first}")
    assert (codex.work / "pushes").read_text() == "pushed\n"
    assert items[-1]["text"] == "Done."
    assert [outputs(request) for request in codex.arrived(f"twice_{first}")] == [0, 1]
    codex.proxy.wait_for_log("left out a call of exec_command that came twice")


def whole(chunks: list[Any]) -> bytes:
    message: dict[str, Any] = {"role": "assistant"}
    for delta in (each["choices"][0]["delta"] for each in chunks):
        message |= delta
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(chunks[0] | {"object": "chat.completion", "choices": [choice]}).encode()


@pytest.fixture(params=["openai_agents.py", "openai_agents.mjs"])
def agent(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return clients.get(request.param, proxy.client_environment())


@pytest.mark.parametrize(
    ("how", "api"),
    [
        *(("no ids", api) for api in ("chat.stream", "responses.stream", "responses.create")),
        ("leaked ids from 0", "chat.create"),
        ("native ids from 0", "chat.stream"),
        ("native ids from 0", "responses.stream"),
    ],
)
def test_openai_agents_never_gets_an_id_twice(
    request: pytest.FixtureRequest, tls_upstream: Upstream, agent: Client, how: str, api: str
) -> None:
    """Three turns of a run, all within one second."""
    call = {"index": 0, "id": "functions.bash:0", "type": "function"}
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
    result = agent.ask(api, f"{tls_upstream.url}/{key};key={key}/v1", asked)
    assert result == {"text": "Done.", "executed": ["echo from-the-tool"] * 3}
    *_, last = tls_upstream.requests_of(key, key)
    made = [each["id"] for m in last.json["messages"] for each in m.get("tool_calls", ())]
    assert len(set(made)) == 3
