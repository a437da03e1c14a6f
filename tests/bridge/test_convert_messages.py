"""A request of Anthropic's Messages API as a chat request: its tools, and all but its messages.

Bodies as Claude Code 2.1.330 and 2.1.153, anthropic-python and AI SDK send them.
"""

from __future__ import annotations

from typing import Any

import pytest

from .converting import Converted, Json, message_conversion, message_refusal, of_messages

HI: Json = {"role": "user", "content": "hi"}
IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"},
}


def of_fields(model: str = "some-model", **fields: Any) -> Converted:
    return of_messages(HI, model=model, **fields)


def sent(model: str = "some-model", **fields: Any) -> Json:
    """The fields of the chat request, but for its model and messages."""
    chat = of_fields(model, **fields).chat
    return {name: value for name, value in chat.items() if name not in ("model", "messages")}


def tool(name: str, **fields: Any) -> Json:
    return {"name": name, "description": f"{name}!", "input_schema": {"type": "object"}, **fields}


# Fields


def test_the_model_is_sent_as_it_is_and_first() -> None:
    chat = of_fields("NAME[1m]").chat
    assert list(chat)[:2] == ["model", "messages"]
    assert chat["model"] == "NAME[1m]"


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("m", {"max_tokens": 32000}, {"max_tokens": 32000}),
        ("gpt-5.2", {"max_tokens": 32000}, {"max_completion_tokens": 32000}),
        ("m", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ("kimi-k2.5", {"temperature": 0.5, "top_p": 0.95}, {"top_p": 0.95}),
        ("m", {"top_k": 40}, {"top_k": 40}),
        ("m", {"stop_sequences": ["END"]}, {"stop": ["END"]}),
        ("m", {"stop_sequences": []}, {}),
        ("m", {"stream": False}, {}),
        ("m", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ],
)
def test_a_field_has_its_chat_name(model: str, given: Json, expected: Json) -> None:
    assert sent(model, **given) == expected


def test_what_only_anthropic_reads_is_not_sent_and_not_worth_a_note() -> None:
    made = of_fields(
        metadata={"user_id": '{"device_id": "d"}'},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
    )
    assert list(made.chat) == ["model", "messages"]
    assert made.notes == []


@pytest.mark.parametrize("field", ["speed", "container", "mcp_servers", "inference_geo", "new"])
def test_a_field_without_a_place_is_dropped_and_recorded(field: str) -> None:
    made = of_fields(**{field: "x"})
    assert list(made.chat) == ["model", "messages"]
    assert made.notes == [f"dropped field {field}"]


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        ("m", {"thinking": {"type": "adaptive", "display": "updates"}}, None),
        ("m", {"thinking": {"type": "enabled", "budget_tokens": 3999}}, "low"),
        ("m", {"thinking": {"type": "enabled", "budget_tokens": 4000}}, "medium"),
        ("m", {"thinking": {"type": "enabled", "budget_tokens": 16000}}, "high"),
        ("m", {"thinking": {"type": "enabled"}}, None),
        ("m", {"output_config": {"effort": "low"}}, "low"),
        ("m", {"output_config": {"effort": "max"}}, "high"),
        ("glm-5", {"output_config": {"effort": "xhigh"}}, "high"),
        ("deepseek-v4", {"output_config": {"effort": "xhigh"}}, "max"),
        ("gpt-5.4", {"output_config": {"effort": "max"}}, "xhigh"),
        ("kimi-k3", {"output_config": {"effort": "max"}}, "max"),
        ("kimi-k3", {"output_config": {"effort": "medium"}}, "high"),
        ("gpt-oss-120b", {"output_config": {"effort": "max"}}, "high"),
        ("m", {"thinking": {"type": "disabled"}}, None),
        ("gpt-oss-120b", {"thinking": {"type": "disabled"}}, "low"),
        (
            "m",
            {
                "thinking": {"type": "enabled", "budget_tokens": 31999},
                "output_config": {"effort": "low"},
            },
            "low",
        ),
    ],
)
def test_thinking_becomes_the_familys_effort(model: str, given: Json, expected: str) -> None:
    assert sent(model, **given).get("reasoning_effort") == expected


