"""Reads and writes JSON.

Output is compact, in the key order of the value, UTF-8; a lone surrogate, which UTF-8 cannot
carry, is escaped as in the input.  Any value that was read is shallow enough to be written, and
walked recursively, even nested in another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from json.encoder import (  # type: ignore[attr-defined]
    c_make_encoder,
    encode_basestring,
    encode_basestring_ascii,
)
from typing import Any

MAX_VALUES = 1_000_000
"""Arrays and objects of a text, and a fourth of its values: each takes dozens of bytes of memory,
and as few as two of the text."""
PIECE = 64 * 1024
"""Bytes of a text that are looked at, or characters of a string that are written, in a millisecond:
then other flows may have their turn."""
LONG = 1024
"""Characters of a string that is written in a step of its own."""
MAX_NESTING = 200
"""Levels of arrays and objects; Python's own limit depends on its version and on the caller."""
_Text = bytes | bytearray | str
Json = dict[str, Any]
"""A JSON object."""
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class NotJson(ValueError):  # noqa: N818 - the name says what is the matter
    """The text is not JSON, or nested too deeply."""


class TooDeep(NotJson):
    """The text is nested too deeply to be read."""


def loads(text: _Text, *, checks: bool = True) -> Any:
    """The value of a JSON text; raises `NotJson` and nothing else.  Without `checks` the caller has
    counted its values, and looks at its nesting."""
    # A text that is too much of anything is long.
    opened = _count(text, "[") + _count(text, "{") if checks and len(text) > 2 * MAX_NESTING else 0
    commas = _count(text, ",") if checks and len(text) > 4 * MAX_VALUES else 0
    if opened > MAX_VALUES or commas > 4 * MAX_VALUES:
        raise NotJson("more values than are read")
    try:
        value = _read(text)
    except RecursionError:
        raise TooDeep(f"nested more than {MAX_NESTING} levels deep") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    if opened > MAX_NESTING and nesting_exceeds(value, MAX_NESTING):
        raise TooDeep(f"nested more than {MAX_NESTING} levels deep")
    return value


def _count(text: _Text, mark: str) -> int:
    """Also counts marks within strings."""
    return text.count(mark) if isinstance(text, str) else text.count(mark.encode())


def _read(text: _Text) -> Any:
    """What `json.loads` gives, faster for UTF-8."""
    try:
        stripped = (text if isinstance(text, str) else text.decode()).strip(" \t\n\r")
        value, end = _scan(stripped, 0)
    except (ValueError, StopIteration):
        return json.loads(text)
    return value if end == len(stripped) else json.loads(text)


def marks_in(text: bytes) -> int:
    """At least the JSON values of a text, less one: also counts marks within strings."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def values_so_far(body: bytes) -> Iterator[int]:
    """At least the JSON values of a text, less one, after each piece of it: what stands in strings
    does not count."""
    if b"\0" in body:  # of another encoding than UTF-8, whose quotes are not found here
        yield marks_in(body)
        return
    marks, quotes, cut_off = 0, 0, b""
    for at in range(0, len(body), PIECE):
        piece = cut_off + body[at : at + PIECE]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"")
            cut_off = b"\\" if piece.endswith(b"\\") else b""
            piece = piece.replace(b'\\"', b"")
        parts = piece.split(b'"')
        marks += marks_in(b"".join(parts[quotes % 2 :: 2]))
        quotes += len(parts) - 1
        # A comma or an opening for two strings: without them it is no JSON, but much work.
        yield max(marks, quotes // 4)


def nesting_exceeds(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            member
            for holder in level
            for member in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(member, (dict, list))
        ]
    return bool(level)


def _encoder(string: Callable[[str], str]) -> Callable[[Any, int], Iterable[str]]:
    """Refuses infinite numbers; finds a value that holds itself by its depth.  The standard library
    makes such an encoder for each value."""
    default = json.JSONEncoder().default
    style = (None, ":", ",", False, False, False)
    encoder: Callable[[Any, int], Iterable[str]] = c_make_encoder(None, default, string, *style)
    return encoder


_encode, _encode_ascii = _encoder(encode_basestring), _encoder(encode_basestring_ascii)


def dumps(value: Any) -> bytes:
    """Compact JSON; infinite numbers (``1e999``) become null. Raises `NotJson` for too deep
    nesting."""
    try:
        text = "".join(_encode(value, 0))
    except (ValueError, RecursionError):
        try:
            value = _finite(value)
            text = "".join(_encode(value, 0))
        except (ValueError, RecursionError) as error:
            raise NotJson(str(error)) from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join(_encode_ascii(value, 0)).encode()


def dumps_in_steps(value: Any) -> Generator[None, None, bytes]:
    """What `dumps` gives.  Yields after each long string, and within it."""
    long: list[str] = []

    def short(text: str) -> str:
        if len(text) < LONG:
            return encode_basestring(text)
        long.append(text)
        return "\0"  # is escaped in strings, and stands nowhere else

    try:
        first, *others = "".join(_encoder(short)(value, 0)).encode().split(b"\0")
        written = [first]
        for text, after in zip(long, others, strict=True):
            written.append(b'"')
            for at in range(0, len(text), PIECE):
                written.append(encode_basestring(text[at : at + PIECE])[1:-1].encode())
                yield
            written += b'"', after
    except (ValueError, RecursionError):  # there is more to it
        return dumps(value)
    return b"".join(written)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list) else value


def quoted(text: str) -> bytes:
    """What `dumps` gives for a string, faster."""
    try:
        return encode_basestring(text).encode()
    except UnicodeEncodeError:
        return encode_basestring_ascii(text).encode()


# A value that may be anything, as what it should be, else as an empty one.


def string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def array(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Json]:
    """The objects in an array."""
    return [each for each in array(value) if isinstance(each, dict)]
