"""Claude Code, as a user starts it, and what it ran."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.live.clients import HEAVY, SCRIPTS, TIMEOUT, run_agent
from tests.live.mitmdump import Mitmdump

Json = dict[str, Any]
CLAUDE = HEAVY / "@anthropic-ai"
CLAUDE_BEFORE = HEAVY / "claude-code-before" / "node_modules" / "@anthropic-ai"
"""Where its builds for platforms are; of today, and of May 2026."""
FLAGS = ("--dangerously-skip-permissions", "--output-format", "json")
JSON_LINES = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
PLAN = (*JSON_LINES, "--permission-mode", "plan", "--permission-prompt-tool", "stdio")
"""Its user is asked over standard input and output."""
SERVER = {"command": sys.executable, "args": [str(SCRIPTS / "mcp_server.py")]}
TEA = ("--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": {"tea": SERVER}}))


@dataclass(frozen=True, slots=True)
class Claude:
    """Claude Code in a home and a working folder of its own."""

    upstream: Upstream
    proxy: Mitmdump
    folder: Path
    key: str
    """By which the upstream tells this test's requests from others'."""
    program: Path

    def answer(self, *arguments: str, options: str = "", model: str = "kimi-k2.5") -> str:
        """What it says at the end of a prompt."""
        command = [self.program, "-p", "Do it.", *FLAGS, *arguments]
        done = run_agent(command, self.environment(options, model), self.folder / "work")
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["result"])

    def environment(self, options: str = "", model: str = "kimi-k2.5") -> dict[str, str]:
        return self.proxy.client_environment() | {
            "HOME": str(self.folder),
            "CLAUDE_CONFIG_DIR": str(self.folder / "configuration"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": f"https://kimi.test/claude;cut=event;key={self.key}{options}",
            "ANTHROPIC_AUTH_TOKEN": "sk-test",
            "ANTHROPIC_MODEL": model,
        }

    def plan(self, *decisions: Json) -> tuple[str, list[str]]:
        """What it says at the end of a prompt that begins in plan mode, and the tools for which it
        asked its user, as a program that embeds it has these: the answers are `decisions`, then
        always yes."""
        with subprocess.Popen(
            [self.program, "-p", *PLAN],
            env=self.environment(),
            cwd=self.folder / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            killing = threading.Timer(TIMEOUT, process.kill)
            killing.start()
            try:
                return _talk(process, list(decisions))
            finally:
                killing.cancel()
                process.kill()

    def talks_to(self, host: Callable[[Request], Reply]) -> None:
        self.upstream.replies["claude/v1/messages"] = host

    @property
    def requests(self) -> list[Request]:
        return self.upstream.requests_of("claude", self.key)

    @property
    def ran(self) -> list[str]:
        """What the commands wrote that it ran."""
        path = self.folder / "work" / "ran"
        return path.read_text().splitlines() if path.exists() else []


newest = pytest.mark.parametrize("claude", [CLAUDE], indirect=True)


def _talk(process: subprocess.Popen[str], decisions: list[Json]) -> tuple[str, list[str]]:
    assert process.stdin
    assert process.stdout
    stdin, asked = process.stdin, list[str]()

    def send(message: Json) -> None:
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()

    begin = {"subtype": "initialize", "hooks": None}
    send({"type": "control_request", "request_id": "begin", "request": begin})
    send({"type": "user", "message": {"role": "user", "content": "Do it."}})
    for line in process.stdout:
        told = json.loads(line)
        if told["type"] == "result":
            return str(told["result"]), asked
        if told["type"] == "control_request" and "tool_name" in told["request"]:
            asked.append(told["request"]["tool_name"])
            yes = {"behavior": "allow", "updatedInput": told["request"]["input"]}
            decision = decisions.pop(0) if decisions else yes
            answer = {"subtype": "success", "request_id": told["request_id"], "response": decision}
            send({"type": "control_response", "response": answer})
    pytest.fail(f"Claude Code ended without a result; it had asked for {asked}")


def bash(said: str) -> dict[str, Any]:
    return {"command": f"echo {said} >> ran", "description": "Says it"}
