"""A call between tags, which is held until it is whole, through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Upstream
from tests.live.chat import Chat
from tests.live.mitmdump import Mitmdump
from tests.repair.formats.test_tagged_call import REQUEST, WRITERS, text_of
from tests.repair.streams import chunk, read, sse

COMMENT = b": waiting for the upstream\n\n"


@pytest.mark.parametrize("name", WRITERS)
def test_a_long_value_is_held_with_heartbeats_and_leaves_whole(
    name: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    mode = f"reverse:{plain_upstream.url}"
    proxy = mitmdump("--mode", mode, "--set", "dragoman_heartbeat=0.15")
    arguments = {"path": "a.html", "content": "<p>a line of it</p>\n" * 25_000}
    text = text_of(WRITERS[name]("write_file", arguments, "\n"))
    pieces = [text[at : at + 10_000] for at in range(0, len(text), 10_000)]
    chunks = [chunk({"content": piece}) for piece in ("So. ", *pieces)]
    model = "claude" if name == "claude" else "m"  # nobody else writes Claude's
    stream = sse([{**each, "model": model} for each in [*chunks, chunk({}, "stop")]])
    request = {"model": model, "stream": True, **REQUEST}
    reply = Chat(plain_upstream, proxy).ask(stream, ";cut=event;pace=0.02", request=request)
    assert reply.body.count(COMMENT) > 2
    out = read(reply.body.replace(COMMENT, b""))
    (call,) = out.calls
    assert (out.content, call["name"], out.finish) == ("So. ", "write_file", ["tool_calls"])
    assert json.loads(call["arguments"]) == arguments
