"""opencode, which repeats a request for ever whose reply ends without a terminal.

Measured without a proxy: several requests a second until it is killed.  Behind the proxy
such a reply has its terminal (Responses) or breaks off (chat), so opencode stops, or waits
and tries again.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.bridge.messages_streams import pieces, stream
from tests.live.clients import HEAVY, cannot_run
from tests.live.mitmdump import Mitmdump
from tests.live.test_repeated_calls import k2
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

SDKS = {
    "responses": "@ai-sdk/openai",
    "chat": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
}
FLAGS = ("--format", "json", "--title", "a title, or it asks for one", "--auto")
QUIET = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH", "SHARE")
PATIENCE = 15.0
"""Seconds in which opencode repeats itself dozens of times if it does."""
SAID = sse([chunk({"content": "Hello from the replay."}), chunk({}, "stop")])
CUT = SAID[: SAID.index(b"data: ", 1)]
"""The same, which ends early and well."""

NATIVE = "native_messages"
"""How the names of those begin that are a host's own replies of the Messages API."""

pytestmark = pytest.mark.heavy


def opencode_program() -> Path:
    """Its build for Linux on x64, without the launcher: that one names builds for every platform,
    and `npm ci` refuses a lock file made where some of them were not to be had."""
    program = HEAVY / "opencode-linux-x64-baseline" / "bin" / "opencode"
    return program if program.exists() else cannot_run("opencode (Linux x64) is not installed")


@dataclass(frozen=True, slots=True)
class Opencode:
    """opencode in a home and a working folder of its own."""

    upstream: Upstream
    proxy: Mitmdump
    folder: Path
    sdk: str

    def start(
        self, fixture: str, options: str = "", model: str = "kimi-k2.5"
    ) -> subprocess.Popen[str]:
        """One prompt, answered by `fixture`."""
        base_url = f"{self.proxy.url}/{fixture};key={self.sdk}{options}/v1"
        provider = {
            "npm": SDKS[self.sdk],
            "options": {"baseURL": base_url, "apiKey": "sk-test"},
            "models": {model: {}},
        }
        configuration = {"model": f"replay/{model}", "provider": {"replay": provider}}
        (self.folder / "opencode.json").write_text(json.dumps(configuration))
        environment = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        environment |= {f"OPENCODE_DISABLE_{name}": "1" for name in QUIET}
        return subprocess.Popen(
            [opencode_program(), "run", *FLAGS, "Do what you are there for."],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def requests(self, fixture: str) -> int:
        return len(self.upstream.requests_of(fixture, self.sdk))


@pytest.fixture(params=["responses", "chat", "messages"])
def opencode(
    request: pytest.FixtureRequest,
    plain_upstream: Upstream,
    mitmdump: Callable[..., Mitmdump],
    tmp_path: Path,
) -> Opencode:
    filter_ = f"! ~u {NATIVE}"
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", f"dragoman_bridge={filter_}"
    return Opencode(plain_upstream, mitmdump(*arguments), tmp_path, request.param)


def finish(process: subprocess.Popen[str], seconds: float) -> list[dict[str, Any]]:
    """The events it told, however it ended; it ignores SIGTERM."""
    try:
        told, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        told, _ = process.communicate()
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [event["part"]["text"] for event in events if event["type"] == "text"]


@pytest.mark.parametrize(
    ("opencode", "fixture", "model"),
    [
        ("responses", "agent_sdk", "kimi-k2.5"),
        ("chat", "agent_sdk", "kimi-k2.5"),
        ("messages", "agent_sdk", "kimi-k2.5"),
        ("messages", "agent_sdk_dsml", "deepseek-v4"),
        ("chat", "agent_sdk_k3", "moonshotai/Kimi-K3"),
        ("chat", "agent_sdk_dsml", "deepseek-v4"),
    ],
    indirect=["opencode"],
)
def test_opencode_runs_a_leaked_call_and_answers(
    opencode: Opencode, fixture: str, model: str
) -> None:
    process = opencode.start(fixture, ";cut=event;pace=0.01", model)
    events = finish(process, 120)
    assert process.returncode == 0
    assert "".join(texts(events)).strip() == "The command printed from-the-tool."
    (tool,) = [event["part"] for event in events if event["type"] == "tool_use"]
    assert (tool["tool"], tool["state"]["output"].strip()) == ("bash", "from-the-tool")
    assert opencode.requests(fixture) == 2


MESSAGES = {
    "in a text": ("text", "I look. {}"),
    "in a thought": ("thinking", "I look. {}"),
    "in Claude's own form": ("text", "I look.\n\ncall\n{}"),
}


@pytest.mark.parametrize("opencode", ["messages"], indirect=True)
@pytest.mark.parametrize("where", MESSAGES)
def test_opencode_runs_what_leaks_in_messages(opencode: Opencode, where: str) -> None:
    command = {"command": "echo it >> ran", "description": "Says it"}
    call = k2("bash", json.dumps(command))
    if where == "in Claude's own form":
        tags = (f'<parameter name="{key}">{value}</parameter>' for key, value in command.items())
        call = f'<invoke name="bash">{"".join(tags)}</invoke>'
    kind, text = MESSAGES[where]
    turns = [[(kind, pieces(text.format(call)))], [("text", ["All is well."])]]

    def reply(request: Request) -> Reply:
        return Reply(stream(turns[b'"tool_result"' in request.body]))

    name = NATIVE + re.sub(r"\W", "_", where)
    opencode.upstream.replies[f"{name}/v1/messages"] = reply
    events = finish(opencode.start(name, ";cut=event"), 120)
    assert texts(events)[-1] == "All is well."
    assert (opencode.folder / "ran").read_text() == "it\n"
    assert opencode.requests(name) == 2


@pytest.mark.parametrize(
    "options",
    [";cut=event;abort=0", ";cut=event;abort=300", ";fault=reset", "whole"],
    ids=["after the headers", "within the turn", "before the headers", "an early end"],
)
def test_opencode_does_not_repeat_itself_while_its_upstream_dies(
    opencode: Opencode, options: str
) -> None:
    name = "dies" + options.translate({ord(c): None for c in ";=:"})
    opencode.upstream.replies[name] = Reply(CUT if options == "whole" else SAID)
    process = opencode.start(name, options.replace("whole", ""))
    eventually(lambda: opencode.requests(name))
    events = finish(process, PATIENCE)
    assert 1 <= opencode.requests(name) <= 8, "it waits longer each time"
    if process.returncode > 0:
        assert events[-1]["type"] == "error"


def test_opencode_asks_again_after_a_stream_that_ends_early_and_well(opencode: Opencode) -> None:
    """And comes to its answer if the upstream is well again."""
    opencode.upstream.replies["recovers"] = Reply(CUT)
    process = opencode.start("recovers")
    opencode.proxy.wait_for_log("/recovers.* ✗")
    opencode.upstream.replies["recovers"] = Reply(SAID)
    events = finish(process, 120)
    assert process.returncode == 0
    assert texts(events)[-1] == "Hello from the replay."
    assert opencode.requests("recovers") == 2
