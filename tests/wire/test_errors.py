"""Upstream errors of every shape, as the one shape and the codes that clients know."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.errors import error_json, error_object, http_error, known_error

CONTEXT = "context_length_exceeded"
QUOTA = "insufficient_quota"
RATE = "rate_limit_exceeded"
PROMPT = "invalid_prompt"
EXACT = ("credit_balance_exhausted", "organization_spend_limit_exceeded", "flex_unavailable")
NEAREST = {CONTEXT: PROMPT, QUOTA: RATE} | dict.fromkeys(EXACT, RATE)
"""For the codes that only Codex knows, those of the API's own list."""

# (status, what the upstream says, the code it means), from the hosts' documents and reports.
SAID: list[tuple[int, dict[str, Any], str | None]] = [
    (400, {"message": "x", "code": CONTEXT}, CONTEXT),
    (400, {"message": "This model's maximum context length is 8192 tokens."}, CONTEXT),
    (400, {"message": "Invalid request: Your request exceeded model token limit: 8192"}, CONTEXT),
    (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, CONTEXT),
    (400, {"message": "the request exceeds the available context size"}, CONTEXT),
    (400, {"message": "The input token count (9) exceeds the maximum number of tokens"}, CONTEXT),
    (413, {"message": "Please reduce the length of the messages."}, CONTEXT),
    (429, {"message": "m", "type": "exceeded_current_quota_error"}, QUOTA),
    (429, {"message": "You exceeded your current quota, please check your plan"}, QUOTA),
    (402, {"message": "Insufficient Balance"}, QUOTA),
    (402, {"message": "no"}, QUOTA),
    (429, {"message": "m", "type": "rate_limit_reached_error"}, RATE),
    (429, {"message": "max organization concurrency: 1, please try again after 1 seconds"}, RATE),
    (429, {"message": "slow"}, RATE),
    (429, {"message": "m", "type": "engine_overloaded_error"}, RATE),
    (503, {"message": "The engine is currently overloaded, please try again later"}, RATE),
    (529, {"message": "m"}, RATE),
    (401, {"message": "k3-256k supports only 256K context"}, CONTEXT),
    (503, {"message": "m", "code": "slow_down"}, RATE),
    *((429, {"message": "m", "code": code}, code) for code in EXACT),
    (403, {"message": "Sorry, your account balance is insufficient"}, QUOTA),
    (429, {"message": "You've reached your usage limit for this billing cycle."}, QUOTA),
    (403, {"message": "This model only supports 256K context"}, CONTEXT),
    (400, {"message": "Range of input length should be [1, 258048]"}, CONTEXT),
    (400, {"message": "The request was rejected because it was considered high risk"}, PROMPT),
    (400, {"message": "m", "code": "content_policy_violation"}, PROMPT),
    (401, {"message": "Invalid Authentication", "code": "invalid_api_key"}, "invalid_api_key"),
    (404, {"message": "Not found the model x"}, None),
    (404, {"message": "m", "code": "model_not_found", "param": "model"}, "model_not_found"),
    (
        400,
        {
            "message": "Invalid schema for function 'get_billing_info'",
            "code": "invalid_function_parameters",
        },
        "invalid_function_parameters",
    ),
    (400, {"message": "Invalid schema for function 'get_billing_info'"}, None),
    (400, {"message": "function 'f': context window", "code": "invalid_schema"}, "invalid_schema"),
    (400, {"message": "request header too long to process"}, None),
    (404, {"message": "model recharge-1 not found", "code": "model_not_found"}, "model_not_found"),
    (404, {"message": "model at-capacity not found: context length"}, None),
    (400, {"message": "Unknown model 'overloaded-7b'"}, None),
    (
        429,
        {
            "message": "Request too large for x on tokens per min (TPM): Limit 3, Requested 5. "
            "Please reduce the length."
        },
        RATE,
    ),
    (429, {"message": "You've reached the rate limit. See https://x/settings/billing"}, RATE),
    (413, {"message": "m", "code": "tokens_limit_reached"}, CONTEXT),
    (400, {"message": "Access denied.", "type": "Arrearage"}, QUOTA),
    (408, {"message": "m"}, None),
    (409, {"message": "m"}, None),
    (425, {"message": "m"}, None),
    (500, {"message": "boom"}, None),
]


def http_body(status: int, body: bytes, retry_after: str = "") -> bytes:
    return http_error(status, body, retry_after=retry_after).body


def shapes(said: dict[str, Any]) -> list[Any]:
    """The ways in which hosts wrap what they say."""
    return [
        {"error": said},
        {"object": "error", **said},
        {"type": "error", "error": said},
        [{"error": said}],
        {"errors": [said]},
        {"error": said, "message": "outer"},
    ]


