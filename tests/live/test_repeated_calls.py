"""A call that comes twice: Codex runs each call that it gets, whether it has run the same one
before or not."""

from __future__ import annotations

import json

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.test_agent_clients import ANSWER, k2, outputs
from tests.live.test_codex import Codex, codex  # noqa: F401 - a fixture
from tests.repair.streams import chunk, sse


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
