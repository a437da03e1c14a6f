"""An upstream that is not known gets the client's own request.  A 404 that names nothing of it has
that request bridged before its client sees anything, and all later ones of that client; nobody's
request decides for another's."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fixtures.server import Reply
from tests.live.chat import CONTROLS
from tests.live.clients import Clients
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import REQUEST
from tests.live.test_repair_options import comments_in
from tests.live.unknown_host import (
    INVALID,
    KEY,
    NATIVE,
    NO_ADDRESS,
    NO_MODEL,
    OTHER_KEY,
    STREAM,
    Host,
    UnknownHosts,
    status_of,
)

GetMitmdump = Callable[..., Mitmdump]
REROUTE = ROOT / "tests" / "live" / "reroute.py"
ANSWERS = ROOT / "tests" / "live" / "answers.py"
FEW_ADDRESSES = ROOT / "tests" / "live" / "few_addresses.py"
BODY = json.dumps(REQUEST).encode()
GZIPPED = gzip.compress(BODY)


# What a reply says

MISSING = [
    NO_ADDRESS,
    Reply(b"", "text/plain", 405),
    Reply(b"<h1>404</h1><a>our models</a>", "text/html", 404),
    Reply(b"404 page not found", "text/plain", 404),
    Reply(gzip.compress(b'{"detail":"Not Found"}'), "application/json", 404),
    Reply(b"x" * 300_000, "text/plain", 404),
]


@pytest.mark.parametrize("answer", MISSING)
def test_a_404_has_the_request_that_got_it_bridged_and_all_after_it(
    host: Host, answer: Reply
) -> None:
    host.says(answer)
    replies = [host.ask(REQUEST, KEY) for _ in range(3)]
    assert [status_of(reply) for reply in replies] == [200, 200, 200]
    assert all(b"event: response.completed\n" in reply.body for reply in replies)
    assert host.arrived == ["request", "chat", "chat", "chat"]
    assert host.sent[0].body == BODY


OTHERS = [
    *(Reply(b"{}", "application/json", status) for status in (301, 400, 401, 402, 403, 429)),
    *(Reply(b"{}", "application/json", status) for status in (422, 500, 503)),
    Reply(b"<h1>Welcome</h1>", "text/html", 200),
    Reply(b'{"message":"Welcome"}', "application/json", 200),
    Reply(b'{"error":{"message":"overloaded"}}', "application/json", 200),
    NO_MODEL,
    Reply(b"unknown model: None", "text/plain", 404),
    Reply(b'{"detail":"Deployment not found"}', "application/json", 404),
    Reply(b'{"error":{"message":"no","param":"model"}}', "application/json", 404),
]


@pytest.mark.parametrize("answer", OTHERS)
def test_any_other_answer_is_the_clients_and_says_nothing(host: Host, answer: Reply) -> None:
    host.says(answer)
    body = json.dumps(REQUEST, indent=1).encode()
    for _ in range(2):
        got = host.ask(body)
        assert (status_of(got), got.body) == (answer.status, answer.body)
    assert [request.body for request in host.sent] == [body] * 2
    assert status_of(host.says(NO_ADDRESS).ask()) == 200


@pytest.mark.parametrize("reply", [NATIVE, STREAM])
def test_who_has_answered_once_is_not_bridged(host: Host, reply: Reply) -> None:
    host.says(reply).ask()
    host.says(NO_ADDRESS)
    assert [status_of(host.ask()) for _ in range(2)] == [404, 404]
    assert host.arrived == ["request"] * 3


def test_a_chat_host_that_does_not_know_a_model_is_still_one(host: Host) -> None:
    host.says(NO_ADDRESS, chat=NO_MODEL)
    assert [status_of(host.ask()) for _ in range(2)] == [404, 404]
    assert host.arrived == ["request", "chat", "chat"]


def test_a_host_whose_chat_path_is_not_there_either_is_unknown_again(host: Host) -> None:
    host.says(NO_ADDRESS, chat=NO_ADDRESS)
    assert [status_of(host.ask(REQUEST, KEY)) for _ in range(2)] == [404, 404]
    assert host.arrived == ["request", "chat"] * 2


def test_after_a_day_it_is_found_out_anew(unknown: UnknownHosts, mitmdump: GetMitmdump) -> None:
    arguments = "--mode", f"reverse:{unknown.url}", "--set"
    short = "test_constants=proxy.chat_only_hosts.LEARNED_FOR=-1"
    proxy = mitmdump(*arguments, short, scripts=(ADDON, CONTROLS))
    host = Host(unknown, proxy, proxy.url).says(NO_ADDRESS)
    assert [status_of(host.ask()) for _ in range(2)] == [200, 200]
    assert host.arrived == ["request", "chat"] * 2


def test_a_slow_404_counts_as_well(host: Host) -> None:
    host.says(NO_ADDRESS, delay=7)
    assert status_of(host.ask()) == 200
    assert host.arrived == ["request", "chat"]


# Whose it is


def test_what_one_key_was_refused_says_nothing_of_another(host: Host) -> None:
    """A host may answer 404 to a key that it does not know."""
    host.says(NO_ADDRESS).ask(REQUEST, KEY)
    host.says(NATIVE)
    assert status_of(host.ask(REQUEST, OTHER_KEY)) == 200
    assert status_of(host.ask(REQUEST)) == 200
    assert status_of(host.ask(REQUEST, KEY)) == 200
    assert host.arrived == ["request", "chat", "request", "request", "chat"]


def test_what_one_key_was_answered_says_nothing_of_another(host: Host) -> None:
    host.says(NATIVE).ask(REQUEST, KEY)
    host.says(NO_ADDRESS)
    assert [status_of(host.ask(REQUEST, key)) for key in (KEY, OTHER_KEY)] == [404, 200]
    assert host.arrived == ["request", "request", "request", "chat"]


def test_forty_requests_at_once_are_all_bridged(host: Host) -> None:
    host.says(NO_ADDRESS, delay=0.3)
    with ThreadPoolExecutor(40) as threads:
        replies = list(threads.map(lambda _: host.ask(), range(40)))
    assert [status_of(reply) for reply in replies] == [200] * 40
    assert host.arrived.count("chat") == 40


def test_addresses_that_are_not_there_push_out_nothing(
    unknown: UnknownHosts, mitmdump: GetMitmdump
) -> None:
    """More of them than are remembered."""
    arguments = "--mode", f"reverse:{unknown.url}", "--set", "dragoman_store=off"
    proxy = mitmdump(*arguments, scripts=(ADDON, FEW_ADDRESSES))
    host = Host(unknown, proxy, proxy.url)
    host.says(NO_ADDRESS).ask()
    other = Host(host.upstream, host.proxy, host.base).says(NO_ADDRESS, chat=NO_ADDRESS)
    for number in range(20):
        other.ask(path=f"/{number}/responses")
    host.ask()
    assert host.arrived == ["request", "chat", "chat"]
    there = Host(unknown, proxy, proxy.url).says(NO_ADDRESS)
    for number in range(20):
        there.ask(path=f"/{number}/responses")
    host.ask()
    assert host.arrived == ["request", "chat", "chat", "request", "chat"], "those that are do"


# Which requests

ELSE = [
    *(("POST", "/v1/responses", body) for body in (b"", b"not JSON", b'["model", "input"]')),
    *(("POST", "/v1/responses", body) for body in (b'{"input": "x"}', b'{"model": "x"}', b"[]")),
    ("POST", "/v1/responses", b'{"form": {"model": "x", "input": "y"}}'),
    ("GET", "/v1/responses/resp_1", b""),
    ("DELETE", "/v1/responses/resp_1", b""),
    ("GET", "/v1/responses/resp_1/input_items", b""),
    ("POST", "/v1/responses/resp_1/cancel", b""),
    ("POST", "/v1/responses/resp_1/submit_tool_outputs", b'{"tool_outputs": []}'),
    ("GET", "/v1/responses", b""),
    ("POST", "/v1/other", BODY),
]


def test_what_asks_for_no_response_gets_its_404_and_teaches_nothing(host: Host) -> None:
    for number, (method, path, body) in enumerate(ELSE):
        reply = host.says(NO_ADDRESS).ask(body, path=path, method=method)
        assert (reply.status, reply.body) == (404, NO_ADDRESS.body)
        assert host.arrived == ["request"] * (number + 1), (method, path, body)
    assert [(sent.method, sent.body) for sent in host.sent] == [(m, b) for m, _, b in ELSE]
    assert status_of(host.says(NATIVE).ask()) == 200
    assert host.arrived[-1] == "request"


@pytest.mark.parametrize("answer", [NO_ADDRESS, INVALID])
def test_an_empty_request_learns_what_the_host_has(host: Host, answer: Reply) -> None:
    """So clients ask.  A chat-only host has the API, as it is bridged: it misses a field."""
    reply = host.says(answer).ask(b"{}", KEY)
    assert reply.status == 400
    error = json.loads(reply.body)["error"]
    if answer is NO_ADDRESS:
        assert (error["type"], error["param"]) == ("invalid_request_error", "model")
    else:
        assert reply.body == INVALID.body
    assert [request.body for request in host.sent] == [b"{}"]


def test_a_large_request_that_the_user_has_streamed_is_bridged_as_well(
    unknown: UnknownHosts, mitmdump: GetMitmdump
) -> None:
    arguments = "--mode", f"reverse:{unknown.url}", "--set", "stream_large_bodies=1k"
    proxy = mitmdump(*arguments)
    large = REQUEST | {"input": "x" * 100_000}
    for answer, arrived in [(NO_ADDRESS, ["request", "chat", "chat"]), (NATIVE, ["request"] * 2)]:
        host = Host(unknown, proxy, proxy.url).says(answer)
        assert [status_of(host.ask(large)) for _ in range(2)] == [200, 200]
        assert host.arrived == arrived


@pytest.mark.parametrize("how", ["answered", "killed"])
def test_what_another_addon_has_taken_is_not_bridged(
    unknown: UnknownHosts, mitmdump: GetMitmdump, how: str
) -> None:
    proxy = mitmdump("--mode", f"reverse:{unknown.url}", scripts=(ANSWERS, ADDON))
    host = Host(unknown, proxy, proxy.url).says(NO_ADDRESS)
    reply = host.ask(REQUEST, ("x-answers", how))
    assert reply.status == (418 if how == "answered" else 0)
    assert host.arrived == []


# What leaves


def test_nothing_leaves_that_the_client_did_not_send(unknown: UnknownHosts, tmp_path: Path) -> None:
    make_confdir(tmp_path / "conf")
    arguments = "--mode", f"reverse:{unknown.url}", "-w", str(tmp_path / "flows")
    with Mitmdump(tmp_path / "conf", *arguments) as proxy:
        host = Host(unknown, proxy, proxy.url).says(NO_ADDRESS)
        encoded = ("content-encoding", "gzip")
        path = "/v1/responses?key=private-query"
        host.ask(GZIPPED, KEY, ("x-mine", "kept"), encoded, path=path)
        log = proxy.wait_for_log(f"{host.name}/v1/chat/completions: .* · bridge")
        proxy.check_log()
    request, chat = host.sent
    assert (request.body, request.header("content-encoding")) == (GZIPPED, "gzip")
    assert chat.header("content-encoding") is None
    for sent in host.sent:
        assert sent.header("authorization") == KEY[1]
        assert sent.header("x-mine") == "kept"
        assert sent.path.endswith("?key=private-query")
    assert "[replay]" not in log
    own = [line for line in log.splitlines() if "chat/completions" in line]
    assert "private" not in "".join(own) and "sk-one" not in log
    (comment,) = comments_in(tmp_path / "flows")
    assert "bridge" in comment


STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.mark.parametrize("framing", ["close", "length"])
@STREAMED
def test_it_is_bridged_whatever_ends_the_404(host: Host, stream: bool, framing: str) -> None:
    body = REQUEST | {"stream": stream}
    for arrived in (["request", "chat"], ["chat"]):
        before = len(host.arrived)
        reply = host.says(NO_ADDRESS).ask(body, KEY, path=f";framing={framing}/v1/responses")
        assert status_of(reply) == 200
        assert (b"event: response.completed\n" if stream else b'"completed"') in reply.body
        assert host.arrived[before:] == arrived


def test_what_is_bridged_after_a_404_is_what_the_client_sent(host: Host) -> None:
    """Not what was cured for a host that would speak Responses."""
    call = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    body = gzip.compress(json.dumps(REQUEST | {"input": [call, output]}).encode())
    reply = host.says(NO_ADDRESS).ask(body, KEY, ("content-encoding", "gzip"))
    response_id = json.loads(reply.body.split(b"data: ")[-1])["response"]["id"]
    items = host.ask(b"", KEY, path=f"/v1/responses/{response_id}/input_items", method="GET")
    assert [item["call_id"] for item in json.loads(items.body)["data"]] == ["call_1", "call_1"]


# Ways to the upstream


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2.0"])
def test_it_is_bridged_over_every_kind_of_connection(
    unknown: UnknownHosts,
    unknown_tls: UnknownHosts,
    mitmdump: GetMitmdump,
    http2: bool,
    version: str,
) -> None:
    upstream = unknown if version == "HTTP/1.1" else unknown_tls
    settings = "--set", "test_upstream_http2=true"
    proxy = mitmdump("--mode", f"reverse:{upstream.url}", *settings, scripts=(ADDON, CONTROLS))
    base = proxy.url.replace("http:", "https:")
    host = Host(upstream, proxy, base, http2=http2).says(NO_ADDRESS)
    headers = (KEY, ("content-length", str(len(BODY)))) if http2 else (KEY,)
    for _ in range(2):
        reply = host.ask(BODY, *headers)
        assert status_of(reply) == 200 and b"event: response.completed\n" in reply.body
    assert host.arrived == ["request", "chat", "chat"]
    assert {request.http_version for request in host.sent} == {version}


@pytest.mark.parametrize("way", ["regular eager", "regular lazy", "upstream eager"])
def test_it_takes_the_way_of_the_clients_request(
    unknown_tls: UnknownHosts, mitmdump: GetMitmdump, way: str
) -> None:
    mode, strategy = way.split()
    arguments = ["--set", f"connection_strategy={strategy}"]
    behind = None
    if mode == "upstream":
        behind = mitmdump("--set", "dragoman_bridge=off", "--set", "dragoman_repair=off")
        arguments += ["--mode", f"upstream:{behind.url}"]
    host = Host(unknown_tls, mitmdump(*arguments), unknown_tls.url, True).says(NO_ADDRESS)
    assert status_of(host.ask()) == 200
    assert host.arrived == ["request", "chat"]
    if behind is not None:
        behind.wait_for_log("server connect")


@pytest.mark.parametrize("fault", ["reset", "close"])
def test_a_host_that_breaks_off_says_nothing(host: Host, fault: str) -> None:
    host.says(NATIVE, fault=fault)
    assert host.ask().status == 502
    assert status_of(host.says(NO_ADDRESS).ask()) == 200


def test_a_host_that_is_not_there_is_a_502(host: Host, mitmdump: GetMitmdump) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        proxy = mitmdump("--mode", f"reverse:http://127.0.0.1:{taken.getsockname()[1]}")
        reply = Host(host.upstream, proxy, proxy.url).ask()
    assert reply.status == 502


def test_a_client_that_leaves_has_nothing_sent_again(host: Host) -> None:
    host.says(NO_ADDRESS, delay=0.5)
    head = f"POST /{host.name}/v1/responses HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", host.proxy.port)) as leaving:
        leaving.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        while not host.arrived:
            pass
    assert status_of(host.ask()) == 200
    assert host.arrived in (["request", "request", "chat"], ["request", "chat"])


# Clients


@pytest.mark.parametrize("answer", [NO_ADDRESS, NATIVE])
@pytest.mark.parametrize("script", ["openai_python.py", "openai_node.mjs"])
def test_clients_that_never_retry_see_no_error(
    unknown_tls: UnknownHosts,
    mitmdump: GetMitmdump,
    clients: Clients,
    script: str,
    answer: Reply,
) -> None:
    proxy = mitmdump()
    client = clients.get(script, proxy.client_environment())
    native = json.dumps(
        {
            **{"id": "resp_1", "object": "response", "status": "completed", "created_at": 1},
            **{"model": "m", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
            "output": [
                {
                    **{"type": "message", "id": "msg_1", "role": "assistant"},
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "native", "annotations": []}],
                }
            ],
        }
    ).encode()
    host = Host(unknown_tls, proxy, unknown_tls.url, True)
    host.says(Reply(native, "application/json") if answer is NATIVE else answer)
    request = {"model": "kimi-k2.5", "input": "Say it."}
    result = client.ask("responses.create", f"{host.base}/{host.name}/v1", request)
    assert ("native" in result["text"]) == (answer is NATIVE)
    assert host.arrived == (["request"] if answer is NATIVE else ["request", "chat"])


def test_the_reason_for_the_bridge_is_noted(unknown: UnknownHosts, mitmdump: GetMitmdump) -> None:
    proxy = mitmdump("--mode", f"reverse:{unknown.url}")
    Host(unknown, proxy, proxy.url).says(NO_ADDRESS).ask()
    proxy.wait_for_log("bridge · .*; bridged: its host was found to have no Responses API")
    proxy = mitmdump("--mode", f"reverse:{unknown.url}", "--set", "dragoman_bridge=~m POST")
    Host(unknown, proxy, proxy.url).ask()
    proxy.wait_for_log("bridge · .*; bridged: dragoman_bridge says so")
    address = f"reroute={unknown.host}:{unknown.port}"
    proxy = mitmdump("--set", address, scripts=(ADDON, REROUTE))
    Host(unknown, proxy, "http://api.moonshot.ai", regular=True).ask()
    proxy.wait_for_log("bridge · .*; bridged: its host is on the built-in list")
