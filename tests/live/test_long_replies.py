"""Replies of many values, through a real mitmdump: read in one go within the bound of a reply, and
others run between the pieces of a long stream."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.repair.scan_state import MAX_CALLS
from dragoman.wire.reply_bounds import MAX_PARTS
from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, ROOT, Mitmdump
from tests.waiting import eventually

PAUSES = ROOT / "tests" / "live" / "pauses.py"
WORDS, CHUNKS = "word " * 10_000, 60
MANY = MAX_PARTS - 1
"""Native calls of a reply at most."""
LEAKS = 20_000
"""Leaked calls of a reply, of which `MAX_CALLS` are made."""
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    "{}<|tool_call_end|><|tool_calls_section_end|>\n"
)
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "bridge": ("/v1/responses", responses.REQUEST | {"stream": False}),
    "bridge of a stream": ("/v1/responses", responses.REQUEST | {"stream": True}),
    "repair": ("/v1/chat/completions", {"messages": []}),
    "repair of a stream": ("/v1/chat/completions", {"messages": [], "stream": True}),
}
_keys = itertools.count()


def completion(message: dict[str, Any]) -> Reply:
    said = {"role": "assistant", **message}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    body = {"id": "c", "object": "chat.completion", "model": "kimi", "choices": [choice]}
    return Reply(json.dumps(body).encode(), "application/json")


def reply_for(job: str) -> Reply:
    """One of many values, for that job."""
    if "bridge" in job:
        return completion({"content": None, "tool_calls": [CALL] * MANY})
    return completion({"content": LEAK * LEAKS})


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    proxy = mitmdump(*arguments, scripts=(ADDON, CONTROLS))
    return Chat(plain_upstream, proxy)


def calls_in(body: bytes) -> int:
    """How many calls a whole reply has, or the end of a stream."""
    *_, last = (line for line in body.split(b"\n") if b"{" in line)
    value = json.loads(last.removeprefix(b"data: "))
    value = value.get("response", value)
    if "choices" in value:
        return len(value["choices"][0]["message"]["tool_calls"])
    return sum(item["type"] == "function_call" for item in value["output"])


def ask(chat: Chat, job: str) -> tuple[str, bytes]:
    """The path of a request for such a reply, and its body."""
    path, request = JOBS[job]
    name = f"long{next(_keys)}"
    chat.upstream.replies[name] = reply_for(job)
    return f"/{name}{path}", json.dumps(request).encode()


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_reply_of_many_calls_is_read_whole_and_nothing_of_it_stays(chat: Chat, job: str) -> None:
    path, body = ask(chat, job)
    reply = wire.exchange(f"{chat.proxy.url}{path}", body)
    assert (reply.status, calls_in(reply.body)) == (200, MANY if "bridge" in job else MAX_CALLS)
    eventually(lambda: not any(held(chat)), "nothing of it stays behind")


def test_others_run_between_the_pieces_of_a_long_stream_and_of_its_end(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    proxy = mitmdump(*arguments, scripts=(ADDON, PAUSES))
    delta = json.dumps({"choices": [{"index": 0, "delta": {"content": WORDS}}]})
    body = f"data: {delta}\n\n" * CHUNKS + "data: [DONE]\n\n"
    plain_upstream.replies["words"] = Reply(body.encode())
    for job in ("repair of a stream", "bridge of a stream"):
        path, request = JOBS[job]
        reply = wire.exchange(f"{proxy.url}/words{path}", json.dumps(request).encode())
        deltas = re.findall(rb'"(?:content|delta)": ?"((?:word )+)"', reply.body)
        assert (reply.complete, b"".join(deltas)) == (True, WORDS.encode() * CHUNKS)
        assert proxy.log.count("others run now") > CHUNKS / 4, "a read has 64 kB at most"
    last = re.findall(rb"data: (.*)", reply.body)[-1]
    assert json.loads(last)["response"]["output"][0]["content"][0]["text"] == WORDS * CHUNKS


def held(chat: Chat) -> list[int]:
    counts = json.loads(chat.control("held").body)
    return [counts[name] for name in ("Reply", "BridgeStream", "RepairStream")]
