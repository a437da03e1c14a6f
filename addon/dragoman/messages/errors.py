"""Errors as clients of the Messages API read them.

Clients decide by the status, and in a stream by the type, whether to ask again, and Claude Code by
the words of an overflow whether to compact.  Source: Anthropic's documentation, "Errors".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import responses

from ..wire.context_overflow import overflow_in, overflow_of
from ..wire.error_codes import known_code
from ..wire.errors import ErrorObject, HttpError, error_object, error_value
from ..wire.json_codec import Json, dumps
from .names import error_body

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_STATUSES = {kind: status for status, kind in _TYPES.items()} | {"api_error": 502}
"""Of a turn that failed after the host had answered with 200."""
_BY_CODE = {
    "rate_limit_exceeded": "rate_limit_error",
    "insufficient_quota": "billing_error",
    "invalid_prompt": "invalid_request_error",
}
_MODELS = (
    "Set ANTHROPIC_MODEL, and ANTHROPIC_DEFAULT_HAIKU_MODEL for small tasks, to models of this "
    "host."
)
_OF_MODEL = (400, 403, 422)
"""What hosts say besides 404 of a model that they do not have: "Invalid model: x" (Mistral), "Model
Not Exist" (DeepSeek)."""
_NO_MODEL = re.compile(
    r"(?:invalid|unknown|no such|unsupported) model"
    r"|model[^\n]{0,80}?(?:n[o']t exist|not[ _](?:found|available|supported|for|allowed|a valid))",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overload|(?:at|over|out of) capacity|\bbusy\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MessagesErrors:
    """The errors of one request; see `ErrorForm`."""

    request_id: str
    model: str = ""
    """The one asked for."""

    def ours(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> bytes:
        error: Json = {"type": _type_by(status), "message": message}
        if code is not None:
            error["details"] = {"error_code": code}
        if param is not None:
            error["message"] = f"{param}: {message}"
        return dumps({"type": "error", "error": error, "request_id": self.request_id})

    def of_host(self, status: int, body: bytes, *, retry_after: str = "") -> HttpError:
        value = error_value(body)
        if (overflow := overflow_in(value, status)) is not None:
            return HttpError(400, self.ours(400, overflow.sentence), retry_after)
        error = error_object(value)
        name = f"HTTP {status} {responses.get(status, '')}".rstrip()
        message = error.message or f"The upstream answered with {name}."
        if self._lacks_model(status, f"{error.code} {message}"):
            message = f"{message} {_MODELS}"
        if status < 400:
            status = 502  # to follow a redirect, a client would send there what it sent here
        elif status == 422:
            status = 400
        elif status == 503 and _OVERLOADED.search(f"{error.code} {error.type} {message}"):
            status = 529
        return HttpError(status, self.ours(status, message), retry_after)

    def _lacks_model(self, status: int, said: str) -> bool:
        """Whether a host may not have a model of Anthropic's, which the client asks for where no
        variable names another."""
        of_anthropic = "claude" in self.model.lower()
        names = self.model.lower() in said.lower() or _NO_MODEL.search(said) is not None
        return of_anthropic and (status == 404 or (status in _OF_MODEL and names))

    def of_turn(self, error: ErrorObject) -> HttpError:
        event = error_event(error)
        status = _STATUSES[event["error"]["type"]]
        return HttpError(status, dumps({**event, "request_id": self.request_id}))


def error_event(error: ErrorObject) -> Json:
    """The event of an error that a host reports in its stream, or that ends a turn."""
    if (overflow := overflow_of(error)) is not None:
        return error_body(overflow.sentence, "invalid_request_error")
    return error_body(error.message, _type_of(error))


def _type_of(error: ErrorObject) -> str:
    words = f"{error.type} {error.code} {error.message}"
    if error.status in (503, 529) or error.type == "overloaded_error":
        return "overloaded_error"
    code = known_code(error.code, error.type, error.message, error.status)
    if code == "rate_limit_exceeded" and error.status != 429 and _OVERLOADED.search(words):
        return "overloaded_error"
    if error.status in _TYPES:
        return _TYPES[error.status]
    return _BY_CODE.get(code or "", "api_error")


def _type_by(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
