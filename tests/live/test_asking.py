"""An upstream that is not known is asked which API it speaks before a request leaves for it;
nobody sees an error for it, and nobody's request decides for another's."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fixtures.server import Reply
from tests.live.asked import INVALID, KEY, NATIVE, NO_ADDRESS, OTHER_KEY, Asked, Host, status_of
from tests.live.clients import Clients
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import REQUEST
from tests.live.test_repair_options import comments_in

GetMitmdump = Callable[..., Mitmdump]
REROUTE = ROOT / "tests" / "live" / "reroute.py"
WITHOUT_REPLAY = ROOT / "tests" / "live" / "without_replay.py"
ANSWERS = ROOT / "tests" / "live" / "answers.py"


# Which requests

OTHERS = [
    *(("POST", "/v1/responses", body) for body in (b"", b"not JSON", b'["model", "input"]')),
    *(("POST", "/v1/responses", body) for body in (b'{"input": "x"}', b'{"model": "x"}')),
    ("POST", "/v1/responses", b'{"form": {"model": "x", "input": "y"}}'),
    ("GET", "/v1/responses/resp_1", b""),
    ("DELETE", "/v1/responses/resp_1", b""),
    ("GET", "/v1/responses/resp_1/input_items", b""),
    ("POST", "/v1/responses/resp_1/cancel", b""),
    ("POST", "/v1/responses/resp_1/submit_tool_outputs", b'{"tool_outputs": []}'),
    ("GET", "/v1/responses", b""),
    ("POST", "/v1/messages", json.dumps(REQUEST).encode()),
]


def test_what_asks_for_no_response_asks_the_host_nothing(host: Host) -> None:
    for number, (method, path, body) in enumerate(OTHERS):
        host.says(NO_ADDRESS, NATIVE)
        host.ask(body, path=path, method=method)
        assert host.arrived == ["request"] * (number + 1), (method, path, body)
    assert [(sent.method, sent.body) for sent in host.sent] == [(m, b) for m, _, b in OTHERS]


def test_a_large_request_that_the_user_has_streamed_is_known_as_well(
    asked: Asked, mitmdump: GetMitmdump
) -> None:
    arguments = "--mode", f"reverse:{asked.url}", "--set", "stream_large_bodies=1k"
    proxy = mitmdump(*arguments)
    large = REQUEST | {"input": "x" * 100_000}
    for answer, then in [(NO_ADDRESS, "chat"), (INVALID, "request")]:
        host = Host(asked, proxy, proxy.url).says(answer, NATIVE)
        assert [status_of(host.ask(large)) for _ in range(2)] == [200, 200]
        assert host.arrived == ["question", then, then]


def test_where_nobody_can_be_asked_all_else_works(asked: Asked, mitmdump: GetMitmdump) -> None:
    proxy = mitmdump("--mode", f"reverse:{asked.url}", scripts=(WITHOUT_REPLAY, ADDON))
    host = Host(asked, proxy, proxy.url).says(NO_ADDRESS, NATIVE)
    assert status_of(host.ask()) == 200
    assert host.arrived == ["request"]
    assert status_of(host.ask(path="/v1/chat/completions")) == 200


@pytest.mark.parametrize("how", ["answered", "killed"])
def test_nothing_is_asked_about_what_another_addon_has_taken(
    asked: Asked, mitmdump: GetMitmdump, how: str
) -> None:
    proxy = mitmdump("--mode", f"reverse:{asked.url}", scripts=(ANSWERS, ADDON))
    host = Host(asked, proxy, proxy.url).says(NO_ADDRESS, NATIVE)
    reply = host.ask(REQUEST, ("x-answers", how))
    assert reply.status == (418 if how == "answered" else 0)
    assert host.arrived == []


@pytest.mark.parametrize("how", ["answered", "killed"])
def test_what_another_addon_answers_to_the_question_is_not_the_upstreams(
    host: Host, how: str
) -> None:
    host.says(NO_ADDRESS, NATIVE)
    host.ask(REQUEST, ("x-answers-questions", how))
    assert host.arrived == ["request"]
    host.proxy.wait_for_log("asked whether it speaks Responses: .*so that is not known")


# What the question is


def test_the_question_has_the_clients_headers_and_a_body_of_its_own(host: Host) -> None:
    host.says(NATIVE, NATIVE)
    body = gzip.compress(json.dumps(REQUEST).encode())
    of_the_body = [
        *(("content-encoding", "gzip"), ("content-md5", "x"), ("digest", "x"), ("range", "x")),
        *(("content-digest", "x"), ("if-none-match", "x"), ("idempotency-key", "x")),
    ]
    path = "/v1/responses?api-version=1"
    host.ask(
        body, KEY, ("x-mine", "kept"), ("x-dragoman-dialect", "codex"), *of_the_body, path=path
    )
    question, request = host.sent
    assert (question.method, question.path) == ("POST", request.path)
    assert question.header("authorization") == KEY[1]
    assert question.header("x-mine") == "kept"
    assert question.header("host") == request.header("host")
    assert question.header("content-type") == "application/json"
    assert question.header("content-length") == "2"
    assert not [name for name, _ in of_the_body if question.header(name) is not None]
    assert question.header("x-dragoman-dialect") is None
    assert request.body == body
    assert [request.header(name) for name, _ in of_the_body] == [each for _, each in of_the_body]


def test_a_person_can_see_it(asked: Asked, tmp_path: Path) -> None:
    make_confdir(tmp_path / "conf")
    arguments = "--mode", f"reverse:{asked.url}", "-w", str(tmp_path / "flows")
    with Mitmdump(tmp_path / "conf", *arguments) as proxy:
        chat = Host(asked, proxy, proxy.url).says(NO_ADDRESS)
        native = Host(asked, proxy, proxy.url).says(INVALID, NATIVE)
        path = "/v1/responses?key=private-query"
        for host in chat, native:
            host.ask(REQUEST, KEY, path=path)
        log = proxy.wait_for_log(f"{chat.name}/v1/chat/completions: .* · bridge")
        proxy.check_log()
    asking = [line for line in log.splitlines() if "asked whether" in line]
    assert "HTTP 404, so only Chat Completions: bridged from now on" in asking[0]
    assert "HTTP 400, so it does" in asking[1]
    assert len(asking) == 2
    assert "private" not in log and "sk-one" not in log
    comments = comments_in(tmp_path / "flows")
    assert [comment for comment in comments if comment.startswith("asked")] == [
        line.partition("/v1/responses: ")[2] for line in asking
    ]


# Many at once


def test_forty_requests_at_once_are_one_question(host: Host) -> None:
    host.says(NO_ADDRESS, delay=0.3)
    with ThreadPoolExecutor(40) as threads:
        replies = list(threads.map(lambda _: host.ask(), range(40)))
    assert [status_of(reply) for reply in replies] == [200] * 40
    assert sorted(host.arrived) == ["chat"] * 40 + ["question"]


def test_a_client_that_leaves_does_not_take_the_answer_with_it(host: Host) -> None:
    host.says(NO_ADDRESS, delay=0.5)
    body = json.dumps(REQUEST).encode()
    head = f"POST /{host.name}/v1/responses HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", host.proxy.port)) as leaving:
        leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while not host.arrived:
            pass
    assert status_of(host.ask()) == 200
    assert host.arrived == ["question", "chat"]


def test_who_has_another_key_is_not_told_what_the_first_was_refused(host: Host) -> None:
    """A key that is not known does not keep others from being bridged."""
    unauthorized = Reply(b"{}", "application/json", 401)
    host.says(unauthorized, unauthorized, delay=0.5)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(host.ask, REQUEST, KEY)
        while not host.arrived:
            pass
        host.says(NO_ADDRESS)
        second = threads.submit(host.ask, REQUEST, OTHER_KEY)
    assert (first.result().status, second.result().status) == (401, 200)
    assert sorted(host.arrived) == ["chat", "question", "question", "request"]


# Ways to the upstream


@pytest.mark.parametrize("answer", [NO_ADDRESS, INVALID])
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize(
    "way",
    [
        *("regular eager", "regular lazy", "reverse eager"),
        *("reverse lazy", "upstream eager", "upstream lazy"),
    ],
)
def test_it_takes_the_way_of_the_clients_request(
    asked_tls: Asked, mitmdump: GetMitmdump, way: str, http2: bool, answer: Reply
) -> None:
    mode, strategy = way.split()
    arguments = ["--set", f"connection_strategy={strategy}"]
    behind = None
    if mode == "reverse":
        arguments += ["--mode", f"reverse:{asked_tls.url}"]
    elif mode == "upstream":
        behind = mitmdump("--set", "dragoman_bridge=off", "--set", "dragoman_repair=off")
        arguments += ["--mode", f"upstream:{behind.url}"]
    proxy = mitmdump(*arguments)
    base = proxy.url.replace("http:", "https:") if mode == "reverse" else asked_tls.url
    host = Host(asked_tls, proxy, base, mode != "reverse", http2).says(answer, NATIVE)
    body = json.dumps(REQUEST).encode()
    reply = host.ask(body, KEY, ("content-length", str(len(body)))) if http2 else host.ask()
    assert status_of(reply) == 200
    assert host.arrived == ["question", "chat" if answer is NO_ADDRESS else "request"]
    if behind is not None:
        behind.wait_for_log("server connect")


def test_with_several_modes_it_takes_that_of_its_client(asked: Asked, tmp_path: Path) -> None:
    """Else the client's key would go to a proxy that it has nothing to do with."""
    with Asked() as stranger, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        modes = f"upstream:{stranger.url}@0", f"reverse:{asked.url}@{port}"
        make_confdir(tmp_path)
        with Mitmdump(tmp_path, *(word for mode in modes for word in ("--mode", mode))) as proxy:
            proxy.wait_for_log(f"reverse proxy to .* listening at .*:{port}")
            host = Host(asked, proxy, f"http://127.0.0.1:{port}").says(NO_ADDRESS)
            assert status_of(host.ask(REQUEST, KEY)) == 200
            proxy.check_log()
    assert host.arrived == ["question", "chat"]
    assert stranger.requests == []


