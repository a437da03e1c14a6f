"""The summary of a reply, which its headline needs, made without reading all of it.

A reply of ten thousand events must not cost ten thousand times reading JSON when it ends.  So only
lines that can matter are read: the first until one carries a token, those that name a call, the
first with an answer, and the last that hold usage and the finish reason.  They are found by
searching bytes; text cannot be mistaken for them, because JSON escapes the quotes of text.  The
readers of a whole reply (`parse.reply`) read these lines as if they were all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from ..notes import printable
from ..wire.chat_end import TAIL, is_done
from ..wire.chat_text import emptied_completion
from ..wire.errors import ErrorObject, read_error, unlisted
from ..wire.json_codec import Json, NotJson, loads, objects, string
from ..wire.json_slices import reading
from ..wire.slices import Slices
from ..wire.sse import is_event_stream
from .outcome import UNNAMED
from .parse.reply import MAX_WHOLE, ObjectReader, parsing_whole
from .parse.values import ParsedChoice, ParsedReply, Prose

MAX_FIRST_LINES = 64
MAX_CALLS = 1000
MAX_ANSWERS = 256
"""Texts that are read for one that is not blank; further or too long ones are taken for it."""
MAX_LINE = 1024 * 1024
_WINDOW, _OVERLAP = 1024 * 1024, 256
"""Bytes that are searched by one call, and what a match in them may be longer."""
_NAME = re.compile(rb'"name"\s*:\s*"[^"]')
_ANSWER = re.compile(
    rb'"(?:content|refusal)"\s*:\s*(?:"[^"]|\[)|"response\.(?:output_text|refusal)\.delta"'
)
_TERMINAL = re.compile(rb"event: ?response\.(completed|incomplete|failed|cancelled)")
_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,100})"')
_DATA = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[^\r\n]*+")
_CODE = re.compile(r"[A-Za-z][\w.\-]{0,63}\Z")
_RUN_BY_HOST = frozenset(
    {"web_search", "file_search", "code_interpreter", "image_generation", "mcp"}
)
"""Kinds of calls that no client executes: a turn does not end with them."""
_LAST = (b'"usage"', b'"error"', b'"errors"', b'"detail"', b'"finish_reason"')


@dataclass(frozen=True, slots=True)
class ReplySummary:
    """What the headline, the log and the statistics need of one side of a reply."""

    parsed: bool = False
    """Whether it is an LLM's: a chunk, an event, a reply, an error."""
    model: str = ""
    calls: tuple[str, ...] = ()
    """Names of the calls."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_token: int | None = None
    """Bytes up to the end of the first line with a token."""
    error_code: str = ""
    """Its code or type, if it is an error."""
    finishes: tuple[str, ...] = ()
    """The finish reason of each choice, or the status of a response."""
    answered: bool = False
    """Whether there is text for the user, other than blanks."""
    early: bool = False
    """Whether it is a stream without its end."""


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """Both sides of a reply, the same object if they are the same bytes: the upstream's has the
    figures, the client's what the turn came to."""

    upstream: ReplySummary = ReplySummary()
    client: ReplySummary = ReplySummary()
    refused_calls: int = 0
    """See `refused_calls.counting_refused`."""

    @property
    def model(self) -> str:
        return self.upstream.model or self.client.model


def summarizing_both(
    upstream: tuple[bytes, bytes], client: tuple[bytes, bytes]
) -> Slices[TurnSummary]:
    """Summarizes both sides of a reply; each is a body and its tail."""
    of_upstream = yield from summarizing(*upstream)
    of_client = of_upstream if client == upstream else (yield from summarizing(*client))
    return TurnSummary(of_upstream, of_client)


def summarizing(body: bytes, tail: bytes = b"") -> Slices[ReplySummary]:
    """Summarizes the body of a reply, perhaps unfinished. `tail` is the end of a body of which
    `body` is only the beginning."""
    if not is_event_stream(body):
        return (yield from _whole(body))
    reader = ObjectReader()
    first_token: int | None = None
    parsed = False
    fed: set[int] = set()
    for start, end, value in _first_lines(body):
        fed.add(start)
        parsed = parsed or _is_llm(value)
        if reader.feed(value):
            first_token = end
            break
    yield
    last_fed = max(fed, default=-1)
    for start, end in _lines_at(body, (yield from _matches(_NAME, body, MAX_CALLS))):
        if start > last_fed and (call := _value(body[start:end])) is not None:
            fed.add(start)
            reader.feed(call)
        yield
    error: ErrorObject | None = None
    usage = reader.usage
    for number, (start, value) in enumerate(_last_lines(tail or body, len(body) if tail else 0)):
        if not number:
            where = (value, value.get("response"), *objects(value.get("choices")))
            error = next(filter(None, map(read_error, where)), None)
        parsed = parsed or bool(error) or _is_llm(value)
        if start not in fed:
            reader.feed(value)
        if reader.usage is not usage and any(choice.finish for choice in reader.choices):
            break
        yield
    summary = _summary(reader.parsed(), error, parsed=parsed, first_token=first_token)
    finishes = summary.finishes or _last_event(tail or body)
    early = parsed and not (finishes or is_done((tail or body)[-TAIL:]))
    answered = summary.answered
    for part in (body, tail):
        answered = answered or (yield from _holding_answer(part))
    return replace(summary, finishes=finishes, early=early, answered=answered)


