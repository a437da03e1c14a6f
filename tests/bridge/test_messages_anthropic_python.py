"""anthropic-python itself reads repaired messages: its strict types, and its `stream()` helper."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.messages.test_repair import NATIVE, ODDITIES, PLACES, THOUGHT, leaked

from .messages_streams import (
    K2,
    REQUEST,
    document,
    event,
    events,
    pieces,
    read,
    repaired,
    stream,
)


def client(body: bytes) -> Any:
    """It is imported here, as that takes seconds in each process that collects this test."""
    anthropic = pytest.importorskip("anthropic", reason="it cannot live beside mitmproxy 11")
    httpx = pytest.importorskip("httpx2")
    kind = "application/json" if body.startswith(b"{") else "text/event-stream"
    response = httpx.Response(200, headers={"content-type": kind}, content=body)
    return anthropic.Anthropic(
        api_key="k",
        max_retries=0,
        http_client=httpx.Client(transport=httpx.MockTransport(lambda _: response)),
        _strict_response_validation=True,
    )


def asked() -> dict[str, Any]:
    return {name: REQUEST[name] for name in ("model", "max_tokens", "messages", "tools")}


def accumulated(body: bytes) -> Any:
    with client(body).messages.stream(**asked()) as events_of_client:
        for _ in events_of_client:
            pass
        return events_of_client.get_final_message()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [1, 5, 500])
def test_its_accumulator_gets_the_blocks(place: str, size: int) -> None:
    body = repaired(stream(leaked(place, K2, size)))
    message, wanted = accumulated(body), read(body)
    assert (message.stop_reason, len(message.content)) == ("tool_use", len(wanted.blocks))
    for block, told in zip(message.content, wanted.blocks, strict=True):
        given = json.loads(told["input"]) if block.type == "tool_use" else told
        assert block.type == told["type"]
        assert getattr(block, "input", given) == given
    assert list(client(body).messages.create(**asked(), stream=True))[-1].type == "message_stop"


@pytest.mark.parametrize("place", PLACES)
def test_a_message_that_came_whole_is_of_its_types(place: str) -> None:
    body = repaired(json.dumps(document(leaked(place, K2, 500))).encode())
    message = client(body).messages.create(**asked())
    assert message.stop_reason == "tool_use"
    assert any(block.type == "tool_use" and block.input for block in message.content)


@pytest.mark.parametrize("oddity", ["one index", "no ends of blocks"])
def test_what_a_host_does_oddly_is_in_order_after_a_leak(oddity: str) -> None:
    other = ("tool_use", ("bash", ['{"command":"pwd"}']))
    given = ODDITIES[oddity](events([("text", pieces(K2)), THOUGHT, other]))
    message = accumulated(repaired(b"".join(map(event, given))))
    assert [block.type for block in message.content] == ["tool_use", "thinking", "tool_use"]


def test_a_call_that_was_cut_says_so() -> None:
    body = repaired(stream([("text", pieces(K2.partition(" -la")[0]))], "max_tokens"))
    message = accumulated(body)
    assert message.stop_reason == "max_tokens"


def test_twins_are_one() -> None:
    message = accumulated(repaired(stream([("text", ["So. ", K2]), NATIVE])))
    assert [block.type for block in message.content] == ["text", "tool_use"]
