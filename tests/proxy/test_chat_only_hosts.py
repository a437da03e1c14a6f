"""What is known of upstreams: for which address it counts, and how much of it there is.

How it is found out is seen with real upstreams: tests/live/test_asking.py.
"""

from __future__ import annotations

import pytest
from mitmproxy import http

from dragoman.proxy import chat_only_hosts
from dragoman.proxy.ask_upstream import Speaks
from dragoman.proxy.chat_only_hosts import Hosts
from dragoman.proxy.routes import route_of
from dragoman.proxy.stored.async_store import AsyncStore

KEY = {"authorization": "Bearer sk-one"}
URL = "https://host.test/v1/responses"


def request_to(url: str, method: str = "POST", **headers: str) -> http.Request:
    request = http.Request.make(method, url, b"", KEY)
    request.headers["host"] = request.host
    request.headers.update(headers)
    return request


def learn(known: Hosts, url: str, speaks: Speaks = Speaks.CHAT) -> None:
    request = request_to(url)
    known.learn(chat_only_hosts._name(request, route_of(request)), request, speaks)


def is_chat_only(known: Hosts, request: http.Request) -> bool:
    return bool(known.why_bridged(request, route_of(request)))


@pytest.mark.parametrize(
    ("request_", "same"),
    [
        (request_to(URL), True),
        (request_to("https://HOST.test/v1/responses", host="Host.Test"), True),
        (request_to("http://host.test/v1/responses"), False),
        (request_to("https://host.test:8443/v1/responses"), False),
        (request_to("https://other.test/v1/responses"), False),
        (request_to(URL, host="other.test"), False),
        (request_to(f"{URL}/"), False),
        (request_to(f"{URL}?a=b"), False),
        (request_to("https://host.test/v2/responses"), False),
        (request_to(f"{URL}/resp_1", "GET"), True),
        (request_to(f"{URL}/resp_1/input_items?limit=1&after=x&order=asc", "GET"), True),
        (request_to(f"{URL}/resp_1?stream=true&include%5B%5D=x", "GET"), True),
        (request_to(f"{URL}/resp_1?a=b", "GET"), False),
        (request_to(f"{URL}/resp_1/submit_tool_outputs"), True),
        (request_to("https://host.test/v2/responses/resp_1", "GET"), False),
    ],
)
def test_what_is_known_counts_for_one_address(request_: http.Request, same: bool) -> None:
    known = Hosts(AsyncStore())
    learn(known, URL)
    assert is_chat_only(known, request_) is same


def test_the_one_that_nobody_used_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_only_hosts, "MAX_ADDRESSES", 3)
    known = Hosts(AsyncStore())
    urls = [f"https://host.test/{number}/responses" for number in range(4)]
    for url in urls[:3]:
        learn(known, url)
    assert is_chat_only(known, request_to(urls[0]))
    learn(known, urls[3])
    assert [is_chat_only(known, request_to(url)) for url in urls] == [True, False, True, True]


@pytest.mark.parametrize("later", [Speaks.CHAT, Speaks.CHAT_ANONYMOUS, Speaks.CLAIMED])
def test_a_real_answer_counts_for_more_than_any_question(later: Speaks) -> None:
    known = Hosts(AsyncStore())
    learn(known, URL, Speaks.RESPONSES)
    learn(known, URL, later)
    request = request_to(URL)
    assert known._of(request, chat_only_hosts._name(request, route_of(request))) is Speaks.RESPONSES


@pytest.mark.parametrize("speaks", [Speaks.CHAT, Speaks.CHAT_ANONYMOUS])
def test_what_a_key_found_out_counts_for_all_and_else_for_who_has_none(speaks: Speaks) -> None:
    known = Hosts(AsyncStore())
    learn(known, URL, speaks)
    others = [request_to(URL), request_to(URL, authorization="Bearer sk-other")]
    assert [is_chat_only(known, each) for each in others] == [speaks is Speaks.CHAT] * 2
    anonymous = request_to(URL)
    del anonymous.headers["authorization"]
    assert is_chat_only(known, anonymous)
