"""Errors that Dragoman answers in an upstream's place, in the form of their API; `wire.errors`
reads and rewrites those of upstreams."""

from __future__ import annotations

import logging

from mitmproxy import http

from ..stored.store import NotOpened, StoreError
from ..wire.errors import Refused
from ..wire.json_codec import NotJson, dumps
from ..wire.messages import error_body
from .content_decoding import MAX_REPLY

logger = logging.getLogger(__name__)


def error_response(status: int, message: str, code: str | None = None) -> http.Response:
    """An HTTP error that all clients can read."""
    return refusal(Refused(message, code=code, status=status))


def refusal(error: Refused | StoreError | NotJson) -> http.Response:
    """The answer to a request that is not passed on."""
    if isinstance(error, Refused):
        return http.Response.make(error.status, error.body, {"content-type": "application/json"})
    if isinstance(error, NotJson):
        return error_response(400, f"The request is no JSON: {error}.")
    if not isinstance(error, NotOpened):
        logger.error("Stored responses cannot be had: %s", error)
    message = "The store of responses cannot be read now. Please try again."
    return error_response(503, message, "store_unavailable")


def no_upgrade() -> http.Response:
    """Codex falls back to HTTP at once on 426, and only on that."""
    return error_response(426, "This host has no WebSocket of the Responses API: use HTTP.")


_NOT_BRIDGED = {
    "compact": "which cannot compact a conversation. Ask the model for a summary with an "
    "ordinary request to /responses, and begin a new conversation with it.",
    "input_tokens": "which cannot count tokens in advance. Read `usage` of a response instead.",
    "conversations": "and conversations are not stored here. Send the whole conversation as "
    "`input`, or name the last response as `previous_response_id`.",
}


def not_bridged(part: str) -> http.Response:
    """Codex gives up at once on 400, and tries again after 404."""
    message = f"This host is bridged to Chat Completions, {_NOT_BRIDGED[part]}"
    return error_response(400, message, "unsupported_endpoint")


def unreachable(error: str, *, messages: bool = False) -> http.Response:
    """For an upstream that could not be reached, or broke off before its reply was whole; all
    clients try again after a 502.  `messages`: to a request of Anthropic's API."""
    message = f"The upstream gave no answer: {error}"
    if messages:
        body = dumps(error_body(message))
        return http.Response.make(502, body, {"content-type": "application/json"})
    return error_response(502, message, "upstream_unreachable")


def too_large() -> http.Response:
    message = f"The upstream's answer is too large: more than {MAX_REPLY} bytes."
    return error_response(502, message, "upstream_too_large")
