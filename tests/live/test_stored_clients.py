"""Clients that have the host remember: openai-python, openai-agents, the AI SDK, and curl.

They are processes of their own with their defaults; the host leaks a call into its
reasoning at every prompt, the client runs it, and the host answers with text.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.proxy.stored.open_store import FILE
from dragoman.stored.stored_response import StoredResponse, Unreadable
from fixtures.server import Upstream
from fixtures.wire import Request
from tests.live.clients import Clients, need_command
from tests.live.mitmdump import Mitmdump
from tests.live.responses import TOOLS, to_last_message
from tests.live.stored import CODEX
from tests.repair.streams import chunk, sse

PROMPTS = ["First.", "Second.", "Third."]
TURNS = 2 * len(PROMPTS)
GetMitmdump = Callable[..., Mitmdump]


def leaked(number: int) -> bytes:
    leak = (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:{number}"
        f'<|tool_call_argument_begin|>{{"command": "echo {number}"}}<|tool_call_end|>'
        "<|tool_calls_section_end|>"
    )
    thoughts = [chunk({"reasoning_content": text}) for text in ("I will run it.", leak)]
    return sse([*thoughts, chunk({}, "stop")])


@pytest.fixture(scope="session")
def agent_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """Answers the first, third and fifth turn with a call, and those between with text."""
    folder = tmp_path_factory.mktemp("agent")
    for name in ("three", "one"):
        (folder / name).mkdir()
        for number in range(TURNS if name == "three" else 2):
            answer = sse([chunk({"content": f"Answer {number // 2}."}), chunk({}, "stop")])
            turn = answer if number % 2 else leaked(number // 2)
            (folder / name / f"turn{number + 1}.sse").write_bytes(turn)
    with Upstream(tls=True, folder=folder) as upstream:
        yield upstream


@pytest.fixture
def proxy(mitmdump: GetMitmdump) -> Mitmdump:
    return mitmdump("--set", "dragoman_bridge=~all")


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W", "-", request.node.name)


def check_conversation(sent: list[Request]) -> None:
    """Each turn has the whole conversation, and begins with the bytes of the last."""
    assert len(sent) == TURNS
    for turn, following in pairwise(sent):
        assert following.body.startswith(to_last_message(turn))
    messages = [message for message in sent[-1].json["messages"] if message["role"] != "system"]
    assert [message["role"] for message in messages] == [
        *["user", "assistant", "tool", "assistant"] * 2,
        *("user", "assistant", "tool"),
    ]
    assert [message["content"] for message in messages if message["role"] == "user"] == PROMPTS
    for call in messages[1::4]:
        assert call["reasoning_content"].startswith("I will run it.")


def turns_kept(proxy: Mitmdump) -> list[StoredResponse]:
    """All responses that are kept."""
    turns = []
    with closing(sqlite3.connect(proxy.confdir / FILE)) as db:
        for (blob,) in db.execute("SELECT blob FROM blobs ORDER BY key").fetchall():
            with suppress(Unreadable):  # a chat client's reasoning, which is kept there as well
                turns.append(StoredResponse.of(blob))
    return turns


@pytest.mark.parametrize("run", ["create", "stream"])
def test_the_ai_sdk_with_its_defaults(
    agent_upstream: Upstream, proxy: Mitmdump, clients: Clients, key: str, run: str
) -> None:
    """Its second turn refers to the items of the first."""
    client = clients.get("ai_sdk.mjs", proxy.client_environment())
    base_url = f"{agent_upstream.url}/three;key={key}/v1"
    result = client.ask(f"responses.{run}", base_url, {"prompts": PROMPTS})
    assert result["texts"] == [f"Answer {number}." for number in range(3)]
    assert result["executed"] == [f"echo {number}" for number in range(3)]
    check_conversation(agent_upstream.requests_of("three", key))
    # The ids are those of the items to which it referred: it sends none of its own.
    kept = [kept.items for kept in turns_kept(proxy)[-TURNS:]]
    assert [b'"id":"' in items for items in kept] == [False] + [True] * (TURNS - 1)


@pytest.mark.parametrize("how", ["session", "previous response", "auto previous response"])
def test_openai_agents(
    agent_upstream: Upstream, proxy: Mitmdump, clients: Clients, key: str, how: str
) -> None:
    client = clients.get("openai_agents.py", proxy.client_environment())
    base_url = f"{agent_upstream.url}/three;key={key}/v1"
    result = client.ask(how, base_url, {"prompts": PROMPTS})
    assert result["texts"] == [f"Answer {number}." for number in range(3)]
    assert result["executed"] == [f"echo {number}" for number in range(3)]
    check_conversation(agent_upstream.requests_of("three", key))
    continued = ["previous_response_id" in kept.request for kept in turns_kept(proxy)[-TURNS:]]
    expected = {
        "session": [False] * TURNS,
        "previous response": [False, False] + [True] * (TURNS - 2),
        "auto previous response": [False] + [True] * (TURNS - 1),
    }
    if how != "previous response":
        assert continued == expected[how]
    else:
        assert continued[2::2] == [True, True]


def test_openai_python_and_all_that_can_be_asked(
    agent_upstream: Upstream, proxy: Mitmdump, clients: Clients, key: str
) -> None:
    client = clients.get("openai_python.py", proxy.client_environment())
    base_url = f"{agent_upstream.url}/one;key={key}/v1"
    request = {"model": "kimi-k2.5", "input": "Run it.", "tools": TOOLS}
    assert client.ask("responses.stored", base_url, request) == {
        "text": "Answer 0.",
        "executed": ["echo 0"],
        "retrieved": True,
        "replayed": True,
        "items": ["function_call_output", "function_call", "reasoning", "message"],
        "cancelled": "Cannot cancel a synchronous response.",
        "gone": ["previous_response_not_found", "previous_response_id"],
    }
    first, second = agent_upstream.requests_of("one", key)
    assert second.body.startswith(to_last_message(first))


def test_openai_python_submits_outputs(
    agent_upstream: Upstream, proxy: Mitmdump, clients: Clients, key: str
) -> None:
    client = clients.get("openai_python.py", proxy.client_environment())
    base_url = f"{agent_upstream.url}/one;key={key}/v1"
    request = {"model": "kimi-k2.5", "input": "Run it.", "tools": TOOLS}
    assert client.ask("responses.submit", base_url, request) == {
        "same": True,
        "statuses": ["incomplete", "completed"],
        "text": "Answer 0.",
    }


def test_curl(plain_upstream: Upstream, mitmdump: GetMitmdump, tmp_path: Path) -> None:
    """The described flow by hand: a stream that waits, what is submitted, and its end."""
    curl = need_command("curl", install="apt-get install curl")
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    base = f"{proxy.url}/kimi_specification/v1/responses"
    dialect = ": ".join(CODEX)

    def post(path: str, body: object) -> bytes:
        words = [curl, "-sN", "--fail-with-body", f"{base}{path}", "-H", dialect]
        words += ["-H", "Content-Type: application/json", "-H", "Authorization: Bearer sk-curl"]
        words += ["-d", json.dumps(body)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=20, check=True)
        return done.stdout

    ask = {"model": "kimi-k2.5", "input": "Go.", "tools": TOOLS, "stream": True}
    stream = post("", ask)
    data = next(x for x in stream.split(b"\n") if x.startswith(b'data: {"type":"response.req'))
    event = json.loads(data.removeprefix(b"data: "))
    response_id = event["response"]["id"]
    calls = event["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = [{"tool_call_id": call["id"], "output": "ok"} for call in calls]
    resumed = post(f"/{response_id}/submit_tool_outputs", {"tool_outputs": outputs})
    assert json.loads(resumed)["id"] == response_id
