"""The types of JSON values, and references within a schema."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.wire.json_schema import TYPES, found_at, is_of, joined, own_types, parts_of, type_of

ROOT = {"$defs": {"a/b": 1, "c~d": 2, "e%f": 3, "g h": 4, "": 5}, "anyOf": [6, {"x": 7}]}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/a~1b", 1),
        ("#/$defs/c~0d", 2),
        ("#/$defs/e%25f", 3),
        ("#/$defs/g%20h", 4),
        ("#/$defs/", 5),
        ("#/anyOf/0", 6),
        ("#/anyOf/1/x", 7),
        ("#/anyOf/2", None),
        ("#/anyOf/-1", None),
        ("#/anyOf/" + "9" * 5000, None),
        ("#/$defs/a/b", None),
        ("#/$defs/none", None),
        ("#anchor", None),
        ("other.json#/$defs/a~1b", None),
        ("", None),
        (None, None),
    ],
)
def test_a_reference_leads_to_its_place_or_nowhere(reference: Any, found: Any) -> None:
    assert found_at(ROOT, reference) == found


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (1, {"integer", "number"}),
        (1.0, {"integer", "number"}),
        (1.5, {"number"}),
        (float("inf"), {"number"}),
        (True, {"boolean"}),
        (None, {"null"}),
        ("1", {"string"}),
        ([], {"array"}),
        ({}, {"object"}),
    ],
)
def test_a_value_is_of_its_type_and_whole_numbers_of_two(value: Any, names: set[str]) -> None:
    assert {name for name in TYPES if is_of(value, name)} == names
    assert type_of(value) in names


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string", "enum": [1]}, ["string"]),
        ({"type": ["null", "array", "null", "odd", 1]}, ["null", "array"]),
        ({"type": "odd", "const": True}, ["boolean"]),
        ({"enum": [1, "a", 2]}, ["integer", "string"]),
        ({"enum": "a"}, []),
        ({}, []),
    ],
)
def test_a_schema_has_the_types_it_names_or_else_those_of_its_values(
    schema: Any, types: list[str]
) -> None:
    assert own_types(schema) == types


@pytest.mark.parametrize(
    ("schema", "titles"),
    [
        ({"title": "a"}, ["a"]),
        (
            {"title": "a", "anyOf": [{"title": "b", "oneOf": [{"title": "c"}]}, {"title": "d"}]},
            "abcd",
        ),
        (
            {
                "$defs": {"X": {"title": "x", "allOf": [{"title": "y"}, {"$ref": "#/$defs/X"}]}},
                "title": "a",
                "$ref": "#/$defs/X",
                "oneOf": [{"$ref": "#/$defs/X"}, {"title": "z"}],
            },
            ["a", "x", "y", None, None, "z"],
        ),
        ({"title": "a", "$ref": "#"}, ["a"]),
        ({"title": "a", "$ref": 5, "anyOf": "x", "allOf": [True, None, {"title": "b"}]}, "ab"),
        (True, []),
    ],
)
def test_parts_come_once_the_outer_before_the_inner(schema: Any, titles: Any) -> None:
    assert [part.get("title") for part, _ in parts_of(schema, schema)] == list(titles)


def test_what_is_chosen_from_need_not_hold() -> None:
    schema = {
        "$defs": {"X": {"title": "x"}},
        "allOf": [{"title": "all", "anyOf": [{"title": "any"}]}, {"$ref": "#/$defs/X"}],
        "oneOf": [{"title": "one", "allOf": [{"title": "of one"}]}],
    }
    held = {part["title"]: always for part, always in parts_of(schema, schema) if "title" in part}
    assert held == {"all": True, "any": False, "x": True, "one": False, "of one": False}


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (["integer", "null"], "number", ["integer"]),
        (["number", "string"], ["integer", "string"], ["string", "integer"]),
        ("string", "null", "null"),
    ],
)
def test_two_schemas_that_hold_have_the_types_of_both(first: Any, second: Any, both: Any) -> None:
    assert joined({"type": first}, {"type": second}) == {"type": both}
