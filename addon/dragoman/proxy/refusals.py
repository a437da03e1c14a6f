"""The answers that Dragoman gives in an upstream's place: errors in OpenAI's form."""

from __future__ import annotations

import logging

from mitmproxy import http

from ..bridge.errors import Refused, error_json
from ..jsonio import NotJson
from ..state.store import StoreError

logger = logging.getLogger(__name__)


def error_response(
    status: int,
    message: str,
    *,
    type: str,  # noqa: A002 - the name of the field
    param: str | None = None,
    code: str | None = None,
) -> http.Response:
    """An HTTP error that all clients can read."""
    body = error_json(message, type=type, param=param, code=code)
    return http.Response.make(status, body, {"content-type": "application/json"})


def refusal(error: Refused | StoreError | NotJson) -> http.Response:
    """The answer to a request that is not passed on."""
    if isinstance(error, Refused):
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return error_response(
            error.status, error.message, type=kind, param=error.param, code=error.code
        )
    if isinstance(error, StoreError):
        logger.error("Stored responses cannot be had: %s", error)
        message = "The store of responses cannot be read now. Please try again."
        return error_response(503, message, type="server_error", code="store_unavailable")
    return error_response(400, f"The request is no JSON: {error}.", type="invalid_request_error")


def no_upgrade() -> http.Response:
    """Codex falls back to HTTP at once on 426, and only on that."""
    message = "This host is bridged to Chat Completions: use HTTP."
    return error_response(426, message, type="invalid_request_error")


def unreachable(error: str) -> http.Response:
    """The answer for an upstream that could not be reached, or broke off before its reply
    was whole; all clients try again after a 502."""
    message = f"The upstream gave no answer: {error}"
    return error_response(502, message, type="server_error", code="upstream_unreachable")
