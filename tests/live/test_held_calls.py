"""A call that is held until it is whole, through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from tests.live.chat import REQUEST as CHAT_REQUEST
from tests.live.chat import Chat
from tests.live.clients import Clients
from tests.live.mitmdump import Mitmdump
from tests.repair.formats.test_tagged_call import REQUEST, WRITERS, text_of
from tests.repair.streams import chunk, read, sse

COMMENT = b": waiting for the upstream\n\n"
K2 = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"


@pytest.mark.parametrize("name", ["kimi_k2", *WRITERS])
def test_a_long_value_is_held_with_heartbeats_and_leaves_whole(
    name: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    mode = f"reverse:{plain_upstream.url}"
    proxy = mitmdump("--mode", mode, "--set", "dragoman_heartbeat=0.15")
    arguments = {"path": "a.html", "content": "<p>a line of it</p>\n" * 25_000}
    if name == "kimi_k2":
        text = f"{K2.replace('bash', 'write_file')}{json.dumps(arguments)}<|tool_call_end|>"
    else:
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


HALF = ["So. ", K2, '{"command": "rm -rf /t', "mp/x", '/y"']


@pytest.mark.parametrize("end", ["limit", "reset", "eof"])
def test_langchain_runs_no_half_call(
    end: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> None:
    name = f"half_call_{end}"
    said = [chunk({"content": piece}, model="kimi-k2.5") for piece in HALF]
    body = sse([*said, chunk({}, "length")] if end == "limit" else said)
    fault = "" if end == "limit" else f";abort={len(sse(said, done=False))};fault={end}"
    plain_upstream.replies[name] = Reply(body)
    client = clients.get("langchain_client.py", mitmdump().client_environment())
    request = {"prompt": "Do it.", "name": "kimi-k2.5", "max_turns": 3}
    url = f"{plain_upstream.url}/{name}{fault}/v1"
    if end == "limit":  # it is text
        assert client.ask("chat.stream", url, request) == {"text": "".join(HALF)}
    else:
        with pytest.raises(pytest.fail.Exception):
            client.ask("chat.stream", url, request)
    assert len(plain_upstream.requests_of(name)) == 1, "it ran nothing"


@pytest.mark.parametrize("fault", ["reset", "eof"])
def test_a_break_within_a_call_leaves_no_text_of_it_to_be_joined(
    fault: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}")
    said = sse([chunk({"content": piece}, model="kimi-k2.5") for piece in HALF], done=False)
    reply = Chat(plain_upstream, proxy).ask(said, f";abort={len(said)};fault={fault}")
    out = read(reply.body)
    assert (out.content, out.calls, out.finish) == ("So. ", [], [])
    assert b"rm -rf" not in reply.body


@pytest.mark.parametrize("fault", ["reset", "eof"])
def test_a_client_that_joins_a_retry_with_what_came_before_has_one_whole_call(
    fault: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    """As Continue and kimi-cli do: they ask the same again; Continue goes on with the message that
    it has, and kimi-cli shows both."""
    chat = Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))
    texts = [*HALF, "}", "<|tool_call_end|>"]
    whole = sse([chunk({"content": piece}, model="kimi-k2.5") for piece in texts])
    half = len(sse([chunk({"content": piece}, model="kimi-k2.5") for piece in HALF], done=False))
    broken = chat.ask(whole, f";abort={half};fault={fault}")
    joined = read(broken.body + chat.ask(whole).body)
    assert joined.content == "So. So. "
    assert [call["arguments"] for call in joined.calls] == ['{"command": "rm -rf /tmp/x/y"}']
    assert joined.finish == ["tool_calls"]


@pytest.mark.parametrize("fault", ["reset", "eof"])
def test_a_client_that_sends_on_what_it_had_asks_again_without_a_half_call(
    fault: str, plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    """As qwen-code asks again after a break: with what has come as a message, and a user's line."""
    chat = Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))
    texts = [chunk({"content": piece}, model="kimi-k2.5") for piece in HALF]
    said = sse(texts, done=False)
    had = read(chat.ask(said, f";abort={len(said)};fault={fault}").body)
    messages = [
        *({"role": "user", "content": "Do it."}, {"role": "assistant", "content": had.content}),
        {"role": "user", "content": "Please continue."},
    ]
    whole = [*HALF[1:-1], 'y"}', "<|tool_call_end|>"]
    rest = sse([*(chunk({"content": piece}, model="kimi-k2.5") for piece in whole)])
    plain_upstream.replies["again"] = Reply(rest)
    out = read(chat.ask("again", request={**CHAT_REQUEST, "messages": messages}).body)
    *_, sent = plain_upstream.requests_of("again")
    assert sent.json["messages"] == messages
    assert "<|" not in had.content and b"rm -rf" not in sent.body
    assert [call["arguments"] for call in out.calls] == ['{"command": "rm -rf /tmp/xy"}']
