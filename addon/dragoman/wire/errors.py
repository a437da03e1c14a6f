"""Reads errors of any shape, and writes them in the one that clients read.

Clients decide by ``code`` whether to retry, wait, compact the conversation or give up, so every
upstream error gets a code that they know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from math import ceil
from typing import Any

from .json_codec import NotJson, dumps, loads
from .sse import Frame, is_event_stream, split

MAX_MESSAGE = 2000
"""Characters of an upstream's message that are passed on."""
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

    @property
    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return error_json(self.message, type=kind, param=self.param, code=self.code)


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """An error in OpenAI's fields."""

    message: str
    type: str
    code: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """A code, and how it is recognized in an upstream's error."""

    code: str
    statuses: frozenset[int]
    """A message counts with these, or without an HTTP error status."""
    words: re.Pattern[str]
    """Searched in the upstream's code and type, then in its message."""

    def means(self, message: str, status: int) -> bool:
        plausible = status in self.statuses or not 400 <= status < 600
        return plausible and bool(self.words.search(message))


_SERVER_ERRORS = range(500, 600)

# What upstreams say, and the code that makes clients do the right thing.  Codex compacts
# on context_length_exceeded, waits on rate_limit_exceeded, gives up on insufficient_quota,
# invalid_prompt and server_is_overloaded (though an overload passes), and retries anything else.
# The first match counts, and what passes by itself comes before what does not: a message about a
# rate limit names tokens and the page of the billing settings.
_KNOWN = tuple(
    _Known(code, frozenset(statuses), re.compile(words, re.IGNORECASE))
    for code, statuses, words in (
        (
            "rate_limit_exceeded",
            [429, *_SERVER_ERRORS],
            r"rate[ _-]?limit|too[ _]many[ _]requests|\b(rpm|tpm|tpd)\b|throttl"
            r"|(tokens|requests) per (min|day)|max organization concurrency"
            r"|slow[ _]down|flex_unavailable",
        ),
        (
            "insufficient_quota",
            [402, 403, 429],
            r"insufficient[ _](quota|balance|funds|credits?)|exceeded_current_quota"
            r"|exceeded your current quota|quota[ _](exceeded|exhausted)|out of (credits|quota)"
            r"|billing_(not_active|hard_limit_reached)|arrear|please (recharge|top up)"
            r"|credit_balance|spend[ _]limit",
        ),
        (
            "context_length_exceeded",
            [400, 401, 413, 422, 500],  # 401: Kimi's coding plan, for a model of less context
            r"context_length_exceeded|context[ _-](length|window|size|limit)"
            r"|exceed\w* (the )?(model('s)? )?(max\w* |token )+(limit|length|context)"
            r"|(prompt|input)( \([^()]{0,60}\))?( (is|was|text|length|token count))*"
            r" too (long|large|many tokens)|(prompt|input)_too_(long|large)|tokens_limit_reached"
            r"|request (is |was )?too large for|too many (input )?tokens"
            r"|exceeds the maximum number of tokens|reduce the length|max_seq_len"
            r"|maximum (input|prompt|sequence) length|supports? only .{1,30}context",
        ),
        (
            "rate_limit_exceeded",
            [429, *_SERVER_ERRORS],
            r"overloaded|at capacity|over capacity|server is busy|temporarily out of capacity",
        ),
        (
            "invalid_prompt",
            [400, 403, 422, 451, 500],
            r"invalid_prompt|content_policy_violation|content_filter|data_?inspection_?failed"
            r"|considered high risk|(safety|moderation) (system|policy|check)",
        ),
    )
)
# An upstream's code that is none of these names what happened, and its message is no
# better witness.  Compared in lower case, without what stands between the words.
_VAGUE_CODES = frozenset(
    {
        *("", "error", "unknown", "unknownerror", "badrequest", "badrequesterror", "forbidden"),
        *("invalidrequest", "invalidrequesterror", "invalidparameter", "invalidparametererror"),
        *("invalidargument", "invalidvalue", "validationerror", "validationexception"),
        *("servererror", "internalerror", "internalservererror", "serviceunavailable"),
        *("apierror", "upstreamerror", "providererror", "requestfailed"),
    }
)
_FINAL_STATUSES = frozenset({400, 405, 413, 415, 422, 451})
"""Statuses that the same request will get again."""
_CODES_BY_STATUS = {
    402: "insufficient_quota",
    429: "rate_limit_exceeded",
    529: "rate_limit_exceeded",
}
_OFFICIAL_CODES = frozenset({"rate_limit_exceeded", "server_error", "invalid_prompt"})
"""The codes above that the API lists for a response's error."""
_NEAREST_CODES = {
    "context_length_exceeded": "invalid_prompt",
    "insufficient_quota": "rate_limit_exceeded",
}
"""For the others, by whether a retry may help; `server_error` for any further one."""
_TYPES = {
    "context_length_exceeded": "invalid_request_error",
    "insufficient_quota": "insufficient_quota",
    "rate_limit_exceeded": "rate_limit_error",
    "invalid_prompt": "invalid_request_error",
    "server_error": "server_error",
}
_TYPES_BY_STATUS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_WAIT = re.compile(r"try again in\s*\d+(\.\d+)?\s*(s|ms|seconds?)\b", re.IGNORECASE)
"""Codex looks for this wording."""
_WAIT_OTHERWISE = re.compile(
    r"(?:again|retry|wait|resets?)\D{0,20}?(\d{1,5}(?:\.\d{1,3})?)\s*(ms|s|m|h)", re.IGNORECASE
)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_SOME_SECONDS = 5
"""The wait for hosts that name none."""


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
    """An HTTP error as a Responses client reads it."""

    status: int
    body: bytes
    retry_after: str


