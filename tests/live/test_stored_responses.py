"""Responses that are kept, and conversations that go on from them, through a real mitmdump.

What arrives upstream is compared with what a client sends that keeps its history itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live.mitmdump import Mitmdump
from tests.live.responses import to_last_message
from tests.live.stored import Client, Item, called, item_not_found, messages_of, not_found, said
from tests.live.test_bridge_conversation import answers, replies
from tests.repair.streams import chunk, sse

UNKNOWN = "resp_" + "0" * 32
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture
def client(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Client:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Client(plain_upstream, proxy)


@STREAMED
@pytest.mark.parametrize("model", ["kimi-k2.5", "glm-5"])
def test_a_chain_sends_the_bytes_of_a_client_that_sends_its_history(
    client: Client, model: str, stream: bool
) -> None:
    """Calls of every kind, reasoning, and text; each turn begins with the bytes of the last."""
    fields = {"model": model, "instructions": "Be brief.", "stream": stream}
    whole = client.but(name=f"{client.name}-whole")
    history: list[Item] = [{"role": "user", "content": "Begin."}]
    added: list[Item] = history[:]
    previous = None
    sent = []
    for reply in itertools.islice(map(Reply, replies()), 12):
        exchange = client.ask(reply, added, previous_response_id=previous, **fields)
        response = exchange.story().response if stream else exchange.json
        assert response["previous_response_id"] == previous
        full = whole.ask(reply, history, store=False, **fields)
        assert exchange.sent[0].body == full.sent[0].body
        sent.append(exchange.sent[0])
        previous = response["id"]
        added = answers(response["output"])
        history += [*response["output"], *added]
    for turn, following in itertools.pairwise(sent):
        assert following.body.startswith(to_last_message(turn))


@pytest.mark.parametrize("fault", ["", ";fault=reset"], ids=["ends early", "reset"])
def test_a_turn_that_broke_off_is_not_kept(client: Client, fault: str) -> None:
    body = sse([chunk({"content": "Half"}), chunk({"content": " of it."})], done=False)
    options = f";cut=event;abort={len(body)}{fault}" if fault else ""
    exchange = client.but(options=options).ask(Reply(body), "Begin.", stream=True)
    story = exchange.broken_off()
    assert story.deltas == {0: "Half of it."}
    client.proxy.wait_for_log("broke off|ended early")
    not_found(client.but(options=options).get(story.response["id"]), story.response["id"])


def test_branches_go_on_from_the_same_response(client: Client) -> None:
    root = client.response(said("Root."), "Begin.")
    left = client.response(said("Left."), "Go left.", previous_response_id=root["id"])
    right = client.ask(said("Right."), "Go right.", previous_response_id=root["id"])
    further = client.ask(said("Further."), "On.", previous_response_id=left["id"])
    begin = ["Begin.", "Root."]
    assert [m["content"] for m in messages_of(right)] == [*begin, "Go right."]
    assert [m["content"] for m in messages_of(further)] == [*begin, "Go left.", "Left.", "On."]


def test_instructions_and_tools_are_not_inherited_and_stay_with_their_response(
    client: Client,
) -> None:
    first = client.response(said("One."), "1", instructions="Be brief.")
    second = client.response(said("Two."), "2", previous_response_id=first["id"], tools=None)
    third = client.ask(said("3"), "3", previous_response_id=second["id"], instructions="Be long.")
    assert [message["role"] for message in messages_of(third)] == [
        *("system", "user", "assistant", "user", "assistant", "user"),
    ]
    assert messages_of(third)[0]["content"] == "Be long."
    kept = [client.get(response["id"]).json for response in (first, second, third.json)]
    assert [response["instructions"] for response in kept] == ["Be brief.", None, "Be long."]
    assert [len(response["tools"]) for response in kept] == [2, 0, 2]


def test_a_previous_response_needs_no_further_input(client: Client) -> None:
    first = client.response(said("One."), "1")
    second = client.ask(said("Two."), None, previous_response_id=first["id"])
    assert [message["content"] for message in messages_of(second)] == ["1", "One."]


@STREAMED
@pytest.mark.parametrize("previous", [UNKNOWN, "resp_x", "é" * 3, "../..", "' OR 1=1 --"])
def test_an_unknown_previous_response_is_named_and_nothing_is_sent(
    client: Client, previous: str, stream: bool
) -> None:
    exchange = client.ask(said("Never."), "Hi.", previous_response_id=previous, stream=stream)
    not_found(exchange, previous, previous=True)


def test_a_response_that_is_not_to_be_stored_is_not(client: Client) -> None:
    response = client.response(said("Secret."), "Hi.", store=False)
    assert response["store"] is False
    not_found(client.get(response["id"]), response["id"])
    exchange = client.ask(said("No."), "Hi.", previous_response_id=response["id"])
    not_found(exchange, response["id"], previous=True)


def test_a_chain_may_end_in_a_response_that_is_not_stored(client: Client) -> None:
    first = client.response(said("One."), "1")
    second = client.ask(said("Two."), "2", previous_response_id=first["id"], store=False)
    assert [message["content"] for message in messages_of(second)] == ["1", "One.", "2"]
    exchange = client.ask(said("Three."), "3", previous_response_id=second.json["id"])
    not_found(exchange, second.json["id"], previous=True)
    again = client.ask(said("Three."), "3", previous_response_id=first["id"])
    assert [message["content"] for message in messages_of(again)] == ["1", "One.", "3"]


def test_after_a_response_is_deleted_no_chain_goes_through_it(client: Client) -> None:
    ids: list[str | None] = [None]
    for number in range(3):
        reply = said(str(number))
        ids.append(client.response(reply, "Go on.", previous_response_id=ids[-1])["id"])
    assert client.call("DELETE", f"/{ids[2]}").json["deleted"] is True
    deleted = str(ids[2])
    not_found(
        client.ask(said("No."), "Go on.", previous_response_id=ids[3]), deleted, previous=True
    )
    not_found(client.get(str(ids[3]), "/input_items"), deleted, previous=True)
    not_found(client.submit(said("No."), {"id": ids[3]}, []), deleted, previous=True)
    assert client.get(str(ids[3])).json["previous_response_id"] == deleted
    assert client.ask(said("Yes."), "Go on.", previous_response_id=ids[1]).reply.status == 200


INCOMPLETE = Reply(sse([chunk({"content": "Half"}), chunk({}, "length")]))
BROKEN = Reply(sse([chunk({"content": "Half"}), {"error": {"message": "No more."}}]))


@STREAMED
def test_an_incomplete_response_is_kept_and_gone_on_from(client: Client, stream: bool) -> None:
    response = client.response(INCOMPLETE, "Hi.", stream=stream)
    assert response["status"] == "incomplete"
    assert client.get(response["id"]).json == response
    exchange = client.ask(said("Rest."), "Go on.", previous_response_id=response["id"])
    assert [message["content"] for message in messages_of(exchange)] == ["Hi.", "Half", "Go on."]


def test_a_failed_stream_is_kept_with_what_it_had(client: Client) -> None:
    response = client.response(BROKEN, "Hi.", stream=True)
    assert response["status"] == "failed"
    assert client.get(response["id"]).json == response
    exchange = client.ask(said("Rest."), "Go on.", previous_response_id=response["id"])
    # What the failure cut is shown to whoever asks for it, and not to the model.
    assert [message["content"] for message in messages_of(exchange)] == ["Hi.", "Go on."]


# References

NAMESPACED: list[Item] = [
    {"type": "custom", "name": "apply", "description": "Free text."},
    {
        "type": "namespace",
        "name": "files",
        "description": "Files.",
        "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
    },
]


@STREAMED
def test_references_are_replaced_by_what_they_refer_to(client: Client, stream: bool) -> None:
    """As the AI SDK sends its second turn: no previous response, but references to its items.
    Reasoning, custom and namespaced calls arrive as if they had been sent whole."""
    fields: Item = {"tools": NAMESPACED, "stream": stream}
    seen = client.ask(said("-"), "Which tools?", **fields).chat["tools"]
    names = [tool["function"]["name"] for tool in seen]
    calls = [
        {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({"input": "x <é>"})},
        }
        for index, name in enumerate(names)
    ]
    thought = chunk({"reasoning_content": "Two calls."})
    reply = Reply(sse([thought, chunk({"tool_calls": calls}), chunk({}, "tool_calls")]))
    question: Item = {"role": "user", "content": "Begin."}
    first = client.response(reply, [question], **fields)
    reasoning, custom, namespaced = first["output"]
    assert (custom["type"], namespaced["namespace"]) == ("custom_tool_call", "files")
    outputs: list[Item] = [
        {"type": "custom_tool_call_output", "call_id": custom["call_id"], "output": "a"},
        {"type": "function_call_output", "call_id": namespaced["call_id"], "output": "b"},
    ]
    references: list[Item] = [
        {"type": "item_reference", "id": reasoning["id"]},
        {"id": custom["id"]},
        {"type": "item_reference", "id": namespaced["id"]},
    ]
    referring = client.ask(said("So."), [question, *references, *outputs], **fields)
    whole = client.ask(said("So."), [question, *first["output"], *outputs], **fields)
    chained = client.ask(said("So."), outputs, previous_response_id=first["id"], **fields)
    assert referring.sent[0].body == whole.sent[0].body == chained.sent[0].body
    assert messages_of(whole)[1]["reasoning_content"] == "Two calls."

    # What was referred to is part of the conversation, also for those that go on from it.
    second = referring.story().response if stream else referring.json
    third = client.ask(said("Now."), "And?", previous_response_id=second["id"], **fields)
    assert third.sent[0].body.startswith(to_last_message(whole.sent[0]))
    assert messages_of(third)[-2:] == [
        {"role": "assistant", "content": "So."},
        {"role": "user", "content": "And?"},
    ]


def test_the_clients_own_items_can_be_referred_to_by_the_ids_of_their_listing(
    client: Client,
) -> None:
    first = client.response(said("One."), [{"role": "user", "content": "Ask."}])
    listed = client.get(first["id"], "/input_items").json["data"]
    reference = {"type": "item_reference", "id": listed[0]["id"]}
    exchange = client.ask(said("Two."), [reference])
    assert [message["content"] for message in messages_of(exchange)] == ["Ask."]


@pytest.mark.parametrize(
    "item_id",
    [
        *(f"msg_{'0' * 32}_0", "msg_1", "", f"rs_{'f' * 32}_in_0", f"fc_{'0' * 32}_" + "9" * 90),
        f"fc_{'0' * 32}_" + "9" * 4301,
        *("x" * 100_000, f"msg_{'0' * 32}_٣"),
    ],
    ids=lambda item_id: ascii(item_id[:50]),
)
def test_a_reference_to_what_is_not_there_is_refused(client: Client, item_id: str) -> None:
    reference = {"type": "item_reference", "id": item_id}
    exchange = client.ask(said("Never."), [{"role": "user", "content": "Hi."}, reference])
    item_not_found(exchange, item_id)


def test_a_reference_behind_the_items_of_a_response_is_refused(client: Client) -> None:
    first = client.response(said("One."), "Hi.")
    own = first["output"][0]["id"].rpartition("_")[0]
    for item_id in (f"{own}_1", f"{own}_in_1", f"{own}_{10**60}", f"{own}_{'1' * 4301}"):
        exchange = client.ask(said("No."), [{"type": "item_reference", "id": item_id}])
        item_not_found(exchange, item_id)


# Size


def test_a_chain_of_hundreds_is_whole(client: Client) -> None:
    previous = None
    for number in range(150):
        response = client.response(
            said(f"Answer {number}."), f"Question {number}.", previous_response_id=previous
        )
        previous = response["id"]
    exchange = client.ask(said("End."), "End?", previous_response_id=previous)
    texts = [message["content"] for message in messages_of(exchange)]
    expected = [(f"Question {n}.", f"Answer {n}.") for n in range(150)]
    assert texts == [*itertools.chain(*expected), "End?"]


def test_calls_that_leaked_are_kept_as_calls(client: Client) -> None:
    """The store holds what the client got, not what the upstream sent."""
    leak = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
        '<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>'
        "<|tool_calls_section_end|>"
    )
    leaked = Reply(sse([chunk({"content": leak}), chunk({}, "stop")]))
    first = client.response(leaked, "Hi.", stream=True)
    output = {"type": "function_call_output", "call_id": "functions.bash:0", "output": "a.txt"}
    second = client.ask(said("One file."), [output], previous_response_id=first["id"])
    reference = client.response(called("ls"), "Hi.")
    expected = client.ask(said("One file."), [output], previous_response_id=reference["id"])
    names: Any = [m.get("tool_calls") for m in messages_of(second)]
    assert names[1][0]["function"]["name"] == "bash"
    assert [m["role"] for m in messages_of(second)] == [m["role"] for m in messages_of(expected)]
    assert "<|" not in second.sent[0].body.decode()
