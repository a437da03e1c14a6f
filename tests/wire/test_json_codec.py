"""JSON means the same, to the byte, whether orjson is installed or not.

Two copies of the module are compared with each other and with the standard library.
"""

from __future__ import annotations

import datetime
import enum
import functools
import json
import math
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.wire import json_codec
from dragoman.wire.json_codec import MAX_NESTING, MAX_VALUES
from tests.jsonio_copies import installed_orjson, jsonio_that_finds

WITHOUT, WITH = jsonio_that_finds(None), jsonio_that_finds(installed_orjson())
BOTH = pytest.mark.parametrize("module", [WITHOUT, WITH], ids=["without orjson", "with orjson"])


def outcome(loads: Callable[[Any], Any], text: object, refusal: type[ValueError]) -> str:
    """What is read, with its types and the order of its keys, or why it is not."""
    try:
        return repr(loads(text))
    except refusal as error:
        return f"refused: {error}"


def test_the_other_tests_find_no_orjson() -> None:
    with pytest.raises(ImportError):
        import_module("orjson")


# Reading

NUMBERS = st.integers() | st.floats() | st.integers(-(10**40), 10**40)
EDGES = [2**bits + more for bits in (53, 63, 64) for more in (-1, 0, 1)]
STRINGS = st.text(st.characters(), max_size=8) | st.from_regex(r"[0-9eE.+-]{1,24}")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.sampled_from([*EDGES, *(-edge for edge in EDGES)])
    | STRINGS,
    lambda members: st.lists(members, max_size=4) | st.dictionaries(STRINGS, members, max_size=4),
    max_leaves=12,
)
SLIPS = st.sampled_from(["", "", " ", '"', ",", "0", "e", "\\", "\x00", "NaN", "\ud800"])
ENCODINGS = st.sampled_from(
    [(name, "surrogatepass") for name in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be")]
    + [("latin-1", "replace")]
)


@st.composite
def texts(draw: st.DrawFn) -> bytes | bytearray | str:
    """JSON in all spellings and encodings, and what is nearly JSON."""
    indent, ascii_only = draw(st.sampled_from([None, 1])), draw(st.booleans())
    good = json.dumps(draw(VALUES), indent=indent, ensure_ascii=ascii_only)
    at, gone = draw(st.integers(0, len(good))), draw(st.integers(0, 1))
    text = draw(st.sampled_from(["", " ", "\r\n"])) + good[:at] + draw(SLIPS) + good[at + gone :]
    raw = text.encode(*draw(ENCODINGS))
    spelled: bytes | bytearray | str = draw(st.sampled_from([text, raw, bytearray(raw)]))
    return spelled


@given(texts() | st.binary(max_size=12) | st.text("0123456789-+.eE,[] ", max_size=24))
@example("12345678901234567890")
@example("[-9223372036854775809, 0.12345678901234567890]")
@example("[18446744073709551616, 1e400]")
@example('{"9999999999999999999": "-9999999999999999999"}')
@example("9" * 5000)
@example("[-0, -0.0, 1E5, 1e-400, 5e-324, NaN, -Infinity]")
@example('{"a": 1, "b": 2, "a": 3}')
@example('"\\ud83d\\ude00 \\ude00\\ud83d \\ud800"')
@example(b'"\xed\xa0\x80"')
@example(b'"\xff"')
@example(b"\xef\xbb\xbf1")
@example("\ufeff1")
@example("1\x00")
@example("\x0b1")
@example("\u00a01")
@example("[1]]")
@example("")
def test_what_is_read_is_what_the_standard_library_reads(text: bytes | bytearray | str) -> None:
    expected = outcome(json.loads, text, ValueError)
    for module in (WITHOUT, WITH):
        assert outcome(module.loads, text, module.NotJson) == expected


@pytest.mark.parametrize(
    "text", [b'{"a": [1, 0.0, 0.5, "\xc3\xa9"]}', ' {"a": 1}\n', bytearray(b"[]")]
)
def test_orjson_reads_and_writes_what_is_usual(text: bytes | bytearray | str) -> None:
    value = json.loads(text)
    library = {"json": None, "_raw_decode": None, "_encode": None}
    with mock.patch.multiple(WITH, **library):
        assert WITH.loads(text) == value
        assert json.loads(WITH.dumps(value)) == value


@BOTH
@pytest.mark.parametrize("container", ["[%s]", '{"a":%s}', '[0,{"é":[%s]}]'])
def test_values_are_nested_so_deeply_and_no_deeper(module: Any, container: str) -> None:
    levels = container.count("[") + container.count("{")
    times, rest = divmod(MAX_NESTING, levels)
    text = "[" * rest + "0" + "]" * rest
    for _ in range(times):
        text = container % text
    assert module.loads(text) == json.loads(text)
    for too_deep in (f"[{text}]", f"[{text}]".encode("utf-16"), "[" * 99_999):
        with pytest.raises(module.NotJson):
            module.loads(too_deep)


@BOTH
@pytest.mark.parametrize("member, most", [("[]", MAX_VALUES - 1), ("0", 4 * MAX_VALUES + 1)])
def test_so_many_values_are_read_and_no_more(module: Any, member: str, most: int) -> None:
    members = ",".join([member] * most)
    assert len(module.loads(f"[{members}]")) == most
    for too_many in (f"[{members},{member}]", f"[{members},{member}]".encode()):
        with pytest.raises(module.NotJson, match="more values"):
            module.loads(too_many)


# Writing


def reference(value: Any) -> bytes:
    style: Any = {"separators": (",", ":"), "allow_nan": False}
    try:
        return json.dumps(value, ensure_ascii=False, **style).encode()
    except UnicodeEncodeError:
        return json.dumps(value, **style).encode()


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(VALUES)
@example([0.00001])
@example([1e-7])
@example([1e16])
@example([1e22, 1.5e-300, 0.0001, -0.0])
@example({"é": 2**64, "\u2028": "\x7f\x1f\b"})
@example(["é", "\ud800"])
def test_what_is_written_is_what_the_standard_library_writes(value: Any) -> None:
    written = WITH.dumps(value)
    assert written == WITHOUT.dumps(value)
    if finite(value):
        assert written == reference(value)


class Kind(enum.Enum):
    A = "a"


@dataclass
class Pair:
    a: int = 1


@pytest.mark.parametrize(
    "value",
    [
        (1, [1e-5]),
        {1: 2, None: True},
        OrderedDict(a=1e-5),
        type("Text", (str,), {})("é"),
        type("Number", (float,), {})(0.5),
        HTTPStatus.OK,
        [Kind.A],
        Pair(),
        {"at": datetime.date(2026, 1, 1)},
        uuid.UUID(int=1),
        b"bytes",
        functools.reduce(lambda inner, _: [inner], range(300), 1e-5),
        functools.reduce(lambda inner, _: [inner], range(200_000), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_reading_does_not_give_is_written_or_refused_alike(value: Any) -> None:
    def written(module: Any) -> Any:
        try:
            return module.dumps(value)
        except (TypeError, module.NotJson) as error:
            return type(error).__name__

    assert written(WITH) == written(WITHOUT)


@BOTH
def test_what_is_no_number_is_null(module: Any) -> None:
    read = module.loads('{"é": [1e999, NaN, -Infinity, 0.5]}')
    assert module.dumps(read) == '{"é":[null,null,null,0.5]}'.encode()
    assert module.dumps([*read.values(), "\ud800"]) == b'[[null,null,null,0.5],"\\ud800"]'


@BOTH
def test_a_value_that_holds_itself_is_not_json(module: Any) -> None:
    value: list[Any] = [0.5]
    value.append({"a": value})
    with pytest.raises(module.NotJson):
        module.dumps(value)


@given(st.text(alphabet=st.characters()))
@example("\ud800é")
@example('\\"/\x00\x1f\x7f\u2028\U0001f600')
def test_a_quoted_text_is_what_is_written_for_it(text: str) -> None:
    assert json_codec.quoted(text) == json_codec.dumps(text) == reference(text)
