"""How a turn ended, from what both sides sent: the same whatever API the client speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.inspect.outcome import outcome_of
from dragoman.notes import Evidence, TurnFacts
from dragoman.responses.envelope import seal
from tests.bridge import messages_streams
from tests.bridge.hosts import OPENAI
from tests.inspect.exchanges import exchange
from tests.repair.streams import chunk, sse

REQUEST = {
    "model": "m",
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
}
LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    '<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>'
)
NATIVE = {"index": 0, "id": "c1", "function": {"name": "bash", "arguments": "{}"}}
ERROR = {"error": {"message": "m", "type": "engine_overloaded"}}
USED = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
CALLED = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
COMPACTED = {"type": "compaction", "encrypted_content": seal("So far.")}
SEALED = {"type": "compaction", "encrypted_content": "gAAAA"}
CUT = {
    "object": "response",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
}
LONG = "long " * 300_000


def facts(upstream: bytes, client: bytes = b"") -> TurnFacts:
    """Of both sides of a reply, the same without a `client`'s."""
    of_upstream = read_reply(upstream).facts
    return TurnFacts(of_upstream, read_reply(client).facts if client else of_upstream)


def stream(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
    return sse([*map(chunk, deltas), chunk({}, finish)])


@pytest.mark.parametrize("job", ["repair", "bridge"])
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (stream({"content": "Hi"}), "✓ text"),
        (stream({"content": " "}, {"reasoning": "Hm"}, {"content": "Hi"}), "✓ text"),
        (stream({"content": LONG}), "✓ text"),
        (stream({"content": "Hi"}, {"tool_calls": [NATIVE]}), "✓ 1 call bash"),
        (stream({"content": LEAK}), "✓ 1 call bash"),
        (stream({"reasoning": LEAK}, {"tool_calls": [NATIVE]}), "✓ 2 calls bash ×2"),
        (stream({"reasoning": "Hm"}), "∅ no answer, no call"),
        (stream({"content": "\n\n"}), "∅ no answer, no call"),
        (stream({"content": "<|tool_calls_section_end|>"}), "∅ no answer, no call"),
        (stream({"content": "Hi"}, finish="length"), "✂ max tokens"),
        (stream({"content": "Hi"}, finish="content_filter"), "✂ content filter"),
        (sse([chunk({"content": "Hi"}), ERROR]), "✗ engine_overloaded"),
        (sse([chunk({"content": "Hi"}), ERROR, USED]), "✗ engine_overloaded"),
        (stream({"content": "Hi"}).rpartition(b"data: {")[0], "✗ ended early"),
    ],
)  # fmt: skip
def test_how_a_turn_ended(body: bytes, wanted: str, job: Any) -> None:
    request: dict[str, Any] = REQUEST
    if job == "bridge":
        tools = [{"type": "function", "name": "bash", "parameters": {}}]
        request = REQUEST | {"input": "x", "tools": tools}
    passed = exchange(json.dumps(request).encode(), body, job=job)
    seen = facts(passed.upstream_reply, passed.client_reply)
    assert str(outcome_of(seen, Evidence())) == wanted


@pytest.mark.parametrize(
    ("body", "status", "wanted"),
    [
        ({"error": {"message": "m", "code": 502}}, 200, "✗ error 502"),
        ({"detail": "Not Found"}, 404, "✗ HTTP 404"),
        ({"error": "m"}, 200, "✗ error"),
        ({"object": "response", "output": [SEARCHED, SAID]}, 200, "✓ text"),
        ({"object": "response", "output": [SEARCHED, CALLED]}, 200, "✓ 1 call shell"),
        ({"object": "response", "output": [COMPACTED]}, 200, "✓ compaction"),
        ({"object": "response", "output": [SEALED]}, 200, "✓ compaction"),
        ({"object": "response", "status": "cancelled", "output": []}, 200, "✗ cancelled"),
        (CUT | {"output": [SAID]}, 200, "✂ max tokens"),
        (CUT | {"output": [SAID], "incomplete_details": None}, 200, "✂ incomplete"),
        (CUT | {"output": [CALLED], "required_action": {}}, 200, "✓ 1 call shell"),
    ],
)
def test_how_a_whole_reply_ended(body: dict[str, Any], status: int, wanted: str) -> None:
    seen = facts(json.dumps(body).encode())
    assert str(outcome_of(seen, Evidence(), status=status)) == wanted


def test_what_is_no_reply_of_an_llm_is_no_answer() -> None:
    seen = facts(b"{}")
    assert str(outcome_of(seen, Evidence())) == "– no reply of an LLM"
    assert str(outcome_of(seen, Evidence(), status=502)) == "✗ HTTP 502"


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (stream({"content": "Hi"}), b"data: [DONE]"),
        (OPENAI.stream([("text", ["Hi"])]), b"event: response.completed"),
        (messages_streams.stream([("text", ["Hi"])]), b"event: message_stop"),
    ],
    ids=["chat", "responses", "messages"],
)
def test_a_turn_has_ended_with_its_last_event(body: bytes, end: bytes) -> None:
    assert facts(body).client.ended
    assert not facts(body[: body.index(end)]).client.ended
