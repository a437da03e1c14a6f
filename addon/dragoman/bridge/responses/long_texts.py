"""Writes events with long texts, each text only once.

The end of a reply repeats a text three times: by itself, in its item, and in the response.  To
write a string takes several milliseconds a megabyte.  What is written stays in pieces, which are
never joined: even to copy sixteen megabytes takes its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire.json_codec import quoted
from ...wire.json_slices import LONG_STRING, writing
from ...wire.slices import Slices

LONG = 64 * 1024
_HOLDERS = frozenset({"response", "output", "item", "content", "summary", "part", "function"})
"""The fields that lead to the texts of a reply."""


class LongTexts:
    """The long texts of one response. A text is known by its identity, so it is held: else another
    object could get the same."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._written: dict[int, list[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        """Remember a text, if it is long."""
        if len(text) > LONG:
            self._texts[id(text)] = text

    def writing(self, value: Any) -> Slices[list[bytes]]:
        """What `dumps` writes for a value, in slices and in pieces; but only a part of the string
        with a lone surrogate is escaped, where `dumps` escapes all that is not ASCII."""
        if not self:
            return [(yield from writing(value))]
        out: list[bytes] = []
        yield from self._value(value, out, holds=True)
        return out

    def _text(self, text: str) -> Slices[list[bytes]]:
        if id(text) not in self._written:
            pieces = [b'"']
            for begin in range(0, len(text), LONG_STRING):
                pieces.append(quoted(text[begin : begin + LONG_STRING])[1:-1])
                yield
            self._written[id(text)] = [*pieces, b'"']
        return self._written[id(text)]

    def _object(self, fields: Mapping[str, Any], out: list[bytes]) -> Slices[None]:
        mark = b"{"
        for name, value in fields.items():
            out.append(mark + quoted(name) + b":")
            yield from self._value(value, out, holds=name in _HOLDERS)
            mark = b","
        out.append(b"}" if fields else b"{}")

    def _value(self, value: Any, out: list[bytes], *, holds: bool) -> Slices[None]:
        if id(value) in self._texts:
            out += yield from self._text(value)
        elif holds and isinstance(value, dict):
            yield from self._object(value, out)
        elif holds and isinstance(value, list) and value:
            mark = b"["
            for member in value:
                out.append(mark)
                yield from self._value(member, out, holds=self._is_in(member))
                mark = b","
            out.append(b"]")
        else:
            out.append((yield from writing(value)))
        yield

    def _is_in(self, member: Any) -> bool:
        """Whether an item or a part holds a long text; a response may have thousands."""
        if not isinstance(member, dict):
            return False
        return any(
            id(value) in self._texts
            or (name in _HOLDERS and any(map(self._is_in, _members(value))))
            for name, value in member.items()
        )


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
