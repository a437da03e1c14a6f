"""Arguments that a format writes one by one, as a table: schema and text in, JSON out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.repair.events import Arguments, CallEnd, Dropped
from dragoman.repair.formats.typed_arguments import VALUE_LIMIT, TypedArguments
from dragoman.repair.formats.value_types import JSON, STRING, ValueType

NULLABLE = {"type": ["string", "null"]}
COLOR = {"$ref": "#/$defs/Color"}
SCHEMA = {
    "type": "object",
    "properties": {},
    "$defs": {"Color": {"enum": ["red", "1"]}, "Loop": {"$ref": "#/$defs/Loop"}},
}


def read(
    *values: tuple[str, str],
    declared: object = None,
    kind: ValueType | None = None,
    size: int = 0,
    trim: bool = False,
    cut: bool = False,
    schema: object = None,
) -> str:
    """The JSON text of these arguments, their texts in pieces of so many characters."""
    properties = {key: declared for key, _ in values if declared is not None}
    schema = schema or SCHEMA | {"properties": properties}
    arguments = TypedArguments(schema)
    out = ""
    for place, (key, text) in enumerate(values):
        arguments.begin(key, kind, trim=trim)
        for at in range(0, len(text), size or len(text) or 1):
            piece = text[at : at + (size or len(text))]
            given = arguments.takes(piece)
            if given is None:
                arguments.text(piece)
                given = "".join(e.text for e in arguments.take() if isinstance(e, Arguments))
            out += given
        if not (cut and place == len(values) - 1):
            arguments.end_value()
    arguments.end(cut=cut)
    events = arguments.take()
    assert events[-1] == CallEnd(valid=not cut, cut=cut)
    return out + "".join(event.text for event in events if isinstance(event, Arguments))


@pytest.mark.parametrize(
    ("declared", "text", "wanted"),
    [
        ({"type": "string"}, "42", "42"),
        ({"type": "string"}, "null", "null"),
        ({"type": "string"}, ' a "b"\\\n\t\x00\u2028é😀', ' a "b"\\\n\t\x00\u2028é😀'),
        ({"type": "string", "enum": ["a"]}, "b", "b"),
        (NULLABLE, "null", None),
        (NULLABLE, "nullable", "nullable"),
        (NULLABLE, "", ""),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "nul", "nul"),
        ({"type": "string", "nullable": True}, "null", None),
        ({"type": "integer"}, " 42\n", 42),
        ({"type": "integer"}, "many", "many"),
        ({"type": "integer"}, "3.5", 3.5),
        ({"type": "number"}, "-1e3", -1000.0),
        ({"type": "number"}, "-Infinity", "-Infinity"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": ["integer", "null"]}, "None", None),
        ({"type": ["integer", "string"]}, "42", 42),
        ({"type": ["integer", "string"]}, "4 2", "4 2"),
        ({"type": ["string", "integer"]}, "42", "42"),
        ({"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]}, "42", 42),
        ({"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]}, "auto", "auto"),
        ({"oneOf": [{"type": "array"}, {"type": "object"}]}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array"}, '[ "a\nb" ]', ["a\nb"]),
        ({"type": "array"}, "[1, 2", "[1, 2"),
        ({"type": "object"}, '{"a": 1} x', '{"a": 1} x'),
        ({"type": "array"}, "[" * 300 + "]" * 300, "[" * 300 + "]" * 300),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": "7"}, "7", "7"),
        (COLOR, "1", "1"),
        ({"allOf": [COLOR]}, "red", "red"),
        ({"$ref": "#/$defs/Loop"}, "1", 1),
        ({"$ref": "#/nowhere/~"}, "a", "a"),
        ({"type": "dict"}, "{}", {}),
        (None, "ls -la", "ls -la"),
        (None, "true story", "true story"),
        (None, "[1]", [1]),
        (None, '"a"', "a"),
        (None, "True", "True"),
    ],
    ids=str,
)
def test_a_text_has_the_type_that_the_schema_declares(
    declared: object, text: str, wanted: object
) -> None:
    for size in (0, 1, 2, 5):
        out = json.loads(read(("key", text), declared=declared, size=size))
        assert out == {"key": wanted}
        assert type(out["key"]) is type(wanted)


WRITE = {"properties": {"path": {"type": "string"}, "size": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([("arguments", '{"path": "a", "size": 1}')], {"path": "a", "size": 1}),
        ([("input", "{}")], {}),
        ([("arguments", '{"path": "a", "x": 1}')], {"arguments": {"path": "a", "x": 1}}),
        ([("arguments", '{"path": "a"}'), ("size", "1")], {"arguments": {"path": "a"}, "size": 1}),
        ([("size", "1"), ("input", "{}")], {"size": 1, "input": {}}),
        ([("arguments", "{a")], {"arguments": "{a"}),
        ([("input", "null")], {"input": None}),
    ],
    ids=str,
)
def test_an_object_that_is_called_like_all_arguments_and_is_alone_holds_them(
    values: list[tuple[str, str]], wanted: object
) -> None:
    for size in (0, 1, 5):
        assert json.loads(read(*values, schema=WRITE, size=size)) == wanted


def test_a_type_that_the_format_gives_comes_before_the_schema() -> None:
    number = {"type": "number"}
    assert read(("a", "42"), declared=number, kind=STRING) == '{"a":"42"}'
    text = {"type": "string"}
    assert read(("a", "42"), ("b", "{no}"), declared=text, kind=JSON) == '{"a":42,"b":"{no}"}'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\nls\n", "ls"),
        ("\r\nls\r\n", "ls"),
        ("\n\n ls\n\n", "\n ls\n"),
        ("ls", "ls"),
        ("\n\n", ""),
        ("\n", ""),
        ("", ""),
        ("\nls\r", "ls\r"),
        ("\n\r\rls\r\n\n", "\r\rls\r\n"),
    ],
    ids=repr,
)
def test_a_line_end_at_each_side_may_be_formatting(text: str, wanted: str) -> None:
    for size in (0, 1, 2, 3):
        out = read(("a", text), declared={"type": "string"}, size=size, trim=True)
        assert json.loads(out) == {"a": wanted}


def test_a_string_leaves_as_it_comes() -> None:
    arguments = TypedArguments(SCHEMA)
    arguments.begin("a", STRING)
    arguments.text("x")
    assert arguments.take() == [Arguments('{"a":"x')]
    assert arguments.takes('"y') == '\\"y'
    arguments.end_value()
    arguments.begin("b")
    for piece in ("12", " apples"):
        assert arguments.takes(piece) is None
        arguments.text(piece)
    assert arguments.take() == [Arguments('","b":"12 apples')]
    assert arguments.takes(".") == "."


def test_an_argument_that_comes_twice_is_kept_once() -> None:
    arguments = TypedArguments(SCHEMA)
    for text in ("1", "2"):
        arguments.begin("a", STRING)
        arguments.text(text)
        arguments.end_value()
    arguments.whole_value("b", "[]")
    arguments.end()
    dropped = Dropped("a second value of an argument")
    assert [e for e in arguments.take() if not isinstance(e, Arguments)] == [
        dropped,
        CallEnd(valid=True, cut=False),
    ]
    assert read(("a", "1"), ("a", "2")) == '{"a":1}'


def test_half_a_value_is_not_taken_for_a_whole_one() -> None:
    assert read(("a", "rm -rf /tmp"), kind=STRING, cut=True) == '{"a":"rm -rf /tmp'
    assert read(("a", "1"), ("b", "[1,"), cut=True) == '{"a":1,"b":[1,'
    for required, wanted in (["a"], '{"a":1}'), (["b"], '{"a":1'):
        arguments = TypedArguments({"required": required})
        arguments.begin("a")
        arguments.text("1")
        arguments.end_value()
        arguments.end(unclosed=True)
        assert arguments.take()[0] == Arguments(wanted)


def test_what_is_held_is_bounded() -> None:
    text = "[" + "1," * VALUE_LIMIT
    out = read(("a", text), size=4096)
    assert json.loads(out) == {"a": text}


def test_a_lone_surrogate_is_escaped() -> None:
    out = read(("\ud83d", "é\ud83d\ude00"), kind=STRING, size=1)
    assert out == '{"\\ud83d":"é\\ud83d\\ude00"}'
    assert read(("a", '["\ud83d"]')) == '{"a":["\\ud83d"]}'


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4), st.integers(1, 9))
def test_generated_arguments_are_read_back(values: dict[str, Any], size: int) -> None:
    written = [(key, json.dumps(value)) for key, value in values.items()]
    assert json.loads(read(*written, size=size)) == values
    texts = [(key, str(value)) for key, value in values.items()]
    assert json.loads(read(*texts, size=size, kind=STRING)) == dict(texts)


@example("\x1f0", None, False)  # no white space in JSON, but in Python
@given(st.text(), st.sampled_from([None, {"type": "integer"}, NULLABLE]), st.booleans())
def test_any_text_becomes_json_however_it_is_cut(text: str, declared: object, trim: bool) -> None:
    whole = read(("a", text), declared=declared, trim=trim)
    json.loads(whole)
    for size in (1, 2, 3):
        assert read(("a", text), declared=declared, trim=trim, size=size) == whole
