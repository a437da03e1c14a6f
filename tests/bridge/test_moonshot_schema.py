"""A schema comes out in the form that Moonshot takes, and accepts what it accepted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.cure.moonshot_schema import MAX_SCHEMAS, TooLarge, moonshot_schema
from dragoman.wire.json_codec import dumps

from .json_schemas import accepts, alternatives, refusals

ADDON = Path(__file__).parents[2] / "addon"
TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": TEXT}}
NULL = {"type": "null"}
ANYTHING = {"type": ["string", "number", "boolean", "object", "array", "null"]}


def rewritten(schema: dict[str, Any]) -> dict[str, Any]:
    before = dumps(schema)
    made, _ = moonshot_schema(schema)
    assert dumps(schema) == before, "the client's schema is as it was"
    assert refusals(made) == []
    return made


def having(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        *((name, None) for name in ("anyOf", "required", "properties", "additionalProperties")),
        *(("oneOf", {}), ("items", "a"), ("prefixItems", 1), ("patternProperties", [])),
    ],
)
def test_a_keyword_of_a_wrong_type_is_left_out(keyword: str, value: Any) -> None:
    schema = having(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {keyword: value, "type": "object"}}}
    made, left_out = moonshot_schema(schema)
    assert made == {**schema, "$defs": {"A": {"type": "object"}}}
    assert left_out == [keyword]


@pytest.mark.parametrize(
    "schema",
    [
        having(a=TEXT, b={"type": "array", "items": {"type": "integer", "minimum": 1}}),
        {**having(a={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}, "required": ["a"]},
        having(a={"anyOf": [TEXT, NULL], "default": None, "description": "d", "title": "A"}),
        having(a={"type": ["string", "null"], "description": "d"}),
        having(a={"type": "object", "additionalProperties": False}),
    ],
)
def test_what_moonshot_takes_is_left_alone(schema: dict[str, Any]) -> None:
    assert moonshot_schema(schema) == (schema, [])
    assert moonshot_schema(schema)[0] is schema


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        # Codex Desktop's own tool: a reference with a description beside it.
        (
            {**having(a={"$ref": "#/$defs/T", "description": "d"}), "$defs": {"T": TEXT}},
            {**having(a={"type": "string", "description": "d"}), "$defs": {"T": TEXT}},
        ),
        (
            {**having(a={"$ref": "#/definitions/T"}), "definitions": {"T": TEXT}},
            {**having(a={"$ref": "#/$defs/T"}), "$defs": {"T": TEXT}},
        ),
        (
            having(a={"type": "string", "anyOf": [{"minLength": 1}, {"enum": ["x"]}]}),
            having(a={"anyOf": [{**TEXT, "minLength": 1}, {**TEXT, "enum": ["x"]}]}),
        ),
        (
            having(a={"type": ["string", "null"], "minLength": 1, "default": None}),
            having(a={"default": None, "anyOf": [{**TEXT, "minLength": 1}, NULL]}),
        ),
        (having(a={"enum": ["x", "y"]}), having(a={**TEXT, "enum": ["x", "y"]})),
        (having(a={"const": 1}), having(a={"type": "integer", "const": 1})),
        (having(a={"oneOf": [TEXT, NULL]}), having(a={"anyOf": [TEXT, NULL]})),
        (having(a={"allOf": [TEXT, {"minLength": 2}]}), having(a={**TEXT, "minLength": 2})),
        (having(a={"items": TEXT}), having(a={"type": "array", "items": TEXT})),
        (having(a={"items": True}), having(a={"type": "array", "items": ANYTHING})),
        (
            having(a={"type": "array", "prefixItems": [TEXT], "items": False, "maxItems": 1}),
            having(a={"type": "array", "maxItems": 1}),
        ),
        (
            {**having(a=TEXT), "patternProperties": {"^z": NULL}, "additionalProperties": False},
            having(a=TEXT),
        ),
        (
            {**having(a=TEXT), "additionalProperties": {"enum": ["x"]}},
            {**having(a=TEXT), "additionalProperties": {**TEXT, "enum": ["x"]}},
        ),
        (
            {**having(a={"const": 1}), "additionalProperties": {}},
            {**having(a={"type": "integer", "const": 1}), "additionalProperties": True},
        ),
        ({"properties": {"a": TEXT}}, having(a=TEXT)),
        (
            {**having(**{"$ref": TEXT, "a": TEXT}), "required": ["$ref", "a"]},
            {**having(a=TEXT), "required": ["a"]},
        ),
        # Notion's, GitNexus': a root that is one of several objects.
        (
            {
                "type": "object",
                "anyOf": [
                    {**having(a=TEXT, b=TEXT), "required": ["a", "b"]},
                    {**having(a=TEXT, c=TEXT), "required": ["a", "c"]},
                ],
            },
            {**having(a=TEXT, b=TEXT, c=TEXT), "required": ["a"]},
        ),
    ],
)
def test_what_moonshot_refuses_is_said_otherwise(
    schema: dict[str, Any], meant: dict[str, Any]
) -> None:
    made = rewritten(schema)
    assert made == meant
    assert moonshot_schema(made)[0] is made


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (having(a={"not": TEXT, "type": "string"}), ["not"]),
        (having(a={"$ref": "https://example.com/x"}), ["$ref"]),
        (having(**{"$ref": TEXT}), ["property $ref"]),
        (
            having(a={"type": "array", "prefixItems": [TEXT], "items": NULL}),
            ["prefixItems", "items"],
        ),
        (having(a={"type": "array", "items": [TEXT, NULL]}), ["items"]),
        (having(a={"type": "array", "items": False}), ["items"]),
        (
            having(a={"patternProperties": {"^z": TEXT}, "additionalProperties": False}),
            ["patternProperties", "additionalProperties"],
        ),
    ],
)
def test_what_cannot_be_said_is_named(schema: dict[str, Any], says: list[str]) -> None:
    rewritten(schema)
    assert moonshot_schema(schema)[1] == says


def test_recursion_stays_recursion() -> None:
    tree = {**having(v=TEXT, children={"type": "array", "items": {"$ref": "#"}}), "title": "t"}
    made = rewritten(tree)
    leaf: dict[str, Any] = {"v": "x", "children": []}
    assert accepts(made, {"v": "x", "children": [leaf, leaf]}, made)
    assert not accepts(made, {"children": [{"children": [{"v": 1}]}]}, made)


def chain(length: int) -> dict[str, Any]:
    """Each definition names the next twice, with words beside the reference."""
    named = {
        f"D{n}": having(
            **{
                side: {"$ref": f"#/$defs/D{(n + 1) % length}", "description": side}
                for side in ("l", "r")
            }
        )
        for n in range(length)
    }
    return {**having(a={"$ref": "#/$defs/D0", "title": "a"}), "$defs": named}


def nested(depth: int, inside: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {inside: [schema, {"minLength": 1}], "description": "d", "minLength": 1}
    return having(a=schema)


HOSTILE = {
    "definitions that name each other": chain(500),
    "unions in unions": nested(90, "anyOf"),
    "all of all": nested(90, "allOf"),
    "a circle of references": {
        **having(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "all of itself": {"allOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}]},
    "twice of twice": {
        **having(a={"$ref": "#/$defs/D0", "title": "a"}),
        "$defs": {
            f"D{n}": {"allOf": [{"$ref": f"#/$defs/D{n + 1}"}, {"$ref": f"#/$defs/D{n + 1}"}]}
            for n in range(40)
        },
    },
    "never ending": {
        **having(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {**having(a={"$ref": "#/$defs/A"}), "required": ["a"]}},
    },
    "an endless list": {
        **having(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
    },
    "wrong types": {"properties": [1], "required": 3, "$defs": 4, "anyOf": [1, {"type": 7}]},
    "of all types": having(a={"enum": [1, 2.5, "x", None, [1], {"a": 1}, True, 1e400]}),
    "a value that is a reference": having(a={"type": "object", "default": {"$ref": 3}}),
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_schemas_come_to_an_end(schema: dict[str, Any]) -> None:
    assert len(dumps(rewritten(schema))) < 40 * len(dumps(schema)) + 10_000


def test_a_schema_of_too_many_is_refused() -> None:
    with pytest.raises(TooLarge):
        moonshot_schema(having(**{f"p{n}": TEXT for n in range(MAX_SCHEMAS)}))


NAMES = st.sampled_from(["a", "b", "$ref"])
REFERENCES = st.sampled_from(
    ["#", "#/$defs/A", "#/$defs/B", "#/definitions/C", "#/properties/a", "#/$defs/A/properties/b"]
)
PLAIN = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "boolean", "null", "number")),
        *({"type": ["string", "null"]}, {"enum": ["x", 1, None]}, {"const": "x"}, {}, True),
        *({"minLength": 1}, {"minimum": 0}, {"type": ["integer", "string"], "minLength": 1}),
    ]
)


def _with_words(schema: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    words = st.fixed_dictionaries({}, optional={"description": st.just("d"), "default": st.just(1)})
    return st.tuples(schema, words).map(
        lambda made: {**made[0], **made[1]} if isinstance(made[0], dict) else made[0]
    )


def _holders(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=2)
    beside = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", ["object", "null"]]),
            "properties": named,
            "required": st.lists(NAMES, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner),
        },
    )
    joined = st.sampled_from(["anyOf", "oneOf", "allOf"])
    return _with_words(
        st.one_of(
            st.fixed_dictionaries({"type": st.just("object"), "properties": named}),
            st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
            st.fixed_dictionaries({"patternProperties": st.dictionaries(st.just("^z"), inner)}),
            st.tuples(joined, some, beside).map(lambda t: {t[0]: t[1], **t[2]}),
            st.tuples(REFERENCES, beside).map(lambda t: {"$ref": t[0], **t[1]}),
            beside,
        )
    )


SCHEMAS = st.recursive(
    _with_words(st.one_of(PLAIN, REFERENCES.map(lambda ref: {"$ref": ref}))),
    _holders,
    max_leaves=8,
)
ROOTS = st.tuples(
    st.fixed_dictionaries(
        {"properties": st.fixed_dictionaries({"a": SCHEMAS}, optional={"b": SCHEMAS})},
        optional={
            "type": st.just("object"),
            "required": st.lists(NAMES, max_size=2),
            "anyOf": st.lists(_holders(SCHEMAS), min_size=1, max_size=2),
            "additionalProperties": st.booleans(),
        },
    ),
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
).map(
    lambda made: {
        **made[0],
        "$defs": {"A": having(b=made[1]), "B": made[2]},
        "definitions": {"C": made[3]},
    }
)
VALUES = st.recursive(
    st.sampled_from([None, True, 1, -1, 0.5, "", "x", "xy"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(ROOTS, st.lists(st.dictionaries(st.sampled_from("ab"), VALUES), min_size=5, max_size=20))
def test_any_schema_is_taken_and_accepts_what_it_did(
    schema: dict[str, Any], values: list[Any]
) -> None:
    try:
        forms = alternatives(schema, schema)
        # What only some forms of the root name is read as these name it.
        apart = set[str]().union(*forms) - set[str].intersection(*forms)
        accepted = [v for v in values if not apart & v.keys() and accepts(schema, v, schema)]
    except (KeyError, TypeError):
        accepted = []  # a reference that leads nowhere
    made = rewritten(schema)
    for value in accepted:
        assert accepts(made, value, made), value
    assert dumps(moonshot_schema(json.loads(dumps(schema)))[0]) == dumps(made)


def test_the_bytes_are_the_same_in_another_process() -> None:
    """Python orders a set by chance."""
    program = (
        "import json, sys; from dragoman.bridge.cure.moonshot_schema import moonshot_schema;"
        "print(json.dumps([moonshot_schema(s) for s in json.load(sys.stdin)]))"
    )
    text = json.dumps(list(HOSTILE.values()))
    made = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=text,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ADDON)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(made) == 1
