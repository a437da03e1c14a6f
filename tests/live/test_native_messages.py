"""Hosts that speak Anthropic's Messages API, and leak: through a real mitmdump."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.wire.context_overflow import reworded_body
from fixtures.server import Reply, Upstream
from tests.bridge.messages_streams import K2, REQUEST, document, pieces, read, stream
from tests.live import wire
from tests.live.chat import FAULTS, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.wire.overflows import KNOWN, OVERFLOWS

PATH = "/anthropic/v1/messages?beta=true"
VERSION = (("anthropic-version", "2023-06-01"),)
LEAKING = stream([("text", ["I look.\n", *K2.partition(" -la")])])
CLEAN = stream([("thinking", ["Hm."]), ("text", pieces("All is <well>."))])


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    mode = f"reverse:{plain_upstream.url}"
    return Chat(plain_upstream, mitmdump("--mode", mode, scripts=(ADDON, FAULTS)))


def test_a_leaked_call_becomes_a_block(chat: Chat) -> None:
    for options in ("", ";cut=bytes:37;framing=close"):
        reply = chat.ask(LEAKING, options, path=PATH, request=REQUEST, headers=VERSION)
        assert reply.complete
        got = read(reply.body)
        assert got.gist == 'I look. [bash {"command": "ls -la"}]'
        assert got.stop_reason == "tool_use"
    chat.proxy.wait_for_log("✓ 1 call bash · repair · kimi-k2.5")


def test_a_request_that_names_no_version_asks_for_a_message_all_the_same(chat: Chat) -> None:
    reply = chat.ask(LEAKING, path="/v1/messages", request=REQUEST)
    assert read(reply.body).stop_reason == "tool_use"


def test_a_message_that_comes_whole_is_repaired(chat: Chat) -> None:
    message = document([("text", [f"I look.\n{K2}"])])
    asked = {**REQUEST, "stream": False}
    sent = Reply(json.dumps(message).encode(), "application/json")
    got = json.loads(chat.ask(sent, path=PATH, request=asked, headers=VERSION).body)
    assert [block["type"] for block in got["content"]] == ["text", "tool_use"]
    assert got["content"][1]["input"] == {"command": "ls -la"}
    assert got == message | {"content": got["content"], "stop_reason": "tool_use"}


def test_a_whole_call_leaves_while_its_stream_runs(chat: Chat) -> None:
    events = LEAKING.split(b"\n\n")
    hold = 1 + next(n for n, part in enumerate(events) if b"tool_call_end" in part)
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
        ("/v1/messages/count_tokens", VERSION, LEAKING),
        (PATH, VERSION, CLEAN),
    ],
    ids=["counting", "clean"],
)
def test_all_else_passes_as_it_came(
    chat: Chat, path: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    chat.upstream.replies[f"passes{path.partition('?')[0]}"] = Reply(body)
    assert chat.ask("passes", path=path, request=REQUEST, headers=headers).body == body


def test_a_stream_that_breaks_off_within_a_call_breaks_off_before_it(chat: Chat) -> None:
    end = LEAKING.index(b" -la")
    at = LEAKING.index(b"\n\n", end) + 2
    for options in (f";cut=event;abort={at}", ";cut=event"):
        sent = LEAKING if "abort" in options else LEAKING[:at]
        reply = chat.ask(sent, options, path=PATH, request=REQUEST, headers=VERSION)
        assert not reply.complete
        assert b"message_delta" not in reply.body
        got = read(reply.body, broken=True)
        assert b"event: content_block_stop" not in reply.body
        assert got.gist == "I look."


@pytest.mark.parametrize(
    ("where", "passes"),
    [
        ("messages.repair:MessagesRepair.feed 4", True),
        ("messages.writer:MessagesWriter._call 1", True),
        ("messages.writer:MessagesWriter._finish 1", False),
    ],
)
def test_after_a_fault_the_stream_passes_or_if_it_has_changed_breaks_off(
    chat: Chat, where: str, passes: bool
) -> None:
    chat.proxy.expected_tracebacks = 1
    headers = (*VERSION, ("x-fault", f"dragoman.{where}"))
    reply = chat.ask(LEAKING, ";cut=event", path=PATH, request=REQUEST, headers=headers)
    chat.proxy.wait_for_log("fault fired")
    assert (reply.complete, reply.body == LEAKING) == (passes, passes)


def test_thoughts_that_a_client_leaves_out_are_put_back(chat: Chat) -> None:
    """Vercel's AI SDK drops thoughts without a signature."""
    thinking = {"thinking": {"type": "adaptive"}}
    asked = REQUEST | thinking | {"tools": [], "model": "kimi-k2.7"}
    call = {"type": "tool_use", "id": "toolu_host1", "name": "bash", "input": {"command": "ls -la"}}
    first = stream([("thinking", ["Let me ", "see."]), ("text", [K2])], model="kimi-k2.7")
    chat.upstream.replies["cured/v1/messages"] = Reply(first)
    reply = chat.ask("cured", path="/v1/messages", request=asked, headers=VERSION)
    assert read(reply.body).stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": "toolu_host1", "content": "a.txt"}
    said = [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "system", "content": "Be brief."},
    ]
    request = asked | {"messages": [*REQUEST["messages"], *said]}
    chat.ask("cured", path="/v1/messages", request=request, headers=VERSION)
    sent = json.loads(chat.upstream.requests[-1].body)
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": ""}
    assert sent["messages"][1] == {"role": "assistant", "content": [thought, call]}
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["thinking"] == {"type": "enabled"}
    chat.proxy.wait_for_log("cured: put back remembered reasoning")


