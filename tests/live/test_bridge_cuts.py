"""What a bridged turn leaves behind that was cut, or said in an unusual way, through a real
mitmdump: nothing half is handed over, and nothing whole is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from dragoman.responses.dialects import DIALECTS
from fixtures.server import Reply, Upstream
from tests.bridge.replying import call, calls, chunk, ended, sse
from tests.bridge.replying import text as said
from tests.live.clients import Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import REQUEST, Bridge
from tests.live.stored import Client, messages_of

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


EACH = [(what, end) for what in OPEN for end in ENDS]
"""What is open at which end; each in one dialect, and each dialect at every end."""


@pytest.mark.parametrize(
    ("what", "end", "dialect"),
    [(*each, dialect) for each, dialect in zip(EACH, itertools.cycle(DIALECTS), strict=False)],
)
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
