"""The JSON Schema subset by which a nameless call is told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.schema import MAX_STEPS, OutOfSteps, Steps, accepts, flattened

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)


@pytest.mark.parametrize(
    ("schema", "value", "accepted"),
    [
        (PATH, {"path": "a"}, True),
        (PATH, {"path": "a", "more": 1}, True),
        (PATH, {}, False),
        (PATH, {"path": 1}, False),
        ({**PATH, "additionalProperties": False}, {"path": "a", "more": 1}, False),
        ({**PATH, "additionalProperties": {"type": "integer"}}, {"path": "a", "more": 1}, True),
        ({**PATH, "additionalProperties": {"type": "integer"}}, {"path": "a", "more": ""}, False),
        ({"type": ["string", "null"]}, None, True),
        ({"type": ["string", "null"]}, 1, False),
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, 1.5, False),
        ({"type": "integer"}, float("inf"), False),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, True, False),
        ({"enum": ["a", 1]}, 1, True),
        ({"enum": ["a", 1]}, True, False),
        ({"const": None}, None, True),
        ({"type": "array", "items": {"type": "string"}}, ["a"], True),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], False),
        ({"oneOf": [{"type": "string"}]}, 1, True),
        (True, 1, True),
        (False, 1, False),
    ],
)
def test_schema_accepts(schema: object, value: object, accepted: bool) -> None:
    assert accepts(schema, value, Steps()) is accepted


@given(
    st.dictionaries(
        st.sampled_from(
            ["type", "properties", "required", "additionalProperties", "enum", "const", "items"]
        ),
        json_values,
    ),
    json_values,
)
def test_no_schema_however_wrong_raises(schema: object, value: object) -> None:
    assert accepts(schema, value, Steps()) in (True, False)


def test_one_turn_looks_at_so_much_and_then_infers_nothing_more() -> None:
    declared = {f"tool{n}": {"properties": {"path": {"const": n}}} for n in range(1_500)}
    tools = DeclaredTools(declared | {"read": {**PATH, "additionalProperties": False}})
    meant = [tools.meant_by('{"path": "a"}') for _ in range(20)]
    assert meant[0] == "read"
    assert set(meant) == {"read", None}, "some calls are inferred, and those after them are not"
    assert meant == sorted(meant, key=lambda name: name is None)


def test_an_enumeration_is_read_once() -> None:
    steps = Steps()
    schema = {"items": {"enum": [f"value {n}" for n in range(8_000)]}}
    value = ["value 7999"] * (MAX_STEPS // 2)
    assert accepts(schema, value, steps) is True
    assert accepts(schema, ["value 8000"], Steps()) is False


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "integer"}}, [1] * 2 * MAX_STEPS),
        ({"enum": [{"a": n} for n in range(2 * MAX_STEPS)]}, {"a": -1}),
        ({"enum": list(range(10 * MAX_STEPS))}, -1),
        ({"required": ["a"] * 10 * MAX_STEPS}, {"a": 1}),
    ],
    ids=["items", "objects to compare", "enum", "required"],
)
def test_what_is_too_much_is_given_up(schema: object, value: object) -> None:
    with pytest.raises(OutOfSteps):
        accepts(schema, value, Steps())


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
FLAT = {"properties": {"a": STRING, "b": INTEGER}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        ({"$ref": "#/$defs/A~1B", "$defs": {"A/B": FLAT}}, {**FLAT, "$defs": {"A/B": FLAT}}),
        (
            {
                "allOf": [
                    {"properties": {"a": STRING}, "required": ["a"]},
                    {"properties": {"b": INTEGER}},
                ]
            },
            FLAT,
        ),
        ({**FLAT, "anyOf": [{"required": ["b"]}, {}]}, FLAT),
        (
            {"oneOf": [{"properties": {"a": STRING}}, {"properties": {"a": INTEGER}}]},
            {"properties": {"a": {"anyOf": [STRING, INTEGER]}}, "required": []},
        ),
        ({"$ref": "#"}, {"properties": {}, "required": []}),
        ({"$ref": 5, "allOf": "x", "anyOf": [None, 3]}, {"properties": {}, "required": []}),
        ({"allOf": True, "anyOf": 5, "oneOf": 0.5}, {"properties": {}, "required": []}),
        ({"type": "object", "properties": {}}, {"type": "object", "properties": {}}),
        (True, True),
    ],
)
def test_a_schema_of_parts_is_flattened(schema: object, flat: object) -> None:
    assert flattened(schema) == flat