@pytest.mark.parametrize("model", ["kimi-k2.5", "deepseek-v4"])
def test_thinking_is_turned_off_in_the_familys_words(model: str) -> None:
    off = sent(model, thinking={"type": "disabled"}, output_config={"effort": "high"})
    assert off == {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("given", "thinks"),
    [
        ({}, False),
        ({"thinking": {"type": "disabled"}}, False),
        ({"thinking": {"type": "adaptive"}}, True),
        ({"output_config": {"effort": "low"}}, True),
    ],
)
def test_whether_thoughts_are_asked_for_is_known_to_the_reply(given: Json, thinks: bool) -> None:
    conversion, _ = message_conversion({"model": "m", "messages": [HI], **given})
    assert conversion.turn.thinks is thinks


@pytest.mark.parametrize(
    "given",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
    ],
)
def test_the_form_of_an_answer_is_sent(given: Json) -> None:
    schema = {"name": "answer", "schema": {"type": "object"}}
    assert sent(**given) == {"response_format": {"type": "json_schema", "json_schema": schema}}


# Tools


def test_a_tool_is_a_function_without_what_is_anthropics() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    extra = {"strict": True, "allowed_callers": ["direct"], "eager_input_streaming": True}
    made = of_fields(tools=[tool("Bash", input_schema=schema, cache_control={}, **extra)])
    function = {"name": "Bash", "description": "Bash!", "parameters": {"type": "object"}}
    assert made.chat["tools"] == [{"type": "function", "function": function}]


def test_examples_of_an_input_are_in_its_description() -> None:
    made = of_fields(tools=[tool("Bash", input_examples=[{"c": "ls"}, {"c": "pwd"}])])
    expected = 'Bash!\n\nExamples of its input:\n{"c":"ls"}\n{"c":"pwd"}'
    assert made.functions["Bash"]["description"] == expected


def test_a_long_name_is_sent_as_hosts_take_it_and_known_to_the_reply() -> None:
    name = "mcp__" + "server" * 12 + "__read.file"
    made = of_fields(tools=[tool(name)])
    (upstream,) = made.functions
    assert len(upstream) <= 64
    assert made.tools[upstream].name == name


def test_the_placeholder_for_deferred_tools_is_left_out() -> None:
    made = of_fields(tools=[tool("Bash"), tool("DeferredToolPlaceholder", defer_loading=True)])
    assert [*made.functions] == ["Bash"]
    assert made.notes == []


