"""The one place that turns JSON text into values and back.

What leaves is compact, in the key order of the value, UTF-8; a lone surrogate,
which UTF-8 cannot carry, is escaped as it was in the input.
"""

from __future__ import annotations

import json
import math
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class NotJson(ValueError):  # noqa: N818 - the name says what is the matter
    """The text is not JSON, or nested too deeply to be read."""


def loads(text: bytes | bytearray | str) -> Any:
    """The value of a JSON text; raises `NotJson` and nothing else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


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


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list) else value
