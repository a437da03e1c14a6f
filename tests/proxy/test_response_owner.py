"""Whose a response is, as requests say it."""

from __future__ import annotations

import itertools

import pytest
from mitmproxy import http
from mitmproxy.test.tutils import treq

from dragoman.proxy.response_owner import asker_of, is_anonymous
from dragoman.stored.save_context import asker

UPSTREAM = "https://api.example:443/v1"
FIRST = ("authorization", "x-api-key", "api-key")


def asked(query: str = "", port: int = 443, **headers: str) -> http.Request:
    fields = http.Headers([(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()])
    path = f"/v1/responses{query}".encode()
    return treq(host="api.example", port=port, scheme=b"https", path=path, headers=fields)


@pytest.mark.parametrize("sent", list(itertools.product(["", "1"], ["", "2"], ["", "3"])))
def test_the_owner_of_who_sends_no_more_than_three_stays(sent: tuple[str, ...]) -> None:
    headers = {name.replace("-", "_"): value for name, value in zip(FIRST, sent, strict=True)}
    request = asked(**{name: value for name, value in headers.items() if value})
    assert asker_of(request) == asker(sent, UPSTREAM)
    assert is_anonymous(request) == (not any(sent))


def test_each_credential_is_another_owner_in_each_place() -> None:
    names = ["x_goog_api_key", "ocp_apim_subscription_key", "x_auth_token", "openai_organization"]
    names += ["openai_project", "x_api_key", "api_key"]
    requests = [asked(**{name: "one"}) for name in [*names, "authorization"]]
    requests += [asked(**{name: "two"}) for name in names]
    requests += [asked(authorization="one", **{name: "one"}) for name in names]
    requests += [asked(x_auth_token="one", openai_project="one"), asked(port=8443, api_key="one")]
    requests += [asked("?key=one"), asked("?api-key=one"), asked("?key=one&api-key=one")]
    requests += [asked("?key=one", authorization="one"), asked("?key=one&key=two")]
    assert len(set(map(asker_of, requests))) == len(requests)
    assert not any(map(is_anonymous, requests))


@pytest.mark.parametrize(
    "name",
    ["x-litellm-api-key", "cf-aig-authorization", "Helicone-Auth", "x-portkey-api-key", "X-Key"],
)
def test_the_key_of_a_gateway_is_another_owner(name: str) -> None:
    requests = [asked(), asked(**{name: "one"}), asked(**{name: "two"}), asked(x_api_key="one")]
    assert len(set(map(asker_of, requests))) == len(requests)
    assert not is_anonymous(requests[1])


@pytest.mark.parametrize("name", ["api_key", "token", "access_token", "apikey"])
def test_a_key_in_the_query_is_another_owner(name: str) -> None:
    requests = [asked(), asked(f"?{name}=one"), asked(f"?{name}=two"), asked("?key=one")]
    assert len(set(map(asker_of, requests))) == len(requests)
    assert not is_anonymous(requests[1])


def test_what_is_no_credential_changes_nothing() -> None:
    request = asked("?key=&x=1&Key=2", cookie="a", user_agent="b", x_request_id="c")
    assert is_anonymous(request)
    assert asker_of(request) == asker_of(asked())
    request = asked("?y=2&key=one", cookie="a", API_KEY="two")
    assert asker_of(request) == asker_of(asked("?key=one&x=1", api_key="two"))
