"""Claude Code, as a user starts it, and what it ran."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.live.clients import HEAVY, SCRIPTS, run_agent
from tests.live.mitmdump import Mitmdump

CLAUDE = HEAVY / "@anthropic-ai"
CLAUDE_BEFORE = HEAVY / "claude-code-before" / "node_modules" / "@anthropic-ai"
"""Where its builds for platforms are; of today, and of May 2026."""
FLAGS = ("--dangerously-skip-permissions", "--output-format", "json")
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
        environment = self.proxy.client_environment() | {
            "HOME": str(self.folder),
            "CLAUDE_CONFIG_DIR": str(self.folder / "configuration"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": f"https://kimi.test/claude;cut=event;key={self.key}{options}",
            "ANTHROPIC_AUTH_TOKEN": "sk-test",
            "ANTHROPIC_MODEL": model,
        }
        command = [self.program, "-p", "Do it.", *FLAGS, *arguments]
        done = run_agent(command, environment, self.folder / "work")
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["result"])

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


def bash(said: str) -> dict[str, Any]:
    return {"command": f"echo {said} >> ran", "description": "Says it"}
