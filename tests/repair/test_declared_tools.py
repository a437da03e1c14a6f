"""Every header form that was seen leads to the right tool, or to a visible failure."""

from __future__ import annotations

import json

import pytest

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2_names import resolve
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
    assert resolve(header, DECLARED).name == name


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
    assert resolve(header, DeclaredTools({})).name == name


def test_a_suffix_is_taken_at_its_longest() -> None:
    declared = tools(files__read=OPEN, read=OPEN)
    assert resolve("functions.mcp.files.read:0", declared).name == "files.read"


def test_a_mangled_header_that_fits_two_tools_names_neither() -> None:
    declared = DeclaredTools({"read-file": OPEN, "read_file": OPEN})
    assert resolve("functions(read.file):1", declared).name == "functions(read.file):1"


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
