"""What is known of upstreams: for which address it counts, and how much of it there is.

How it is found out is seen with real upstreams: tests/live/test_unknown_hosts.py.
"""

from __future__ import annotations

import pytest
from mitmproxy import http

from dragoman.proxy import chat_only_hosts
from dragoman.proxy.chat_only_hosts import LEARNED_FOR, Hosts, Speaks
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


def test_a_real_answer_counts_for_more_than_any_404() -> None:
    known = Hosts(AsyncStore())
    learn(known, URL, Speaks.NATIVE)
    learn(known, URL, Speaks.CHAT)
    assert not is_chat_only(known, request_to(URL))


@pytest.mark.parametrize(
    "other",
    [
        {"authorization": "Bearer sk-other"},
        {"authorization": ""},
        {"x-api-key": "sk-one"},
        {"openai-organization": "org"},
    ],
)
def test_what_is_known_counts_for_who_found_it_out(other: dict[str, str]) -> None:
    known = Hosts(AsyncStore())
    learn(known, URL)
    assert is_chat_only(known, request_to(URL))
    assert not is_chat_only(known, request_to(URL, **other))


@pytest.mark.parametrize("speaks", [Speaks.CHAT, Speaks.NATIVE])
def test_what_is_known_counts_for_a_day(monkeypatch: pytest.MonkeyPatch, speaks: Speaks) -> None:
    known, now = Hosts(AsyncStore()), 1e9
    monkeypatch.setattr("time.time", lambda: now)
    learn(known, URL, speaks)
    (name,) = known._known
    now += LEARNED_FOR
    assert known.speaks(name) is speaks
    now += 1
    assert known.speaks(name) is Speaks.UNKNOWN
    assert known.listed()[-1][0] in chat_only_hosts.KNOWN
