"""An error that says that a conversation is too long for its model: recognised in the words of any
host, with its numbers, and said in the words that every client of the Messages API knows.

Claude Code compacts and continues only where it finds ``prompt is too long`` in an error, and takes
out of the conversation what ``N tokens > M`` says is too much; so no number is ever made up.
Sources: what hosts and engines answer (Kimi, vLLM, SGLang, llama.cpp, Ollama, LM Studio, oMLX,
OpenRouter, Groq, …), one row each in the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .error_codes import known_code
from .errors import MAX_MESSAGE, ErrorObject, error_object, read_error, unlisted
from .json_codec import Json, NotJson, dumps, loads
from .sse import Frame, encode_chunk, is_event_stream, split

OVERFLOW = "context_length_exceeded"
_OURS = re.compile(r"prompt is too long: \d|input length and `max_tokens` exceed", re.IGNORECASE)
"""Anthropic's own words, which pass: on the second Claude Code lowers ``max_tokens``."""
_ANTHROPICS = re.compile(r"\d tokens? > \d|exceed context limit", re.IGNORECASE)
MISSING = (404, 405)
"""How hosts answer at an address, or of a model, that they have not; a name in such an error may
have the words of an overflow."""
_NOT_COUNTS = re.compile(
    r"max_(?:completion|new|output|total)?_?tokens|\bby \d{1,9} tokens|\([12]\d{3}\)\s{0,4}\Z",
    re.IGNORECASE,
)
"""Parameters, which are no limit of a prompt, the excess alone, and error codes."""
_NUMBER = r"(?<![\w.,-])(\d{1,3}(?:[,_]\d{3}){1,3}|\d{2,9})(?![\w-]|[.,_]\d)"
_ANY_NUMBER = re.compile(_NUMBER)
_LIMITS = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        rf"(?:max_seq_len|max_model_len|n_ctx)\W{{0,8}}{_NUMBER}",
        rf"\[\d{{1,2}}, {{0,2}}{_NUMBER}\]",
        rf"{_NUMBER} (?:tokens? )?max",
        rf"(?:context|model)[ _-](?:length|window|size|limit)[^\d\n]{{0,40}}{_NUMBER}",
        rf"(?:\bmax|limit|supports|up to|less than|or equal to|<=|>=?)[^\d\n]{{0,40}}{_NUMBER}",
    )
)
"""What the model takes, the surest words first."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """A conversation that is too long."""

    message: str
    """The host's words."""
    tokens: int | None = None
    """What was asked for: the prompt, or with the tokens of the answer where these exceed."""
    limit: int | None = None
    """What the model takes."""

    @property
    def sentence(self) -> str:
        """The words that clients of the Messages API know, and the host's."""
        if _ANTHROPICS.search(self.message) and _OURS.search(self.message):
            return self.message
        count = ""
        if self.tokens is not None and self.limit is not None:
            count = f": {self.tokens} tokens > {self.limit} maximum"
        elif self.limit is not None:
            count = f": more than {self.limit} tokens"
        said = f" ({self.message})" if self.message else ""
        return f"prompt is too long{count}{said}"[:MAX_MESSAGE]


def overflow_in(value: Any, status: int = 0) -> Overflow | None:
    """The overflow that an error reports: its JSON value, of any shape, or its text.  `status` is
    the HTTP status, 0 for an error in a stream.  None if it reports none."""
    return overflow_of(error_object(value), status, _counts_in(value))


def overflow_of(
    error: ErrorObject, status: int = 0, counts: tuple[int, int] | None = None
) -> Overflow | None:
    """The same of an error that was read; `counts` are the tokens and the limit, where known."""
    code, kind = error.code, error.type
    if status == 413:
        code = kind = ""  # a prompt above what a minute may have stays too long (Groq)
    # Gateways have statuses of their own for what their hosts refuse.
    elif status not in MISSING:
        status = 0
    if known_code(code, kind, error.message, status) != OVERFLOW:
        return None
    return Overflow(error.message, *(counts or _counts(error.message)))


def with_overflow_reworded(value: Any, status: int = 0) -> Any:
    """The value of an error that reports an overflow, in the words that clients know, all else as
    it was; the very object if it is none.  Any value is an error with a `status` of one."""
    if status < 400 and read_error(value) is None:
        return value
    overflow = overflow_in(value, status)
    if overflow is None or overflow.sentence == overflow.message:
        return value
    return _with_message(value, overflow.sentence)


def reworded_body(body: bytes, status: int) -> bytes:
    """The body of an error with an HTTP status, be it JSON, an event stream or a text."""
    if is_event_stream(body):
        return b"".join(reworded_frame(frame).raw for frame in split(body))
    try:
        value = loads(body)
    except NotJson:
        text = body.decode("utf-8", "replace").strip()
        if text.startswith("<") or (new := with_overflow_reworded(text, status)) == text:
            return body
        return str(new).encode()
    new = with_overflow_reworded(value, status)
    return body if new is value else dumps(new)


def reworded_frame(frame: Frame) -> Frame:
    """An event of a stream; the very object if it reports no overflow."""
    if b'"error"' not in frame.raw and not frame.is_error:
        return frame
    value = frame.json
    new = with_overflow_reworded(value, 400 if frame.is_error else 0)
    return frame if new is value else encode_chunk(new, b"event: error\n")


def _with_message(value: Any, message: str) -> Any:
    """The error with this message where it has its own."""
    if isinstance(value, list) and value:
        return [_with_message(value[0], message), *value[1:]]
    if not isinstance(value, dict):
        return message
    for holder in ("error", "errors"):
        if inner := value.get(holder):
            return {**value, holder: _with_message(inner, message)}
    said = [name for name in ("message", "detail", "msg") if value.get(name)]
    return {**value, said[0] if said else "message": message}


def _counts_in(value: Any) -> tuple[int, int] | None:
    """The fields of an error of llama.cpp."""
    outer = unlisted(value)
    inner = outer.get("error") if isinstance(outer, dict) else None
    fields: Json = inner if isinstance(inner, dict) else {}
    tokens, limit = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    return (tokens, limit) if type(tokens) is int and type(limit) is int else None


def _counts(message: str) -> tuple[int | None, int | None]:
    """The tokens and the limit that a message names."""
    if "string" in message or "axLength" in message:
        return None, None  # of characters
    message = _NOT_COUNTS.sub("", message)
    found = (words.search(message) for words in _LIMITS)
    limit = next((_value(match[1]) for match in found if match), None)
    if limit is None:
        return None, None
    others = [*dict.fromkeys(map(_value, _ANY_NUMBER.findall(message)))]
    others = [each for each in others if each != limit]
    # Of the prompt, or of it and of what the answer may have.
    tokens = max(others, default=0)
    if tokens <= limit:
        tokens = sum(others[:2])
    return (tokens if tokens > limit else None), limit


def _value(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", ""))
