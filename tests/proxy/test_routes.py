"""What a request is for, by its method and its path."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mitmproxy import http

from dragoman.proxy.chat_only_hosts import _name
from dragoman.proxy.response_owner import asker_of
from dragoman.proxy.routes import Route, query_of, route_of

TABLE = [
    ("POST /v1/chat/completions", Route("chat", "/v1")),
    ("POST /v1/chat/completions/?key=a", Route("chat", "/v1")),
    ("GET /v1/chat/completions", Route("", "/v1")),
    ("POST /v1/responses", Route("responses", "/v1", gives_response=True)),
    ("POST /responses//", Route("responses", "", gives_response=True)),
    (
        "POST /v1/conversations/responses",
        Route("responses", "/v1/conversations", gives_response=True),
    ),
    ("GET /v1/responses", Route("", "/v1")),
    ("GET /v1/responses/resp_1", Route("responses", "/v1", "resp_1", gives_response=True)),
    ("GET /v1/responses/resp_1?starting_after=3", Route("responses", "/v1", "resp_1")),
    ("DELETE /v1/responses/resp_1", Route("responses", "/v1", "resp_1")),
    ("POST /v1/responses/resp_1", Route("", "/v1")),
    ("POST /v1/responses/resp_1/cancel", Route("responses", "/v1", "resp_1", "cancel")),
    ("GET /v1/responses/resp_1/cancel", Route("", "/v1")),
    ("GET /v1/responses/resp_1/input_items", Route("responses", "/v1", "resp_1", "input_items")),
    ("POST /v1/responses/resp_1/unknown", Route("", "/v1/responses/resp_1/unknown")),
    ("POST /v1/responses/compact", Route("unserved", "/v1", action="compact")),
    ("POST /v1/responses/input_tokens", Route("unserved", "/v1", action="input_tokens")),
    ("GET /v1/conversations/conv_1/items", Route("unserved", "/v1", action="conversations")),
    ("PUT /v1/conversations", Route("", "/v1")),
    ("POST /v1/embeddings/", Route("", "/v1/embeddings")),
]


@pytest.mark.parametrize(("request_", "route"), TABLE)
def test_what_a_request_is_for(request_: str, route: Route) -> None:
    method, path = request_.split(" ")
    assert route_of(http.Request.make(method, f"https://host.test{path}")) == route


@pytest.mark.parametrize(
    ("request_", "route"),
    [
        ("POST /v1/messages", Route("messages", "/v1")),
        ("POST /api/anthropic/v1/messages/?beta=true", Route("messages", "/api/anthropic/v1")),
        ("POST /v1/messages/count_tokens?beta=true", Route("count_tokens", "/v1")),
        ("GET /gateway/v1/models?limit=1000", Route("models", "/gateway/v1")),
        ("POST /v1/models", Route("", "/v1/models")),
        ("GET /v1/models/kimi-k2.5", Route("", "/v1/models/kimi-k2.5")),
        ("GET /v1/messages", Route("", "/v1/messages")),
        ("POST /messages", Route("", "/messages")),
    ],
)
def test_the_list_of_models_is_anthropics_by_the_version_alone(request_: str, route: Route) -> None:
    method, path = request_.split(" ")
    headers = {"Anthropic-Version": "2023-06-01"}
    assert route_of(http.Request.make(method, f"https://host.test{path}", b"", headers)) == route
    without = route_of(http.Request.make(method, f"https://host.test{path}"))
    assert without == (Route("", "/gateway/v1/models") if route.api == "models" else route)


@pytest.mark.parametrize(("path", "api"), [("/v1/responses", "upgrade"), ("/v1/other", "")])
def test_a_websocket_is_known_by_its_header(path: str, api: str) -> None:
    headers = {"connection": "upgrade", "upgrade": "WebSocket"}
    assert route_of(http.Request.make("GET", f"https://host.test{path}", b"", headers)).api == api


@given(
    path=st.binary(max_size=30)
    | st.binary(max_size=30).map(b"/v1/responses/".__add__)
    | st.binary(max_size=30).map(b"/v1/responses?".__add__),
    method=st.sampled_from(["GET", "POST", "DELETE"]),
)
@example(path=b"[/v1/responses/x", method="GET")
def test_an_address_of_any_bytes_is_one(path: bytes, method: str) -> None:
    request = http.Request.make(method, "http://host.test/")
    request.data.path = path
    route = route_of(request)
    assert _name(request, route) and asker_of(request)


@pytest.mark.parametrize(
    "path", ["/a", "/a?", "/a?k=1&k=2&x", "/a?k=%20%ff+#?k=3", "/a#b?k=1", "/a;b?k==", "//[?é=ü"]
)
def test_a_query_is_read_as_mitmproxy_reads_it(path: str) -> None:
    """Owners are made of it."""
    request = http.Request.make("GET", "http://host.test/")
    request.path = path
    assert query_of(request).fields == request.query.fields
