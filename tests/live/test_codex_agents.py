"""Codex of today on a host that speaks only chat: its sub-agents, compaction, and limits."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman.bridge.request.turn_items import SUMMARY_PROMPT
from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.responses import to_last_message
from tests.live.test_codex import FLAGS, Codex, codex
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


LIMIT = {"message": "max organization concurrency: 1, please try again after 1 seconds"}
BUSY = {"message": "The engine is overloaded, try again after 1 seconds", "code": 503}
LIMITS = {
    "of the host": Reply(json.dumps({"error": LIMIT}).encode(), "application/json", 429),
    "in the stream": Reply(sse([chunk({"reasoning_content": "hm"}), {"error": BUSY}])),
}


@pytest.mark.parametrize("where", LIMITS)
def test_codex_asks_again_after_a_limit(codex: Codex, where: str) -> None:
    fixture = f"limit_{where.replace(' ', '_')}"

    def reply(_: Request) -> Reply:
        """All requests but the first two are answered: the first asks what the host speaks."""
        asked = len(codex.upstream.requests_of(fixture, codex.key))
        return LIMITS[where] if asked == 2 else said("It passed.")

    codex.upstream.replies[fixture] = reply
    codex.configure(fixture)
    done = codex.run("exec", *FLAGS, "Do what you are there for.")
    assert "It passed." in done.stdout
    first, again = codex.arrived(fixture)
    assert again.body == first.body
