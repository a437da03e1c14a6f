"""Codex of today on a host that speaks only chat: its sub-agents, and its compaction."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman.bridge.request.turn_items import SUMMARY_PROMPT
from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.responses import to_last_message
from tests.live.test_codex import Codex, codex
from tests.repair.streams import chunk, sse

__all__ = ["codex"]
pytestmark = pytest.mark.heavy

AGENTS = "\n[features]\nmulti_agent_v2 = true\n"
TASK = "Count to three."
SUMMARY = "The user wants tea, and the kettle is on."
FULL = {"prompt_tokens": 90_000, "completion_tokens": 9, "total_tokens": 90_009}


def said(text: str, **fields: Any) -> Reply:
    return Reply(sse([chunk({"content": text}), chunk({}, "stop", **fields)]))


def called(name: str, **arguments: Any) -> Reply:
    function = {"name": name, "arguments": json.dumps(arguments)}
    element = {"index": 0, "id": f"functions.{name}:0", "type": "function", "function": function}
    return Reply(sse([chunk({"tool_calls": [element]}), chunk({}, "tool_calls", usage=FULL)]))


def told(request: Request) -> list[str]:
    """What the users of a request say."""
    return [m["content"] for m in request.json["messages"] if m["role"] == "user"]


def test_a_child_gets_its_task_and_its_parent_the_answer(codex: Codex) -> None:
    task, answer = (
        "[Message from /root to /root/count:]\n",
        "[Message from /root/count to /root:]\n",
    )

    def reply(request: Request) -> Reply:
        if any(text.startswith(task) for text in told(request)):
            return said("one, two, three")
        outputs = sum(message["role"] == "tool" for message in request.json["messages"])
        if not outputs:
            return called("collaboration__spawn_agent", task_name="count", message=TASK)
        if outputs == 1:
            return called("collaboration__wait_agent", timeout_ms=30_000)
        return said("It has counted.")

    codex.upstream.replies["agents"] = reply
    items = codex.turn("agents", provider=AGENTS)
    assert items[-1]["text"] == "It has counted."
    chats = codex.upstream.requests_of("agents", codex.key)[1:]
    child = [r for r in chats if any(text.startswith(task) for text in told(r))]
    (last,) = [text for text in told(child[-1]) if text.startswith(task)]
    assert last.endswith(TASK)
    parent = [request for request in chats if request not in child]
    (heard,) = [text for text in told(parent[-1]) if text.startswith(answer)]
    assert "one, two, three" in heard
    for before, after in itertools.pairwise(parent):
        assert after.body.startswith(to_last_message(before))
    assert b'"encrypted"' not in b"".join(request.body for request in chats)


@pytest.mark.parametrize("name", ["OpenAI", "Replay"])
def test_a_thread_goes_on_from_its_summary(codex: Codex, name: str) -> None:
    """A provider that is called OpenAI is asked for an item, another for a text."""

    def reply(request: Request) -> Reply:
        texts = told(request)
        if not request.json.get("tools"):
            return said(SUMMARY)
        if any(SUMMARY in text for text in texts):
            return said("Tea is ready.")
        return called("exec_command", cmd="echo kettle")

    fixture = f"compaction_{name}"
    codex.upstream.replies[fixture] = reply
    codex.configure(fixture)
    path = codex.folder / "config.toml"
    limit = "model_auto_compact_token_limit = 50000\n"
    path.write_text(limit + path.read_text().replace('"Replay"', f'"{name}"'))
    items = codex.exec("Make tea.")
    assert items[-1]["text"] == "Tea is ready."
    items = codex.exec("resume", "--last", "Thank you.")
    assert items[-1]["text"] == "Tea is ready."
    first, asked, went_on, *_, resumed = codex.upstream.requests_of(fixture, codex.key)[1:]
    assert asked.body.startswith(to_last_message(first))
    assert (told(asked)[-1] == SUMMARY_PROMPT) == (name == "OpenAI")
    assert any(SUMMARY in text for text in told(went_on))
    assert resumed.body.startswith(to_last_message(went_on))
