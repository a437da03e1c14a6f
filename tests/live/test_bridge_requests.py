"""What clients send that is no plain Responses request, and what then arrives upstream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import FOLDER, Reply, Upstream
from tests.live import wire
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST, WHOLE, Bridge
from tests.live.stored import Client, messages_of, said
from tests.repair.streams import chunk, sse

Item = dict[str, Any]
DATA = "iVBORw0KGgo" * 60
URL = f"data:image/png;base64,{DATA}"
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Read it."}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path":"a"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "A"},
]
CALLED = {"type": "function_call", "call_id": "c", "name": "shot", "arguments": "{}"}


def sent(bridge: Bridge, body: Item, **fields: Any) -> Any:
    """The chat request that arrives for a request without its own defaults."""
    body = {"model": "kimi-k2.5", "stream": True} | body | fields
    exchange = bridge.ask("clean_text", body)
    assert exchange.story().response["status"] == "completed"
    return exchange.chat


@pytest.mark.parametrize("stream", [True, False])
def test_a_chat_request_is_bridged_as_the_conversation_it_means(
    bridge: Bridge, stream: bool
) -> None:
    body = {
        "model": "kimi-k2.5",
        "messages": CHAT,
        "tools": [CHAT_TOOL],
        "tool_choice": "auto",
        "max_tokens": 99,
        "stream": stream,
    }
    exchange = bridge.ask("clean_text", body)
    response = exchange.story().response if stream else exchange.json
    assert response["tools"] == [
        {
            "type": "function",
            "name": "read",
            "description": None,
            "parameters": PARAMETERS,
            "strict": None,
        }
    ]
    assert response["max_output_tokens"] == 99
    chat = exchange.chat
    assert [message["role"] for message in chat["messages"]] == [
        *("system", "user", "assistant", "tool"),
    ]
    assert chat["messages"][2]["tool_calls"][0]["id"] == "functions.read:0"
    assert chat["messages"][2]["reasoning_content"] == " "
    assert chat["messages"][3] == {
        "role": "tool",
        "tool_call_id": "functions.read:0",
        "content": "A",
    }
    assert chat["tools"] == [CHAT_TOOL]
    assert chat["max_tokens"] == 99
    bridge.proxy.wait_for_log("taken from its chat form: messages")


def test_a_chat_request_to_a_new_host_is_bridged_too(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}")
    body = json.dumps({"model": "m", "messages": CHAT}).encode()
    url = f"{proxy.url}/clean_text/chat-shaped/v1/responses"
    assert wire.exchange(url, body, headers=(JSON,)).status == 200


@pytest.fixture
def client(bridge: Bridge) -> Client:
    return Client(bridge.upstream, bridge.proxy)


def test_a_stored_chat_request_goes_on(client: Client) -> None:
    first = client.response(said("Done."), None, messages=CHAT, tools=[CHAT_TOOL])
    begun = messages_of(client.ask(said("Done."), None, messages=CHAT, tools=[CHAT_TOOL]))
    after = client.ask(said("Yes."), "Sure?", previous_response_id=first["id"])
    assert messages_of(after) == [
        *begun,
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Sure?"},
    ]
    listed = client.call("GET", f"/{first['id']}/input_items?order=asc").json["data"]
    assert [item["type"] for item in listed] == [
        *("message", "message", "function_call", "function_call_output"),
    ]
    third = client.ask(
        said("No."), None, messages=[{"role": "user", "content": "Sure?"}],
        previous_response_id=first["id"],
    )  # fmt: skip
    assert messages_of(third) == messages_of(after)


# Items that no chat upstream has a place for.


def test_no_item_ends_a_thread(bridge: Bridge) -> None:
    items: list[Item] = [
        {"type": "compaction", "encrypted_content": "gAAAA"},
        {"role": "user", "content": "x"},
        {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "cats"}},
        {"type": "image_generation_call", "id": "ig", "result": DATA},
        {"type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": URL},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "n"}]},
        {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]},
        {"role": "assistant", "content": "y"},
        {"type": "of_2030", "content": [{"type": "new", "text": "t"}], "data": DATA},
        {"type": "nothing_known"},
        {"role": "user", "content": "z"},
    ]
    messages = sent(bridge, {"input": items})["messages"]
    assert [message["role"] for message in messages] == [
        *("user", "user", "assistant", "user", "user"),
    ]
    assert DATA[:60] not in json.dumps(messages)
    for found in ("cats", "1+1", '["n"]', "y"):
        assert found in messages[2]["content"]
    assert messages[3]["content"] == "t"
    bridge.proxy.wait_for_log("dropped item nothing_known")


@pytest.mark.parametrize(
    "output",
    [
        json.dumps([{"type": "text", "text": "seen"}, {"type": "input_image", "image_url": URL}]),
        {"type": "input_image", "image_url": URL},
        {"type": "image", "data": DATA, "mimeType": "image/png"},
        {"content": [{"type": "image", "data": DATA, "mimeType": "image/png"}], "isError": False},
    ],
)
@pytest.mark.parametrize("field", ["output", "content"])
def test_an_image_of_a_tool_reaches_the_model(bridge: Bridge, output: Any, field: str) -> None:
    answer = {"type": "function_call_output", "call_id": "c", field: output}
    messages = sent(bridge, {"input": [{"role": "user", "content": "x"}, CALLED, answer]})[
        "messages"
    ]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[3]["content"][1] == {"type": "image_url", "image_url": {"url": URL}}
    assert DATA[:60] not in messages[2]["content"]


def test_an_image_of_a_developer_is_sent_as_a_users(bridge: Bridge) -> None:
    content = [{"type": "input_text", "text": "See."}, {"type": "input_image", "image_url": URL}]
    items = [{"role": "developer", "content": content}, {"role": "user", "content": "x"}]
    messages = sent(bridge, {"input": items})["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "user"]
    assert messages[1]["content"][1]["image_url"]["url"] == URL


# What a model family wants.


@pytest.mark.parametrize("model", ["MiniMax-M2.5", "Qwen/Qwen3.6-27B"])
def test_one_system_message_at_the_start(bridge: Bridge, model: str) -> None:
    items = [
        {"role": "developer", "content": "two"},
        {"role": "user", "content": "x"},
        {"role": "developer", "content": "three"},
    ]
    body = {"model": model, "instructions": "one", "input": items}
    assert sent(bridge, body)["messages"] == [
        {"role": "system", "content": "one\n\ntwo"},
        {"role": "user", "content": "x"},
        {"role": "user", "content": "[Message of the developer:]\nthree"},
    ]


@pytest.mark.parametrize(
    ("model", "effort", "chat"),
    [
        ("kimi-k2.5", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k2.6", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k2.7-code", "none", {"reasoning_effort": "low"}),
        ("kimi-k3", "none", {"reasoning_effort": "low"}),
        ("kimi-k3", "xhigh", {"reasoning_effort": "max"}),
    ],
)
def test_the_effort_in_the_words_of_the_family(
    bridge: Bridge, model: str, effort: str, chat: Item
) -> None:
    arrived = sent(bridge, {"model": model, "input": "x", "reasoning": {"effort": effort}})
    thinking = {name: arrived[name] for name in ("thinking", "reasoning_effort") if name in arrived}
    assert thinking == chat


NAMESPACE = {
    "type": "namespace",
    "name": "mcp__t__",
    "description": "Sums.",
    "tools": [{"type": "function", "name": "add", "parameters": PARAMETERS}],
}


@pytest.mark.parametrize(
    "spelled",
    [
        *("mcp__t__add", "mcp__t____add", "add", "mcp__t__.add", "mcp_t_add", "mcp__t__/add"),
        *("functions.mcp__t__add", "functions.add", "MCP__T__ADD", "mcp-t-add"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_of_a_namespace_however_the_model_spells_it(
    bridge: Bridge, spelled: str, stream: bool
) -> None:
    function = {"name": spelled, "arguments": '{"path":"a"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    reply = Reply(sse([chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]))
    exchange = bridge.ask(reply, (REQUEST if stream else WHOLE) | {"tools": [NAMESPACE]})
    assert exchange.chat["tools"][0]["function"]["name"] == "mcp__t__add"
    response = exchange.story().response if stream else exchange.json
    (item,) = response["output"]
    assert (item["name"], item["namespace"]) == ("add", "mcp__t__")
    assert json.loads(item["arguments"]) == {"path": "a"}


# Texts that go back as they came.


def test_text_and_outputs_get_no_separator_that_nobody_wrote(bridge: Bridge) -> None:
    parts = [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}]
    items = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "Look: "},
        CALLED,
        {"role": "assistant", "content": "there."},
        {"type": "function_call_output", "call_id": "c", "output": parts},
    ]
    messages = sent(bridge, {"input": items})["messages"]
    assert [message["content"] for message in messages] == ["x", "Look: there.", "AB"]


def test_reasoning_in_its_tags_goes_back_as_reasoning(bridge: Bridge) -> None:
    items = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "<think>\nhm\n</think>"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "z"},
    ]
    messages = sent(bridge, {"input": items})["messages"]
    assert messages[1] == {"role": "assistant", "content": "y", "reasoning_content": "hm"}


# What is refused.


@pytest.mark.parametrize(
    ("method", "path", "says"),
    [
        ("POST", "/v1/responses/compact", "summary"),
        ("POST", "/v1/responses/compact/", "summary"),
        ("POST", "/v1/responses/input_tokens", "usage"),
        ("POST", "/v1/conversations", "previous_response_id"),
        ("GET", "/v1/conversations/conv_1", "previous_response_id"),
        ("POST", "/v1/conversations/conv_1/items?include=x", "previous_response_id"),
        ("DELETE", "/v1/conversations/conv_1/items/msg_1", "previous_response_id"),
    ],
)
def test_what_cannot_be_bridged_is_refused_saying_what_to_do(
    bridge: Bridge, method: str, path: str, says: str
) -> None:
    exchange = bridge.ask("clean_text", REQUEST, path=path, method=method)
    error = exchange.error(400)
    assert says in error["message"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "unsupported_endpoint")
    assert exchange.sent == []
    bridge.proxy.wait_for_log("refused: (compact|input_tokens|conversations)")


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/responses/compact", "POST"),
        ("/v1/conversations", "POST"),
        ("/v1/conversations/conv_1", "GET"),
    ],
)
def test_at_a_host_that_is_not_bridged_it_passes(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], path: str, method: str
) -> None:
    bridge = Bridge(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))
    exchange = bridge.ask("clean_text", path=path, method=method)
    assert exchange.json["error"]["message"] == f"nothing at {path}"
    assert [request.path.endswith(path) for request in exchange.sent] == [True]


@pytest.mark.parametrize(
    ("chosen", "method", "refused"),
    [
        ("~all", "POST", False),
        ("~all", "GET", False),
        ("~m POST & ~u conversations", "POST", False),
        ("~all & !~d example.com", "POST", False),
        ("~d localhost", "POST", True),
        ("~d localhost | ~d example.com", "GET", True),
        ("~dst localhost", "POST", True),
    ],
)
def test_conversations_of_a_site_that_nobody_chose_pass(
    plain_upstream: Upstream,
    mitmdump: Callable[..., Mitmdump],
    chosen: str,
    method: str,
    refused: bool,
) -> None:
    proxy = mitmdump("--set", f"dragoman_bridge={chosen}")
    site = plain_upstream.url.replace("127.0.0.1", "localhost")
    body = json.dumps({"subject": "Hello"}).encode()
    path = "/v1/conversations"
    got = wire.exchange(f"{site}{path}", body, method=method, headers=(JSON,), proxy=proxy.url)
    assert (got.status, b"unsupported_endpoint" in got.body) == (
        (400, True) if refused else (404, False)
    )


@pytest.mark.parametrize("path", ["/v1/conversations/a/b/c", "/v1/my/conversations.json"])
def test_other_addresses_of_a_bridged_host_pass(bridge: Bridge, path: str) -> None:
    exchange = bridge.ask("clean_text", path=path)
    assert exchange.json["error"]["message"] == f"nothing at {path}"
    assert [request.path.endswith(path) for request in exchange.sent] == [True]


def test_a_host_whose_base_path_looks_like_it_is_bridged(bridge: Bridge) -> None:
    exchange = bridge.ask("clean_text", path="/v1/conversations/responses")
    assert exchange.story().response["status"] == "completed"


# What today's clients and hosts want.


@pytest.mark.parametrize(
    "name",
    [
        *("bridge_moonshot_schema", "bridge_deepseek_reasoning", "bridge_codex_agent_task"),
        *("bridge_codex_compacted", "bridge_codex_changed_effort", "bridge_codex_left_out_parts"),
    ],
)
def test_a_request_arrives_as_its_fixture_says(bridge: Bridge, name: str) -> None:
    body = json.loads((FOLDER / name / "request.json").read_bytes())
    chat = json.loads((FOLDER / name / "chat.json").read_bytes())
    assert sent(bridge, body, stream=True) == chat | STREAMED


STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("stream", [True, False])
def test_a_summary_comes_back_as_one_item_that_the_next_turn_opens(
    bridge: Bridge, stream: bool
) -> None:
    body = json.loads((FOLDER / "bridge_codex_compaction_trigger" / "request.json").read_bytes())
    exchange = bridge.ask("clean_text", body | {"stream": stream})
    (item,) = (exchange.story().response if stream else exchange.json)["output"]
    assert item["type"] == "compaction"
    bridge.proxy.wait_for_log("✓ compaction · bridge")
    chat = sent(bridge, {"input": [item, {"role": "user", "content": "Go on."}]})
    plain = bridge.ask("clean_text", {**REQUEST, "stream": False}).json
    text = plain["output"][0]["content"][0]["text"]
    assert chat["messages"][0]["content"].endswith(text)


def test_a_patch_in_a_heredoc_comes_back_as_the_patch(bridge: Bridge) -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    arguments = json.dumps({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{patch}EOF\n"]})
    function = {"name": "apply_patch", "arguments": arguments}
    element = {"index": 0, "id": "functions.apply_patch:0", "function": function}
    reply = Reply(sse([chunk({"tool_calls": [element]}), chunk({}, "tool_calls")]))
    tool = {"type": "custom", "name": "apply_patch"}
    (item,) = bridge.ask(reply, REQUEST | {"tools": [tool]}).story().response["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", patch)
