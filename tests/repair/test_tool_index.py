"""The index of declared tools finds what a look at each of them would."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2_names import may_be_header
from dragoman.repair.schema import Steps, accepts

KEYS = st.sampled_from(["path", "line", "all", "path-", ""])
SCHEMAS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([True, False, None, "x", {}]),
    st.fixed_dictionaries(
        {"properties": st.dictionaries(KEYS, st.sampled_from([{}, {"type": "string"}]))},
        optional={
            "required": st.one_of(st.lists(st.one_of(KEYS, st.none())), st.just("path")),
            "additionalProperties": st.booleans(),
        },
    ),
)
NAMES = st.text("ab-_.:f", min_size=1, max_size=4)


def _properties(schema: Any) -> set[str]:
    return {*schema.get("properties", {})} if isinstance(schema, dict) else set()


@given(st.dictionaries(NAMES, SCHEMAS), st.dictionaries(KEYS, st.sampled_from(["a", 1])))
def test_the_tool_that_is_meant_is_that_of_all_that_accept(
    schemas: dict[str, Any], value: dict[str, Any]
) -> None:
    found = {name for name, schema in schemas.items() if accepts(schema, value, Steps())}
    if len(found) > 1:
        found = {name for name in found if value.keys() <= _properties(schemas[name])}
    meant = DeclaredTools(schemas).meant_by(json.dumps(value))
    assert meant == (found.pop() if len(found) == 1 else None)


@given(st.lists(NAMES), st.one_of(NAMES, st.text("functions.ab:1 ", max_size=14)))
def test_what_may_be_a_header_begins_as_the_name_of_a_tool(names: list[str], text: str) -> None:
    headers = [f"{prefix}{name}:" for name in names for prefix in ("", "functions.")]
    text = text.lstrip()
    head, colon, index = text.rstrip().partition(":")
    if not text:
        expected = False
    elif colon:
        expected = f"{head}:" in headers and (index.isdigit() or not index)
    else:
        expected = any(header.startswith(text) for header in headers)
    assert may_be_header(text, DeclaredTools({name: {} for name in names})) is expected


def test_hundreds_of_calls_find_their_tools_among_thousands() -> None:
    tools = DeclaredTools(
        {
            f"tool_{n}": {
                "type": "object",
                "properties": {f"key_{n}": {"type": "string"}, "path": {"type": "string"}},
                "required": ["path", f"key_{n}"],
            }
            for n in range(20_000)
        }
    )
    meant = [tools.meant_by(json.dumps({"path": "a", f"key_{n}": "x"})) for n in range(300)]
    assert meant == [f"tool_{n}" for n in range(300)]
