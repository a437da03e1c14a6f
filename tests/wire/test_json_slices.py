"""JSON in slices is the same JSON, and no slice is long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.bridge.request.convert import converting
from dragoman.notes import Evidence
from dragoman.wire import json_slices
from dragoman.wire.json_codec import MAX_NESTING, MAX_VALUES, NotJson, dumps, loads
from dragoman.wire.json_slices import MAX_ITEM_VALUES, TooMuch, reading, writing
from dragoman.wire.slices import drained
from tests.bridge.converting import convert

LONGER = " " * json_slices.WINDOW
"""In front of a text: it is then longer than what is read at once."""
NUMBERS = st.integers() | st.floats() | st.integers(-(10**40), 10**40)
STRINGS = st.text(st.characters(), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda members: st.lists(members, max_size=5) | st.dictionaries(STRINGS, members, max_size=5),
    max_leaves=25,
)


def outcome(read: Any, text: bytes) -> str:
    """What is read, with its types and the order of its keys, or that it is not."""
    try:
        return repr(read(text))
    except NotJson:
        return "refused"


def in_slices(text: bytes) -> Any:
    return drained(reading(text))


@pytest.fixture(params=[24, 64])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Windows so small that nearly nothing ends in one."""
    monkeypatch.setattr(json_slices, "WINDOW", request.param)
    return int(request.param)


PADS = st.text(" \t\n\r", max_size=30)
TEXTS = st.builds(
    lambda value, before, behind, indent, ascii_: (
        before + json.dumps(value, indent=indent, ensure_ascii=ascii_) + behind
    ).encode("utf-8", "surrogatepass"),
    VALUES,
    PADS,
    PADS,
    st.none() | st.integers(0, 3),
    st.booleans(),
)


@pytest.mark.usefixtures("window")
def test_what_is_read_in_slices_is_what_is_read_at_once() -> None:
    @given(text=TEXTS)
    @example(text=b"[" + b"1.5e10," * 20 + b"-0.25E+3, 1e999]")
    @example(text=b'{"a": 1, "b": {"a": [' + b"12345678901234567890, " * 20 + b'3]}, "a": 2}')
    @example(text=("[" + "1," * 50 + "2]").encode("utf-16"))
    @example(text=b"\xef\xbb\xbf[" + b"1," * 50 + b"2]")
    def check(text: bytes) -> None:
        assert outcome(in_slices, text) == outcome(loads, text)

    check()


@pytest.mark.usefixtures("window")
def test_what_is_not_json_is_not_read_in_slices_either() -> None:
    @given(text=TEXTS, data=st.data())
    def check(text: bytes, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        put = data.draw(st.sampled_from([b"", b",", b"]", b"}", b":", b'"', b"\xff", b"\0", b"1"]))
        broken = text[:at] + put + text[at + cut :]
        assert outcome(in_slices, broken) == outcome(loads, broken)

    check()


@pytest.mark.usefixtures("window")
@pytest.mark.parametrize("levels", [1, MAX_NESTING - 1, MAX_NESTING, MAX_NESTING + 1, 50_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[1,{"a":', "}]")])
def test_it_is_read_as_deep_as_at_once(levels: int, opening: str, closing: str) -> None:
    levels //= opening.count("[") + opening.count("{")
    text = (opening * levels + "7" + closing * levels).encode()
    assert outcome(in_slices, text) == outcome(loads, text)


@given(value=st.dictionaries(STRINGS, VALUES | st.lists(VALUES, max_size=5), max_size=5))
@example(value={"a": ["ü", "\ud800"], "ü": "ü"})
@example(value={"a": ["ü", "\\ud800"], "b": [float("nan")], "c": []})
@example(value={"a": ["\ud800", float("inf")]})
def test_what_is_written_in_slices_is_what_is_written_at_once(value: Any) -> None:
    assert drained(writing(value)) == dumps(value)


@given(value=VALUES, values=st.integers(1, 3))
@example(value={"a": [[1], {"b": ["ü", "\ud800"]}], "c": {}}, values=1)
@example(value="ü\ud83d\ude00\n\\", values=1)
def test_what_holds_many_values_is_written_one_by_one(value: Any, values: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_slices, "WRITTEN_VALUES", values)
        patch.setattr(json_slices, "LONG_STRING", values)
        assert drained(writing(value)) == dumps(value)


def steps(work: Any) -> int:
    """How often it could have been interrupted."""
    return sum(1 for _ in work)


MANY = 3_000
MESSAGE = {"type": "message", "role": "user", "content": "Where are the headers?"}
CALL = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
TOOL = {"type": "function", "name": "bash", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    "request_",
    [
        {"model": "m", "input": [MESSAGE] * MANY},
        {"model": "m", "messages": [{"role": "user", "content": "x"}] * MANY},
        {"model": "m", "input": [CALL | {"call_id": f"c{n}"} for n in range(MANY)]},
        {"model": "m", "input": [MESSAGE], "tools": [TOOL] * 2_000},
    ],
    ids=["items", "messages", "calls of one turn", "tools"],
)
def test_each_stage_of_a_long_request_can_be_interrupted_at_each_item(
    request_: dict[str, Any],
) -> None:
    text = dumps(request_)
    many = 2_000
    assert steps(reading(text)) >= many
    convert_ = {"unsupported": "drop", "earlier": ()}
    assert steps(converting(request_, evidence=Evidence(), **convert_)) >= many  # type: ignore[arg-type]
    chat = convert(request_, evidence=Evidence(), **convert_).chat  # type: ignore[arg-type]
    if len(chat["messages"]) > many:
        assert steps(writing(chat)) > many
    assert drained(writing(chat)) == dumps(chat)


def test_one_item_has_so_many_values() -> None:
    item = {**MESSAGE, "content": [1] * (MAX_ITEM_VALUES - 4)}
    text = dumps({"model": "m", "input": [item, MESSAGE]})
    assert drained(reading(text, item_values=MAX_ITEM_VALUES)) == loads(text)
    item["content"] = [1] * (MAX_ITEM_VALUES - 3)
    for request in ({"input": [MESSAGE, item]}, {"tools": [item]}, {"metadata": item}):
        with pytest.raises(TooMuch, match="50,000"):
            drained(reading(dumps(request), item_values=MAX_ITEM_VALUES))
        assert drained(reading(dumps(request))) == request


def test_a_text_has_so_many_values() -> None:
    with pytest.raises(TooMuch, match="1,000,000"):
        drained(reading(b"[" + b"[]," * MAX_VALUES + b"[]]"))
