"""A reply at a glance: what its headline says, found without reading all of it.

A reply of ten thousand events must not cost ten thousand times reading JSON when it
ends.  So only lines that can matter are read: the first until one carries a token, those
that name a call, and the last that hold usage.  What is looked for is found by searching
bytes; text cannot be mistaken for it, because JSON escapes the quotes of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ..notes import printable
from ..wire.chat_calls import elements, read_delta
from ..wire.chat_delta import choices
from ..wire.chat_text import FIELDS_OF
from ..wire.errors import read_error, unlisted
from ..wire.json_codec import NotJson, loads
from ..wire.sse import is_event_stream
from ..wire.usage import counts

MAX_FIRST_LINES = 64
"""Lines that are read in search of the first token."""
MAX_CALLS = 1000
"""Lines naming a call that are read."""
MAX_WHOLE = 16 * 1024 * 1024
"""Bytes of a body in one piece that is read."""
MAX_LINE = 1024 * 1024
"""Bytes of a line that is read."""
_NAME = re.compile(rb'"name"\s*:\s*"[^"]')
_DATA = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[^\r\n]*(?=[\r\n])")
_CODE = re.compile(r"[A-Za-z][\w.\-]{0,63}\Z")
_LAST = (b'"usage"', b'"error"', b'"errors"', b'"detail"', b'"finish_reason"')
_TOKENS = (*FIELDS_OF["reasoning"], *FIELDS_OF["text"], "tool_calls")
_DELTA_TYPES = re.compile(r"response\..*delta$")


@dataclass(frozen=True, slots=True)
class ReplySummary:
    """What the headline of a flow is made of."""

    parsed: bool = False
    """Whether there was anything that an LLM says: a chunk, an event, a reply, an error."""
    model: str = ""
    calls: tuple[str, ...] = ()
    """Names of the calls in the body, in their order."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_token: int | None = None
    """Bytes of the body up to the end of the first line that carries a token."""
    failed: str = ""
    """The code or type of the error that the body reports."""


def summarize(body: bytes | bytearray, tail: bytes = b"") -> ReplySummary:
    """A look at the body of a reply, streamed or not, perhaps still growing.

    `tail` is the end of a body of which `body` is only the beginning.
    """
    whole = _whole(body)
    if whole is not None:
        return _of_whole(whole, len(body))
    first: int | None = None
    parsed = False
    model = ""
    for end, value in _first_values(body):
        model = model or _model(value)
        parsed = parsed or _is_ours(value)
        if _carries_token(value):
            first = end
            break
    last = _last_values(tail or body)
    usage = next(filter(None, map(counts, last)), None)
    failed = next(filter(None, map(_error, last[:1])), "")
    return ReplySummary(
        parsed=parsed or bool(failed) or any(map(_is_ours, last)),
        model=model,
        calls=tuple(_calls(body)),
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        first_token=first,
        failed=failed,
    )


def _whole(body: bytes | bytearray) -> Mapping[str, object] | None:
    if len(body) > MAX_WHOLE or is_event_stream(body):
        return None
    try:
        value = loads(body)
    except NotJson:
        return None
    value = unlisted(value)
    return value if isinstance(value, dict) else None


def _of_whole(value: Mapping[str, object], size: int) -> ReplySummary:
    usage = counts(value)
    return ReplySummary(
        parsed=_is_ours(value) or bool(_error(value)),
        model=_model(value),
        calls=tuple(_called(value)),
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        first_token=size,
        failed=_error(value),
    )


def _first_values(body: bytes | bytearray) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The JSON objects of the first ``data`` lines, each with the offset of its end."""
    for line in islice(_DATA.finditer(body), MAX_FIRST_LINES):
        value = _value(line[0][:MAX_LINE])
        if value is not None:
            yield line.end(), value


def _last_values(body: bytes | bytearray) -> list[Mapping[str, object]]:
    """The JSON objects of the last lines that hold how it ended, latest first."""
    found: dict[int, Mapping[str, object]] = {}
    for what in _LAST:
        end = len(body)
        for _ in range(3):
            end = body.rfind(what, 0, end)
            if end < 0:
                break
            start, value = _line_at(body, end)
            if value is not None:
                found[start] = value
    return [found[start] for start in sorted(found, reverse=True)]


def _calls(body: bytes | bytearray) -> Iterator[str]:
    seen = set()
    end = 0
    for _ in range(MAX_CALLS):
        match = _NAME.search(body, end)
        if match is None:
            return
        _, value = _line_at(body, match.start())
        end = match.end()
        for key, name in _deltas(value) if value else ():
            if key not in seen:
                seen.add(key)
                yield name


def _line_at(body: bytes | bytearray, position: int) -> tuple[int, Mapping[str, object] | None]:
    """Where the line around `position` begins, and the JSON object of its ``data``."""
    start = 1 + max(body.rfind(end, 0, position) for end in (b"\n", b"\r"))
    ends = [end for end in (body.find(b"\n", position), body.find(b"\r", position)) if end >= 0]
    return start, _value(body[start : min(ends, default=len(body))])


def _value(line: bytes | bytearray) -> Mapping[str, object] | None:
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.startswith(b"data:") or len(line) > MAX_LINE:
        return None
    try:
        value = loads(line[5:])
    except NotJson:
        return None
    value = unlisted(value)
    return value if isinstance(value, dict) else None


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    """The objects in what should be a list of them."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _is_ours(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    return (
        isinstance(value.get("choices"), list)
        or value.get("object") == "response"
        or (isinstance(kind, str) and kind.startswith("response."))
    )


def _model(value: Mapping[str, object]) -> str:
    inner = value.get("response")
    model = value.get("model") or (inner.get("model") if isinstance(inner, dict) else None)
    return printable(model) if isinstance(model, str) else ""


def _carries_token(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    if isinstance(kind, str) and _DELTA_TYPES.match(kind):
        return True
    said = (choice.said for choice in choices(value) if not choice.whole)
    return any(delta.get(name) for delta in said for name in _TOKENS)


def _deltas(value: Mapping[str, object]) -> Iterator[tuple[object, str]]:
    """The calls that a chunk or event names: (what tells them apart, name)."""
    for choice in choices(value):
        for call in map(read_delta, elements(choice.said)):
            if call and call.name:
                yield (choice.index, call.index, call.id), printable(call.name)
    item = value.get("item")
    if value.get("type") == "response.output_item.added" and isinstance(item, dict):
        yield from ((_id(item), name) for name in _item_name(item))


def _id(call: Mapping[str, object]) -> str:
    value = call.get("id")
    return value if isinstance(value, str) else ""


def _called(value: Mapping[str, object]) -> Iterator[str]:
    """The calls of a whole reply."""
    yield from (name for _, name in _deltas(value))
    for item in _objects(value.get("output")):
        yield from _item_name(item)


def _item_name(item: Mapping[str, object]) -> Iterator[str]:
    kind, name = item.get("type"), item.get("name")
    if isinstance(kind, str) and kind.endswith("_call"):
        yield printable(name if isinstance(name, str) else kind.removesuffix("_call"))


def _error(value: Mapping[str, object]) -> str:
    error = read_error(value) or read_error(value.get("response"))
    # Not its message: upstreams repeat in it what they were sent, credentials too.
    words = (error.code, error.type, "error") if error else ()
    return next(filter(_CODE.match, words), "")
