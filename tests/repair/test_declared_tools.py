"""Every header form that was seen leads to the right tool, or to a visible failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2_names import header_of, may_be_header
from dragoman.repair.schema import Steps, accepts
from tests.counting import calls_of
from tests.repair.streams import chunk, read, repair, sse

OPEN = {"type": "object"}


def tools(**schemas: object) -> DeclaredTools:
    return DeclaredTools({name.replace("__", "."): schema for name, schema in schemas.items()})


DECLARED = DeclaredTools(
    dict.fromkeys(
        ["bash", "exec", "read", "read_file", "get-weather", "mcp.files.read", "v2"], OPEN
    )
)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("functions.bash:15", "bash"),
        ("functions.bash : 15", "bash"),
        ("bash:0", "bash"),
        ("bash", "bash"),
        ("functions.mcp.files.read:2", "mcp.files.read"),
        ("mcp.files.read:2", "mcp.files.read"),
        ("functions.other.files.read:2", "read"),
        ("functions_read_3", "read"),
        ("functions_read_file_3", "read_file"),
        ("functionsexec5", "exec"),
        ("functions.bash30", "bash"),
        ("functions(read_file):2.0", "read_file"),
        ("functions.get_weather:4", "get-weather"),
        ("get_weather:4", "get-weather"),
        ("functions.v2:1", "v2"),
        ("v2", "v2"),
        ("3", None),
        ("", None),
        ("call_abc123", None),
        ("call00003", None),
        ("call_59ad", None),
        ("chatcmpl-tool-0a1b2c3d4e", None),
        ("0a1b2c3d-0000-4000-8000-0123456789ab", None),
        ("functions.", None),
        ("functions.:3", None),
        ("functions", None),
        ("functions_write_3", "functions_write_3"),
        ("functionswrite5", "functionswrite5"),
        ("delete_file", "delete_file"),
        ("functions.delete_file", "delete_file"),
        ("functions.delete_file:2", "delete_file"),
        ("weird@id", "weird@id"),
    ],
)
def test_header_names_the_tool(header: str, name: str | None) -> None:
    assert header_of(header, DECLARED, arguments=True).name == name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("functions.bash:15", "bash"),
        ("bash:0", "bash"),
        ("functions.mcp.files.read:2", "mcp.files.read"),
        ("bash", "bash"),
        ("call_abc123", None),
        ("3", None),
        ("functions_read_3", "functions_read_3"),
    ],
)
def test_without_declared_tools_only_a_plain_name_counts(header: str, name: str | None) -> None:
    assert header_of(header, DeclaredTools({}), arguments=True).name == name


def test_a_suffix_is_taken_at_its_longest() -> None:
    declared = tools(files__read=OPEN, read=OPEN)
    assert header_of("functions.mcp.files.read:0", declared, arguments=True).name == "files.read"


def test_a_mangled_header_that_fits_two_tools_names_neither() -> None:
    declared = DeclaredTools({"read-file": OPEN, "read_file": OPEN})
    assert (
        header_of("functions(read.file):1", declared, arguments=True).name
        == "functions(read.file):1"
    )


def _one_call(
    header: str, arguments: str, schemas: dict[str, object]
) -> tuple[str, str, list[str]]:
    request = {
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in schemas.items()
        ]
    }
    text = f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
    evidence = Evidence()
    out = read(repair(sse([chunk({"content": text}, "stop")]), request, evidence=evidence))
    assert len(out.calls) == 1
    return out.calls[0]["name"], out.calls[0]["id"], evidence.lines()


def _needs(*names: str) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def test_a_nameless_call_goes_to_the_only_tool_that_accepts_its_arguments() -> None:
    schemas = {"bash": _needs("command"), "read": _needs("path")}
    name, call_id, notes = _one_call("7", json.dumps({"path": "a"}), schemas)
    assert (name, call_id) == ("read", "call_0_1700000000")
    assert "repaired read (kimi_k2, inferred from its arguments)" in notes


@pytest.mark.parametrize(
    "schemas",
    [
        {"read": _needs("path"), "list": _needs("path")},
        {"bash": _needs("command")},
        {},
    ],
    ids=["two tools accept", "no tool accepts", "no tools known"],
)
def test_a_nameless_call_that_fits_none_or_several_keeps_its_literal_header(
    schemas: dict[str, object],
) -> None:
    name, call_id, notes = _one_call("call_abc123", json.dumps({"path": "a"}), schemas)
    assert (name, call_id) == ("call_abc123", "call_abc123")
    assert "kept the literal header of a call that names no tool" in notes


def test_the_id_of_the_upstream_is_kept_and_never_repeated() -> None:
    call = "<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    out = read(repair(sse([chunk({"content": call * 2}, "stop")]), {}))
    assert [c["id"] for c in out.calls] == ["bash:0", "call_1_1700000000"]


def test_functions_of_older_requests_are_tools() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"n": {"type": "string"}}}}}
    request = {"model": "qwen3", "functions": [{"name": "bash", "parameters": schema}, None]}
    leak = "<function=bash><parameter=n>5</parameter></function>"
    stream = sse([chunk({"content": leak}, model="qwen3"), chunk({}, "stop", model="qwen3")])
    out = read(repair(stream, request))
    assert [(call["name"], call["arguments"]) for call in out.calls] == [("bash", '{"n":"5"}')]
    out = read(repair(stream, request | {"function_call": "none"}))
    assert (out.content, out.calls) == (leak, [])


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
            for n in range(4_000)
        }
    )
    meant = [tools.meant_by(json.dumps({"path": "a", f"key_{n}": "x"})) for n in range(300)]
    assert meant == [f"tool_{n}" for n in range(300)]


BASH = DeclaredTools(
    {"bash": _needs("command"), "bash_2": OPEN, "mcp__files__read": _needs("path")},
    aliases={"read": "mcp__files__read", "files.read": "mcp__files__read", "gone": "no_tool"},
)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("bash", "bash"),
        ("other.bash", "bash"),
        ("functions.bash:3", "bash"),
        ("bash_2", "bash_2"),
        ("functions.bash-2", None),
        ("files.read", "files.read"),
        ("mcp.files.read", "files.read"),
        ("mcp--files--read", "mcp__files__read"),
        ("x" * 300 + ".bash", None),
        ("gone", None),
        ("BASH", "bash"),
        ("functions.Bash:3", "bash"),
        ("mcp--Files--read", "mcp__files__read"),
        ("", None),
    ],
)
def test_a_name_means_the_one_declared_tool_that_it_is_spelled_like(
    name: str, tool: str | None
) -> None:
    assert BASH.find(name) == tool
    assert (tool is None) is (BASH.schema_of(name) is None)


CASES = DeclaredTools({"Bash": OPEN, "read_file": OPEN, "READ_FILE": OPEN, "web-Fetch": OPEN})


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        *(("bash", "Bash"), ("BASH", "Bash"), ("functions.bash:0", "Bash")),
        *(("Read_File", None), ("read-file", "read_file"), ("READ-FILE", "READ_FILE")),
        *(("web_fetch", "web-Fetch"), ("bashful", None)),
    ],
)
def test_a_name_that_differs_in_case_means_the_one_tool_that_fits(
    name: str, tool: str | None
) -> None:
    assert CASES.find(name) == tool


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("bash", None),
        ("ba", None),
        ("bash<|channel|>commentary", "bash"),
        ("<b>bash</b>", "bash"),
        ("functions.bash:0", "bash"),
        ("functions.read:12", "read"),
        ("bashbash", "bash"),
        ("bashbashbash", None),
        ("bash:0", "bash"),
        ("bash_3", None),
        ("other.bash", None),
        ("<nothing>", None),
    ],
)
def test_a_name_of_a_host_s_own_call_loses_what_is_not_part_of_it(
    name: str, tool: str | None
) -> None:
    assert BASH.of_native(name) == tool


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        *(("", False), ("bash", False), ("functions.bash", False), ("ls", False)),
        *(("b", True), ("mcp__files__re", True), ("func", True), ("functions.ba", True)),
    ],
)
def test_a_name_may_be_cut_if_it_begins_one_of_a_tool(name: str, cut: bool) -> None:
    assert BASH.may_be_cut(name) is cut


@pytest.mark.parametrize(
    ("glued", "found"),
    [
        ("bashcommand", ("bash", "command")),
        ("mcp__files__readpath", ("mcp__files__read", "path")),
        ("readpath", ("read", "path")),
        ("bashpath", None),
        ("bash", None),
    ],
)
def test_a_name_and_a_key_that_are_glued_are_those_of_one_tool(
    glued: str, found: tuple[str, str] | None
) -> None:
    assert BASH.with_key(glued) == found


def test_a_call_by_an_alias_lacks_what_its_tool_requires() -> None:
    assert BASH.lacks("read", {}) == BASH.lacks("mcp__files__read", {}) == "all"
    assert BASH.lacks("read", {"path": "a"}) == BASH.lacks("gone", {}) == ""


def test_a_call_without_a_name_never_means_the_alias_of_its_tool() -> None:
    assert BASH.meant_by('{"path":"a"}', declared=True) == "mcp__files__read"


def test_further_names_and_ids_of_a_sent_request_lead_to_its_tools() -> None:
    tools = BASH.with_aliases({"shell": "bash", "cat": "read", "no": "none"}, {"call_1": "bash"})
    assert tools.find("shell") == "shell"
    assert tools.schema_of("shell") == tools.schema_of("bash")
    assert tools.schema_of("cat") == tools.schema_of("read") == tools.schema_of("files.read")
    assert "no" not in tools
    assert header_of("call_1", tools, arguments=True).name == "bash"


def test_two_thousand_tools_are_looked_through_in_few_steps() -> None:
    functions = [{"name": f"mcp__do_{n}_it", "parameters": _needs(f"k{n}")} for n in range(2000)]

    def look() -> None:
        tools = DeclaredTools.of_request({"functions": functions})
        assert tools.find("functions.mcp--do--1999_it:" + "1" * 200) is None
        assert tools.find("functions(mcp-_do-1999_it):3") == "mcp__do_1999_it"
        assert tools.meant_by('{"k7":"x"}') == "mcp__do_7_it"
        assert tools.with_key("mcp__do_77_itk77") == ("mcp__do_77_it", "k77")

    assert calls_of(look) < 2000 * 40, "a look at each for each takes millions"
