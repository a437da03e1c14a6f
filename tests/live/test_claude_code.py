"""Claude Code at hosts that speak Anthropic's Messages API, and leak.

It runs a call when its block ends, whatever comes after it; so each test looks at what was run.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fixtures.server import Reply
from fixtures.wire import Request
from tests.bridge.messages_streams import Block, document, event, pieces, stream
from tests.live.claude_code import TEA, Claude, bash, newest
from tests.live.test_repeated_calls import k2
from tests.repair.formats.test_tagged_call import WRITERS, text_of

ANSWER: list[Block] = [("text", ["All is ", "well."])]
_numbers = itertools.count()

pytestmark = pytest.mark.heavy


def host(*turns: Sequence[Block], stop: str = "end_turn") -> Callable[[Request], Reply]:
    """What replies to a request by the number of messages in it that have calls; after the last of
    `turns`, which end with `stop`, with the answer."""
    said = [*((blocks, stop) for blocks in turns), (ANSWER, "end_turn")]

    def reply(request: Request) -> Reply:
        blocks, end = said[min(len(turns), len(calls_in(request)))]
        new_id = b'"msg_%d"' % next(_numbers)  # messages with one id are one to Claude Code
        if not request.json.get("stream"):
            body = json.dumps(document(blocks, end)).encode()
            return Reply(body.replace(b'"msg_1"', new_id), "application/json")
        return Reply(stream(blocks, end).replace(b'"msg_1"', new_id))

    return reply


def calls_in(request: Request, kind: str = "tool_use") -> list[list[dict[str, Any]]]:
    """The blocks of this kind, by the messages that have some."""
    contents = [m["content"] for m in request.json["messages"] if isinstance(m["content"], list)]
    found = [[block for block in content if block["type"] == kind] for content in contents]
    return [blocks for blocks in found if blocks]


def called(name: str, **arguments: Any) -> Block:
    """A call that leaks in a text."""
    return "text", pieces(k2(name, json.dumps(arguments)))


def native(said: str) -> Block:
    return "tool_use", ("Bash", pieces(json.dumps(bash(said))))


def leaked(said: str, kind: str = "text") -> Block:
    return kind, ["I look. ", *pieces(k2("Bash", json.dumps(bash(said))))]


TURNS: dict[str, tuple[list[Block], list[str]]] = {
    "none": (ANSWER, []),
    "native": ([native("it")], ["it"]),
    "in a text": ([leaked("it")], ["it"]),
    "in a thought": ([leaked("it", "thinking")], ["it"]),
    "after a native call": ([native("one"), leaked("two")], ["one", "two"]),
    "before a native call": ([leaked("one"), native("two")], ["one", "two"]),
    "twice, first native": ([native("it"), leaked("it")], ["it"]),
    "twice, first leaked": ([leaked("it"), native("it")], ["it"]),
}


@pytest.mark.parametrize("where", TURNS)
def test_each_call_is_run_once(claude: Claude, where: str) -> None:
    blocks, ran = TURNS[where]
    claude.talks_to(host(blocks))
    assert claude.answer() == "All is well."
    assert claude.ran == ran
    assert len(claude.requests) == 1 + bool(ran)


FORMATS = {name: text_of(writer("Bash", bash("it"), "\n")) for name, writer in WRITERS.items()}
FORMATS["claude"] = (
    'I look.\n\ncall\n<invoke name="Bash">\n<parameter name="command">echo it >> ran</parameter>\n'
    "</invoke>"
)


@newest
@pytest.mark.parametrize("leak", FORMATS)
def test_calls_between_tags_are_run(claude: Claude, leak: str) -> None:
    claude.talks_to(host([("text", pieces(FORMATS[leak], 7))]))
    assert claude.answer(model="claude-sonnet-5") == "All is well."
    assert claude.ran == ["it"]
    messages = claude.requests[-1].json["messages"]
    (blocks,) = [message["content"] for message in messages if message["role"] == "assistant"]
    texts = [block["text"].strip() for block in blocks if block["type"] == "text"]
    assert texts == ["I look."] * (leak == "claude")


@newest
def test_a_call_in_an_example_is_text(claude: Claude) -> None:
    leak = k2("Bash", json.dumps(bash("it")))
    example = f"So it is written:\n\n```\n{leak}\n```\n\nThat is all."
    claude.talks_to(host([("text", pieces(example))]))
    assert claude.answer() == example
    assert claude.ran == []


def test_the_calls_of_several_turns_have_ids_of_their_own(claude: Claude) -> None:
    claude.talks_to(host([leaked("one")], [leaked("two")], [leaked("three")]))
    assert claude.answer() == "All is well."
    assert claude.answer("--continue") == "All is well."
    assert claude.ran == ["one", "two", "three"]
    last = claude.requests[-1]
    ids = [block["id"] for (block,) in calls_in(last)]
    assert len(set(ids)) == 3
    assert [block["tool_use_id"] for (block,) in calls_in(last, "tool_result")] == ids
    assert b"<|" not in last.body


LEAK = called("Bash", **bash("it"))


def place(words: str) -> int:
    """Where in the stream of the leak the delta ends with which these words have come."""
    text = ""
    for delta in re.finditer(rb'"text": ("(?:[^"\\]|\\.)*")\}\}\n\n', stream([LEAK])):
        text += json.loads(delta[1])
        if words in text:
            return delta.end()
    raise AssertionError(words)


PLACES = ["section_begin", "argument_begin", "echo it", '"}<', "call_end|>", "call_end|><|to"]


@pytest.mark.parametrize("fault", ["reset", "eof"])
@pytest.mark.parametrize("words", PLACES)
def test_what_a_break_leaves_is_run_once(claude: Claude, words: str, fault: str) -> None:
    claude.talks_to(host([LEAK]))
    assert claude.answer(options=f";abort={place(words)};fault={fault};broken=1") == "All is well."
    assert claude.ran == ["it"]


def test_after_an_error_within_a_call_it_asks_again(claude: Claude) -> None:
    well = host([LEAK])
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = Reply(stream([LEAK])[: place("echo it")] + event(error))
    claude.talks_to(lambda request: well(request) if len(claude.requests) > 1 else failed)
    assert claude.answer() == "All is well."
    assert claude.ran == ["it"]


@pytest.mark.parametrize("before", ["", "I look. "])
def test_a_call_that_a_limit_cuts_is_not_run(claude: Claude, before: str) -> None:
    """Though all arguments of its tool may be left out."""
    text = before + k2("mcp__tea__brew", '{"minutes": 3}').partition("3")[0]
    well = host()
    cut = Reply(stream([("text", pieces(text))], "max_tokens"))
    claude.talks_to(lambda request: well(request) if len(claude.requests) > 1 else cut)
    assert claude.answer(*TEA) == "All is well."
    assert b"brewed" not in claude.requests[-1].body


@newest
def test_a_sub_agent_is_called_and_calls(claude: Claude) -> None:
    prompt = "Count to three."
    agent = called("Agent", description="Count", prompt=prompt, subagent_type="general-purpose")
    parent, child = host([agent]), host([leaked("three")])

    def reply(request: Request) -> Reply:
        asked = json.dumps(request.json["messages"][0])
        return (child if prompt in asked else parent)(request)

    claude.talks_to(reply)
    assert claude.answer() == "All is well."
    assert claude.ran == ["three"]
    *_, last = claude.requests
    assert [block["name"] for (block,) in calls_in(last)] == ["Agent"]


@newest
def test_a_tool_of_a_server_is_called(claude: Claude) -> None:
    claude.talks_to(host([called("mcp__tea__brew", minutes=3)]))
    assert claude.answer(*TEA) == "All is well."
    assert b"brewed for 3 minutes" in claude.requests[-1].body


@newest
def test_a_tool_that_is_only_named_is_called(claude: Claude) -> None:
    call = "<tool_call>\n" + json.dumps({"name": "CronList", "arguments": {}}) + "\n</tool_call>"
    claude.talks_to(host([("text", pieces(call))]))
    assert claude.answer(*TEA) == "All is well."
    first, last = claude.requests
    assert "CronList" not in {tool["name"] for tool in first.json["tools"]}
    assert [block["name"] for (block,) in calls_in(last)] == ["CronList"]
    (result,) = calls_in(last, "tool_result")[-1]
    assert "is_error" not in result
