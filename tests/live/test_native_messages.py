"""Hosts that speak Anthropic's Messages API, and leak: through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from tests.bridge.messages_streams import K2, REQUEST, document, pieces, read, stream
from tests.live.chat import FAULTS, Chat
from tests.live.mitmdump import ADDON, Mitmdump

PATH = "/anthropic/v1/messages?beta=true"
VERSION = (("anthropic-version", "2023-06-01"),)
LEAKING = stream([("text", ["I look.\n", *K2.partition(" -la")])])
CLEAN = stream([("thinking", ["Hm."]), ("text", pieces("All is <well>."))])


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    mode = f"reverse:{plain_upstream.url}"
    return Chat(plain_upstream, mitmdump("--mode", mode, scripts=(ADDON, FAULTS)))


def test_a_leaked_call_becomes_a_block(chat: Chat) -> None:
    for options in ("", ";cut=bytes:37;framing=close", ";cut=event;encoding=gzip"):
        reply = chat.ask(LEAKING, options, path=PATH, request=REQUEST, headers=VERSION)
        assert reply.complete
        got = read(reply.body)
        assert got.gist == 'I look. [bash {"command": "ls -la"}]'
        assert got.stop_reason == "tool_use"
    chat.proxy.wait_for_log("✓ 1 call bash · repair · kimi-k2.5")


def test_a_message_that_comes_whole_is_repaired(chat: Chat) -> None:
    message = document([("text", [f"I look.\n{K2}"])])
    asked = {**REQUEST, "stream": False}
    sent = Reply(json.dumps(message).encode(), "application/json")
    got = json.loads(chat.ask(sent, path=PATH, request=asked, headers=VERSION).body)
    assert [block["type"] for block in got["content"]] == ["text", "tool_use"]
    assert got["content"][1]["input"] == {"command": "ls -la"}
    assert got == message | {"content": got["content"], "stop_reason": "tool_use"}


def test_a_call_leaves_while_its_stream_runs(chat: Chat) -> None:
    hold = 1 + next(n for n, part in enumerate(LEAKING.split(b"\n\n")) if b'": \\"ls"' in part)
    reply = chat.ask(
        LEAKING,
        f";cut=event;hold={hold}",
        path=PATH,
        request=REQUEST,
        headers=VERSION,
        release_when=lambda body: b'"input_json_delta"' in body,
    )
    assert b'"tool_use"' in reply.body


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/v1/messages", (), LEAKING),
        ("/v1/messages/count_tokens", VERSION, LEAKING),
        (PATH, VERSION, CLEAN),
    ],
    ids=["without a version", "counting", "clean"],
)
def test_all_else_passes_as_it_came(
    chat: Chat, path: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    chat.upstream.replies[f"passes{path.partition('?')[0]}"] = Reply(body)
    assert chat.ask("passes", path=path, request=REQUEST, headers=headers).body == body


def test_a_stream_that_breaks_off_within_a_call_breaks_off(chat: Chat) -> None:
    end = LEAKING.index(b" -la")
    at = LEAKING.index(b"\n\n", end) + 2
    for options in (f";cut=event;abort={at}", ";cut=event"):
        sent = LEAKING if "abort" in options else LEAKING[:at]
        reply = chat.ask(sent, options, path=PATH, request=REQUEST, headers=VERSION)
        assert not reply.complete
        assert b"message_delta" not in reply.body
        got = read(reply.body, broken=True)
        assert reply.body.count(b"event: content_block_stop") == 1
        assert [block["type"] for block in got.blocks] == ["text", "tool_use"]
