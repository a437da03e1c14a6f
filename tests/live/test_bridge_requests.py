"""What clients send that is no plain Responses request, and what then arrives upstream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import FOLDER, Upstream
from tests.live import wire
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST, Bridge
from tests.live.stored import Client, messages_of, said

Item = dict[str, Any]
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}
CHAT = [
    {"role": "user", "content": [{"type": "input_text", "text": "Read it."}]},
    {
        "role": "assistant",
        "content": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path":"a"}'},
            }
        ],
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "A"},
]


def sent(bridge: Bridge, body: Item, **fields: Any) -> Any:
    """The chat request that arrives for a request without its own defaults."""
    body = {"model": "kimi-k2.5", "stream": True} | body | fields
    exchange = bridge.ask("clean_text", body)
    assert exchange.story().response["status"] == "completed"
    return exchange.chat


@pytest.mark.parametrize("stream", [True, False])
def test_nested_tools_and_a_call_among_the_parts_of_a_message(bridge: Bridge, stream: bool) -> None:
    body = {"model": "kimi-k2.5", "input": CHAT, "tools": [CHAT_TOOL], "stream": stream}
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
    chat = exchange.chat
    assert [message["role"] for message in chat["messages"]] == ["user", "assistant", "tool"]
    assert chat["messages"][1]["tool_calls"][0]["id"] == "functions.read:0"
    assert chat["messages"][1]["reasoning_content"] == " "
    assert chat["tools"] == [CHAT_TOOL]
    bridge.proxy.wait_for_log("taken from its chat form: tools")


@pytest.mark.parametrize("stream", [True, False])
def test_a_chat_request_is_told_what_its_fields_are_called(bridge: Bridge, stream: bool) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": stream}
    error = bridge.ask("clean_text", body).error(400)
    assert (error["param"], error["code"]) == ("messages", "unsupported_parameter")
    assert "it is 'input'" in error["message"]


@pytest.fixture
def client(bridge: Bridge) -> Client:
    return Client(bridge.upstream, bridge.proxy)


def test_what_was_kept_in_the_form_of_responses_goes_on(client: Client) -> None:
    first = client.response(said("Done."), CHAT, tools=[CHAT_TOOL])
    begun = messages_of(client.ask(said("Done."), CHAT, tools=[CHAT_TOOL]))
    after = client.ask(said("Yes."), "Sure?", previous_response_id=first["id"])
    assert messages_of(after) == [
        *begun,
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Sure?"},
    ]
    listed = client.call("GET", f"/{first['id']}/input_items?order=asc").json["data"]
    assert [item["type"] for item in listed] == ["message", "function_call", "function_call_output"]


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


# What today's clients and hosts want.


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