# Clients


@pytest.mark.parametrize("answer", [NO_ADDRESS, INVALID])
@pytest.mark.parametrize("script", ["openai_python.py", "openai_node.mjs"])
def test_clients_that_never_retry_see_no_error(
    asked_tls: Asked, mitmdump: GetMitmdump, clients: Clients, script: str, answer: Reply
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
    host = Host(asked_tls, proxy, asked_tls.url, True)
    host.says(answer, Reply(native, "application/json"))
    request = {"model": "kimi-k2.5", "input": "Say it."}
    result = client.ask("responses.create", f"{host.base}/{host.name}/v1", request)
    assert ("native" in result["text"]) == (answer is INVALID)
    assert host.arrived == ["question", "request" if answer is INVALID else "chat"]


def test_the_reason_for_the_bridge_is_noted(asked: Asked, mitmdump: GetMitmdump) -> None:
    proxy = mitmdump("--mode", f"reverse:{asked.url}")
    Host(asked, proxy, proxy.url).says(NO_ADDRESS).ask()
    proxy.wait_for_log("bridge · .*; bridged: its host was found to have no Responses API")
    proxy = mitmdump("--mode", f"reverse:{asked.url}", "--set", "dragoman_bridge=~m POST")
    Host(asked, proxy, proxy.url).ask()
    proxy.wait_for_log("bridge · .*; bridged: dragoman_bridge says so")
    address = f"reroute={asked.host}:{asked.port}"
    proxy = mitmdump("--set", address, scripts=(ADDON, REROUTE))
    Host(asked, proxy, "http://api.moonshot.ai", regular=True).ask()
    proxy.wait_for_log("bridge · .*; bridged: its host is on the built-in list")
