"""Calls as items of the kinds of their tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .replying import call, calls, ended, one_call, run


def test_a_namespaced_function_comes_back_under_its_own_name_and_namespace() -> None:
    (item,) = one_call("mcp__files__read", '{"path":"a"}').output
    assert (item["type"], item["name"], item["namespace"]) == (
        "function_call",
        "read",
        "mcp__files",
    )


def test_a_custom_call_comes_back_with_raw_input() -> None:
    got = one_call("apply", '{"input":"line 1\\nline \\"2\\""}')
    assert got.output[0]["type"] == "custom_tool_call"
    assert got.output[0]["input"] == 'line 1\nline "2"'
    assert got.evidence.empty


@pytest.mark.parametrize(
    ("arguments", "wanted", "noted"),
    [
        ("", "", ""),
        ("{}", "", ""),
        ('{"patch":"x"}', "x", ""),
        ('{"note":1,"input":"x"}', "x", ""),
        ("*** Begin Patch", "*** Begin Patch", "input that is not JSON"),
        ('{"input":{"a":1}}', '{"input":{"a":1}}', "input that is no string"),
        ('{"input":"x","more":1}', "x", "more than an input"),
        ('{"input":"x" ,\n}', "x", "more than an input"),
        ('{"input":"x"' + "\n" * 100 + "}", "x", ""),
    ],
)
def test_a_custom_call_of_another_form_still_gives_an_input(
    arguments: str, wanted: str, noted: str
) -> None:
    got = one_call("apply", arguments)
    assert got.output[0]["input"] == wanted
    assert noted in got.noted
    assert bool(noted) == bool(got.noted)


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
def test_half_an_input_is_never_handed_over(finish: str) -> None:
    """Some hosts say so at a limit, too; a client would run the half."""
    escaped = ('{"input":"rm -rf bui', '{"input": ', '{"input"', '{"inp', "{")
    for half in (*escaped, '{"input":"rm -rf "bui', '{"input":"rm -rf "bui"ld'):
        got = one_call("exec", half, finish)
        assert (got.response["status"], got.output[0]["status"]) == ("failed", "incomplete")
        assert "response.output_item.done" not in got.types
    assert one_call("exec", '{"input":"ls"', finish).output[0]["input"] == "ls"


def test_a_local_shell_call_carries_its_action() -> None:
    (item,) = one_call("local_shell", '{"command":["ls","-l"],"timeout_ms":9}').output
    assert item["type"] == "local_shell_call"
    assert item["action"] == {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 9}


def test_a_shell_call_carries_its_action() -> None:
    (item,) = one_call("shell", '{"commands":["ls"],"timeout_ms":true}').output
    assert item["type"] == "shell_call"
    assert item["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    assert item["environment"] == {"type": "local"}


def test_an_apply_patch_call_carries_its_operation() -> None:
    operation = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"}
    (item,) = one_call("apply_patch", json.dumps(operation)).output
    assert (item["type"], item["operation"]) == ("apply_patch_call", operation)


def test_a_tool_search_call_carries_object_arguments() -> None:
    (item,) = one_call("tool_search", '{"query":"mail"}').output
    assert item["type"] == "tool_search_call"
    assert (item["arguments"], item["execution"]) == ({"query": "mail"}, "client")


UNFIT = [
    *('{"command":', "[]", "1e999", '{"type":1e999}', "{}", '{"type":"delete_file"}'),
    '{"command":"ls","commands":[3],"type":[]}',
]
DOES_NOTHING: dict[str, dict[str, Any]] = {
    "local_shell": {
        "type": "local_shell_call",
        "status": "incomplete",
        "action": {"type": "exec", "command": [], "env": {}},
    },
    "shell": {
        "type": "shell_call",
        "status": "incomplete",
        "action": {"commands": [], "timeout_ms": None, "max_output_length": None},
        "environment": {"type": "local"},
    },
    "apply_patch": {"type": "apply_patch_call", "status": "completed"},
}


@pytest.mark.parametrize("name", DOES_NOTHING)
@pytest.mark.parametrize("arguments", UNFIT)
def test_a_structured_call_that_does_not_fit_is_an_item_of_its_kind_that_does_nothing(
    name: str, arguments: str
) -> None:
    got = one_call(name, arguments)
    (item,) = got.output
    assert item.items() >= DOES_NOTHING[name].items()
    if name == "apply_patch":
        operation = {"type": "update_file", "path": "", "diff": arguments}
        assert item["operation"] == operation
    assert f"invalid arguments of {name}" in got.noted


@pytest.mark.parametrize("arguments", ['{"query":', "[]", "1e999", "mail", '"mail"'])
def test_a_tool_search_that_does_not_fit_searches_for_its_arguments(arguments: str) -> None:
    got = one_call("tool_search", arguments)
    (item,) = got.output
    assert (item["type"], item["status"]) == ("tool_search_call", "completed")
    assert item["arguments"] == {"query": arguments}
    assert "invalid arguments of tool_search" in got.noted


@pytest.mark.parametrize("arguments", ["", " ", "\n", None])
def test_empty_arguments_are_an_empty_object(arguments: Any) -> None:
    got = run([calls(call(0, arguments, name="echo")), *ended("tool_calls")])
    assert json.loads(got.output[0]["arguments"]) == {}
    assert got.output[0]["status"] == "completed"


@pytest.mark.parametrize("arguments", ['{"a":', "not json", "[]", "null"])
def test_invalid_arguments_are_delivered_and_recorded(arguments: str) -> None:
    got = one_call("echo", arguments)
    assert got.output[0]["arguments"] == arguments
    assert "invalid arguments of echo" in got.noted


LONG = "x" * 300_000


@pytest.mark.parametrize(
    ("arguments", "invalid"),
    [
        (f'{{"a": "{LONG}"}}', False),
        (f' \n{{"a": "{LONG}"}} ', False),
        (f'{{"a": "{LONG}', True),
        (f'["{LONG}"]', True),
        (f'"{LONG}"', True),
        (LONG, True),
        (f'{{"a": "{LONG}"}} x', True),
    ],
    ids=["object", "blanks", "cut", "array", "string", "no JSON", "more"],
)
def test_invalid_arguments_are_recorded_however_long(arguments: str, invalid: bool) -> None:
    got = one_call("echo", arguments)
    assert got.output[0]["arguments"] == arguments
    assert ("invalid arguments of echo" in got.noted) is invalid
