"""What a bridged turn leaves behind that was cut, or said in an unusual way, through a real
mitmdump: nothing half is handed over, and nothing whole is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.bridge.responses.dialects import DIALECTS
from fixtures.server import Reply, Upstream
from tests.bridge.replying import call, calls, chunk, ended, sse
from tests.bridge.replying import text as said
from tests.live.clients import Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import REQUEST, WHOLE, Bridge, calls_of, text_of
from tests.live.stored import Client, messages_of

DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
LEAK = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
LEAK += '<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
HALF = [said("Let me see."), calls(call(0, "", name="bash", call_id="c0"))]
HALF += [calls(call(0, '{"command": "rm')), calls(call(0, ' -rf build"}'))]
OPEN = {
    "text": [said("Half of"), said(" an answer")],
    "reasoning": [chunk({"reasoning_content": "Half of"}), chunk({"reasoning_content": " it"})],
    "call": HALF,
    "whole call": [*HALF[:2], calls(call(0, '{"command": "ls"}')), calls(call(1, "", name="read"))],
    "leaked call": [said("Let me see."), said(LEAK[:100]), said(LEAK[100:])],
}
ENDS = {
    "reset": ("", ";fault=reset"),
    "eof": ("", ";fault=eof"),
    "early": ("", ""),
    "error": ('data: {"error":{"message":"lost","code":502}}\n\n', ""),
    "error in a choice": (
        'data: {"choices":[{"index":0,"error":{"message":"lost","code":502}}]}\n\n',
        "",
    ),
}


@pytest.fixture
def proxy(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Mitmdump:
    return mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")


@pytest.fixture
def bridge(plain_upstream: Upstream, proxy: Mitmdump) -> Bridge:
    return Bridge(plain_upstream, proxy)


@pytest.fixture
def client(plain_upstream: Upstream, proxy: Mitmdump) -> Client:
    return Client(plain_upstream, proxy)


@DIALECT
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("what", OPEN)
def test_neither_a_failure_nor_a_break_hands_over_what_is_open(
    bridge: Bridge, what: str, end: str, dialect: str
) -> None:
    last, fault = ENDS[end]
    body = sse(OPEN[what][:-1], done=False) + last.encode()
    options = f";cut=event;abort={len(body)}{fault}" if fault else ""
    header = ("x-dragoman-dialect", dialect)
    exchange = bridge.ask(Reply(body), REQUEST, header, options=options)
    if not last:
        story = exchange.broken_off(dialect)
        added = [event for event in story.events if event["type"].endswith("item.added")]
        assert len(story.items) == len(added) - 1, "the last one is open"
        return
    story = exchange.story(dialect)
    assert story.response["status"] == "failed"
    assert story.response["error"]["code"] == "server_error"
    opened = story.response["output"][-1]
    assert opened["status"] == "incomplete"
    done = [event["item"]["id"] for event in story.events if event["type"].endswith("item.done")]
    assert done == [item["id"] for item in story.response["output"][:-1]]


@DIALECT
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_limit_hands_no_call_over_that_is_open(
    bridge: Bridge, stream: bool, dialect: str
) -> None:
    reply = Reply(sse([*HALF[:-1], *ended("length")]))
    header = ("x-dragoman-dialect", dialect)
    exchange = bridge.ask(reply, REQUEST if stream else WHOLE, header)
    response = exchange.story(dialect).response if stream else exchange.json
    assert response["status"] == "incomplete"
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    if stream:
        types = [event["type"] for event in exchange.story(dialect).events]
        assert "response.function_call_arguments.done" not in types
        assert types.count("response.output_item.done") == 1


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("end", ["length", "failure"])
def test_who_goes_on_from_a_turn_that_was_cut_gets_it_without_the_cut_call(
    client: Client, end: str, stream: bool
) -> None:
    if end == "failure" and not stream:
        return  # an HTTP error, which is not kept
    last = ended("length") if end == "length" else [{"error": {"message": "lost"}}]
    response = client.response(Reply(sse([*HALF[:-1], *last])), "Hi.", stream=stream)
    assert response["output"][-1]["type"] == "function_call"
    assert client.get(response["id"]).json == response
    ok = Reply(sse([said("Ok."), *ended()]))
    exchange = client.ask(ok, "Go on.", previous_response_id=response["id"])
    contents = [message["content"] for message in messages_of(exchange)]
    assert contents == ["Hi.", "Let me see.", "Go on."]
    assert not any("tool_calls" in message for message in messages_of(exchange))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("code", "known"), [(502, "server_error"), (429, "rate_limit_exceeded")])
def test_an_error_in_a_choice_reaches_the_client(
    bridge: Bridge, code: int, known: str, stream: bool
) -> None:
    choice = {"index": 0, "finish_reason": "error", "error": {"code": code, "message": "Lost it"}}
    if stream:
        body = sse([said("a"), chunk(choice=choice | {"delta": {"content": ""}})])
        error = bridge.ask(Reply(body)).story().response["error"]
    else:
        answer = {"role": "assistant", "content": "a"}
        body = json.dumps({"choices": [choice | {"message": answer}]}).encode()
        error = bridge.ask(Reply(body, "application/json"), WHOLE).error(502)
    message = "Lost it. Please try again in 5s." if code == 429 else "Lost it"
    assert (error["code"], error["message"]) == (known, message)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", [None, "", "  "])
def test_a_call_without_a_name_fails_the_turn(
    bridge: Bridge, name: str | None, stream: bool
) -> None:
    reply = Reply(sse([calls(call(0, "{}", name=name, call_id="x")), *ended("tool_calls")]))
    exchange = bridge.ask(reply, REQUEST if stream else WHOLE)
    error = exchange.story().response["error"] if stream else exchange.error(502)
    assert error["code"] == "server_error"


def test_a_call_is_told_before_its_arguments_come(client: Client) -> None:
    body = sse([calls(call(0, "", name="bash", call_id="c0"))], done=False)
    silent = client.but(options=f";abort={len(body)};fault=silence")
    with silent.running(reply=Reply(body)) as (_, response):
        while not (line := response.readline()).startswith(b'data: {"type":"response.output_item'):
            assert line
    assert json.loads(line.removeprefix(b"data: "))["item"]["name"] == "bash"


@DIALECT
def test_calls_that_share_an_id_are_two(bridge: Bridge, dialect: str) -> None:
    values = []
    for command in ("ls", "pwd"):
        values.append(calls(call(None, "", name="bash", call_id="c")))
        values += [calls(call(None, piece)) for piece in ('{"command": "', command, '"}')]
    header = ("x-dragoman-dialect", dialect)
    story = bridge.ask(Reply(sse([*values, *ended("tool_calls")])), REQUEST, header).story(dialect)
    told = [item.get("function", item)["arguments"] for item in story.response["output"]]
    assert [json.loads(text) for text in told] == [{"command": "ls"}, {"command": "pwd"}]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_reasoning_alone_and_done_is_a_failure(bridge: Bridge, stream: bool) -> None:
    reply = Reply(sse([chunk({"reasoning_content": "The user"})]))
    exchange = bridge.ask(reply, REQUEST if stream else WHOLE)
    error = exchange.story().response["error"] if stream else exchange.error(502)
    assert error["code"] == "server_error"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_turn_in_two_choices_is_one(bridge: Bridge, stream: bool) -> None:
    made: Any = {"tool_calls": [call(0, '{"command": "ls"}', name="bash", call_id="c")]}
    parts: Any = [{"content": "Let me see."}, made]
    field = "delta" if stream else "message"
    choices = [
        {"index": index, field: part, "finish_reason": "tool_calls"}
        for index, part in enumerate(parts)
    ]
    if stream:
        body = Reply(sse([{"choices": [choice]} for choice in choices]))
        response = bridge.ask(body).story().response
    else:
        whole = Reply(json.dumps({"choices": choices}).encode(), "application/json")
        response = bridge.ask(whole, WHOLE).json
    assert text_of(response) == "Let me see."
    assert calls_of(response) == [("bash", {"command": "ls"})]


def test_a_shell_call_says_where_it_runs(bridge: Bridge) -> None:
    values = [calls(call(0, '{"commands": ["ls"]}', name="shell", call_id="c"))]
    reply = Reply(sse([*values, *ended("tool_calls")]))
    asked = REQUEST | {"tools": [{"type": "shell", "environment": {"type": "local"}}]}
    (item,) = bridge.ask(reply, asked).story().response["output"]
    assert (item["type"], item["environment"]) == ("shell_call", {"type": "local"})


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_citations_are_annotations(bridge: Bridge, stream: bool) -> None:
    flat = {"type": "url_citation", "url": "https://b.example", "title": "B"}
    delta = {"content": "See.", "annotations": [flat]}
    last = {"citations": ["https://a.example", "https://b.example"]}
    if stream:
        values = [chunk(delta), chunk(finish="stop") | last]
        response = bridge.ask(Reply(sse(values))).story().response
    else:
        choice = {"index": 0, "message": delta, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice]} | last).encode()
        response = bridge.ask(Reply(body, "application/json"), WHOLE).json
    annotations = response["output"][0]["content"][0]["annotations"]
    assert [a["url"] for a in annotations] == ["https://b.example", "https://a.example"]


@pytest.mark.parametrize(
    ("field", "after"),
    [
        ("content", ""),
        ("content", "After."),
        ("content", "\n\nAfter."),
        ("reasoning_content", ""),
        ("reasoning_content", "After."),
    ],
)
def test_text_around_a_leaked_call_is_the_same_items_streamed_and_not(
    bridge: Bridge, field: str, after: str
) -> None:
    text = "Before. " + LEAK + after
    values = [chunk({field: text[at : at + 7]}) for at in range(0, len(text), 7)]
    streamed = bridge.ask(Reply(sse([*values, *ended()]))).story().response
    message = {"role": "assistant", "content": None} | {field: text}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    whole = bridge.ask(Reply(json.dumps(body).encode(), "application/json"), WHOLE).json
    assert shapes(streamed) == shapes(whole)
    assert len(shapes(whole)) == (3 if after else 2)


def shapes(response: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each item of the output: a call's name and arguments, or type and texts of another."""
    return [
        (item["name"], item["arguments"])
        if item["type"] == "function_call"
        else (item["type"], [part["text"] for part in item.get("content") or item["summary"]])
        for item in response["output"]
    ]


