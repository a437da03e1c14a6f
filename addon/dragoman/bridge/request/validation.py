"""Reads a client's JSON: a field has the type it is read as, or the request is refused.

A `RequestObject` is one JSON object and its path, so a value of a wrong type becomes a 400 that
names the field (``input[3].content``), in the words of OpenAI's API, and never a TypeError.  A
null is an absent field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ...notes import printable
from ...wire.errors import Refused

MAX_PAIRS, MAX_KEY, MAX_TEXT = 16, 64, 512
"""The API's limits of ``metadata``: pairs, and characters of names and values."""
_JSON_NAMES: dict[type, str] = {
    bool: "a boolean",
    str: "a string",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
T = TypeVar("T")


def label(value: object) -> str:
    """A name chosen by the client, short and printable: for a note or a message."""
    return printable((value if isinstance(value, str) else _JSON_NAMES[type(value)])[:80])


def wrong_type(value: object, expected: str, path: str) -> Refused:
    """The refusal of a value that is not `expected` ("a string", "an array", ...)."""
    got = _JSON_NAMES[type(value)]
    return Refused(
        f"Invalid type for '{path}': expected {expected}, but got {got} instead.",
        param=path,
        code="invalid_type",
    )


def invalid_value(value: str, path: str, supported: str) -> Refused:
    message = f"Invalid value for '{path}': '{label(value)}'. Supported values are: {supported}."
    return Refused(message, param=path, code="invalid_value")


def unsupported(path: str, reason: str) -> Refused:
    return Refused(f"'{path}': {reason}", param=path, code="unsupported_value")


def missing(path: str) -> Refused:
    message = f"Missing required parameter: '{path}'."
    return Refused(message, param=path, code="missing_required_parameter")


def previous_not_found(response_id: str) -> Refused:
    """The refusal where the response to continue is not there: OpenAI's words, status and
    code, upon which clients send the whole conversation again."""
    return Refused(
        f"Previous response with id '{label(response_id)}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def present(**fields: Any) -> dict[str, Any]:
    """The fields with a value."""
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RequestObject:
    values: Mapping[str, Any]
    path: str = ""

    @classmethod
    def of(cls, value: object, path: str) -> RequestObject:
        """`value` as an object, or a refusal that names `path`."""
        if isinstance(value, dict):
            return cls(value, path)
        raise wrong_type(value, "an object", path)

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def _typed(self, name: str, kind: type[T]) -> T | None:
        """JSON values are of these very types; a boolean is no integer."""
        value = self.values.get(name)
        if value is None or type(value) is kind:
            return value
        raise wrong_type(value, _JSON_NAMES[kind], self.at(name))

    def string(self, name: str) -> str | None:
        return self._typed(name, str)

    def required_string(self, name: str) -> str:
        value = self.string(name)
        if value is None:
            raise missing(self.at(name))
        return value

    def boolean(self, name: str) -> bool | None:
        return self._typed(name, bool)

    def integer(self, name: str) -> int | None:
        return self._typed(name, int)

    def number(self, name: str) -> float | None:
        """A finite number, in the form it was written: an integer stays one."""
        value = self.values.get(name)
        is_finite = type(value) is float and math.isfinite(value)
        if value is None or type(value) is int or is_finite:
            return value
        raise wrong_type(value, "a finite number", self.at(name))

    def object(self, name: str) -> RequestObject | None:
        value = self.values.get(name)
        return None if value is None else RequestObject.of(value, self.at(name))

    def array(self, name: str) -> list[tuple[str, Any]]:
        """The elements, each with its path; empty if the field is absent."""
        path = self.at(name)
        elements = enumerate(self._typed(name, list) or ())
        return [(f"{path}[{index}]", element) for index, element in elements]

    def strings(self, name: str) -> list[str]:
        """The elements of an array of strings; empty if the field is absent."""
        for path, value in self.array(name):
            if not isinstance(value, str):
                raise wrong_type(value, "a string", path)
        return self._typed(name, list) or []

    def choice(self, name: str, *allowed: str) -> str | None:
        value = self.string(name)
        if value is None or value in allowed:
            return value
        raise invalid_value(value, self.at(name), " and ".join(f"'{each}'" for each in allowed))

    def metadata(self, name: str) -> dict[str, str] | None:
        """Pairs of short strings, within the API's limits."""
        pairs = self.plain_object(name)
        path = self.at(name)
        if pairs is not None and len(pairs) > MAX_PAIRS:
            expected = f"an object with at most {MAX_PAIRS} properties"
            raise _too_much(path, "too many properties", expected)
        for key, value in (pairs or {}).items():
            place = f"{path}.{label(key)}"
            if not isinstance(value, str):
                raise wrong_type(value, "a string", place)
            if len(key) > MAX_KEY:
                raise _too_much(place, "name too long", f"at most {MAX_KEY} characters")
            if len(value) > MAX_TEXT:
                expected = f"a string with maximum length {MAX_TEXT}"
                raise _too_much(place, "string too long", expected)
        return pairs

    def plain_object(self, name: str) -> dict[str, Any] | None:
        """An object as it is, to be sent on; None if absent."""
        return self._typed(name, dict)


def _too_much(path: str, what: str, expected: str) -> Refused:
    code = "string_above_max_length" if "long" in what else "object_above_max_properties"
    return Refused(f"Invalid '{path}': {what}. Expected {expected}.", param=path, code=code)
