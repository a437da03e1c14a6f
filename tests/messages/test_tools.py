"""Which tools a Messages request declares."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.messages.tools import change_line, names_deferred, tools_declared

SENTENCE = (
    "The following deferred tools are now available via ToolSearch. Their schemas are NOT loaded. "
    'Use ToolSearch with query "select:<name>" to load tool schemas before calling them:'
)
LIST = f"# Environment\nYou are here:\n\n{SENTENCE}\nCronList\nmcp__tea__brew\n\nAgents:\nPlan"
LOADED = "The following tools were loaded earlier in this conversation.\nThe tools are:\nA\nB."


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([system(LIST)], ["CronList", "mcp__tea__brew"]),
        ([system([text("x"), text(LIST)])], ["CronList", "mcp__tea__brew"]),
        ([system(LIST), system(f"{SENTENCE}\nLater\nCronList")], 3),
        ([system(f"<system-reminder>\n{LIST}\n</system-reminder>")], 2),
        ([system(LIST.replace("\n", "\r\n"))], 2),
        ([system(LOADED)], ["A", "B."]),
        ([system(f"{SENTENCE}\nA b\nC")], []),
        ([system(f"{SENTENCE}\n\nA")], []),
        ([system(f"A list:\nCronList\n{SENTENCE}")], []),
        ([{"role": "user", "content": LIST}], []),
        ([{"role": "user", "content": [{"type": "tool_result", "content": LIST}]}], []),
        ([system(None), system([7]), 7, None], []),
        ("x", []),
        (None, []),
    ],
)
def test_names_are_those_of_reminders_of_the_system(messages: Any, names: Any) -> None:
    found = names_deferred(messages)
    assert found == names or len(found) == names


def test_each_kind_of_tool_is_declared_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    loaded = {"name": "CronList", "input_schema": schema, "defer_loading": True}
    given = [
        {"name": "read", "input_schema": schema},
        loaded,
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 1024},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_x", "name": "other"},
        {"name": "DeferredToolPlaceholder", "input_schema": {}, "defer_loading": True},
        {"name": "", "input_schema": schema},
        7,
    ]
    tools = tools_declared({"tools": given, "messages": [system(LIST)]})
    assert [(tool.name, tool.kind, tool.is_loaded_later) for tool in tools] == [
        ("read", "function", False),
        ("CronList", "function", True),
        ("bash", "client", False),
        ("str_replace_based_edit_tool", "client", False),
        ("memory", "client", False),
        ("computer", "client", False),
        ("mcp__tea__brew", "deferred", True),
    ]
    assert tools[1].schema is schema and tools[1].tool is loaded
    assert set(tools[2].schema["properties"]) == {"command", "restart"}
    assert tools[-1].schema is None and tools[-1].tool == {}
    assert tools_declared({}) == []


# What comes and goes within a conversation

SCHEMA = {"type": "object"}


def added(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_addition", "tool": tool}


def defined(name: str, **fields: Any) -> dict[str, Any]:
    definition = {"name": name, "input_schema": SCHEMA, **fields}
    return added({"type": "tool_definition", "definition": definition})


def named(name: str, kind: str = "tool_addition") -> dict[str, Any]:
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


SEARCH = added(
    {
        "type": "tool_definition",
        "definition": {"type": "web_search_20250305", "name": "web_search"},
    }
)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (system([text("Now:"), defined("brew"), defined("pour")]), ["read", "brew", "pour"]),
        (system([defined("read", description="new")]), ["read"]),
        (system([named("read"), named("other"), named("read", "tool_removal")]), ["read"]),
        (system([SEARCH]), ["read"]),
        ({"role": "user", "content": [defined("brew")]}, ["read"]),
        (
            {
                "role": "assistant",
                "content": [{"type": "compaction", "tool_changes": [defined("brew")]}],
            },
            ["read", "brew"],
        ),
        (system([added({"definition": 7}), {"type": "tool_addition", "tool": 7}]), ["read"]),
    ],
)
def test_a_message_may_bring_the_definition_of_a_tool(message: Any, names: list[str]) -> None:
    given = [{"name": "read", "input_schema": SCHEMA}]
    tools = tools_declared({"tools": given, "messages": [message]})
    assert [tool.name for tool in tools] == names
    assert all(tool.is_loaded_later for tool in tools[1:])
    assert tools[0].is_loaded_later == (tools[0].tool.get("description") == "new")


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (defined("brew"), "Loaded: brew"),
        (named("brew"), "Loaded: brew"),
        (named("brew", "tool_removal"), "Do not call any more: brew"),
        (SEARCH, "Not available here: web_search"),
        (
            added({"type": "tool_definition", "definition": {"type": "mcp_toolset"}}),
            "Not available here: mcp_toolset",
        ),
        (text("brew"), ""),
    ],
)
def test_what_comes_and_goes_is_a_line_for_the_model(block: Any, line: str) -> None:
    assert change_line(block) == line


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (named("brew"), "Loaded: brew"),
        (named("web_search"), "Not available here: web_search"),
        (defined("pour"), "Loaded: pour"),
        (named("DeferredToolPlaceholder"), ""),
        (defined("DeferredToolPlaceholder"), ""),
        ({"type": "tool_addition", "tool": None}, ""),
        ({"type": "tool_removal", "tool": None}, ""),
    ],
)
def test_only_a_tool_that_is_there_is_loaded(block: Any, line: str) -> None:
    assert change_line(block, {"brew"}) == line
