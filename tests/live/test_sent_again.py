"""A bridged request that its host refuses for something that can be left out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.bridge.messages_streams import REQUEST as MESSAGES
from tests.live import wire
from tests.live.responses import JSON, Bridge
from tests.live.responses import REQUEST as RESPONSES
from tests.repair.streams import chunk, sse

VERSION = ("anthropic-version", "2023-06-01")
PATHS = {"/v1/messages": MESSAGES, "/v1/responses": RESPONSES}
ANSWER = Reply(sse([chunk({"content": "Well."}), chunk({}, "stop")]))
TOO_MANY = (
    "'max_tokens' is too large: {0}. This model's maximum context length is 40960 tokens and your "
    "request has 12000 input tokens ({0} > 40960 - 12000)."
)
_names = itertools.count()


def refusing(refuses: Callable[[dict[str, Any]], str]) -> Callable[[Request], Reply]:
    """A host that refuses a request for these reasons, one after the other."""

    def reply(request: Request) -> Reply:
        if said := refuses(request.json):
            error = {"error": {"message": said, "code": 400}}
            return Reply(json.dumps(error).encode(), "application/json", 400)
        return ANSWER

    return reply


def strict(chat: dict[str, Any]) -> str:
    if "reasoning_effort" in chat:
        return "`reasoning_effort` is not supported with this model"
    most = chat["max_tokens"]
    return TOO_MANY.format(most) if most > 28960 else ""


@pytest.mark.parametrize("path", PATHS)
def test_it_is_sent_without_that_and_the_client_sees_the_reply(bridge: Bridge, path: str) -> None:
    name = f"again{next(_names)}"
    bridge.upstream.replies[name] = refusing(strict)
    limit = {"max_tokens": 32000, "output_config": {"effort": "high"}}
    if path == "/v1/responses":
        limit = {"max_output_tokens": 32000, "reasoning": {"effort": "high"}}
    exchange = bridge.ask(name, PATHS[path] | limit, VERSION, path=path)
    assert exchange.reply.status == 200
    assert b"Well." in exchange.reply.body
    sent = [request.json for request in bridge.upstream.requests_of(name)]
    assert [("reasoning_effort" in each, each["max_tokens"]) for each in sent] == [
        (True, 32000),
        (False, 32000),
        (False, 28960),
    ]
    assert [each["messages"] for each in sent[1:]] == [sent[0]["messages"]] * 2
    missed = exchange.reply.header("x-dragoman") or ""
    assert "sent again without reasoning_effort" in missed
    assert "sent again with 28960 for max_tokens" in missed


def test_the_next_turn_is_sent_at_once_as_its_host_takes_it(bridge: Bridge) -> None:
    name = f"again{next(_names)}"
    bridge.upstream.replies[name] = refusing(strict)
    body = MESSAGES | {"max_tokens": 32000, "output_config": {"effort": "high"}}

    def sent(key: str) -> list[bool]:
        """Whether each request for a turn has the effort."""
        before = len(bridge.upstream.requests_of(name))
        url = f"{bridge.proxy.url}/{name}/v1/messages"
        headers = (JSON, VERSION, ("x-api-key", key))
        assert wire.exchange(url, json.dumps(body).encode(), headers=headers).status == 200
        arrived = bridge.upstream.requests_of(name)[before:]
        return ["reasoning_effort" in request.json for request in arrived]

    assert sent("sk-one") == [True, False, False]
    assert sent("sk-one") == [False, False]  # how much is left of the context is of each turn
    assert sent("sk-other") == [True, False, False]


@pytest.mark.parametrize("path", PATHS)
def test_a_refusal_that_stays_is_the_clients_after_five_times(bridge: Bridge, path: str) -> None:
    name = f"again{next(_names)}"
    counts = itertools.count(30000, -1)
    said = "max_tokens must be less than or equal to {}"
    bridge.upstream.replies[name] = refusing(lambda _: said.format(next(counts)))
    limit = {"max_tokens": 32000, "max_output_tokens": 32000}
    wanted = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    body = PATHS[path] | {wanted: limit[wanted]}
    exchange = bridge.ask(name, body, VERSION, path=path)
    assert exchange.reply.status == 400
    assert b"less than or equal to 29995" in exchange.reply.body
    assert len(bridge.upstream.requests_of(name)) == 6


def test_any_other_refusal_is_the_clients_at_once(bridge: Bridge) -> None:
    name = f"again{next(_names)}"
    bridge.upstream.replies[name] = refusing(lambda _: "Insufficient balance")
    exchange = bridge.ask(name, MESSAGES, VERSION, path="/v1/messages")
    assert exchange.reply.status == 400
    assert len(bridge.upstream.requests_of(name)) == 1
