"""The one place that turns JSON text into values and back.

What leaves is compact, in the key order of the value, UTF-8; a lone surrogate,
which UTF-8 cannot carry, is escaped as it was in the input.  A value that was read can
be written, and walked by functions that call themselves, wherever it comes to stand.
"""

from __future__ import annotations

import json
import math
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


MAX_VALUES = 1_000_000
"""Arrays and objects of a text that is read, and a fourth of its values: each takes some
dozens of bytes of memory, and of the text as few as two."""
MAX_NESTING = 200
"""Levels of arrays and objects; Python itself reads and writes a few more, or a few
thousand more, depending on its version and on who calls."""


class NotJson(ValueError):  # noqa: N818 - the name says what is the matter
    """The text is not JSON, or nested too deeply to be read."""


def loads(text: bytes | bytearray | str) -> Any:
    """The value of a JSON text; raises `NotJson` and nothing else."""
    if len(text) > MAX_VALUES and _holds_too_much(text):
        raise NotJson("more values than are read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    if _brackets(text) > MAX_NESTING and _nesting_exceeds(value, MAX_NESTING):
        raise NotJson(f"nested more than {MAX_NESTING} levels deep")
    return value


def _holds_too_much(text: bytes | bytearray | str) -> bool:
    commas = text.count(",") if isinstance(text, str) else text.count(b",")
    return commas > 4 * MAX_VALUES or _brackets(text) > MAX_VALUES


def _brackets(text: bytes | bytearray | str) -> int:
    """How often something opens in a text, or seems to."""
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def _nesting_exceeds(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            member
            for holder in level
            for member in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(member, (dict, list))
        ]
    return bool(level)


def dumps(value: Any) -> bytes:
    """Compact JSON.  Numbers too large to be read (``1e999``) become null.  Raises
    `NotJson` for a value nested too deeply."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except (ValueError, RecursionError):
        pass
    try:
        return _encode_ascii(_finite(value)).encode()
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def quoted(text: str) -> bytes:
    """The JSON string of a text: what `dumps` gives for it, sooner."""
    try:
        return encode_basestring(text).encode()
    except UnicodeEncodeError:
        return encode_basestring_ascii(text).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list) else value
