"""A call between tags, which is held until it is whole, through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live import wire
from tests.live.chat import Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.repair.formats.test_tagged_call import REQUEST, WRITERS, text_of
from tests.repair.streams import chunk, read, sse

TICKER = Path(__file__).with_name("ticker.py")
LONGEST = 500
"""Milliseconds for which nobody else is served: some 30 in truth, on an idle machine."""
HEARTBEAT = 0.15
COMMENT = b": waiting for the upstream\n\n"


@pytest.mark.parametrize("name", WRITERS)
def test_a_long_value_is_held_with_heartbeats_and_nobody_else_waits(
    name: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    settings = f"dragoman_heartbeat={HEARTBEAT}"
    mode = f"reverse:{plain_upstream.url}"
    proxy = mitmdump("--mode", mode, "--set", settings, scripts=(ADDON, TICKER))
    arguments = {"path": "a.html", "content": "<p>a line of it</p>\n" * 25_000}
    text = text_of(WRITERS[name]("write_file", arguments, "\n"))
    pieces = [text[at : at + 10_000] for at in range(0, len(text), 10_000)]
    chunks = [chunk({"content": piece}) for piece in ("So. ", *pieces)]
    stream = sse([{**each, "model": "m"} for each in [*chunks, chunk({}, "stop")]])
    chat, request = Chat(plain_upstream, proxy), {"model": "m", "stream": True, **REQUEST}
    wire.exchange(f"{proxy.url}/ticker", b"")
    reply = chat.ask(stream, ";cut=event;pace=0.02", request=request)
    assert int(wire.exchange(f"{proxy.url}/ticker", b"").body) < LONGEST
    assert reply.body.count(COMMENT) > 2
    out = read(reply.body.replace(COMMENT, b""))
    (call,) = out.calls
    assert (out.content, call["name"], out.finish) == ("So. ", "write_file", ["tool_calls"])
    assert json.loads(call["arguments"]) == arguments