BILLING = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.153; cch=9f3e2;"}


def test_a_request_leaves_as_a_host_of_open_models_reads_it(chat: Chat) -> None:
    """And the reply has the client's names of tools."""
    texts = {"type": "document", "title": "A", "source": {"type": "text", "data": "One."}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}
    rules = {"type": "text", "text": "Be brief."}
    question = {"role": "user", "content": [texts, pdf]}
    schema = {
        "type": "object",
        "properties": {"path": {"type": ["string", "null"]}},
        "required": [],
    }
    asked = REQUEST | {
        "system": [BILLING, rules],
        "messages": [question],
        "tools": [{"name": "ls", "input_schema": schema | {"not": {"required": ["x"]}}}],
    }
    chat.upstream.replies["named/v1/messages"] = lambda request: Reply(
        stream([("tool_use", (request.json["tools"][0]["name"], ['{"path": null}']))], "tool_use")
    )
    reply = chat.ask("named", path="/v1/messages", request=asked, headers=VERSION)
    assert read(reply.body).gist == '[ls {"path": null}]'
    sent = chat.upstream.requests[-1].json
    assert sent["system"] == [rules]
    (tool,) = sent["tools"]
    assert tool["name"] != "ls" and tool["input_schema"] == schema
    first, second = (block["text"] for block in sent["messages"][0]["content"])
    assert first == '<document title="A">\nOne.\n</document>'
    assert "this host takes no PDF" in second
    assert {name: sent[name] for name in sent if name not in ("system", "messages", "tools")} == {
        name: asked[name] for name in asked if name not in ("system", "messages", "tools")
    }
    chat.proxy.wait_for_log("cured: left out the billing header")


@pytest.mark.parametrize("model", ["kimi-k2.5", "glm-5.2", "claude-sonnet-5", "some-model"])
def test_a_request_of_which_nothing_is_refused_leaves_byte_for_byte(chat: Chat, model: str) -> None:
    body = b'{"stream" :true,\n"messages":[ {"role":"user", "content":"\\u00e9"}],"max_tokens":1e2,'
    body += b'"system":[{"text":"Be brief.", "type":"text"}] ,"model":"%s"}' % model.encode()
    chat.upstream.replies["passes/v1/messages"] = Reply(CLEAN)
    wire.exchange(f"{chat.proxy.url}/passes/v1/messages", body, headers=VERSION)
    assert chat.upstream.requests[-1].body == body


@pytest.mark.parametrize("host", OVERFLOWS)
def test_an_overflow_has_the_words_that_clients_know(chat: Chat, host: str) -> None:
    """In an error, whole or encoded, and in an event of a stream; all else stays."""
    status, error = OVERFLOWS[host]
    body = json.dumps(error).encode()
    more = (("request-id", "req_1"), ("retry-after", "7"))
    wanted = reworded_body(body, status)
    assert (wanted == body) == (host in KNOWN)
    for options in ("", ";cut=bytes:7;framing=close", *[";encoding=gzip"] * (wanted != body)):
        said = Reply(body, "application/json; charset=utf-8", status, more)
        reply = chat.ask(said, options, path=PATH, request=REQUEST, headers=VERSION)
        assert (reply.status, reply.body) == (status, wanted)
        headers = {name.lower(): value for name, value in reply.headers}
        assert headers["content-type"] == "application/json; charset=utf-8"
        assert (headers["request-id"], headers["retry-after"]) == ("req_1", "7")
    if status != 413:
        begun = CLEAN.partition(b"event: content_block_stop")[0]
        failed = b"%bevent: error\ndata: %b\n\n" % (begun, body)
        got = chat.ask(failed, ";cut=event", path=PATH, request=REQUEST, headers=VERSION).body
        assert got.startswith(begun)
        assert json.loads(got[len(begun) :].partition(b"data: ")[2]) == json.loads(wanted)


def test_a_client_that_waits_is_sent_pings(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    mode = f"reverse:{plain_upstream.url}"
    chat = Chat(plain_upstream, mitmdump("--mode", mode, "--set", "dragoman_heartbeat=0.1"))
    reply = chat.ask(
        LEAKING,
        ";cut=event;hold=3",
        path=PATH,
        request=REQUEST,
        headers=VERSION,
        release_when=lambda body: body.count(b"event: ping\n") > 1,
    )
    got = read(reply.body)
    assert got.stop_reason == "tool_use" and set(got.others) == {"ping"}


def test_a_host_that_is_not_there_is_an_error_of_this_api(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", "reverse:http://127.0.0.1:1")
    reply = Chat(plain_upstream, proxy).ask("none", path=PATH, request=REQUEST, headers=VERSION)
    error = json.loads(reply.body)
    assert (reply.status, error["type"], error["error"]["type"]) == (502, "error", "api_error")
