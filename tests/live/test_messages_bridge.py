"""A client of Anthropic's Messages API at a host that speaks only Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.bridge.messages_streams import K2, REQUEST, document, pieces, read, stream
from tests.live import wire
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.live.responses import Bridge
from tests.live.test_unusual_flows import REPLAYER
from tests.live.unknown_host import NO_MODEL, Host
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

VERSION = ("anthropic-version", "2023-06-01")
KEY = ("x-api-key", "sk-test")
PATH = "/v1/messages?beta=true"
COUNT = "/v1/messages/count_tokens?beta=true"
LEAKING = ["I look.\n", *pieces(K2)]
NATIVE = Reply(stream([("text", ["Well."])]))


def said(*contents: str, finish: str = "stop") -> Reply:
    return Reply(sse([*(chunk({"content": text}) for text in contents), chunk({}, finish)]))


def ask(host: Host, path: str = PATH, method: str = "POST", **fields: Any) -> wire.Reply:
    body = REQUEST | fields if method == "POST" else b""
    return host.ask(body, VERSION, KEY, path=path, method=method)


def gist(reply: wire.Reply) -> str:
    assert reply.complete
    assert reply.status == 200
    return read(reply.body).gist


@pytest.fixture
def known(host: Host) -> Host:
    """One that was found to be chat-only."""
    host.says(chat=said("Well."))
    assert gist(ask(host)) == "Well."
    return host


FOUND_OUT = ["request", "chat"]
"""What arrives while it is."""

# Which hosts are bridged


def test_a_host_without_the_api_is_bridged(host: Host) -> None:
    host.says(chat=said(*LEAKING))
    for _ in range(2):
        assert gist(ask(host)) == 'I look. [bash {"command": "ls -la"}]'
    assert host.arrived == ["request", "chat", "chat"]
    host.proxy.wait_for_log("✓ 1 call bash · bridge · kimi-k2.5")
    host.proxy.wait_for_log("its host was found to have no Messages API")


def test_a_host_with_the_api_is_not_and_stays_so(host: Host) -> None:
    host.says(NATIVE)
    assert gist(ask(host)) == "Well."
    host.says()
    assert ask(host).status == 404
    assert host.arrived == ["request", "request"]


def test_a_model_that_a_host_does_not_have_says_nothing_of_the_api(host: Host) -> None:
    host.says(NO_MODEL)
    assert ask(host).status == 404
    assert host.arrived == ["request"]


def test_what_a_host_lacks_for_one_api_says_nothing_of_the_other(known: Host) -> None:
    known.says(Reply(b'{"id":"resp_1","object":"response","output":[]}', "application/json"))
    known.ask()
    assert known.arrived[-1] == "request"


def test_a_filter_bridges_a_host_that_has_the_api(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    option = "dragoman_bridge=~d 127.0.0.1"
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", option)
    got = Bridge(plain_upstream, proxy).ask(said(*LEAKING), REQUEST, VERSION, path=PATH)
    assert read(got.reply.body).gist == 'I look. [bash {"command": "ls -la"}]'
    assert got.chat["messages"][-1] == {"role": "user", "content": "List the files."}


# What leaves


def test_nothing_of_anthropics_api_leaves(known: Host) -> None:
    more = ("anthropic-beta", "claude-code-20250219"), ("x-stainless-os", "Linux"), ("x-app", "cli")
    known.ask(REQUEST | {"metadata": {"user_id": "me"}}, VERSION, KEY, *more, path=PATH)
    sent = known.sent[-1]
    assert sent.path.endswith("/v1/chat/completions")
    assert sent.header("authorization") == "Bearer sk-test"
    names = {name for name, _ in sent.headers}
    assert not [name for name in names if name.startswith(("anthropic", "x-"))]
    assert b"user_id" not in sent.body


def test_a_key_in_its_place_stays_there(known: Host) -> None:
    known.ask(REQUEST, VERSION, ("authorization", "Bearer sk-own"), KEY, path=PATH)
    sent = known.sent[-1]
    assert (sent.header("authorization"), sent.header("x-api-key")) == ("Bearer sk-own", None)


# What comes


def test_a_whole_message(known: Host) -> None:
    known.says(chat=said("I look.\n", K2))
    reply = ask(known, stream=False)
    assert reply.header("content-type") == "application/json"
    message = json.loads(reply.body)
    wanted = document([("text", ["I look.\n"]), ("tool_use", ("bash", ['{"command":"ls -la"}']))])
    assert [block | {"id": ""} for block in message["content"]] == [
        block | {"id": ""} for block in wanted["content"]
    ]
    assert (message["stop_reason"], message["model"]) == ("tool_use", "kimi-k2.5")


def test_a_call_leaves_while_its_stream_runs(bridge: Bridge) -> None:
    function = {"name": "bash", "arguments": '{"command": '}
    calls = [{"index": 0, "id": "c1", "function": function}]
    rest = [{"index": 0, "function": {"arguments": '"ls"}'}}]
    body = [chunk({"tool_calls": calls}), chunk({"tool_calls": rest}), chunk({}, "tool_calls")]
    got = bridge.ask(
        Reply(sse(body)),
        REQUEST,
        VERSION,
        path=PATH,
        options=";cut=event;hold=1",
        release_when=lambda body: b'"input_json_delta"' in body,
    )
    assert read(got.reply.body).gist == '[bash {"command": "ls"}]'


def test_what_breaks_off_breaks_off(bridge: Bridge) -> None:
    body = said("I look.", "It is").body
    place = body.index(b"It is")
    got = bridge.ask(Reply(body), REQUEST, VERSION, path=PATH, options=f";cut=event;abort={place}")
    assert not got.reply.complete
    assert read(got.reply.body, broken=True).stop_reason is None


ERRORS: dict[str, tuple[int, str, int, str, str]] = {
    "a limit": (429, "Slow down.", 429, "rate_limit_error", "Slow down."),
    "invalid": (422, "No such field.", 400, "invalid_request_error", "No such field."),
    "overloaded": (503, "The engine is overloaded", 529, "overloaded_error", "The engine is"),
    "a page": (502, "", 502, "api_error", "HTTP 502"),
    "an overflow": (
        *(400, "Your request exceeded model token limit: 262144 (requested: 291810)"),
        *(400, "invalid_request_error", "prompt is too long: 291810 tokens > 262144 maximum"),
    ),
}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("case", ERRORS)
def test_errors_have_anthropics_shape(known: Host, case: str, *, streams: bool) -> None:
    status, words, wanted, kind, message = ERRORS[case]
    body = json.dumps({"error": {"message": words}}).encode() if words else b"<html></html>"
    wait = (("retry-after", "7"),)
    known.says(chat=Reply(body, "application/json", status, wait))
    reply = ask(known, stream=streams)
    assert (reply.status, reply.header("content-type")) == (wanted, "application/json")
    value = json.loads(reply.body)
    assert (value["type"], value["error"]["type"]) == ("error", kind)
    assert value["error"]["message"].startswith(message) or case == "a page"
    assert value["request_id"].startswith("req_")
    assert reply.header("retry-after") == ("7")


def test_a_request_that_cannot_be_read_is_refused_in_anthropics_shape(known: Host) -> None:
    for body in (b"{", b"[]", b'{"model": "m", "messages": 3}'):
        reply = known.ask(body, VERSION, KEY, path=PATH)
        assert reply.status == 400
        assert json.loads(reply.body)["error"]["type"] == "invalid_request_error"
    assert known.arrived == FOUND_OUT


# What chat hosts do not have


def test_tokens_are_counted_here(known: Host) -> None:
    counts = [json.loads(ask(known, COUNT, tools=[]).body) for _ in range(2)]
    more = json.loads(ask(known, COUNT).body)
    assert counts[0] == counts[1]
    assert more.keys() == {"input_tokens"}
    assert 0 < counts[0]["input_tokens"] < more["input_tokens"]
    assert known.arrived == FOUND_OUT


def test_a_host_that_does_not_count_tokens_is_helped_out(host: Host) -> None:
    assert json.loads(ask(host, COUNT).body)["input_tokens"] > 0
    host.says(NO_MODEL)
    assert ask(host, COUNT).status == 404
    assert host.arrived == ["request", "request"]


MODELS = {
    "object": "list",
    "data": [
        {"id": "kimi-k2.5", "object": "model", "created": 1_700_000_000, "owned_by": "moonshot"},
        {"id": "glm-5", "object": "model"},
    ],
}


def test_the_list_of_models_has_anthropics_form(known: Host) -> None:
    known.says(Reply(json.dumps(MODELS).encode(), "application/json"))
    got = json.loads(ask(known, "/v1/models?limit=1000", "GET").body)
    assert [model["id"] for model in got["data"]] == ["kimi-k2.5", "glm-5"]
    assert got["data"][0] == {
        **{"type": "model", "id": "kimi-k2.5", "display_name": "kimi-k2.5"},
        "created_at": "2023-11-14T22:13:20Z",
    }
    assert (got["has_more"], got["first_id"], got["last_id"]) == (False, "kimi-k2.5", "glm-5")
    sent = known.sent[-1]
    assert (sent.path.rpartition("/")[2], sent.header("authorization")) == (
        *("models", "Bearer sk-test"),
    )


def test_an_error_in_place_of_the_list_has_anthropics_shape(known: Host) -> None:
    known.says(Reply(b'{"error":"No such key."}', "application/json", 401))
    reply = ask(known, "/v1/models", "GET")
    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (401, "authentication_error")


def test_a_list_in_anthropics_form_passes_and_a_chat_clients_too(host: Host) -> None:
    own = b'{ "data": [{"type": "model", "id": "m"}], "has_more": false }'
    host.says(Reply(own, "application/json"))
    assert ask(host, "/v1/models", "GET").body == own
    chat = json.dumps(MODELS).encode()
    host.says(Reply(chat, "application/json"))
    assert host.ask(b"", KEY, path="/v1/models", method="GET").body == chat


# While it runs, and afterwards


def test_a_client_that_waits_is_sent_pings(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    options = "--set", "dragoman_bridge=~all", "--set", "dragoman_heartbeat=0.15"
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", *options)
    body = said("I look.", "Well.").body
    for place in (0, body.index(b"\n\n") + 2):
        got = Bridge(plain_upstream, proxy).ask(
            Reply(body),
            REQUEST,
            VERSION,
            path=PATH,
            options=f";cut=at:{place};hold=1",
            release_when=lambda come: come.count(b"event: ping") >= 2,
        )
        reply = read(got.reply.body)
        assert reply.gist == "I look.Well."
        assert reply.others.count("ping") >= 2
        assert got.reply.body.startswith(b"event: message_start")


def test_a_person_replays_a_bridged_message(plain_upstream: Upstream, tmp_path: Path) -> None:
    make_confdir(tmp_path)
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    with Mitmdump(tmp_path, *arguments, scripts=(ADDON, REPLAYER)) as proxy:
        bridge = Bridge(plain_upstream, proxy)
        got = bridge.ask(said(*LEAKING), REQUEST, VERSION, path=PATH)

        def shown(path: str, body: bytes = b"") -> Any:
            return json.loads(wire.exchange(f"{proxy.url}{path}", body).body)

        eventually(lambda: "✓" in shown("/replayer")["comment"])
        shown("/replay")
        eventually(lambda: "✓" in shown("/replayer")["comment"])
        replayed = shown("/replayer")
        assert replayed["path"].endswith("/chat/completions")
        assert read(replayed["received"].encode()).gist == read(got.reply.body).gist
        assert "✓ 1 call bash · bridge" in replayed["comment"]
