"""Claude Code at hosts that speak only Chat Completions, and leak, cut, overflow and refuse."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.claude_code import Claude, bash
from tests.live.test_repeated_calls import k2
from tests.live.unknown_host import NO_ADDRESS
from tests.repair.streams import chunk, sse

Chunk = dict[str, Any]
ANSWER: list[Chunk] = [{"content": "All is "}, {"content": "well."}]
USAGE = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
_numbers = itertools.count()

pytestmark = pytest.mark.heavy


def chat_host(
    claude: Claude, *turns: Sequence[Chunk], finish: str = "stop"
) -> Callable[[Request], Reply]:
    """Have it reply to a request by the number of messages in it that have calls; after the last of
    `turns`, which end with `finish`, with the answer."""
    said = [*((deltas, finish) for deltas in turns), (ANSWER, "stop")]

    def reply(request: Request) -> Reply:
        called = [message for message in request.json["messages"] if "tool_calls" in message]
        deltas, ends = said[min(len(turns), len(called))]
        return written(deltas, ends, stream=bool(request.json.get("stream")))

    talks_to(claude, reply)
    return reply


def talks_to(claude: Claude, reply: Callable[[Request], Reply]) -> None:
    claude.talks_to(lambda _: NO_ADDRESS)
    claude.upstream.replies["claude/v1/chat/completions"] = reply


def written(deltas: Sequence[Chunk], finish: str, *, stream: bool) -> Reply:
    if stream:
        last = {**chunk({}, finish), "usage": USAGE}
        return Reply(sse([*(chunk(delta) for delta in deltas), last]))
    message: Chunk = {"role": "assistant", "content": "", "reasoning_content": ""}
    for delta in deltas:
        for name, value in delta.items():
            message[name] = message.get(name, type(value)()) + value
    choice = {"index": 0, "message": message, "finish_reason": finish}
    completion = {"object": "chat.completion", "choices": [choice], "usage": USAGE}
    return Reply(json.dumps(completion).encode(), "application/json")


def native(said: str, index: int = 0) -> Chunk:
    function = {"name": "Bash", "arguments": json.dumps(bash(said))}
    call = {"index": index, "id": f"Bash:{next(_numbers)}", "type": "function"}
    return {"tool_calls": [call | {"function": function}]}


def leaked(said: str, field: str = "content") -> Chunk:
    return {field: k2("Bash", json.dumps(bash(said)))}


THOUGHT = {"reasoning_content": "I think."}
LOOK = {"content": "I look.\n"}
TURNS: dict[str, tuple[list[Chunk], list[str]]] = {
    "none": (ANSWER, []),
    "native": ([THOUGHT, LOOK, native("it")], ["it"]),
    "two native": ([native("one"), native("two", 1)], ["one", "two"]),
    "in the text": ([LOOK, leaked("it")], ["it"]),
    "in the thoughts": ([THOUGHT, leaked("it", "reasoning_content")], ["it"]),
    "twice": ([leaked("it"), native("it")], ["it"]),
}


@pytest.mark.parametrize("where", TURNS)
def test_each_call_is_run_once(claude: Claude, where: str) -> None:
    deltas, ran = TURNS[where]
    chat_host(claude, deltas)
    assert claude.answer() == "All is well."
    assert claude.ran == ran
    paths = [request.path.partition("?")[0].rpartition("/v1")[2] for request in claude.requests]
    assert paths == ["/messages", *["/chat/completions"] * (1 + bool(ran))]
