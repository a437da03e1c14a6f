"""Errors that Dragoman answers in an upstream's place, in the form of the client's API.

`wire.errors` and `messages.errors` have the forms, and rewrite the errors of upstreams.
"""

from __future__ import annotations

import logging
import uuid

from mitmproxy import http

from ..messages.errors import MessagesErrors
from ..stored.store import NotOpened, StoreError, StoreFull
from ..wire.errors import OPENAI, ErrorForm, Refused
from ..wire.json_codec import NotJson, TooDeep
from .routes import Route

logger = logging.getLogger(__name__)


def errors_for(route: Route, model: str = "") -> ErrorForm:
    """How the client that sent a request for this, to a `model`, reads errors."""
    return MessagesErrors(f"req_{uuid.uuid4().hex}", model) if route.of_messages else OPENAI


def error_response(
    status: int, message: str, code: str | None = None, form: ErrorForm = OPENAI
) -> http.Response:
    return refusal(Refused(message, code=code, status=status), form)


def refusal(error: Refused | StoreError | NotJson, form: ErrorForm = OPENAI) -> http.Response:
    """The answer to a request that is not passed on."""
    if isinstance(error, Refused):
        body = form.ours(error.status, error.message, code=error.code, param=error.param)
        return http.Response.make(error.status, body, {"content-type": "application/json"})
    if isinstance(error, TooDeep):
        return error_response(400, f"The request is {error}.", form=form)
    if isinstance(error, NotJson):
        return error_response(400, f"The request is no JSON: {error}.", form=form)
    if not isinstance(error, NotOpened):
        logger.error("Stored responses cannot be had: %s", error)
    message = "The store of responses cannot be read now. Please try again."
    if isinstance(error, StoreFull):
        message = "The disk of the store of responses is full: nothing can be deleted or kept."
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


def unreachable(error: str, form: ErrorForm = OPENAI) -> http.Response:
    """For an upstream that could not be reached, or broke off before its reply was whole; all
    clients try again after a 502."""
    message = f"The upstream gave no answer: {error}"
    return error_response(502, message, "upstream_unreachable", form)


def unusable(why: str, code: str, form: ErrorForm) -> http.Response:
    return error_response(502, f"The upstream's answer is {why}.", code, form)
