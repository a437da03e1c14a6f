"""JSON is read and written as the standard library does it, to the byte."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.reply.stage import at_once
from dragoman.wire import json_codec
from dragoman.wire.json_codec import MAX_NESTING, MAX_VALUES


def outcome(loads: Callable[[Any], Any], text: object, refusal: type[ValueError]) -> str:
    """What is read, with its types and the order of its keys, or why it is not."""
    try:
        return repr(loads(text))
    except refusal as error:
        return f"refused: {error}"


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
    assert outcome(json_codec.loads, text, json_codec.NotJson) == expected


@pytest.mark.parametrize("container", ["[%s]", '{"a":%s}', '[0,{"é":[%s]}]'])
def test_values_are_nested_so_deeply_and_no_deeper(container: str) -> None:
    levels = container.count("[") + container.count("{")
    times, rest = divmod(MAX_NESTING, levels)
    text = "[" * rest + "0" + "]" * rest
    for _ in range(times):
        text = container % text
    value = json_codec.loads(text)
    assert value == json.loads(text)
    assert json.loads(json_codec.dumps({"written": [value, math.inf]})) == {
        "written": [value, None]
    }
    for too_deep in (f"[{text}]", f"[{text}]".encode("utf-16"), "[" * 99_999):
        with pytest.raises(json_codec.NotJson):
            json_codec.loads(too_deep)


@pytest.mark.parametrize("member, most", [("[]", MAX_VALUES - 1), ("0", 4 * MAX_VALUES + 1)])
def test_so_many_values_are_read_and_no_more(member: str, most: int) -> None:
    members = ",".join([member] * most)
    assert len(json_codec.loads(f"[{members}]")) == most
    for too_many in (f"[{members},{member}]", f"[{members},{member}]".encode()):
        with pytest.raises(json_codec.NotJson, match="more values"):
            json_codec.loads(too_many)


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
    written = json_codec.dumps(value)
    if finite(value):
        assert written == reference(value)


def test_what_is_no_number_is_null() -> None:
    read = json_codec.loads('{"é": [1e999, NaN, -Infinity, 0.5]}')
    assert json_codec.dumps(read) == '{"é":[null,null,null,0.5]}'.encode()
    assert json_codec.dumps([*read.values(), "\ud800"]) == b'[[null,null,null,0.5],"\\ud800"]'


def test_a_value_that_holds_itself_is_not_json() -> None:
    value: list[Any] = [0.5]
    value.append({"a": value})
    with pytest.raises(json_codec.NotJson):
        json_codec.dumps(value)


@given(st.text(alphabet=st.characters()))
@example("\ud800é")
@example('\\"/\x00\x1f\x7f\u2028\U0001f600')
def test_a_quoted_text_is_what_is_written_for_it(text: str) -> None:
    assert json_codec.quoted(text) == json_codec.dumps(text) == reference(text)


# In steps

TEXTS = st.text(st.sampled_from('a,[{é"\\\n\0\ud800\U0001f600'), max_size=9)


@given(VALUES | st.lists(TEXTS) | st.dictionaries(TEXTS, TEXTS), st.integers(1, 4))
@example(["\0", "ab\0cd", {"long key": "\0"}, "é\ud800"], 2)
@example(["abcdef", math.inf, {"é": "abcdef"}], 2)
def test_what_is_written_in_steps_is_what_is_written_at_once(value: Any, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_codec, "LONG", 2)
        patch.setattr(json_codec, "PIECE", piece)
        assert at_once(json_codec.dumps_in_steps(value)) == json_codec.dumps(value)


def test_others_have_their_turn_within_and_after_each_long_string() -> None:
    value = {"a": "x" * (3 * json_codec.PIECE), "b": ["\n" * json_codec.LONG] * 5, "c": ["x"] * 99}
    steps = json_codec.dumps_in_steps(value)
    assert sum(1 for _ in steps) == 3 + 5


@given(TEXTS, st.lists(VALUES | TEXTS), st.integers(1, 9))
@example("", ["\\", '\\"', ",", '\\",['], 1)
def test_values_are_counted_at_every_cut(key: str, members: list[Any], piece: int) -> None:
    text = json.dumps({key: members}).encode()
    whole = list(json_codec.values_so_far(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_codec, "PIECE", piece)
        in_pieces = list(json_codec.values_so_far(text))
    assert len(whole) == 1
    assert in_pieces == sorted(in_pieces)
    assert in_pieces[-1:] == whole
