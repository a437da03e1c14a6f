"""Claude Code at hosts that speak only Chat Completions, and leak, cut, overflow and refuse."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.live.claude_code import TEA, Claude, bash, newest
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


def test_its_history_goes_back_as_chat_messages(claude: Claude) -> None:
    chat_host(claude, [THOUGHT, LOOK, native("one"), native("two", 1)], [leaked("three")])
    assert claude.answer() == "All is well."
    assert claude.answer("--continue") == "All is well."
    assert claude.ran == ["one", "two", "three"]
    chats = [request.json["messages"] for request in chats_of(claude)]
    *_, last = chats
    turn = next(message for message in last if "tool_calls" in message)
    assert (turn["content"], turn["reasoning_content"]) == ("I look.\n", "I think.")
    assert [message["role"] for message in last][:1] == ["system"]
    assert "x-anthropic-billing-header" not in last[0]["content"]
    for before, after in itertools.pairwise(chats):  # so that the host's cache is hit
        shared = len(before) - (before[-1]["role"] == "user")
        assert after[:shared] == before[:shared]


def chats_of(claude: Claude) -> list[Request]:
    return [each for each in claude.requests if "/chat/completions" in each.path]


# What is cut, broken or refused


def once(claude: Claude, first: Reply, *turns: Sequence[Chunk]) -> None:
    """A host that answers the first request so, and later ones with these turns."""
    later = chat_host(claude, *turns)
    talks_to(claude, lambda request: later(request) if len(chats_of(claude)) > 1 else first)


HALF = {"index": 0, "id": "c1", "function": {"name": "Bash", "arguments": '{"command": "echo it'}}


@pytest.mark.parametrize("before", [[], [LOOK]], ids=["alone", "after a text"])
def test_a_call_that_a_limit_cuts_is_not_run(claude: Claude, before: list[Chunk]) -> None:
    once(claude, written([*before, {"tool_calls": [HALF]}], "length", stream=True))
    assert claude.answer() == "All is well."
    assert claude.ran == []
    assert len(chats_of(claude)) > 1


def test_the_model_is_told_of_arguments_that_are_no_json(claude: Claude) -> None:
    once(claude, written([{"tool_calls": [HALF]}], "tool_calls", stream=True))
    assert claude.answer() == "All is well."
    assert claude.ran == []
    roles = [message["role"] for message in chats_of(claude)[-1].json["messages"]]
    assert roles.count("tool") == 1


@pytest.mark.parametrize("fault", ["reset", "eof"])
def test_what_a_break_leaves_is_run_once(claude: Claude, fault: str) -> None:
    turn = [LOOK, native("it")]
    chat_host(claude, turn)
    body = written(turn, "tool_calls", stream=True).body
    place = body.index(b"echo it") + 4
    assert claude.answer(options=f";abort={place};fault={fault};broken=1") == "All is well."
    assert claude.ran == ["it"]


def test_after_an_error_in_the_stream_it_asks_again(claude: Claude) -> None:
    begun = written([LOOK], "stop", stream=True).body.partition(b"\n\n")[0]
    error = b'\n\ndata: {"error": {"message": "The engine is overloaded", "code": 503}}\n\n'
    once(claude, Reply(begun + error), [native("it")])
    assert claude.answer() == "All is well."
    assert claude.ran == ["it"]


BUSY = json.dumps({"error": {"message": "The engine is currently overloaded"}}).encode()
LIMIT = json.dumps({"error": {"message": "Rate limit reached for RPM"}}).encode()


@pytest.mark.parametrize(("status", "body"), [(429, LIMIT), (503, BUSY)])
def test_it_waits_as_long_as_the_host_says(claude: Claude, status: int, body: bytes) -> None:
    refused = Reply(body, "application/json", status, (("retry-after", "1"),))
    once(claude, refused, [native("it")])
    assert claude.answer() == "All is well."
    assert claude.ran == ["it"]


OVERFLOWS = {
    "Kimi": (400, "Your request exceeded model token limit: 262144 (requested: 291810)"),
    "Ollama": (400, "input length exceeds the context length"),
    "LM Studio": (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length",
    ),
    "Cerebras": (400, "Please reduce the length. Current length is 9000 while limit is 8192"),
    "Groq": (413, "Request too large for model: please reduce your message size"),
}


@pytest.mark.parametrize("words", OVERFLOWS)
def test_an_overflow_in_any_words_makes_it_compact(claude: Claude, words: str) -> None:
    status, message = OVERFLOWS[words]
    full = Reply(json.dumps({"error": {"message": message}}).encode(), "application/json", status)
    turns = [[native(f"it{number}")] for number in range(4)]
    later, refused = chat_host(claude, *turns), list[Request]()

    def reply(request: Request) -> Reply:
        if not refused and request.body.count(b'"tool_calls"') == len(turns):
            refused.append(request)
            return full
        return later(request) if not refused else written(ANSWER, "stop", stream=True)

    talks_to(claude, reply)
    assert claude.answer() == "All is well."
    assert len(claude.ran) == len(turns)
    assert b"summary" in chats_of(claude)[-2].body


@newest
def test_what_a_host_refuses_is_said_in_its_words(claude: Claude) -> None:
    error = json.dumps({"error": {"message": "No such parameter: tools"}}).encode()
    talks_to(claude, lambda _: Reply(error, "application/json", 422))
    with pytest.raises(AssertionError, match="No such parameter: tools"):
        claude.answer()


# Its tools


@newest
def test_a_sub_agent_is_called_and_calls(claude: Claude) -> None:
    prompt = "Count to three."
    agent = {"description": "Count", "prompt": prompt, "subagent_type": "general-purpose"}
    parent = chat_host(claude, [{"content": k2("Agent", json.dumps(agent))}])
    child = chat_host(claude, [native("three")])

    def reply(request: Request) -> Reply:
        first = next(each for each in request.json["messages"] if each["role"] == "user")
        return (child if prompt in json.dumps(first) else parent)(request)

    talks_to(claude, reply)
    assert claude.answer() == "All is well."
    assert claude.ran == ["three"]


@newest
@pytest.mark.parametrize("leaks", [True, False])
def test_a_tool_of_a_server_is_called_though_it_is_only_named(
    claude: Claude, *, leaks: bool
) -> None:
    name, arguments = "mcp__tea__brew", '{"minutes": 3}'
    function = {"name": name, "arguments": arguments}
    call = {"index": 0, "id": f"{name}:0", "type": "function", "function": function}
    chat_host(claude, [{"content": k2(name, arguments)} if leaks else {"tool_calls": [call]}])
    assert claude.answer(*TEA) == "All is well."
    assert b"brewed for 3 minutes" in chats_of(claude)[-1].body


@newest
def test_it_reads_a_picture_and_a_file_that_is_not_there_at_once(claude: Claude) -> None:
    picture = claude.folder / "work" / "dot.png"
    picture.write_bytes(base64.b64decode(DOT))
    reads = [read(str(picture), 0), read("/nowhere/at/all", 1), native("it", 2)]
    chat_host(claude, reads)
    assert claude.answer() == "All is well."
    messages = chats_of(claude)[-1].json["messages"]
    turn = next(at for at, message in enumerate(messages) if "tool_calls" in message)
    calls = [call["id"] for call in messages[turn]["tool_calls"]]
    results = messages[turn + 1 : turn + 4]
    assert [result["tool_call_id"] for result in results] == calls
    assert results[1]["content"].startswith("Error")
    assert "image_url" in json.dumps(messages[turn + 4])


def read(path: str, index: int) -> Chunk:
    function = {"name": "Read", "arguments": json.dumps({"file_path": path})}
    call = {"index": index, "id": f"Read:{index}", "type": "function", "function": function}
    return {"tool_calls": [call]}


DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg"
    "gg=="
)


@newest
def test_forty_turns(claude: Claude) -> None:
    chat_host(claude, *([native(f"it{number}")] for number in range(40)))
    assert claude.answer() == "All is well."
    assert claude.ran == [f"it{number}" for number in range(40)]


@newest
def test_it_waits_through_a_silence(claude: Claude) -> None:
    chat_host(claude)
    assert claude.answer(options=";pace=2") == "All is well."
