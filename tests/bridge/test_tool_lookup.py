"""Every spelling of a tool's name that can mean one tool only is understood."""

from __future__ import annotations

import pytest

from dragoman.repair.declared_tools import ToolLookup
from dragoman.reply.turn_context import Tool

from .converting import function, of_input, user

ADD = Tool("function", "add", "mcp__t__")
READ = Tool("function", "read_file", "mcp__files")
EXEC = Tool("custom", "exec", "functions")
TOOLS = {"mcp__t__add": ADD, "mcp__files__read_file": READ, "exec": EXEC}


@pytest.mark.parametrize(
    ("spelled", "tool"),
    [
        ("add", ADD),
        ("mcp__t____add", ADD),
        ("mcp__t__.add", ADD),
        ("mcp.t.add", ADD),
        ("t__add", ADD),
        ("t/add", ADD),
        ("functions.mcp__t__add", ADD),
        ("functions.add", ADD),
        ("functions.add:0", ADD),
        ("MCP__T__ADD", ADD),
        ("read_file", READ),
        ("Read_File", READ),
        ("read-file", READ),
        ("mcp__files.read_file", READ),
        ("mcp__files_read_file", READ),
        ("mcp__files/read_file", READ),
        ("mcp_files_read_file", READ),
        ("mcp-files-read-file", READ),
        ("functions.mcp__files__read_file", READ),
        ("functions.exec", EXEC),
        ("functions__exec", EXEC),
        ("Exec", EXEC),
    ],
)
def test_a_spelling_that_means_one_tool(spelled: str, tool: Tool) -> None:
    names = ToolLookup(TOOLS)
    assert spelled not in TOOLS
    assert names.find(spelled) is tool


@pytest.mark.parametrize(
    "spelled",
    [
        *("", ".", "__", "functions", "functions.", "file", "read", "readfile", "t", "mcp__t"),
        *("add_2", "other__add", "x.exec", "files__add"),
    ],
)
def test_a_name_that_means_none(spelled: str) -> None:
    assert ToolLookup(TOOLS).find(spelled) is None


def test_among_several_none_is_guessed() -> None:
    names = ToolLookup(
        {
            "a__read": Tool("function", "read", "a"),
            "b__read": Tool("function", "read", "b"),
            "x-y": Tool("function", "x-y"),
            "x_y": Tool("function", "x_y"),
        }
    )
    for spelled in ("read", "functions.read", "READ", "X_Y", "x.y"):
        assert names.find(spelled) is None
    assert names.find("b.read") == Tool("function", "read", "b")


def test_the_client_s_own_spelling_counts_before_any_other() -> None:
    tools = {
        "a_b__read": Tool("function", "read", "a-b"),
        "a_b__read_2": Tool("function", "read", "a_b"),
        "List": Tool("function", "List", "files"),
        "list": Tool("function", "list"),
    }
    names = ToolLookup(tools)
    assert names.find("a-b.read") is tools["a_b__read"]
    assert names.find("a_b.read") is tools["a_b__read_2"]
    assert names.find("List") is tools["List"]
    assert names.find("a/b/read") is None
    assert names.find("LIST") is None
    assert set(names.aliases) == {"a-b.read", "a_b.read", "List", "files.List", "list"}


def test_many_words_in_a_namespace_do_not_add_up() -> None:
    words = "_".join(f"w{n}" for n in range(20_000))
    tool = Tool("function", "read", words)
    names = ToolLookup({"r": tool})
    assert names.find(f"{words}/READ") is names.find("READ") is names.find("R") is tool


@pytest.mark.parametrize("model", ["some-model", "kimi-k2.5"])
@pytest.mark.parametrize(
    ("namespace", "name", "upstream"),
    [
        ("mcp__t__", "add", "mcp__t__add"),
        ("mcp__t_", "add", "mcp__t__add"),
        ("mcp__t", "add", "mcp__t__add"),
        ("mcp__t", "_add", "mcp__t___add"),
        ("functions", "add", "add"),
        ("___", "add", "_____add"),
    ],
)
def test_a_namespace_that_ends_like_the_joint_is_joined_once(
    model: str, namespace: str, name: str, upstream: str
) -> None:
    tools = [{"type": "namespace", "name": namespace, "tools": [function(name)]}]
    called = {"type": "function_call", "call_id": "c", "name": name, "namespace": namespace}
    made = of_input(user("x"), called, tools=tools, model=model)
    assert list(made.functions) == [upstream]
    assert made.tools[upstream] == Tool("function", name, namespace)
    assert made.messages[1]["tool_calls"][0]["function"]["name"] == upstream
