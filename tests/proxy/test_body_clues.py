"""Whether a request asks for a response, and whether a 404 is about a model."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest
from mitmproxy import http

from dragoman.proxy.body_clues import SMALL, asks_for_a_turn, names_something
from dragoman.wire.request_bounds import MAX_BODY

JSON = "application/json"
ABOUT_A_MODEL = [
    (JSON, '{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}'),
    (JSON, '{"object":"error","message":"The model `x` does not exist.","code":404}'),
    (JSON, '{"detail":"Model not found"}'),
    (JSON, '{"detail":[{"msg":"unknown deployment"}]}'),
    (JSON, '{"error":"No endpoints found for x"}'),
    (JSON, '{"errors":[{"message":"unknown model"}]}'),
    (JSON, '"no such model"'),
    (JSON, '{"error":{"code":"DeploymentNotFound","message":"x"}}'),
    (JSON, '{"error":{"message":"x","param":"model"}}'),
    (JSON, '{"message":"x","param":"model"}'),
    (JSON, '{"error":{"message":"Item with id \'rs_1\' not found."}}'),
    (JSON, '{"error":{"code":"previous_response_not_found"}}'),
    ("text/plain", "model x not found"),
    (JSON, "model x not found"),
]
ABOUT_AN_ADDRESS = [
    (JSON, '{"detail":"Not Found"}'),
    (JSON, '{"error":{"message":"Invalid URL (POST /models/x/v1/responses)","param":null}}'),
    (JSON, '{"error":"POST https://model.test/models/x/v1/responses?model=1 is not there"}'),
    (JSON, '{"error":{"message":"no route","param":""},"model":null}'),
    (JSON, "[]"),
    (JSON, "null"),
    (JSON, "404"),
    (JSON, ""),
    (JSON, "{"),
    ("text/plain", "404 page not found"),
    ("text/html", "<h1>Not Found</h1> <a>Our models</a>"),
    ("", "<h1>Not Found</h1> <a>Our models</a>"),
    (JSON, json.dumps({"a": {"b": {"c": {"d": "model"}}}})),
    (JSON, "[" * 100_000),
]
ASKED = http.Request.make("POST", "https://model.test/models/x/v1/responses?model=1")


def reply(kind: str, body: bytes, encoding: str = "identity") -> http.Response:
    response = http.Response.make(404, b"", {"content-type": kind})
    response.headers["content-encoding"] = encoding
    response.raw_content = body
    return response


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(
    ("kind", "body", "named"),
    [(*each, True) for each in ABOUT_A_MODEL] + [(*each, False) for each in ABOUT_AN_ADDRESS],
)
def test_what_a_404_is_about(kind: str, body: str, encoding: str, named: bool) -> None:
    data = gzip.compress(body.encode()) if encoding == "gzip" else body.encode()
    assert names_something(ASKED, reply(kind, data, encoding)) is named


@pytest.mark.parametrize("encoding", ["gzip", "x-unknown"])
def test_a_404_that_cannot_be_read_names_nothing(encoding: str) -> None:
    assert not names_something(ASKED, reply(JSON, b"model", encoding))


def asks(body: bytes, encoding: str = "identity") -> bool:
    request = http.Request.make("POST", "http://host/v1/responses")
    request.headers["content-encoding"] = encoding
    request.raw_content = body
    return asyncio.run(asks_for_a_turn(request))


def test_a_request_whose_checksum_is_missing_asks() -> None:
    """Such a one is bridged, too."""
    assert asks(gzip.compress(b'{"model":"m","input":"x"}')[:-8], "gzip")


def test_a_request_that_is_too_large_asks() -> None:
    """It is refused for that where it would be bridged."""
    assert asks(b"x" * (MAX_BODY + 1))


FILLED = "x y" * SMALL


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"model": "x", "input": "y"}, True),
        ({"input": [], "model": ""}, True),
        ({"model": "x", "messages": []}, True),
        ({"model": "x", "input": FILLED}, True),
        ({"text": FILLED, "model": "x", "input": "y"}, True),
        ({"instructions": FILLED, "messages": [], "model": "x"}, True),
        ({"model": None, "input": "y"}, False),
        ({"model": None, "input": FILLED}, False),
        ({"model": "x", "text": FILLED}, False),
        ({"model": "x"}, False),
        ({}, True),
        ([], False),
        (None, False),
    ],
)
@pytest.mark.parametrize("encoding", ["identity", "deflate"])
def test_what_asks_for_a_turn(value: object, encoding: str, expected: bool) -> None:
    body = json.dumps(value, indent=1).encode()
    assert asks(zlib.compress(body) if encoding == "deflate" else body, encoding) is expected


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": "x", "input": ', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("encoding", ["identity", "gzip", "x-unknown"])
def test_what_is_no_json_asks_for_nothing(body: bytes, encoding: str) -> None:
    assert not asks(body, encoding)