CUT_BY_LENGTH = Reply(sse([*HALF[:-1], *ended("length")]))


def base_url(upstream: Upstream, name: str) -> str:
    upstream.replies[name] = CUT_BY_LENGTH
    return f"{upstream.url}/{name};cut=event/v1"


@pytest.mark.parametrize("run", ["stream", "generate"])
def test_the_ai_sdk_runs_nothing_that_a_limit_cut(
    mitmdump: Callable[..., Mitmdump], clients: Clients, tls_upstream: Upstream, run: str
) -> None:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    sdk = clients.get("ai_sdk.mjs", proxy.client_environment())
    request = {"prompt": "Clean up."}
    got = sdk.ask(f"responses.{run}", base_url(tls_upstream, "cut_by_length_ai"), request)
    assert got == {"text": "Let me see.", "finish_reason": "length", "executed": []}


@pytest.mark.parametrize("how", ["responses.create", "responses.stream"])
def test_openai_node_reads_what_a_limit_cut(
    mitmdump: Callable[..., Mitmdump], clients: Clients, tls_upstream: Upstream, how: str
) -> None:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    node = clients.get("openai_node.mjs", proxy.client_environment())
    request = {"model": REQUEST["model"], "input": "Clean up."}
    got = node.ask(how, base_url(tls_upstream, "cut_by_length_node"), request)
    assert (got["text"], got["status"]) == ("Let me see.", "incomplete")
    assert [call["arguments"] for call in got["calls"]] == ['{"command": "rm']
