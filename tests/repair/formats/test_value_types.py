"""What a text means by the schema of its argument."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.repair.formats.value_types import type_of

TREE = {"$defs": {"Tree": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Tree"}]}}}


@pytest.mark.parametrize(
    ("schema", "text", "json"),
    [
        ({"type": "string"}, "5", '"5"'),
        ({"type": "integer"}, "5", "5"),
        ({"type": "integer"}, "five", '"five"'),
        ({}, "5", "5"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5", '"5"'),
        ({"anyOf": [{"anyOf": [{"type": "string"}]}, {"type": "integer"}]}, "5", '"5"'),
        ({"$ref": "#/$defs/Tree"}, "5", '"5"'),
        ({"$ref": "#/$defs/Tree", "nullable": True}, "5", '"5"'),
        ({"$ref": "#/$defs/Tree", "nullable": True}, "null", "null"),
        ({"$ref": "#/nothing"}, "5", "5"),
        ({"anyOf": [{"type": "string"}] * 2}, "5", '"5"'),
        ({"anyOf": [{"type": "string", "title": str(n)} for n in range(600)]}, "5", "5"),
    ],
)
def test_a_text_is_the_value_that_its_schema_says(schema: Any, text: str, json: str) -> None:
    assert type_of(schema, TREE).json_of(text) == json