def result(*names: str) -> list[Json]:
    """A turn in which these tools were loaded."""
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    call = {"type": "tool_use", "id": f"toolu_{names[0]}", "name": "ToolSearch", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": call["id"], "content": references}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def test_tools_that_were_loaded_are_last_in_the_order_of_their_references() -> None:
    deferred = [tool(name, defer_loading=True) for name in ("Aaa", "Bbb", "Ccc", "Ddd")]
    tools = [*deferred[:2], tool("Edit"), *deferred[2:], tool("Write")]
    made = of_messages(HI, *result("Ccc"), *result("Aaa", "Bbb"), tools=tools)
    assert [*made.functions] == ["Edit", "Write", "Ddd", "Ccc", "Aaa", "Bbb"]
    assert made.messages[2]["content"] == "Loaded: Ccc"


def test_a_tool_that_is_only_named_may_be_called_and_is_not_declared() -> None:
    told = "These deferred tools are now available via ToolSearch:\nCronList\nmcp__a__b\n"
    body = {"model": "m", "tools": [tool("Bash")]}
    body["messages"] = [HI, {"role": "system", "content": told}]
    conversion, _ = message_conversion(body)
    assert [each["function"]["name"] for each in conversion.chat["tools"]] == ["Bash"]
    assert conversion.declared().names == {"Bash", "CronList", "mcp__a__b"}
    assert conversion.turn.tools["mcp__a__b"].name == "mcp__a__b"


def change(kind: str, tool: Json) -> Json:
    return {"type": f"tool_{kind}", "tool": tool}


def definition(given: Json) -> Json:
    return {"type": "tool_definition", "definition": given}


def test_a_tool_that_a_message_adds_is_declared_last_and_stays_when_it_is_taken_away() -> None:
    loaded = [tool(name, defer_loading=True) for name in ("Aaa", "Bbb")]
    late = change("addition", definition(tool("late")))
    shown = change("addition", {"type": "tool_reference", "name": "Aaa"})
    gone = change("removal", {"type": "tool_reference", "name": "late"})
    turns = [HI, {"role": "system", "content": [late]}, *result("Bbb")]
    turns += [{"role": "system", "content": [shown, gone]}]
    made = of_messages(*turns, tools=[*loaded, tool("Edit")])
    assert [*made.functions] == ["Edit", "late", "Bbb", "Aaa"]
    assert made.functions["late"]["description"] == "late!"
    assert made.tools["late"].name == "late"
    reminded = [made.messages[1]["content"], made.messages[3]["content"]]
    assert "Loaded: late" in reminded[0]
    assert "Loaded: Aaa\n\nDo not call any more: late" in reminded[1]


def test_a_tool_of_anthropics_servers_that_a_message_adds_is_dropped_in_its_place() -> None:
    search = definition({"type": "web_search_20250305", "name": "web_search"})
    made = of_messages(
        HI,
        {"role": "system", "content": [change("addition", search)]},
        tools=[tool("Bash")],
        tool_choice={"type": "tool", "name": "web_search"},
        system="S",
    )
    assert [*made.functions] == ["Bash"]
    assert made.messages[0]["content"] == "S"
    assert "Not available here: web_search" in made.messages[2]["content"]
    assert made.notes == [
        "dropped tool web_search_20250305",
        "downgraded to auto tool_choice web_search",
    ]


def test_anthropics_tools_that_the_client_runs_have_their_schemas() -> None:
    editor = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
    made = of_fields(tools=[{"type": "bash_20250124", "name": "bash"}, editor])
    assert "command" in made.functions["bash"]["parameters"]["properties"]
    parameters = made.functions["str_replace_based_edit_tool"]["parameters"]
    assert parameters["required"] == ["command", "path"]


def test_a_tool_of_anthropics_servers_is_dropped_and_the_model_knows() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    made = of_fields(tools=[search], system="S", tool_choice={"type": "tool", "name": "web_search"})
    assert [*made.chat] == ["model", "messages"]
    assert made.notes == [
        "dropped tool web_search_20250305",
        "downgraded to auto tool_choice web_search",
    ]
    assert made.messages[0]["content"].startswith("S\n\n[Not available here: web_search.")


def test_such_a_tool_is_refused_where_the_user_wants_that() -> None:
    body = {"model": "m", "messages": [HI]}
    body["tools"] = [{"type": "web_search_20250305", "name": "web_search"}]
    refused = message_refusal(body, "error")
    assert refused.param == "tools[0].type"
    assert "web_search_20250305" in refused.message


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "Bash"},
            {"tool_choice": {"type": "function", "function": {"name": "Bash"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
)
def test_a_choice_has_its_chat_form(choice: Json, expected: Json) -> None:
    given = sent(tools=[tool("Bash")], tool_choice=choice)
    del given["tools"]
    assert given == expected


def test_a_model_that_thinks_is_not_forced_to_call() -> None:
    made = of_fields("kimi-k3", tools=[tool("Bash")], tool_choice={"type": "any"})
    assert made.chat["tool_choice"] == "auto"


@pytest.mark.parametrize("tools", [[], [tool("Bash")]])
def test_a_choice_of_none_forbids_calls_in_the_reply(tools: list[Json]) -> None:
    body = {"model": "m", "messages": [HI], "tools": tools, "tool_choice": {"type": "none"}}
    conversion, _ = message_conversion(body)
    assert conversion.declared().forbidden


# The size


def test_the_estimate_counts_tools_and_an_image_once() -> None:
    def tokens(content: Any, **fields: Any) -> int:
        body = {"model": "m", "messages": [{"role": "user", "content": content}], **fields}
        return message_conversion(body)[0].turn.estimate

    bare = tokens("hi")
    large = {**IMAGE, "source": {**IMAGE["source"], "data": "A" * 400_000}}
    assert 500 < tokens([large]) - bare < 5000
    assert tokens("hi", tools=[tool("Bash", description="d" * 4000)]) - bare > 900


# What is refused


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"system": 3}, "system"),
        ({"tools": [{"name": "Bash"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "Bash", "input_schema": []}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool", "name": "None"}}, "tool_choice"),
        ({"thinking": {"type": "much"}}, "thinking.type"),
        ({"thread": "thread_1"}, "thread"),
    ],
)
def test_a_malformed_request_is_refused_with_the_name_of_the_field(
    change: Json, param: str
) -> None:
    refused = message_refusal({"model": "m", "messages": [HI], **change})
    assert refused.param == param
    assert refused.status == 400
    assert param in refused.message
