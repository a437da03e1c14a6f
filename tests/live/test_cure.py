"""Chat clients at hosts that refuse what they send: with Dragoman between they are not refused.

The host refuses by all rules at once and thinks before each of ten calls (`strict_host`); no
client here sends all of that back as the host wants it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.wire import Request
from tests.live import wire
from tests.live.clients import Clients
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.strict_host import DONE, TURNS, StrictHost, calls_of, thought

Json = dict[str, Any]
MODELS = ["kimi-k2.6", "kimi-k3", "deepseek-v4-pro"]
TARGET = {"$ref": "#/definitions/Path", "description": "Where."}
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "path": TARGET},
    "definitions": {"Path": {"type": "string"}},
}
TOOL = {"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}
SENT = {"tools": [TOOL], "temperature": 0.2}
USER = {"role": "user", "content": "Do all of it."}
OPENING = [
    {"role": "developer", "content": "You are careful."},
    {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Hi."}]},
    {"role": "assistant", "content": ""},
    USER,
]
_names = itertools.count()


@pytest.fixture(scope="module")
def host() -> Iterator[StrictHost]:
    with StrictHost(tls=True) as host:
        yield host


@pytest.fixture
def name(host: StrictHost) -> str:
    """Of a conversation; nothing has been refused in it."""
    host.refused.clear()
    return f"strict{next(_names)}"


def check(host: StrictHost, name: str, text: str) -> None:
    """The conversation went to its end, each call with the very thought before it, and each
    request's messages begin with those of the one before."""
    assert (text, host.refused) == (DONE, [])
    requests = host.requests_of(name)
    assert len(requests) == TURNS + 1
    thoughts = [message["reasoning_content"] for message in calls_of(requests[-1].json)]
    assert thoughts == [thought(number) for number in range(TURNS)]
    for before, after in itertools.pairwise(map(messages_in, requests)):
        assert after.startswith(before)


def messages_in(request: Request) -> bytes:
    """The bytes of its messages, up to the last."""
    messages = json.dumps(request.json["messages"], separators=(",", ":"), ensure_ascii=False)
    at = request.body.index(b'"messages"')
    assert messages.encode() in request.body[at:]
    return messages.encode()[:-1]


@pytest.mark.parametrize("model", MODELS)
def test_openai_python_talks_to_a_host_that_refuses(
    host: StrictHost,
    name: str,
    model: str,
    mitmdump: Callable[..., Mitmdump],
    clients: Clients,
) -> None:
    request = {"model": model, "messages": OPENING, **SENT}
    base_url = f"{host.url}/{name};cut=event/v1"
    without = clients.get(
        "openai_python.py", mitmdump("--set", "dragoman_cure=off").client_environment()
    )
    with pytest.raises(pytest.fail.Exception):
        without.ask("chat.loop", base_url, request)
    assert host.refused
    host.refused.clear()
    client = clients.get("openai_python.py", mitmdump().client_environment())
    result = client.ask("chat.loop", f"{host.url}/{name}x;cut=event/v1", request)
    check(host, f"{name}x", result["text"])
