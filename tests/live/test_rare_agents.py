"""Calls in rare and unknown shapes that leak to agents: to Codex, bridged onto chat, and to
opencode, on chat.  A run has four turns: three calls, each in another shape, and the answer, which
shows one.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.test_codex import Codex, codex
from tests.live.test_opencode import Opencode, finish, opencode, texts
from tests.repair.streams import chunk, sse

__all__ = ["codex", "opencode"]
pytestmark = pytest.mark.heavy

TOOLS = {"exec_command": "cmd", "bash": "command"}
"""Each agent's tool for commands, and its argument."""
SHAPES = [
    '<function name="{tool}"><param name="{key}">{command}</param></function>',
    '<longcat_tool_call>{{"name": "{tool}", "arguments": {{"{key}": {json}}}}}</longcat_tool_call>',
    "I look.\n\n<act>\n  <tool>{tool}</tool>\n  <{key}>{command}</{key}>\n</act>",
]
RAN = ["0", "1", "2"]


def call(shape: str, tool: str, said: str) -> str:
    command = f"echo {said} | tee -a ran"
    return shape.format(tool=tool, key=TOOLS[tool], command=command, json=json.dumps(command))


def answer(tool: str) -> str:
    return f"It was:\n\n```xml\n{call(SHAPES[2], tool, 'nothing')}\n```\n\nThat is all."


def turns(tool: str) -> Callable[[Request], Reply]:
    """What the host replies to a request, by the number of outputs in it."""
    said = [*(call(shape, tool, str(at)) for at, shape in enumerate(SHAPES)), answer(tool)]

    def reply(request: Request) -> Reply:
        turn = said[sum(message["role"] == "tool" for message in request.json["messages"])]
        pieces = [turn[at : at + 4] for at in range(0, len(turn), 4)]
        chunks = [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")]
        return Reply(sse([each | {"model": "my-model"} for each in chunks]))

    return reply


def test_codex_runs_each_call_once_and_shows_the_text(codex: Codex) -> None:
    codex.upstream.replies["rare"] = turns("exec_command")
    items = codex.turn("rare", like=None, model="my-model")
    assert (codex.work / "ran").read_text().splitlines() == RAN
    said = [item["text"].strip() for item in items if "text" in item]
    assert said == ["I look.", answer("exec_command")]
    assert len(codex.arrived("rare")) == 4
    codex.proxy.wait_for_log("shape unknown")


@pytest.mark.parametrize("opencode", ["chat"], indirect=True)
def test_opencode_runs_each_call_once_and_shows_the_text(opencode: Opencode) -> None:
    opencode.upstream.replies["rare"] = turns("bash")
    events = finish(opencode.start("rare", model="my-model"), 60)
    assert (opencode.folder / "ran").read_text().splitlines() == RAN
    assert [each.strip() for each in texts(events)] == ["I look.", answer("bash")]
    assert opencode.requests("rare") == 4
    opencode.proxy.wait_for_log("shape unknown")