@pytest.mark.parametrize(("status", "said", "code"), SAID)
def test_every_shape_of_an_http_error_becomes_the_one_shape(
    status: int, said: dict[str, Any], code: str | None
) -> None:
    for value in shapes(said):
        told = json.loads(http_body(status, json.dumps(value).encode()))
        assert told.keys() == {"error"}
        error = told["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"] == said["message"]
        assert error["code"] == code
        assert error["type"] == said.get("type", error["type"])
        assert error["param"] == said.get("param")
        assert http_error(status, json.dumps(value).encode()).status == (
            400 if code == CONTEXT else status
        )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "model not loaded"}', "model not loaded"),
        (b'{"detail": "Not authenticated"}', "Not authenticated"),
        (
            b'{"detail": [{"loc": ["body"], "msg": "required"}]}',
            '[{"loc":["body"],"msg":"required"}]',
        ),
        (b'{"message": "flat"}', "flat"),
        (b'{"error": true, "message": "beside"}', "beside"),
        (b'"just text"', "just text"),
        (b'data: {"error":{"message":"in an event"}}\n\ndata: [DONE]\n\n', "in an event"),
        (b'event: error\r\ndata: {"error":"named"}', "named"),
        (b": wait\n\ndata: nothing\n\n", ": wait\n\ndata: nothing"),
        (b"upstream connect error", "upstream connect error"),
        (b"<html><h1>502</h1></html>", "The upstream answered with HTTP 502 Bad Gateway."),
        (b"", "The upstream answered with HTTP 502 Bad Gateway."),
        (b"{}", "The upstream answered with HTTP 502 Bad Gateway."),
        (b'{"error": {}}', "The upstream answered with HTTP 502 Bad Gateway."),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_a_message_is_found_where_hosts_put_it(body: bytes, message: str) -> None:
    assert json.loads(http_body(502, body))["error"]["message"] == message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "insufficient_quota"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (529, "rate_limit_error"),
        (799, "server_error"),
    ],
)
def test_a_missing_type_follows_the_status(status: int, kind: str) -> None:
    assert json.loads(http_body(status, b"{}"))["error"]["type"] == kind


def test_the_wait_is_told_in_words_codex_reads() -> None:
    body = b'{"error": {"message": "Slow down."}}'
    error = json.loads(http_body(429, body, retry_after="1.5"))["error"]
    assert error["message"] == "Slow down. Please try again in 1.5s."
    dated = json.loads(http_body(429, body, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"))
    assert dated["error"]["message"] == "Slow down."
    said = b'{"error": {"message": "Please try again in 20s."}}'
    assert json.loads(http_body(429, said, retry_after="9"))["error"]["message"].count("try") == 1


@pytest.mark.parametrize(
    ("status", "message", "given", "wait"),
    [
        (429, "Slow down.", "", "5"),
        (429, "Slow down.", "7", "7"),
        (429, "Slow down.", "1.5", "2"),
        (429, "Slow down.", "soon", "5"),
        (429, "Slow down.", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"),
        (429, "Rate limit reached. Try again in 1m30.2s", "", "91"),
        (429, "max organization concurrency: 1, please try again after 1 seconds", "", "1"),
        (429, "Rate limit reached, try again in 350ms", "", "1"),
        (429, "Rate limit reached. Please retry in 2m.", "", "120"),
        (503, "The engine is currently overloaded, please try again later", "", "5"),
        (429, "You exceeded your current quota, please check your plan", "", ""),
        (429, "Insufficient balance", "9", "9"),
        (500, "boom", "", ""),
    ],
)
def test_who_meets_a_limit_hears_when_to_ask_again(
    status: int, message: str, given: str, wait: str
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    error = http_error(status, body, retry_after=given)
    assert (error.status, error.retry_after) == (status, wait)
    assert json.loads(error.body)["error"]["message"].startswith(message.rstrip("."))
    told = known_error(error_object({"error": {"message": message, "code": status}}))
    assert (told.code == RATE) == (wait != "" and given != "9")
    found = re.search(r"(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)", told.message)
    assert bool(found) == (told.code == RATE)


def test_a_context_that_is_too_long_is_a_bad_request() -> None:
    """As JSON and as plain text; Codex looks for it in no other."""
    said = {"message": "k3-256k supports only 256K context", "type": "authentication_error"}
    for body in (json.dumps({"error": said}).encode(), b"prompt too long"):
        for status in (400, 401, 403, 413, 422, 500):
            error = http_error(status, body)
            told = json.loads(error.body)["error"]
            assert (error.status, told["code"]) == (400, CONTEXT)
            assert status == 400 or told["type"] == "invalid_request_error"
    assert http_error(401, b'{"error":{"message":"Invalid key"}}').status == 401


def test_what_the_provider_behind_a_router_said_counts() -> None:
    raw = '{"error":{"message":"Input token length too long"}}'
    said = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
    told = json.loads(http_body(400, json.dumps({"error": said}).encode()))["error"]
    assert (told["code"], told["message"]) == (CONTEXT, f"Provider returned error: {raw}")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"' + b"x" * 2_000_000 + b'"}}',
        b"<html>" + b"x" * 2_000_000,
        b'{"error":' * 50_000 + b"1" + b"}" * 50_000,
        b"[" * 100_000,
        b'{"error":{"code":' + b"9" * 4300 + b',"message":1e999,"type":[]}}',
        b'{"error":{"message":"a\\u0000b\\ud800","code":"\\u001b[2J"}}',
        b'data: {"error":{"message":"m"}}\n\n' * 20_000,
        b"\n\n" * 1_000_000,
        json.dumps({"errors": [{"message": "m"}] * 50_000}).encode(),
    ],
    ids=["message", "page", "deep", "lists", "numbers", "NULs", "stream", "lines", "errors"],
)
def test_an_error_of_any_size_is_told_in_few_words(body: bytes) -> None:
    told = http_body(503, body)
    assert len(told) < 3000
    assert json.loads(told)["error"]["message"]


def test_a_refusal_has_the_same_shape() -> None:
    told = json.loads(error_json("no", type="invalid_request_error", param="input"))
    assert told["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "errors", "message", "code", "type", "detail", "status"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.integers(400, 599), json_values | st.binary(max_size=30), st.text(max_size=6))
def test_any_error_body_becomes_the_one_shape(status: int, value: Any, retry: str) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    error = json.loads(http_body(status, body, retry_after=retry))["error"]
    assert error["message"] and isinstance(error["message"], str)
    assert error["type"] and isinstance(error["type"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    assert error["param"] is None or isinstance(error["param"], str)
