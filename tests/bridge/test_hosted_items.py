"""Items of tools that ran at a provider, and items of unknown types, leave their text."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from dragoman.bridge.request.input_items import HOSTED
from dragoman.wire.request_bounds import MAX_INNER

from .converting import Json, call, of_input, output, said, thought, user

DATA = "iVBORw0KGgo" * 60
URL = f"data:image/png;base64,{DATA}"
FOUND: list[tuple[Json, str]] = [
    (
        {"type": "web_search_call", "action": {"type": "search", "query": "cats"}},
        '[web_search_call: action: {"type":"search","query":"cats"}]',
    ),
    (
        {"type": "file_search_call", "queries": ["q"], "results": [{"text": "found"}]},
        '[file_search_call: queries: ["q"], results: [{"text":"found"}]]',
    ),
    (
        {
            "type": "code_interpreter_call",
            "code": "print(6*7)",
            "container_id": "c",
            "outputs": [{"type": "logs", "logs": "42"}, {"type": "image", "url": URL}],
        },
        '[code_interpreter_call: code: print(6*7), outputs: [{"type":"logs","logs":"42"},'
        '{"type":"image","url":"(data left out)"}]]',
    ),
    (
        {"type": "image_generation_call", "revised_prompt": "a cat", "result": "iVBORw0K"},
        "[image_generation_call: revised_prompt: a cat, result: (data left out)]",
    ),
    (
        {"type": "computer_call", "call_id": "c", "action": {"type": "click", "x": 1, "y": 2}},
        '[computer_call: action: {"type":"click","x":1,"y":2}]',
    ),
    (
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": URL},
        },
        '[computer_call_output: output: {"type":"computer_screenshot",'
        '"image_url":"(data left out)"}]',
    ),
    (
        {
            "type": "mcp_call",
            "server_label": "s",
            "name": "n",
            "arguments": '{"a":1}',
            "output": '[{"type":"image","data":"iVBORw0K"},{"type":"text","text":"done"}]',
            "error": None,
        },
        '[mcp_call: server_label: s, name: n, arguments: {"a":1}, '
        'output: [{"type":"image","data":"(data left out)"},{"type":"text","text":"done"}]]',
    ),
    (
        {
            "type": "mcp_list_tools",
            "server_label": "s",
            "tools": [{"name": "a", "input_schema": {}}, {"name": "b"}],
        },
        '[mcp_list_tools: server_label: s, tools: ["a","b"]]',
    ),
    (
        {"type": "mcp_approval_request", "server_label": "s", "name": "n", "arguments": "{}"},
        "[mcp_approval_request: server_label: s, name: n, arguments: {}]",
    ),
    (
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False},
        "[mcp_approval_response: approve: false]",
    ),
]


@pytest.mark.parametrize(("item", "text"), FOUND, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("model", ["some-model", "kimi-k2.5"])
def test_a_hosted_item_leaves_a_line(item: Json, text: str, model: str) -> None:
    made = of_input(user("x"), {"id": "i", "status": "completed"} | item, said("y"), model=model)
    contents = [message["content"] for message in made.messages]
    assert "\n".join(contents) == f"x\n{text}\ny"
    assert f"sent as text item {item['type']}" in made.notes


def test_all_hosted_items_are_tried() -> None:
    assert {item["type"] for item, _ in FOUND} == set(HOSTED)


def test_it_belongs_to_the_reply_it_was_part_of() -> None:
    made = of_input(
        user("x"),
        thought("hm"),
        {"type": "web_search_call", "action": {"query": "q"}},
        thought("so"),
        said("It is."),
        call("a"),
        {"type": "mcp_call", "name": "n", "output": "o"},
        call("b"),
        output("b", "B"),
        output("a", "A"),
    )
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool", "tool"]
    message = made.messages[1]
    lines = '[web_search_call: action: {"query":"q"}]\n[mcp_call: name: n, output: o]\nIt is.'
    assert message["content"] == lines
    assert message["reasoning_content"] == "hm\n\nso"


@pytest.mark.parametrize(
    ("item", "role", "text"),
    [
        ({"type": "of_2030", "text": "t"}, "user", "t"),
        ({"type": "of_2030", "content": [{"type": "new", "text": "t"}, {"x": 1}]}, "user", "t"),
        ({"type": "of_2030", "output": {"content": [{"text": "t"}]}}, "user", "t"),
        ({"type": "of_2030", "summary": [{"text": "a"}, {"text": "b"}]}, "user", "a\nb"),
        ({"type": "of_2030", "message": "t", "data": DATA}, "user", "t"),
        ({"type": "of_2030", "role": "assistant", "content": "t"}, "assistant", "t"),
        ({"type": "of_2030", "role": "developer", "content": "t"}, "system", "t"),
        ({"type": "of_2030", "role": "narrator", "content": "t"}, "user", "t"),
        ({"type": "flight_call", "output": "t"}, "assistant", "t"),
    ],
)
def test_an_unknown_item_leaves_its_text(item: Json, role: str, text: str) -> None:
    made = of_input(user("x"), item)
    assert made.messages[1:] == [{"role": role, "content": text}]
    assert made.notes == [f"sent as text item {item['type']}"]


TOO_DEEP = (
    reduce(lambda inner, _: {"content": inner}, range(MAX_INNER + 1), "x"),
    reduce(lambda inner, _: [inner], range(MAX_INNER + 1), "x"),
)


@pytest.mark.parametrize("deep", TOO_DEEP)
def test_a_text_as_deep_as_it_is_looked_for_is_found(deep: Json | list[Any]) -> None:
    (inner,) = deep.values() if isinstance(deep, dict) else deep
    made = of_input(user("x"), {"type": "of_2030", "content": inner})
    assert made.messages[1:] == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": None, "content": 42, "output": [1, None, {"x": "y"}]},
        *({"content": deep} for deep in TOO_DEEP),
        {"encrypted_content": "gAAAA", "data": DATA},
    ],
)
def test_an_unknown_item_without_text_is_dropped(fields: dict[str, Any]) -> None:
    made = of_input(user("x"), {"type": "of_2030", **fields})
    assert len(made.messages) == 1
    assert made.notes == ["dropped item of_2030"]


def test_data_of_an_unknown_item_is_no_text() -> None:
    made = of_input(user("x"), {"type": "of_2030", "output": f"see {URL}"})
    assert made.messages[1]["content"] == "see (data left out)"