def http_error(status: int, body: bytes, *, retry_after: str = "") -> HttpError:
    """An upstream's HTTP error, whatever its shape; `retry_after` is that header. Codex retries a
    request refused by a limit only after a given wait. The status stays, but for a 401 that is not
    about authentication."""
    said = said_by(_value(body))
    code = _classify(said, status)
    message = said.message or f"The upstream answered with HTTP {_status_name(status)}."
    if status == 401 and code == "context_length_exceeded":
        status = 400
    if code == "rate_limit_exceeded" and not retry_after:
        header = said.retry_after or _wait_in(said.message) or str(_SOME_SECONDS)
    else:
        header = retry_after
    told = error_json(
        _with_wait(message, code, retry_after),
        type=said.type or _TYPES_BY_STATUS.get(status) or _type(status),
        param=said.param,
        code=code or said.code or None,
    )
    return HttpError(status, told, header)


def stream_error(value: Any, *, named: bool = False) -> UpstreamError | None:
    """The error in a chunk of a stream, or in a reply with status 200; None if there is none.
    `named`: the frame is an ``event: error``."""
    said = said_by(value) if named else read_error(value)
    if said is None:
        return None
    code = _classify(said, said.status)
    if code is None:
        code = "invalid_prompt" if said.status in _FINAL_STATUSES else "server_error"
    message = said.message or "The upstream reported an error without a message."
    wait = said.retry_after or _wait_in(message) or str(_SOME_SECONDS)
    message = _with_wait(message, code, wait)
    return UpstreamError(message, said.type or _TYPES[code], code, said.param)


def failure(code: str, message: str) -> UpstreamError:
    """An error of the bridge itself."""
    return UpstreamError(message, _TYPES.get(code, "server_error"), code)


def official_code(code: str) -> str:
    """The nearest of the codes that the API lists for a response's error."""
    return code if code in _OFFICIAL_CODES else _NEAREST_CODES.get(code, "server_error")


@dataclass(frozen=True, slots=True)
class ErrorObject:
    """An upstream's error; missing fields are empty."""

    message: str = ""
    type: str = ""
    code: str = ""
    param: str | None = None
    status: int = 0
    retry_after: str = ""


def read_error(value: Any) -> ErrorObject | None:
    """The error in a JSON value of either API; None if it is none."""
    return said_by(value) if _is_error(value) else None


def unlisted(value: Any) -> Any:
    """The first of a list: Google sends an error as a list of one."""
    return value[0] if isinstance(value, list) and value else value


