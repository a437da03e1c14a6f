"""Errors of hosts as clients of the Messages API read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.messages.errors import MessagesErrors
from dragoman.wire.errors import HttpError, failure

ERRORS = MessagesErrors("req_1")


def of_host(status: int, value: Any, **more: Any) -> HttpError:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ERRORS.of_host(status, body, **more)


def read(error: HttpError) -> tuple[int, str, str]:
    """Its status, type and message, in the one shape."""
    value = json.loads(error.body)
    assert value.keys() == {"type", "error", "request_id"}
    assert (value["type"], value["request_id"]) == ("error", "req_1")
    return error.status, value["error"]["type"], value["error"]["message"]


STATUSES = {
    400: (400, "invalid_request_error"),
    401: (401, "authentication_error"),
    402: (402, "billing_error"),
    403: (403, "permission_error"),
    404: (404, "not_found_error"),
    405: (405, "invalid_request_error"),
    422: (400, "invalid_request_error"),
    429: (429, "rate_limit_error"),
    500: (500, "api_error"),
    502: (502, "api_error"),
    503: (503, "api_error"),
    529: (529, "overloaded_error"),
    307: (502, "api_error"),
}
SHAPES: list[Any] = [
    {"error": {"message": "No.", "type": "x", "code": None}},
    {"error": "No."},
    {"object": "error", "message": "No.", "type": "BadRequestError", "code": 400},
    {"detail": "No."},
    [{"error": {"code": 400, "message": "No.", "status": "X"}}],
    {"type": "error", "error": {"type": "x", "message": "No."}},
    b"No.",
]


@pytest.mark.parametrize("status", STATUSES)
def test_the_status_says_the_type(status: int) -> None:
    for shape in SHAPES:
        assert read(of_host(status, shape)) == (*STATUSES[status], "No.")


@pytest.mark.parametrize("body", [b"<html><h1>Bad gateway</h1></html>", b""])
def test_a_page_is_told_by_its_status(body: bytes) -> None:
    status, kind, message = read(of_host(502, body))
    assert (status, kind) == (502, "api_error")
    assert message == "The upstream answered with HTTP 502 Bad Gateway."


@pytest.mark.parametrize(
    "error",
    [
        {"message": "The engine is currently overloaded, please try again later"},
        {"message": "x", "type": "engine_overloaded_error"},
        {"message": "The server is too busy"},
        {"message": "Model at capacity"},
    ],
)
def test_an_overloaded_host_has_anthropics_status_for_it(error: Any) -> None:
    assert read(of_host(503, {"error": error}))[:2] == (529, "overloaded_error")


def test_the_time_to_wait_stays() -> None:
    assert of_host(429, {"error": "Slow down."}, retry_after="7").retry_after == "7"
    assert of_host(529, {"error": "Busy."}, retry_after="").retry_after == ""


@pytest.mark.parametrize(
    ("status", "said", "helps"),
    [
        (404, {"message": "Not Found"}, True),
        (404, {"message": "The model `x` does not exist", "code": "model_not_found"}, True),
        (400, {"message": "Invalid model: claude-haiku-4-5", "type": "invalid_model"}, True),
        (400, {"message": "Model Not Exist"}, True),
        (422, {"message": "x", "code": "model_not_found"}, True),
        (403, {"message": "This model is not for your account"}, True),
        (400, {"message": "Invalid schema"}, False),
        (400, {"message": "This model supports at most 8192 tokens"}, False),
        (429, {"message": "Rate limit of this model"}, False),
        (500, {"message": "No such model."}, False),
    ],
)
def test_a_model_of_anthropics_that_a_host_does_not_have_is_set_by_variables(
    status: int, said: Any, helps: bool
) -> None:
    body = json.dumps({"error": said}).encode()
    for model, helped in (("claude-haiku-4-5", helps), ("kimi-k2.5", False)):
        *_, message = read(MessagesErrors("req_1", model).of_host(status, body))
        assert message.startswith(said["message"])
        assert ("ANTHROPIC_DEFAULT_HAIKU_MODEL" in message) == helped


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_an_overflow_is_said_in_the_words_that_clients_know(status: int) -> None:
    message = "Your request exceeded model token limit: 262144 (requested: 291810)"
    found = read(of_host(status, {"error": {"message": message}}))
    words = f"prompt is too long: 291810 tokens > 262144 maximum ({message})"
    assert found == (400, "invalid_request_error", words)


def test_an_overflow_that_only_fields_count_has_their_numbers() -> None:
    fields = {"n_prompt_tokens": 9000, "n_ctx": 8192, "type": "exceed_context_size_error"}
    message = "the request exceeds the available context size, try increasing it"
    *_, said = read(of_host(400, {"error": {"message": message, **fields}}))
    assert said.startswith("prompt is too long: 9000 tokens > 8192 maximum")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("context_length_exceeded", 400, "invalid_request_error"),
        ("invalid_prompt", 400, "invalid_request_error"),
        ("insufficient_quota", 402, "billing_error"),
        ("rate_limit_exceeded", 429, "rate_limit_error"),
        ("server_error", 502, "api_error"),
    ],
)
def test_a_turn_that_failed_has_the_status_of_its_error(code: str, status: int, kind: str) -> None:
    assert read(ERRORS.of_turn(failure(code, "No.")))[:2] == (status, kind)


def test_an_error_of_ours_names_the_field_and_has_its_code_in_the_details() -> None:
    body = json.loads(ERRORS.ours(413, "Too large.", code="request_too_large", param="tools"))
    details = {"error_code": "request_too_large"}
    said = {"type": "request_too_large", "message": "tools: Too large.", "details": details}
    assert body["error"] == said
