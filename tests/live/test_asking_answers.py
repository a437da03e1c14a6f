"""What the answer of an upstream that was asked decides, for whom, and what undoes it."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable

import pytest

from dragoman.proxy.ask_upstream import ANSWER
from fixtures.server import Reply
from tests.live.asked import (
    INVALID,
    KEY,
    NATIVE,
    NO_ADDRESS,
    NO_MODEL,
    STREAM,
    Asked,
    Host,
    status_of,
)
from tests.live.chat import CONTROLS
from tests.live.mitmdump import ADDON, ROOT, Mitmdump
from tests.live.responses import REQUEST

GetMitmdump = Callable[..., Mitmdump]
ANSWERS = ROOT / "tests" / "live" / "answers.py"
FEW_ADDRESSES = ROOT / "tests" / "live" / "few_addresses.py"

# What the answer says

DECIDES = [
    (NO_ADDRESS, "chat"),
    (Reply(b"", "text/plain", 405), "chat"),
    (Reply(b"<h1>404</h1><a>our models</a>", "text/html", 404), "chat"),
    (Reply(b"404 page not found", "text/plain", 404), "chat"),
    (Reply(gzip.compress(b'{"detail":"Not Found"}'), "application/json", 404), "chat"),
    (INVALID, "request"),
    (Reply(b"", "application/json", 422), "request"),
    (NATIVE, "request"),
    (STREAM, "request"),
]


@pytest.mark.parametrize(("answer", "then"), DECIDES)
def test_an_answer_decides_for_the_request_that_waits_and_all_after_it(
    host: Host, answer: Reply, then: str
) -> None:
    host.says(answer, NATIVE)
    assert [status_of(host.ask()) for _ in range(3)] == [200, 200, 200]
    assert host.arrived == ["question", then, then, then]


NOTHING = [
    *(Reply(b"{}", "application/json", status) for status in (301, 401, 402, 403, 429, 500, 503)),
    NO_MODEL,
    Reply(b"unknown model: None", "text/plain", 404),
    Reply(b'{"detail":"Deployment not found"}', "application/json", 404),
    Reply(b'{"error":{"message":"no","param":"model"}}', "application/json", 404),
]


@pytest.mark.parametrize("answer", NOTHING)
@pytest.mark.parametrize("then", [200, 404, 401])
def test_any_other_answer_says_nothing_and_the_request_leaves_as_it_is(
    host: Host, answer: Reply, then: int
) -> None:
    host.says(answer, Reply(b"{}", "application/x-other", then))
    body = json.dumps(REQUEST, indent=1).encode()
    assert [status_of(host.ask(body)) for _ in range(2)] == [then, then]
    assert host.arrived == ["question", "request"] * 2
    assert [request.body for request in host.sent] == [b"{}", body] * 2


@pytest.fixture
def impatient(asked: Asked, mitmdump: GetMitmdump) -> Host:
    """One whose answer is waited for two seconds, not five."""
    assert ANSWER == 5
    arguments = (
        "--mode",
        f"reverse:{asked.url}",
        "--set",
        "test_constants=proxy.ask_upstream.ANSWER=2",
    )
    proxy = mitmdump(*arguments, scripts=(ADDON, CONTROLS))
    return Host(asked, proxy, proxy.url)


def test_a_host_that_hangs_is_not_waited_for_long(impatient: Host) -> None:
    impatient.says(NATIVE, NATIVE, delay=60)
    assert status_of(impatient.ask()) == 200
    assert impatient.arrived == ["question", "request"]
    impatient.proxy.wait_for_log("asked whether it speaks Responses: no answer in 2 seconds")


# A host that starts


STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.mark.parametrize("framing", ["close", "length"])
@STREAMED
def test_the_turn_whose_question_came_too_early_is_bridged_after_its_own_404(
    impatient: Host, stream: bool, framing: str
) -> None:
    impatient.says(NO_ADDRESS, delay=60)
    body = REQUEST | {"stream": stream}
    for arrived in (["question", "request", "chat"], ["chat"]):
        before = len(impatient.arrived)
        reply = impatient.ask(body, KEY, path=f";framing={framing}/v1/responses")
        assert status_of(reply) == 200
        assert (b"event: response.completed\n" if stream else b'"completed"') in reply.body
        assert impatient.arrived[before:] == arrived
    log = impatient.proxy.wait_for_log("bridge · .*; bridged: its host was found to have no")
    assert "no answer in 2 seconds, so that is not known yet" in log


def test_what_is_bridged_late_is_what_the_client_sent(impatient: Host) -> None:
    """Not what was cured for a host that would speak Responses."""
    impatient.says(NO_ADDRESS, delay=60)
    call = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    body = gzip.compress(json.dumps(REQUEST | {"input": [call, output]}).encode())
    reply = impatient.ask(body, KEY, ("content-encoding", "gzip"))
    response_id = json.loads(reply.body.split(b"data: ")[-1])["response"]["id"]
    items = impatient.ask(b"", KEY, path=f"/v1/responses/{response_id}/input_items", method="GET")
    assert [item["call_id"] for item in json.loads(items.body)["data"]] == ["call_1", "call_1"]


@pytest.mark.parametrize("reply", [NO_MODEL, INVALID, NATIVE, Reply(b"{}", "", 500)])
def test_any_other_reply_to_a_turn_whose_question_came_too_early_is_the_clients(
    impatient: Host, reply: Reply
) -> None:
    impatient.says(NO_ADDRESS, reply, delay=60)
    got = impatient.ask()
    assert (got.status, got.body) == (reply.status, reply.body)
    assert impatient.arrived == ["question", "request"]


def test_a_question_that_is_answered_after_its_time_counts(impatient: Host) -> None:
    impatient.says(NO_ADDRESS, NO_MODEL, delay=10)
    assert status_of(impatient.ask()) == 404
    assert status_of(impatient.ask()) == 404
    assert impatient.arrived == ["question", "request", "request"]
    log = impatient.proxy.wait_for_log("no answer in 2 seconds")
    assert log.count("no answer in 2 seconds") == 1, "nobody waits for it a second time"
    impatient.proxy.wait_for_log("HTTP 404, so only Chat Completions: bridged from now on")
    assert status_of(impatient.ask()) == 200
    assert impatient.arrived == ["question", "request", "request", "chat"]


def test_a_turn_that_is_answered_just_after_its_question_is_bridged(impatient: Host) -> None:
    impatient.says(NO_ADDRESS, delay=3)
    assert status_of(impatient.ask(path=";delay=2/v1/responses")) == 200
    assert impatient.arrived == ["question", "request", "chat"]


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2.0"])
def test_a_turn_is_bridged_late_over_every_kind_of_connection(
    asked: Asked, asked_tls: Asked, mitmdump: GetMitmdump, http2: bool, version: str
) -> None:
    upstream = asked if version == "HTTP/1.1" else asked_tls
    arguments = "test_constants=proxy.ask_upstream.ANSWER=1", "test_upstream_http2=true"
    settings = [word for argument in arguments for word in ("--set", argument)]
    proxy = mitmdump("--mode", f"reverse:{upstream.url}", *settings, scripts=(ADDON, CONTROLS))
    base = proxy.url.replace("http:", "https:")
    host = Host(upstream, proxy, base, http2=http2).says(NO_ADDRESS, delay=60)
    body = json.dumps(REQUEST).encode()
    headers = (KEY, ("content-length", str(len(body)))) if http2 else (KEY,)
    for _ in range(2):
        reply = host.ask(body, *headers)
        assert status_of(reply) == 200 and b"event: response.completed\n" in reply.body
    assert host.arrived == ["question", "request", "chat", "chat"]
    assert {request.http_version for request in host.sent} == {version}


def test_a_host_that_breaks_off_says_nothing(host: Host) -> None:
    host.says(NATIVE, NATIVE, fault="reset")
    assert status_of(host.ask()) == 200
    assert host.arrived == ["question", "request"]


def test_a_host_that_is_not_there_is_told_as_without_a_question(
    host: Host, mitmdump: GetMitmdump
) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        proxy = mitmdump("--mode", f"reverse:http://127.0.0.1:{taken.getsockname()[1]}")
        reply = Host(host.upstream, proxy, proxy.url).ask()
    assert reply.status == 502
    proxy.wait_for_log("asked whether it speaks Responses: .*so that is not known")


@pytest.mark.parametrize(("status", "then"), [(200, "request"), (404, "chat")])
def test_an_endless_answer_is_not_read_to_its_end(impatient: Host, status: int, then: str) -> None:
    endless = Reply(b"x" * 200_000, "text/plain", status)
    impatient.says(endless, NATIVE, cut="bytes:10", pace=0.001)
    assert status_of(impatient.ask()) == 200
    assert impatient.arrived == ["question", then]


# What real requests are answered


def test_who_only_claimed_to_speak_responses_is_bridged_after_a_404(host: Host) -> None:
    host.says(INVALID, NO_ADDRESS)
    assert [status_of(host.ask()) for _ in range(3)] == [404, 200, 200]
    assert host.arrived == ["question", "request", "chat", "chat"]


@pytest.mark.parametrize("answer", [INVALID, Reply(b"", "text/plain", 500)])
@pytest.mark.parametrize("reply", [NATIVE, STREAM])
def test_who_has_answered_once_is_never_bridged(host: Host, answer: Reply, reply: Reply) -> None:
    host.says(answer, reply)
    host.ask()
    host.says(NO_ADDRESS, NO_ADDRESS)
    assert [status_of(host.ask()) for _ in range(2)] == [404, 404]
    assert host.arrived == ["question"] + ["request"] * 3


def test_a_chat_host_that_does_not_know_a_model_is_still_one(host: Host) -> None:
    host.says(NO_ADDRESS, chat=NO_MODEL)
    assert [status_of(host.ask()) for _ in range(2)] == [404, 404]
    assert host.arrived == ["question", "chat", "chat"]


def test_addresses_that_are_not_there_push_out_nothing(asked: Asked, mitmdump: GetMitmdump) -> None:
    """More of them than are remembered."""
    arguments = "--mode", f"reverse:{asked.url}", "--set", "dragoman_store=off"
    proxy = mitmdump(*arguments, scripts=(ADDON, ANSWERS, FEW_ADDRESSES))
    host = Host(asked, proxy, proxy.url)
    host.says(NO_ADDRESS).ask()
    other = Host(host.upstream, host.proxy, host.base).says(NO_ADDRESS, chat=NO_ADDRESS)
    for number in range(20):
        other.ask(path=f"/{number}/responses")
    host.ask()
    assert host.arrived == ["question", "chat", "chat"]
    there = Host(asked, proxy, proxy.url).says(NO_ADDRESS)
    for number in range(20):
        there.ask(path=f"/{number}/responses")
    host.ask()
    assert host.arrived == ["question", "chat", "chat", "question", "chat"], "those that are do"
