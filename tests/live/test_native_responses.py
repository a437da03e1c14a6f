"""Hosts that speak the Responses API themselves, and leak: through a real mitmdump."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from fixtures.regenerate import expected, request
from fixtures.server import FOLDER, Reply, Upstream
from tests.bridge.hosts import VLLM
from tests.live import wire
from tests.live.chat import FAULTS, Chat, fixture_bytes
from tests.live.clients import Clients
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.test_codex import Codex, codex
from tests.responses.test_repair import DSML
from tests.responses.test_repair import REQUEST as WITH_TOOLS

__all__ = ["codex"]
PATH = "/v1/responses"
CLEAN, LEAKING = "native_clean", "native_vllm"


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    mode = f"reverse:{plain_upstream.url}"
    return Chat(plain_upstream, mitmdump("--mode", mode, scripts=(ADDON, FAULTS)))


@pytest.mark.parametrize("fixture", [CLEAN, LEAKING, "native_whole"])
def test_the_client_receives_the_expected_reply(chat: Chat, fixture: str) -> None:
    folder = FOLDER / fixture
    reply = chat.ask(fixture, ";cut=bytes:37;framing=close", path=PATH, request=request(folder))
    assert reply.body == expected(folder)
    told = "1 call bash .*left as text" if fixture == CLEAN else "repaired from "
    chat.proxy.wait_for_log(told)


def test_a_whole_call_leaves_while_its_stream_runs(chat: Chat) -> None:
    events = fixture_bytes(LEAKING).split(b"\n\n")
    hold = 1 + next(n for n, event in enumerate(events) if b"call_end" in event)
    reply = chat.ask(
        LEAKING,
        f";cut=event;hold={hold}",
        path=PATH,
        request=request(FOLDER / LEAKING),
        release_when=lambda body: b'"call_id":"functions.bash:0"' in body,
    )
    assert reply.body == fixture_bytes(LEAKING, "responses.sse")


def test_a_response_that_its_host_has_stored_comes_repaired(chat: Chat) -> None:
    host = replace(VLLM, of_response={"tools": WITH_TOOLS["tools"]})
    said = [("text", ["Now.", DSML])]
    stream = host.stream(said, model="deepseek-v4")
    whole = json.dumps(host.events(said, model="deepseek-v4")[-1]["response"]).encode()
    path = "/v1/responses/resp_68f1"
    for query, stored in (("", whole), ("?stream=true", stream), ("?starting_after=7", stream)):
        kind = "application/json" if stored is whole else "text/event-stream"
        chat.upstream.replies[f"stored{path}"] = Reply(stored, kind)
        reply = wire.exchange(f"{chat.proxy.url}/stored{path}{query}", b"", method="GET")
        assert (b'"function_call"' in reply.body) == (query != "?starting_after=7")
        assert (reply.body == stored) == (query == "?starting_after=7")
    chat.proxy.wait_for_log("1 repaired from dsml")


def test_a_stream_that_breaks_off_breaks_off_after_what_was_held(chat: Chat) -> None:
    body = fixture_bytes(LEAKING)
    said = body.index(b'"delta":" will"')
    for part in (b'"delta":" will"', b"_argument_begin", b'"delta":" src'):
        abort = body.index(b"\n\n", body.index(part)) + 2
        options = f";cut=event;abort={abort}"
        reply = chat.ask(LEAKING, options, path=PATH, request=request(FOLDER / LEAKING))
        assert not reply.complete
        assert reply.body.startswith(body[:said])
        assert b"response.failed" not in reply.body


@pytest.mark.parametrize("http2", [False, True], ids=["1", "2"])
@pytest.mark.parametrize("part", [b"call_argument_begin", b'"delta":" src', b"section_end"])
def test_a_stream_that_ends_well_within_a_leaked_call_breaks_off(
    chat: Chat, part: bytes, http2: bool
) -> None:
    body, asked = fixture_bytes(LEAKING), request(FOLDER / LEAKING)
    cut = body[: body.index(b"\n\n", body.index(part)) + 2]
    chat.upstream.replies[f"cut{PATH}"] = Reply(cut)
    reply = chat.ask("cut", path=PATH, request=asked, http2=http2)
    assert not reply.complete
    assert b"response.failed" not in reply.body and b"response.completed" not in reply.body
    assert (b"arguments.done" in reply.body) <= (part == b"section_end")
    chat.proxy.wait_for_log("✗ ended early · repair")
    clean = body[: body.index(b"\n\n", body.index(b'"delta":" will"')) + 2]
    chat.upstream.replies[f"cut{PATH}"] = Reply(clean)
    reply = chat.ask("cut", path=PATH, request=asked, http2=http2)
    assert (reply.complete, reply.body) == (True, clean)


@pytest.mark.parametrize(
    "asking",
    [
        ("openai_python.py", "responses.stream", "native_openai"),
        ("openai_python.py", "responses.create stream", LEAKING),
        ("openai_python.py", "responses.create", "native_whole"),
        ("openai_node.mjs", "responses.stream", "native_openai"),
    ],
)
def test_the_official_clients_get_the_call(
    clients: Clients,
    mitmdump: Callable[..., Mitmdump],
    tls_upstream: Upstream,
    asking: tuple[str, str, str],
) -> None:
    script, how, fixture = asking
    client = clients.get(script, mitmdump().client_environment())
    asked = {name: value for name, value in request(FOLDER / fixture).items() if name != "stream"}
    result = client.ask(how, f"{tls_upstream.url}/{fixture};cut=bytes:99/v1", asked)
    assert result["calls"][0]["name"] == "bash"
    assert json.loads(result["calls"][0]["arguments"])["command"].startswith("ls -l")
    assert result["status"] == "completed"
    assert "<|" not in json.dumps(result)


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "openai_agents.py", "openai_agents.mjs"])
def test_agents_run_the_call_and_get_the_answer(
    request: pytest.FixtureRequest,
    clients: Clients,
    mitmdump: Callable[..., Mitmdump],
    tls_upstream: Upstream,
    script: str,
) -> None:
    client = clients.get(script, mitmdump().client_environment())
    key = re.sub(r"\W", "-", request.node.name)
    base_url = f"{tls_upstream.url}/native_agent;cut=event;key={key}/v1"
    result = client.ask("responses.stream", base_url, {"prompt": "Run the echo command."})
    assert result["executed"] == ["echo from-the-tool"]
    assert result["text"] == "The command printed from-the-tool."
    *_, second = tls_upstream.requests_of("native_agent", key)
    items = [item for item in second.json["input"] if item.get("call_id")]
    assert [item["call_id"] for item in items] == ["functions.bash:0"] * 2


def test_calls_in_the_history_leave_with_the_ids_of_the_model(
    chat: Chat, request: pytest.FixtureRequest
) -> None:
    call = {"type": "function_call", "call_id": "call_7", "name": "bash", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_7", "output": "ok"}
    asked = {"model": "kimi-k2.7", "input": [call, output], "stream": True}
    key = re.sub(r"\W", "-", request.node.name)
    for model, wanted in (("kimi-k2.7", "functions.bash:0"), ("qwen3", "call_7")):
        chat.ask(CLEAN, f";key={key}", path=PATH, request=asked | {"model": model})
        sent = chat.upstream.requests_of(CLEAN, key)[-1]
        assert [item["call_id"] for item in sent.json["input"]] == [wanted] * 2
    assert sent.body == json.dumps(asked | {"model": "qwen3"}).encode()
    chat.proxy.wait_for_log("cured: renamed call ids")


@pytest.mark.heavy
def test_codex_runs_the_call_and_answers(codex: Codex) -> None:
    items = codex.turn("native_codex")
    (command,) = [item for item in items if item["type"] == "command_execution"]
    assert (command["aggregated_output"], command["exit_code"]) == ("from-the-tool\n", 0)
    assert items[-1]["text"] == "The command printed from-the-tool."
    assert "<|" not in json.dumps(items)


@pytest.mark.heavy
@pytest.mark.parametrize("held_after", [2, 14, 19, 23], ids=["begin", "text", "name", "arguments"])
def test_codex_waits_for_a_call_that_comes_later_than_its_patience(
    codex: Codex, held_after: int
) -> None:
    """It waits 7 s for an event; nothing comes for 14."""
    patience = "stream_idle_timeout_ms = 7000\nstream_max_retries = 0\nrequest_max_retries = 0\n"
    released = threading.Timer(14, lambda: codex.upstream.release("native_codex"))
    second = threading.Timer(30, lambda: codex.upstream.release("native_codex"))
    for timer in (released, second):
        timer.start()
    try:
        items = codex.turn(f"native_codex;hold={held_after}", provider=patience)
    finally:
        released.cancel()
        second.cancel()
    (command,) = [item for item in items if item["type"] == "command_execution"]
    assert (command["aggregated_output"], command["exit_code"]) == ("from-the-tool\n", 0)
    assert items[-1]["text"] == "The command printed from-the-tool."