def model_asked(request: bytes) -> str:
    """The model in a request, for a reply that names none."""
    found = _MODEL.search(request[:MAX_LINE])
    return printable(found[1].decode("utf-8", "replace")) if found else ""


def _summary(
    reply: ParsedReply, error: ErrorObject | None, *, parsed: bool, first_token: int | None
) -> ReplySummary:
    calls = (call.name for call in reply.calls if call.kind not in _RUN_BY_HOST)
    usage = reply.usage
    return ReplySummary(
        parsed=parsed,
        model=printable(reply.model),
        calls=tuple(printable(name) for name in calls if name),
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        first_token=first_token,
        error_code=_code(error) if error else "",
        finishes=tuple(choice.finish for choice in reply.choices if choice.finish),
        answered=any(map(_answers, reply.choices)),
    )


def _answers(choice: ParsedChoice) -> bool:
    texts = (part for part in choice.parts if isinstance(part, Prose) and part.kind != "reasoning")
    return any(part.text.strip() for part in texts)


def _holding_answer(body: bytes) -> Slices[bool]:
    found = yield from _matches(_ANSWER, body, MAX_ANSWERS + 1)
    for start, end in _lines_at(body, found[:MAX_ANSWERS]):
        value, reader = _value(body[start:end]), ObjectReader()
        if value is not None and reader.feed(value) and any(map(_answers, reader.choices)):
            return True
        if end - start > MAX_LINE:
            return True
        yield
    return len(found) > MAX_ANSWERS


def _matches(pattern: re.Pattern[bytes], body: bytes, most: int) -> Slices[list[int]]:
    """Where the first matches of a pattern begin."""
    found: list[int] = []
    for begin in range(0, len(body), _WINDOW):
        end = begin + _WINDOW
        in_window = pattern.finditer(body, begin, end + _OVERLAP)
        found += (match.start() for match in in_window if match.start() < end)
        if len(found) >= most:
            break
        yield
    return found[:most]


def _last_event(body: bytes) -> tuple[str, ...]:
    """The status of a response whose last event is too long to be read."""
    found = _TERMINAL.match(body, max(0, body.rfind(b"event:")))
    return (found[1].decode(),) if found else ()


def _whole(body: bytes) -> Slices[ReplySummary]:
    try:
        value = (yield from reading(body)) if len(body) <= MAX_WHOLE else None
    except NotJson:
        value = None
    reply = yield from parsing_whole(value)
    yield from emptied_completion(value)
    first_token = len(body) if reply.ended else None
    return _summary(reply, reply.error, parsed=bool(reply.shape), first_token=first_token)


def _code(error: ErrorObject) -> str:
    """Not its message: upstreams repeat in it what they were sent, credentials too."""
    unnamed = f"{UNNAMED} {error.status}" if error.status else UNNAMED
    return next(filter(_CODE.match, (error.code, error.type)), unnamed)


def _first_lines(body: bytes) -> Iterator[tuple[int, int, Json]]:
    """The JSON objects of the first ``data`` lines that have an end, with their offsets."""
    for line in islice(_DATA.finditer(body), MAX_FIRST_LINES):
        start, end = line.span()
        value = _value(body[start:end]) if end - start <= MAX_LINE and end < len(body) else None
        if value is not None:
            yield start, end, value


def _last_lines(body: bytes, offset: int) -> Iterator[tuple[int, Json]]:
    """The JSON objects of the last lines with an end, latest first, and their offsets."""
    lines: dict[int, int] = {}
    for name in _LAST:
        position = len(body)
        for _ in range(3):
            position = body.rfind(name, 0, position)
            if position < 0:
                break
            start, end = _line_at(body, position)
            lines[start] = end
    for start in sorted(lines, reverse=True):
        value = _value(body[start : lines[start]])
        if value is not None:
            yield offset + start, value


def _lines_at(body: bytes, positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Begin and end of the lines around these positions, each line once."""
    end = -1
    for position in positions:
        if position >= end:
            start, end = _line_at(body, position)
            yield start, end


def _line_at(body: bytes, position: int) -> tuple[int, int]:
    """The begin and end of the line around `position`, or of the part of it that is near."""
    start = max(0, position - MAX_LINE)
    for line_end in (b"\n", b"\r"):
        start = max(start, 1 + body.rfind(line_end, start, position))
    end = position + MAX_LINE
    for line_end in (b"\n", b"\r"):
        found = body.find(line_end, position, end)
        end = found if found >= 0 else end
    return start, min(end, len(body))


def _value(line: bytes) -> Json | None:
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.startswith(b"data:") or len(line) > MAX_LINE:
        return None
    try:
        value = loads(line[5:])
    except NotJson:
        return None
    value = unlisted(value)
    return value if isinstance(value, dict) else None


def _is_llm(value: Json) -> bool:
    return (
        isinstance(value.get("choices"), list)
        or value.get("object") == "response"
        or string(value.get("type")).startswith("response.")
    )
