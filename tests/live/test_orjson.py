"""With orjson and without it, the same bytes arrive at both ends.

All other tests run without it, as mitmproxy's own binaries do.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fixtures.server import Upstream
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.responses import REQUEST, Bridge

NUMBERS = {
    "temperature": 1e-5,
    "seed": 12345678901234567890123,
    "metadata": {"é": "9999999999999999999"},
    "text": {"format": {"type": "text"}, "share": 1e22, "none": -0.0},
}
FIXTURES = [
    "kimi_specification",
    "kimi_escaped_markers",
    "kimi_long_arguments",
    "clean_native_tools",
]
# Ids and times are new in each response.
_NEW = re.compile(rb'_[0-9a-f]{8,}|"(created|completed)_at":\d+')


@pytest.fixture
def proxies(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> list[Mitmdump]:
    """One without orjson, one with it."""
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return [
        mitmdump(*arguments, scripts=(ADDON, CONTROLS), orjson=orjson) for orjson in (False, True)
    ]


def test_it_is_used_where_it_is_found(plain_upstream: Upstream, proxies: list[Mitmdump]) -> None:
    found = [Chat(plain_upstream, proxy).control("orjson").body for proxy in proxies]
    assert found == [b"false", b"true"]


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_stream_is_repaired_to_the_same_bytes(
    plain_upstream: Upstream, proxies: list[Mitmdump], fixture: str
) -> None:
    without, with_orjson = (Chat(plain_upstream, proxy).ask(fixture).body for proxy in proxies)
    assert without == with_orjson
    assert b"tool_calls" in without


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_request_and_its_response_are_bridged_to_the_same_bytes(
    plain_upstream: Upstream, proxies: list[Mitmdump], fixture: str
) -> None:
    body = REQUEST | NUMBERS
    without, with_orjson = (Bridge(plain_upstream, proxy).ask(fixture, body) for proxy in proxies)
    assert [request.body for request in without.sent] == [
        request.body for request in with_orjson.sent
    ]
    assert b"12345678901234567890123" in without.sent[0].body
    assert _NEW.sub(b"", without.reply.body) == _NEW.sub(b"", with_orjson.reply.body)
    assert without.story().response["output"]
