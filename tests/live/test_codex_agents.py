"""Codex of today on a host that speaks only chat: its sub-agents, compaction, and limits."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.bridge.request.convert import SUMMARY_PROMPT
from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.responses import to_last_message
from tests.live.test_codex import CODEX, CODEX_BEFORE, FLAGS, VERSIONS, Codex, codex
from tests.repair.streams import chunk, sse

__all__ = ["codex"]
pytestmark = pytest.mark.heavy

AGENTS = "\n[features]\nmulti_agent_v2 = true\n"
TASK = "Count to three."


def configure(
    codex: Codex, fixture: str, name: str, options: str = "", *, like: str | None = "gpt-5.5"
) -> None:
    """For a provider of this name, with further options."""
    codex.configure(fixture, like=like)
    path = codex.folder / "config.toml"
    path.write_text(options + path.read_text().replace('"Replay"', f'"{name}"'))


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


@VERSIONS
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
    configure(codex, fixture, name, "model_auto_compact_token_limit = 50000\n")
    items = codex.exec("Make tea.")
    assert items[-1]["text"] == "Tea is ready."
    items = codex.exec("resume", "--last", "Thank you.")
    assert items[-1]["text"] == "Tea is ready."
    first, asked, went_on, *_, resumed = codex.upstream.requests_of(fixture, codex.key)[1:]
    assert asked.body.startswith(to_last_message(first))
    assert (told(asked)[-1] == SUMMARY_PROMPT) == (name == "OpenAI")
    assert any(SUMMARY in text for text in told(went_on))
    assert resumed.body.startswith(to_last_message(went_on))


class Editor:
    """Codex as an editor runs it: it is sent requests, one JSON text a line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ids = itertools.count()
        self.ask("initialize", clientInfo={"name": "tests", "version": "1"})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request."""
        asked = {"id": next(self._ids), "method": method, "params": params}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        result: dict[str, Any] = self._read("id", asked["id"])["result"]
        return result

    def turn(self, method: str, **params: Any) -> None:
        """A turn to its end."""
        self.ask(method, **params)
        turn = self._read("method", "turn/completed")["params"]["turn"]
        assert turn["status"] == "completed", turn

    def say(self, thread: str, text: str) -> None:
        self.turn("turn/start", threadId=thread, input=[{"type": "text", "text": text}])

    def _read(self, name: str, value: Any) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get(name) == value:
                return message
        raise AssertionError(f"it ended before {value}")


@contextmanager
def editor(codex: Codex) -> Iterator[Editor]:
    command, environment, folder = codex.command("app-server")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stderr=subprocess.DEVNULL, **pipes
    )
    end = threading.Timer(60, process.kill)
    end.start()
    try:
        yield Editor(process)
    finally:
        end.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("codex", "name"),
    [(CODEX, "OpenAI"), (CODEX, "Replay"), (CODEX_BEFORE, "OpenAI")],
    indirect=["codex"],
    ids=["newest-OpenAI", "newest-other", "before-OpenAI"],
)
def test_a_thread_that_was_compacted_by_hand_goes_on_for_long(codex: Codex, name: str) -> None:
    def reply(request: Request) -> Reply:
        return said("I see." if request.json.get("tools") else SUMMARY)

    codex.upstream.replies["by_hand"] = reply
    configure(codex, "by_hand", name)
    with editor(codex) as asked:
        folder = str(codex.work)
        started = asked.ask("thread/start", cwd=folder, approvalPolicy="never")
        thread = started["thread"]["id"]
        asked.say(thread, "Make tea.")
        asked.turn("thread/compact/start", threadId=thread)
        for number in range(20):
            asked.say(thread, f"And then {number}?")
    with editor(codex) as asked:
        asked.ask("thread/resume", threadId=thread)
        asked.say(thread, "Thank you.")
    first, summary, *turns = codex.upstream.requests_of("by_hand", codex.key)[1:]
    assert summary.body.startswith(to_last_message(first))
    assert (told(summary)[-1] == SUMMARY_PROMPT) == (name == "OpenAI")
    said_last = [told(turn)[-1] for turn in turns]
    assert said_last == [*(f"And then {number}?" for number in range(20)), "Thank you."]
    assert any(SUMMARY in text for text in told(turns[0]))
    for before, after in itertools.pairwise(turns):
        assert after.body.startswith(to_last_message(before))


BESIDE = {"/v1/models": {"data": [{"id": "kimi-k2.5"}]}, "/v1/alpha/search": {"output": "Hot."}}


@pytest.mark.parametrize("knows", [True, False])
def test_what_codex_asks_beside_its_turns_is_answered_by_the_host(
    codex: Codex, knows: bool
) -> None:
    """Its list of models, and what its tool for the web looks for."""

    def reply(request: Request) -> Reply:
        outputs = [m["content"] for m in request.json["messages"] if m["role"] == "tool"]
        if outputs:
            return said(f"It said: {outputs[-1]}")
        return called("web__run", search_query=[{"q": "tea"}])

    fixture = f"beside_{knows}"
    for path, answer in BESIDE.items():
        body, status = (json.dumps(answer).encode(), 200) if knows else (b"", 404)
        codex.upstream.replies[fixture + path] = Reply(body, "application/json", status)
    codex.upstream.replies[fixture] = reply
    configure(codex, fixture, "OpenAI", 'web_search = "live"\n', like=None)
    path = codex.folder / "config.toml"
    text = path.read_text()
    base = text.partition('base_url = "')[2].partition('"')[0]
    features = "[features]\nstandalone_web_search = true\n"
    path.write_text(f'{text}model_catalog_url = "{base}/models"\n{features}')
    items = codex.exec("What is tea?")
    assert ("Hot." if knows else "404") in items[-1]["text"]
    asked = codex.upstream.requests_of(fixture, codex.key)
    ends = [request.path.rpartition("/v1/")[2].partition("?")[0] for request in asked]
    assert ends.count("chat/completions") == 2
    assert ends.count("alpha/search") == 1
    assert 0 < ends.count("models") < 5


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
        """All requests but the first two are answered: the first gets its 404."""
        asked = len(codex.upstream.requests_of(fixture, codex.key))
        return LIMITS[where] if asked == 2 else said("It passed.")

    codex.upstream.replies[fixture] = reply
    codex.configure(fixture)
    done = codex.run("exec", *FLAGS, "Do what you are there for.")
    assert "It passed." in done.stdout
    first, again = codex.arrived(fixture)
    assert again.body == first.body
