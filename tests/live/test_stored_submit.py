"""Outputs of tools are submitted to a response, which goes on where it stopped.

The flow is that of the published description: `response.required_action`, then
``POST /v1/responses/{id}/submit_tool_outputs``; its dialect is `codex`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live.mitmdump import Mitmdump
from tests.live.responses import to_last_message
from tests.live.stored import CODEX, Client, Item, called, messages_of, outputs_of, said
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])

HELD_LATE = ";cut=event;hold=4"
"""Path parameters of an upstream that waits after four events, of which a call has fewer."""
WORDS = Reply(sse([*(chunk({"content": word}) for word in "abcdef"), chunk({}, "stop")]))


@pytest.fixture
def client(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Client:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Client(plain_upstream, proxy)


def test_the_described_flow(client: Client) -> None:
    begun = client.ask(called("ls", "pwd", thought="Two."), "Look.", CODEX, stream=True)
    story = begun.story("codex")
    first = story.response
    assert first["status"] == "incomplete"
    assert [event["type"] for event in story.events[-2:]] == [
        "response.required_action",
        "response.completed",
    ]
    waiting = story.events[-2]["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = [
        {"tool_call_id": call["id"], "output": call["function"]["arguments"]} for call in waiting
    ]

    resumed = client.submit(said("Done."), first, outputs, CODEX, stream=True)
    last = resumed.story("codex", prior=first["output"]).response

    client.proxy.wait_for_log("chat/completions: ✓ text · bridge")
    assert (last["id"], last["created_at"]) == (first["id"], first["created_at"])
    assert last["status"] == "completed"
    assert "required_action" not in last
    assert [item["type"] for item in last["output"]] == [
        *("reasoning", "function_call", "function_call", "message"),
    ]
    assert client.get(first["id"]).json == last
    assert resumed.sent[0].body.startswith(to_last_message(begun.sent[0]))
    *_, call, one, two = messages_of(resumed)
    assert call["reasoning_content"] == "Two."
    assert [json.loads(one["content"]), json.loads(two["content"])] == [
        {"command": "ls"},
        {"command": "pwd"},
    ]


@STREAMED
@pytest.mark.parametrize("dialect", ["openai", "codex", "openresponses", "guide"])
def test_every_dialect_resumes_several_times(client: Client, dialect: str, stream: bool) -> None:
    """Also behind a previous response; and what comes of it is gone on from."""
    header = ("x-dragoman-dialect", dialect)
    root = client.response(said("Hello."), "Hi.")

    def read(exchange: Any, prior: list[Item]) -> Item:
        response = exchange.story(dialect, prior).response if stream else exchange.json
        assert isinstance(response, dict), exchange.reply.body
        return response

    begun = client.ask(called("1"), "Go.", header, stream=stream, previous_response_id=root["id"])
    response = read(begun, [])
    sent = begun.sent[0]
    for reply in (called("2", "3", thought="More."), called("4"), said("End.")):
        exchange = client.submit(reply, response, outputs_of(response)[-2:], header, stream=stream)
        if exchange.reply.status == 400:  # the last two outputs, of which one has been sent
            exchange = client.submit(
                reply, response, outputs_of(response)[-1:], header, stream=stream
            )
        assert exchange.sent[0].body.startswith(to_last_message(sent))
        sent = exchange.sent[0]
        following = read(exchange, response["output"])
        assert following["output"][: len(response["output"])] == response["output"]
        assert following["previous_response_id"] == root["id"]
        ids = [item["id"] for item in following["output"]]
        assert len(set(ids)) == len(ids)
        response = following
        assert client.get(response["id"]).json == response
    assert response["status"] == "completed"
    then = client.ask(said("Bye."), "Thanks.", header, previous_response_id=response["id"])
    assert then.sent[0].body.startswith(to_last_message(sent))
    roles = [message["role"] for message in messages_of(then)]
    assert roles == [
        *("user", "assistant", "user", "assistant", "tool", "assistant", "tool", "tool"),
        *("assistant", "tool", "assistant", "user"),
    ]


def test_the_request_that_began_it_is_what_is_resumed(client: Client) -> None:
    """Model, instructions, tools and settings; only whether it is streamed is asked anew."""
    fields = {"instructions": "Be brief.", "temperature": 0.5, "metadata": {"a": "b"}}
    begun = client.ask(called("ls"), "Go.", stream=True, **fields)
    response = begun.story().response
    exchange = client.submit(said("Done."), response, outputs_of(response))
    client.proxy.wait_for_log("chat/completions: ✓ text · bridge")
    expected, sent = begun.chat, exchange.chat
    for body in (expected, sent):
        for name in ("messages", "stream", "stream_options"):
            body.pop(name, None)
    assert sent == expected
    for name in ("instructions", "temperature", "metadata", "tools"):
        assert exchange.json[name] == response[name]


def test_custom_calls_are_answered_as_such(client: Client) -> None:
    arguments = json.dumps({"input": "text"})
    call = {"index": 0, "id": "c1", "function": {"name": "apply", "arguments": arguments}}
    reply = Reply(sse([chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]))
    response = client.response(reply, "Go.", tools=[{"type": "custom", "name": "apply"}])
    assert response["output"][0]["type"] == "custom_tool_call"
    exchange = client.submit(said("Done."), response, [{"tool_call_id": "c1", "output": "ok"}])
    assert messages_of(exchange)[-1]["content"] == "ok"


# What cannot be submitted

RIGHT = {"tool_call_id": "functions.bash:0", "output": "x"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'"\xff"',
        b"{}",
        b'{"tool_outputs": null}',
        b'{"tool_outputs": {}}',
        b'{"tool_outputs": [null]}',
        b'{"tool_outputs": [[]]}',
        b'{"tool_outputs": [{}]}',
        b'{"tool_outputs": [{"tool_call_id": null, "output": "x"}]}',
        b'{"tool_outputs": [{"tool_call_id": 1, "output": "x"}]}',
        b'{"tool_outputs": [{"tool_call_id": {}, "output": "x"}]}',
        b'{"tool_outputs": [{"tool_call_id": "\\ud800", "output": "x"}]}',
        json.dumps({"tool_outputs": [RIGHT, RIGHT | {"tool_call_id": "other"}]}).encode(),
        b'{"tool_outputs": [{"tool_call_id": "functions.bash:0", "output": %s1%s}]}'
        % (b"[" * 9000, b"]" * 9000),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_and_changes_nothing(
    client: Client, body: bytes
) -> None:
    response = client.response(called("ls"), "Go.")
    exchange = client.call("POST", f"/{response['id']}/submit_tool_outputs", body)
    exchange.error(400)
    assert exchange.sent == []
    assert client.submit(said("Done."), response, [RIGHT]).json["status"] == "completed"


def test_every_call_needs_its_output_once(client: Client) -> None:
    response = client.response(called("1", "2"), "Go.")
    both = outputs_of(response)
    assert "functions.bash:1" in client.submit(said("."), response, both[:1]).error(400)["message"]
    assert client.submit(said("Done."), response, both[::-1]).json["status"] == "completed"
    error = client.submit(said("."), response, both).error(400)
    assert error["message"] == "This response waits for no tool outputs."


def test_a_response_without_calls_waits_for_nothing(client: Client) -> None:
    response = client.response(said("Hello."), "Hi.")
    exchange = client.submit(said("No."), response, [RIGHT])
    assert exchange.error(400)["param"] == "tool_outputs"
    assert exchange.sent == []


# What goes wrong

BROKEN = Reply(sse([chunk({"content": "Half"}), {"error": {"message": "No more."}}]))
CUT = Reply(sse([chunk({"content": "Half"})], done=False))
REFUSED = Reply(b'{"error": {"message": "Slow down."}}', "application/json", 429)


@STREAMED
@pytest.mark.parametrize("fault", [BROKEN, CUT, REFUSED], ids=["broken", "cut", "refused"])
def test_what_could_not_be_resumed_can_be_tried_again(
    client: Client, fault: Reply, stream: bool
) -> None:
    response = client.response(called("ls"), "Go.")
    failed = client.submit(fault, response, outputs_of(response), stream=stream)
    failed_in_stream = b"response.failed" in failed.reply.body or not failed.reply.complete
    assert failed.reply.status >= 400 or failed_in_stream
    assert client.get(response["id"]).json == response
    again = client.submit(said("Done."), response, outputs_of(response), stream=stream)
    last = again.story(prior=response["output"]).response if stream else again.json
    assert last["status"] == "completed"


@STREAMED
def test_of_many_who_resume_a_response_at_once_one_does(client: Client, stream: bool) -> None:
    slow = client.but(options=HELD_LATE)
    response = slow.response(called("ls"), "Go.")
    outputs = outputs_of(response)
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(slow.submit, WORDS, response, outputs, stream=stream) for _ in range(6)
        ]
        eventually(lambda: sum(future.done() for future in asked) == 5 and len(slow.sent) == 2)
        slow.release()
        statuses = sorted(future.result().reply.status for future in asked)
    assert statuses == [200, 409, 409, 409, 409, 409]
    assert len(slow.sent) == 2
    assert slow.get(response["id"]).json["output"][-1]["type"] == "message"


def test_a_client_that_leaves_while_it_resumes_can_come_back(client: Client) -> None:
    slow = client.but(options=HELD_LATE)
    response = slow.response(called("ls"), "Go.")
    path = f"/{response['id']}/submit_tool_outputs"
    body = {"tool_outputs": outputs_of(response), "stream": True}
    with slow.running(path, body, WORDS) as (response_id, _):
        assert response_id == response["id"]
        running = slow.get(response_id).json
        assert (running["status"], running["output"]) == ("in_progress", response["output"])
    slow.proxy.wait_for_log("client has left|client disconnect")
    eventually(lambda: slow.get(response["id"]).json == response)
    again = slow.submit(said("Done."), response, outputs_of(response))
    assert again.json["status"] == "completed"
