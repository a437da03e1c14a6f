"""Reads errors of any shape, and writes them in the one that clients read.

Clients decide by ``code`` whether to retry, wait, compact the conversation or give up, so every
upstream error gets a code that they know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.client import responses
from itertools import islice
from math import ceil
from typing import Any, Protocol

from .error_codes import TYPES, known_code
from .json_codec import NotJson, array, dumps, loads
from .sse import Frame, is_event_stream, split

MAX_MESSAGE = 2000
"""Characters of an upstream's message that are passed on."""
MAX_SAID = 8192
"""Characters of it in which a refusal is looked for: gateways have the host's in a text of their
own."""
MAX_EVENTS = 100


class Refused(Exception):  # noqa: N818 - an answer to the client, not a fault of the program
    """The request is refused with an HTTP error, and nothing was sent to the upstream."""

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """An error as an upstream wrote it, or as clients know it; missing fields are empty."""

    message: str = ""
    type: str = ""
    code: str = ""
    param: str | None = None
    status: int = 0
    retry_after: str = ""


_FINAL_STATUSES = frozenset({400, 405, 413, 415, 422, 451})
"""Statuses that the same request will get again; others may pass."""
_TYPES_BY_STATUS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_WAIT = re.compile(r"try again in\s*\d+(\.\d+)?\s*(s|ms|seconds?)\b", re.IGNORECASE)
"""Codex looks for this wording."""
_ANY_WAIT = re.compile(
    r"(?:again|retry|wait|resets?)\D{0,20}?((?:\d{1,5}(?:\.\d{1,9})?\s*(?:ms|s|m|h)[a-z]*\s*)+)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(?<![\d.])([\d.]+)\s*(ms|s|m|h)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DEFAULT_WAIT = "5"
"""Seconds, for hosts that name none."""


def error_json(
    message: str,
    *,
    type: str,  # noqa: A002 - the name of the field
    param: str | None = None,
    code: str | None = None,
) -> bytes:
    """An error in OpenAI's form: the body of an HTTP error, or an event of a chat stream."""
    error = {"message": message, "type": type, "param": param, "code": code}
    return dumps({"error": error})


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error as a client of one API reads it."""

    status: int
    body: bytes
    retry_after: str = ""
    """The header of that name; empty for none."""


class ErrorForm(Protocol):
    """How the clients of one API read errors."""

    def ours(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> bytes:
        """The body of an error that the bridge answers itself."""

    def of_host(self, status: int, body: bytes, *, retry_after: str = "") -> HttpError:
        """An upstream's HTTP error, whatever its shape; `retry_after` is the value of that
        header."""

    def of_turn(self, error: ErrorObject) -> HttpError:
        """A turn that failed, for a client that asked for no stream."""


class OpenAIErrors:
    """Those of Chat Completions and Responses."""

    def ours(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> bytes:
        return error_json(message, type=_type_by(status), param=param, code=code)

    def of_host(self, status: int, body: bytes, *, retry_after: str = "") -> HttpError:
        return http_error(status, body, retry_after=retry_after)

    def of_turn(self, error: ErrorObject) -> HttpError:
        body = error_json(error.message, type="server_error", code=error.code)
        return HttpError(502, body)


OPENAI = OpenAIErrors()


def http_error(status: int, body: bytes, *, retry_after: str = "") -> HttpError:
    """See `ErrorForm.of_host`, in OpenAI's form.

    Codex sends a request that was refused by a limit again only if the error says when, in whole
    seconds or as a date.  The status stays what it was, but for that of a context that is too
    long: Codex, which then compacts, looks for it in a 400 alone.
    """
    error = error_object(error_value(body))
    code = known_code(error.code, error.type, error.message, status)
    name = f"HTTP {status} {responses.get(status, '')}".rstrip()
    message = error.message or f"The upstream answered with {name}."
    kind = error.type
    if code == "context_length_exceeded" and status != 400:
        status, kind = 400, ""
    header = retry_after
    if code == "rate_limit_exceeded" and not (retry_after.isdigit() or "," in retry_after):
        header = _wait_in(f"retry in {retry_after}s") or _wait(error)
    new_body = error_json(
        _with_wait(message, code, retry_after),
        type=kind or TYPES.get(code or "") or _TYPES_BY_STATUS.get(status) or _type_by(status),
        param=error.param,
        code=code or error.code or None,
    )
    return HttpError(status, new_body, header)


def known_error(error: ErrorObject) -> ErrorObject:
    """An error of an upstream's, as clients know it."""
    code = known_code(error.code, error.type, error.message, error.status)
    if code is None:
        code = "invalid_prompt" if error.status in _FINAL_STATUSES else "server_error"
    message = error.message or "The upstream reported an error without a message."
    message = _with_wait(message, code, _wait(error))
    return ErrorObject(message, error.type or TYPES[code], code, error.param, error.status)


def failure(code: str, message: str) -> ErrorObject:
    """An error that the bridge itself has to report."""
    return ErrorObject(message, TYPES.get(code, "server_error"), code)


def read_error(value: Any) -> ErrorObject | None:
    """The error in a JSON value of either API; None if the value is no error."""
    return error_object(value) if _is_error(value) else None


def unlisted(value: Any) -> Any:
    """The first of a list: Google sends an error as a list of one."""
    return value[0] if isinstance(value, list) and value else value


def reports_error(frame: Frame) -> bool:
    value = frame.json
    choices = array(value.get("choices")) if isinstance(value, dict) else ()
    return frame.is_error or any(map(_is_error, [value, *choices]))


def _is_error(value: Any) -> bool:
    """``{"error": …}``, a list of such, or an object of an error's shape in place of a chunk."""
    value = unlisted(value)
    if not isinstance(value, dict):
        return False
    if value.get("error") or value == {"error": {}}:
        return True
    if value.get("choices"):
        return False
    if "error" in (value.get("object"), value.get("type")) or value.get("errors"):
        return True
    has_message = value.get("detail") or (value.get("message") and "code" in value)
    return bool(has_message) and "choices" not in value


def error_object(value: Any) -> ErrorObject:
    """Reads a value that is an error: ``{"error": {…}}``, ``{"error": "…"}``, a flat object (vLLM),
    FastAPI's ``detail``, a list of errors (Google), or text."""
    outer = unlisted(value)
    if not isinstance(outer, dict):
        return ErrorObject(_text(outer))
    inner = outer.get("error") or outer.get("errors") or outer
    if isinstance(inner, list):
        inner = inner[0]
    if not isinstance(inner, dict):
        inner = {"message": inner if isinstance(inner, str) else outer.get("message") or inner}
    fields = outer | inner
    message = _text(fields.get("message") or fields.get("detail") or fields.get("msg"))
    metadata = fields.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        message = f"{message}: {raw}"[:MAX_MESSAGE]  # OpenRouter: what its provider answered
    code, kind, param = fields.get("code"), fields.get("type"), fields.get("param")
    return ErrorObject(
        message=message,
        type=kind if isinstance(kind, str) and kind != "error" else "",
        code=code[:MAX_MESSAGE] if isinstance(code, str) else "",
        param=param if isinstance(param, str) else None,
        status=_number(code) or _number(fields.get("status")) or _number(fields.get("status_code")),
        retry_after=str(_number(fields.get("retry_after")) or ""),
    )


def _wait(error: ErrorObject) -> str:
    """The seconds after which the request may be sent again."""
    return error.retry_after or _wait_in(error.message) or _DEFAULT_WAIT


def _wait_in(message: str) -> str:
    """The seconds to wait that a message names, rounded up; empty if none."""
    found = _ANY_WAIT.search(message)
    if found is None:
        return ""
    spans = _SPAN.findall(found[1])
    return str(max(1, ceil(sum(float(n) * _SECONDS[unit.lower()] for n, unit in spans))))


def _with_wait(message: str, code: str | None, retry_after: str) -> str:
    seconds = re.fullmatch(r"\d{1,6}(\.\d{1,3})?", retry_after)
    if code != "rate_limit_exceeded" or not seconds or _WAIT.search(message):
        return message
    return f"{message.rstrip('. ')}. Please try again in {retry_after}s."


def _type_by(status: int) -> str:
    return "invalid_request_error" if 400 <= status < 500 else "server_error"


def error_value(body: bytes) -> Any:
    """The JSON of an error's body, or of the first event of an event stream; else a short text."""
    documents: Iterable[bytes] = (body,)
    if is_event_stream(body):
        documents = (frame.data or b"" for frame in islice(split(body), MAX_EVENTS))
    for document in documents:
        with suppress(NotJson):
            return loads(document)
    text = body[: 4 * MAX_MESSAGE].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text  # a gateway's HTML adds nothing to its status


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return ""
    return (value if isinstance(value, str) else dumps(value).decode())[:MAX_MESSAGE]


def _number(value: Any) -> int:
    """A status or a number of seconds, also as a string; 0 if it is neither."""
    is_number = isinstance(value, (int, str)) and re.fullmatch(r"[0-9]{1,6}", str(value))
    return int(value) if is_number else 0
