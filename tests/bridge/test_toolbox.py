"""Tools of every kind as chat functions, the table for the way back, and tool_choice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.host_requirements import family_of
from dragoman.bridge.request.toolbox import upstream_name
from dragoman.reply.turn_context import Tool

from .converting import Converted, Json, call, converted, function, of_input, output, refusal, user

KIMI = "kimi-k2.5"
KIMI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9-_]{2,63}")


def with_tools(*tools: Any, **fields: Any) -> Converted:
    return of_input(user("hi"), tools=list(tools), **fields)


def test_a_function_keeps_description_parameters_and_strict() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = {"type": "function", "name": "f", "description": "d", "parameters": schema}
    assert with_tools(tool | {"strict": True}).chat["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": schema, "strict": True},
        }
    ]


@pytest.mark.parametrize("parameters", [None, {}])
def test_a_function_without_parameters_gets_an_empty_object_schema(parameters: Any) -> None:
    tool = {"type": "function", "name": "f", "parameters": parameters, "strict": None}
    assert with_tools(tool).functions["f"] == {
        "name": "f",
        "parameters": {"type": "object", "properties": {}},
    }


@pytest.mark.parametrize(
    "schema",
    [{"anyOf": [{"type": "object"}]}, {"type": ["object", "null"]}, {"properties": {"a": {}}}],
)
def test_the_root_of_parameters_is_an_object(schema: Json) -> None:
    tool = with_tools({"type": "function", "name": "f", "parameters": schema})
    assert tool.functions["f"]["parameters"] == {**schema, "type": "object"}


def test_a_custom_tool_is_a_function_with_one_string_and_its_grammar_in_words() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"+'}
    made = with_tools(
        {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": grammar}
    )
    patch = made.functions["apply_patch"]
    assert patch["parameters"]["properties"] == {"input": {"type": "string"}}
    assert patch["parameters"]["required"] == ["input"]
    assert patch["description"].startswith("Patches.")
    assert 'lark grammar:\nstart: "x"+' in patch["description"]
    assert made.tools == {"apply_patch": Tool("custom", "apply_patch")}


def test_a_namespace_becomes_its_functions_with_joined_names() -> None:
    made = with_tools(
        {
            "type": "namespace",
            "name": "mcp__files",
            "description": "Files of the user.",
            "tools": [function("read", description="Reads."), function("write")],
        }
    )
    assert list(made.functions) == ["mcp__files__read", "mcp__files__write"]
    assert made.tools["mcp__files__read"] == Tool("function", "read", "mcp__files")
    # What the namespace says of itself is said once.
    told = "(About all mcp__files tools: Files of the user.)"
    assert made.functions["mcp__files__read"]["description"] == f"Reads.\n\n{told}"
    assert "description" not in made.functions["mcp__files__write"]


def test_the_namespace_functions_is_the_default_one_and_is_remembered() -> None:
    made = with_tools(
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    )
    assert made.tools == {"exec": Tool("custom", "exec", "functions")}


@pytest.mark.parametrize(
    ("kind", "required"),
    [("local_shell", ["command"]), ("shell", ["commands"]), ("apply_patch", ["type", "path"])],
)
def test_a_built_in_local_tool_has_the_schema_of_its_action(kind: str, required: list[str]) -> None:
    made = with_tools({"type": kind})
    assert made.functions[kind]["parameters"]["required"] == required
    assert made.tools == {kind: Tool(kind, kind)}  # type: ignore[arg-type]


def test_tool_search_run_by_the_client_is_a_function_with_its_parameters() -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {}}}
    made = with_tools({"type": "tool_search", "execution": "client", "parameters": schema})
    assert made.functions["tool_search"]["parameters"] == schema
    assert made.tools == {"tool_search": Tool("tool_search", "tool_search")}


HOSTED = [
    {"type": "web_search", "external_web_access": True},
    {"type": "web_search_preview"},
    {"type": "file_search", "vector_store_ids": ["v"]},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation"},
    {"type": "computer_use_preview"},
    {"type": "mcp", "server_label": "s", "server_url": "https://example.invalid"},
    {"type": "tool_search"},
    {"type": "shell", "environment": {"type": "container_auto"}},
    {"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}},
    {"type": "a_kind_of_next_year"},
]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_a_hosted_tool_is_dropped_and_recorded_or_refused(tool: Json) -> None:
    made = with_tools(tool, function("keep"))
    assert list(made.functions) == ["keep"]
    assert f"dropped tool {tool['type']}" in made.notes
    refused = refusal({"model": "m", "input": "x", "tools": [tool]}, unsupported="error")
    assert refused.param == "tools[0].type"
    assert tool["type"] in refused.message


def test_no_tools_means_no_tools_no_tool_choice_and_no_parallel_tool_calls() -> None:
    for tools in ([], [{"type": "web_search"}]):
        chat = with_tools(*tools, tool_choice="auto", parallel_tool_calls=True).chat
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(chat)


def test_calls_in_the_history_work_without_tools() -> None:
    made = of_input(user("hi"), call("c", "f"), output("c", "done"), user("on"), tools=[])
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool", "user"]
    assert "tools" not in made.chat


# ---------------------------------------------------------------- names


def test_tools_that_meet_in_one_name_are_refused_naming_both() -> None:
    namespaces = [
        {"type": "namespace", "name": "a", "tools": [function("b__c")]},
        {"type": "namespace", "name": "a__b", "tools": [function("c")]},
    ]
    refused = refusal({"model": "m", "input": "x", "tools": namespaces})
    assert refused.param == "tools[1].tools[0]"
    for part in ("'b__c' in namespace 'a'", "'c' in namespace 'a__b'", "'a__b__c'"):
        assert part in refused.message


def test_a_custom_tool_and_a_function_of_one_name_are_refused() -> None:
    tools = [function("x"), {"type": "custom", "name": "x"}]
    assert "custom tool 'x'" in refusal({"model": "m", "input": "x", "tools": tools}).message


def test_a_tool_declared_twice_is_sent_once_in_its_first_place_as_last_declared() -> None:
    made = with_tools(function("f"), function("g"), function("f", description="new"))
    assert list(made.functions) == ["f", "g"]
    assert made.functions["f"]["description"] == "new"
    assert "declared again, differently tool f" in made.notes


@given(st.text(max_size=90), st.none() | st.text(max_size=90), st.sampled_from([KIMI, "other"]))
def test_every_name_becomes_one_the_family_takes_and_always_the_same(
    name: str, namespace: str | None, model: str
) -> None:
    family = family_of(model)
    upstream = upstream_name(name, namespace, family)
    assert family.tool_name.fullmatch(upstream)
    assert upstream == upstream_name(name, namespace, family)


@given(st.sets(st.tuples(st.text("ab._-é", max_size=70), st.text("xy.", min_size=1, max_size=70))))
def test_different_long_or_odd_names_stay_different(names: set[tuple[str, str]]) -> None:
    upstream = {upstream_name(name, namespace, family_of(KIMI)) for name, namespace in names}
    assert len(upstream) == len(names)


@pytest.mark.parametrize("name", ["read", "read-file_2", "_x1", "a" * 64])
def test_a_good_name_stays(name: str) -> None:
    assert upstream_name(name, None, family_of(KIMI)) == name
    assert KIMI_NAME.fullmatch(name)


def test_a_name_a_kimi_model_would_refuse_is_changed_and_recorded() -> None:
    made = with_tools(function("ls"), function("a.b"), model=KIMI)
    assert all(KIMI_NAME.fullmatch(name) for name in made.functions)
    assert [tool.name for tool in made.tools.values()] == ["ls", "a.b"]
    assert sum(note.startswith("renamed tool") for note in made.notes) == 2


def test_a_tool_is_renamed_once_and_the_reply_knows_its_name() -> None:
    fields = {"tools": [function("a.b")], "tool_choice": {"type": "function", "name": "a.b"}}
    made = of_input(user("x"), call("c", "a.b"), model="kimi-k2-0905-preview", **fields)
    (name,) = made.tools
    assert list(made.functions) == [name]
    assert made.chat["tool_choice"]["function"]["name"] == name
    assert made.messages[1]["tool_calls"][0]["function"]["name"] == name
    assert [note for note in made.notes if "tool a.b" in note] == [f"renamed tool a.b to {name}"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_call_in_the_history_has_the_name_of_its_tool_also_when_withdrawn(declared: bool) -> None:
    tools = [{"type": "namespace", "name": "n" * 40, "tools": [function("f" * 40)]}]
    made = of_input(
        user("x"), call("c", "f" * 40, namespace="n" * 40), tools=tools if declared else []
    )
    name = upstream_name("f" * 40, "n" * 40, family_of("some-model"))
    assert len(name) <= 64
    assert made.messages[1]["tool_calls"][0]["function"]["name"] == name
    assert list(made.tools) == ([name] if declared else [])


# ---------------------------------------------------------------- tools in the input


def test_additional_tools_are_declared_and_say_nothing() -> None:
    namespace = {"type": "namespace", "name": "clock", "tools": [function("now")]}
    item = {"type": "additional_tools", "role": "developer", "tools": [namespace]}
    made = of_input(item, user("x"))
    assert made.tools == {"clock__now": Tool("function", "now", "clock")}
    assert [message["role"] for message in made.messages] == ["user"]


def test_found_tools_are_declared_and_the_model_learns_their_names() -> None:
    found = [{"type": "namespace", "name": "cal", "tools": [function("add")]}]
    made = of_input(
        user("x"),
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"q": 1}},
        {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": found},
    )
    assert made.messages[1]["tool_calls"][0]["function"] == {
        "name": "tool_search",
        "arguments": '{"q":1}',
    }
    assert made.messages[2]["content"] == '{"loaded_tools":["cal__add"]}'
    assert list(made.functions) == ["cal__add"]


# ---------------------------------------------------------------- tool_choice

DECLARED: list[Json] = [
    function("f"),
    function("g"),
    {"type": "custom", "name": "c"},
    {"type": "shell"},
    {"type": "namespace", "name": "n", "tools": [function("m"), function("k")]},
    {"type": "web_search"},
]


def choose(choice: Any, model: str = "some-model") -> Converted:
    return with_tools(*DECLARED, tool_choice=choice, model=model)


def named(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, named("f")),
        ({"type": "custom", "name": "c"}, named("c")),
        ({"type": "shell"}, named("shell")),
        ({"type": "function", "name": "m", "namespace": "n"}, named("n__m")),
        ({"type": "function", "name": "m"}, named("n__m")),
        ({"type": "web_search"}, "auto"),
        ({"type": "mcp", "server_label": "s"}, "auto"),
    ],
)
def test_every_tool_choice_has_its_chat_form(choice: Any, sent: Any) -> None:
    assert choose(choice).chat["tool_choice"] == sent


def test_without_a_tool_choice_none_is_sent() -> None:
    assert "tool_choice" not in choose(None).chat


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_are_the_only_ones_sent(mode: str) -> None:
    allowed = [
        {"type": "function", "name": "g"},
        {"type": "custom", "name": "c"},
        {"type": "web_search"},
    ]
    made = choose({"type": "allowed_tools", "mode": mode, "tools": allowed})
    assert made.chat["tool_choice"] == mode
    assert list(made.functions) == ["g", "c"]
    assert set(made.tools) == {"f", "g", "c", "shell", "n__m", "n__k"}


def test_an_allowed_namespace_allows_its_functions() -> None:
    allowed = [{"type": "namespace", "name": "n"}]
    made = choose({"type": "allowed_tools", "mode": "auto", "tools": allowed})
    assert list(made.functions) == ["n__m", "n__k"]


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (42, "tool_choice"),
        ([], "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "function", "name": "unknown"}, "tool_choice"),
        ({"type": "custom", "name": "f"}, "tool_choice"),
        ({"type": "apply_patch"}, "tool_choice"),
        ({"type": "allowed_tools", "mode": "never", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "tools": [{"type": "shell"}, 1]}, "tool_choice.tools[1]"),
    ],
)
def test_a_choice_that_means_nothing_is_refused_by_name(choice: Any, param: str) -> None:
    body = {"model": "m", "input": "x", "tools": DECLARED, "tool_choice": choice}
    assert refusal(body).param == param


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "f"}])
@pytest.mark.parametrize("model", [KIMI, "kimi-k2-thinking", "kimi-k3"])
def test_thinking_kimi_models_are_not_forced_and_it_is_recorded(choice: Any, model: str) -> None:
    made = choose(choice, model)
    assert made.chat["tool_choice"] == "auto"
    assert any(note.startswith("downgraded to auto tool_choice") for note in made.notes)


def test_a_kimi_model_that_does_not_think_may_be_forced() -> None:
    assert choose("required", "kimi-k2-0905-preview").chat["tool_choice"] == "required"


def test_a_shell_in_a_local_environment_is_run_by_the_client() -> None:
    tool = {"type": "shell", "environment": {"type": "local"}}
    assert list(with_tools(tool).functions) == ["shell"]


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (42, "tools[0]"),
        ({}, "tools[0].type"),
        ({"type": 1}, "tools[0].type"),
        ({"type": "function"}, "tools[0].name"),
        ({"type": "function", "name": 1}, "tools[0].name"),
        ({"type": "function", "name": "f", "parameters": []}, "tools[0].parameters"),
        ({"type": "function", "name": "f", "strict": "yes"}, "tools[0].strict"),
        ({"type": "function", "name": "f", "description": 1}, "tools[0].description"),
        ({"type": "custom", "name": "f", "format": "text"}, "tools[0].format"),
        ({"type": "namespace", "name": "n", "tools": {}}, "tools[0].tools"),
        ({"type": "namespace", "name": "n", "tools": [[]]}, "tools[0].tools[0]"),
        ({"type": "namespace", "tools": []}, "tools[0].name"),
    ],
)
def test_a_malformed_tool_is_refused_by_the_name_of_its_field(tool: Any, param: str) -> None:
    assert refusal({"model": "m", "input": "x", "tools": [tool]}).param == param


def test_the_order_of_tools_is_that_of_their_declaration() -> None:
    extra = {"type": "additional_tools", "role": "developer", "tools": [function("z")]}
    body = {"model": "m", "input": [extra, user("x")], "tools": [function("b"), function("a")]}
    assert list(converted(body).functions) == ["b", "a", "z"]