def reports_error(frame: Frame) -> bool:
    if frame.is_error:
        return True
    try:
        value = loads(frame.data or b"")
    except NotJson:
        return False
    choices = value.get("choices") if isinstance(value, dict) else None
    return any(map(_is_error, [value, *(choices if isinstance(choices, list) else ())]))


def _is_error(value: Any) -> bool:
    """``{"error": …}``, a list of such, or an object of an error's shape in place of a chunk."""
    value = unlisted(value)
    if not isinstance(value, dict):
        return False
    error = value.get("error")
    if error or value == {"error": {}}:
        return True
    if value.get("choices"):
        return False
    if value.get("object") == "error" or value.get("type") == "error" or value.get("errors"):
        return True
    return "choices" not in value and bool(
        value.get("detail") or (value.get("message") and "code" in value)
    )


def said_by(value: Any) -> ErrorObject:
    """Reads a value that is an error: ``{"error": {…}}``, ``{"error": "…"}``, a flat object (vLLM),
    FastAPI's ``detail``, a list of errors (Google), or text."""
    outer = unlisted(value)
    if not isinstance(outer, dict):
        return ErrorObject(_text(outer))
    inner = outer.get("error") or outer.get("errors") or outer
    if isinstance(inner, list):
        inner = inner[0]
    if not isinstance(inner, dict):
        said = inner if isinstance(inner, str) else outer.get("message") or inner
        inner = {"message": said}
    fields = outer | inner
    message = fields.get("message") or fields.get("detail") or fields.get("msg")
    code, kind, param = fields.get("code"), fields.get("type"), fields.get("param")
    return ErrorObject(
        message=_text(message),
        type=kind if isinstance(kind, str) and kind != "error" else "",
        code=code[:MAX_MESSAGE] if isinstance(code, str) else "",
        param=param if isinstance(param, str) else None,
        status=_number(code) or _number(fields.get("status")) or _number(fields.get("status_code")),
        retry_after=str(_number(fields.get("retry_after")) or ""),
    )


def _classify(said: ErrorObject, status: int) -> str | None:
    """The known code of an error: by its code and type, else by its status and, unless its code is
    clear, its message."""
    own = f"{said.code} {said.type}"
    for known in _KNOWN:
        if known.words.search(own):
            return known.code
    if re.sub(r"[^a-z]", "", said.code.lower()) in _VAGUE_CODES:
        for known in _KNOWN:
            if known.means(said.message, status):
                return known.code
    return _CODES_BY_STATUS.get(status)


def _wait_in(message: str) -> str:
    """The seconds to wait that a message names, rounded up; empty if none."""
    found = _WAIT_OTHERWISE.search(message)
    if found is None:
        return ""
    return str(max(1, ceil(float(found[1]) * _SECONDS[found[2].lower()])))


def _with_wait(message: str, code: str | None, retry_after: str) -> str:
    seconds = re.fullmatch(r"\d{1,6}(\.\d{1,3})?", retry_after)
    if code != "rate_limit_exceeded" or not seconds or _WAIT.search(message):
        return message
    return f"{message.rstrip('. ')}. Please try again in {retry_after}s."


def _type(status: int) -> str:
    return "server_error" if status >= 500 else "invalid_request_error"


def _status_name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _value(body: bytes) -> Any:
    """The JSON of a body, or of the first event of one that is an event stream; else text."""
    if not is_event_stream(body):
        try:
            return loads(body)
        except NotJson:
            return _plain_text(body)
    for frame in islice(split(body), MAX_EVENTS):
        try:
            return loads(frame.data or b"")
        except NotJson:
            continue
    return _plain_text(body)


def _plain_text(body: bytes) -> str:
    """A short text; an HTML page (a gateway's) adds nothing to its status."""
    text = body[: 4 * MAX_MESSAGE].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text


def _text(value: Any) -> str:
    if value is None or value in ({}, []):
        return ""
    if not isinstance(value, str):
        return dumps(value).decode()[:MAX_MESSAGE]
    return value[:MAX_MESSAGE]


def _number(value: Any) -> int:
    """A status or a number of seconds, also as a string; 0 if it is none."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000:
        return value
    return 0
