"""What `ReplyConverter` makes of a repaired reply, for a client of another API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.chat.repair import ChatRepair
from dragoman.chat.writer import ChatWriter
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply import frame_queue as repairing
from dragoman.reply.facts import ReplyReader
from dragoman.responses.dialects import OPENAI
from fixtures.regenerate import NOW, chat_fixtures, request
from tests.repair.turns import REQUEST

from .grammar import check
from .replying import call, calls, chunk, ended, new_reply, sse, text

STREAMS = [folder for folder in chat_fixtures() if (folder / "upstream.sse").exists()]
SOURCE = "https://example.org/a"
LEAK = (
    "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|>'
)
TOKENS = [{"token": "t", "logprob": -1, "bytes": [116], "top_logprobs": []}]


def pipeline_for(request_: Any) -> BridgePipeline:
    tools = DeclaredTools.of_request(request_)
    repair = ChatRepair(tools, RepairOptions(), Evidence(), NOW)
    pipeline = BridgePipeline(new_reply(Evidence()), repair)
    pipeline.reply.open()
    return pipeline


def output(*values: Any, done: bool = True) -> list[Any]:
    """The items of a reply, repaired and bridged."""
    pipeline = pipeline_for(REQUEST)
    pipeline.feed(sse([*values, *ended()], done=done))
    pipeline.close()
    items: list[Any] = pipeline.reply.response["output"]
    return items


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_no_chunk_is_written_in_between(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("passed", "replaced", "write", "end"):
        monkeypatch.delattr(ChatWriter, name)
    pipeline = pipeline_for(request(folder))
    pipeline.feed((folder / "upstream.sse").read_bytes())
    pipeline.close()
    assert pipeline.read.fault is None


def test_a_thought_stays_one_beside_a_leaked_call() -> None:
    values = [{"reasoning_content": each} for each in ("Hm. ", LEAK, "So. ", "Yes.")]
    items = output(*map(chunk, values))
    assert [item["type"] for item in items] == ["reasoning", "function_call", "reasoning"]


def test_sources_of_a_chunk_whose_text_is_of_a_call_are_kept() -> None:
    half = len(LEAK) // 2
    leaked = [text(LEAK[:half]) | {"citations": [SOURCE]}, text(LEAK[half:])]
    message, _ = output(text("Look."), *leaked)[:2]
    urls = [each["url"] for each in message["content"][0]["annotations"]]
    assert urls == [SOURCE]


def test_log_probabilities_of_a_changed_chunk_are_dropped() -> None:
    choice = {"logprobs": {"content": TOKENS}}
    for content, kept in (("Look.", TOKENS), ("Look." + LEAK, [])):
        message = output(chunk({"content": content}, choice=choice))[0]
        assert message["content"][0]["logprobs"] == kept


@pytest.mark.parametrize("late", [{"id": "c_1"}, {"id": "c_1", "function": {"arguments": "{"}}])
def test_an_id_may_come_after_the_name(late: Any) -> None:
    begins = late.get("function", {}).get("arguments", "")
    rest = '{"command": "ls"}'.removeprefix(begins)
    head = {"index": 0, "type": "function", "function": {"name": "bash", "arguments": ""}}
    (item,) = output(calls(head), calls({"index": 0, **late}), calls(call(0, rest)))
    assert (item["call_id"], item["name"]) == ("c_1", "bash")
    assert json.loads(item["arguments"]) == {"command": "ls"}


def test_the_facts_of_both_sides_are_those_of_the_words() -> None:
    pipeline = pipeline_for(REQUEST)
    pipeline.feed(sse([text("Look."), text(LEAK), *ended()], done=False))
    upstream, client = pipeline.read.upstream.facts, pipeline.read.client.facts
    assert (upstream.calls, upstream.finishes) == ((), ("stop",))
    assert (client.calls, client.finishes) == (("bash",), ("tool_calls",))
    assert upstream.model == client.model == "k"
    assert upstream.output_tokens == client.output_tokens == 7


def test_after_too_much_the_rest_is_written_unrepaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "MAX_HELD", 4)
    pipeline = pipeline_for(REQUEST)
    held = [text(each) for each in ("One. ", "<|tool_call_begin|>", *"functions", " two. ", LEAK)]
    frames = pipeline.feed(sse([*held, *ended()])) + pipeline.close()
    (item,) = pipeline.reply.response["output"]
    said = "One. <|tool_call_begin|>functions two. " + LEAK
    assert item["content"][0]["text"] == said
    assert check([*new_reply(Evidence()).open(), *frames], OPENAI).response["status"] == "completed"


@pytest.mark.parametrize("name", ["more", "words"])
def test_a_fault_in_the_facts_changes_nothing_for_the_client(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [text("Look."), text(" Here."), text(LEAK)]
    expected = output(*values)
    monkeypatch.delattr(ReplyReader, name)
    assert output(*values) == expected


HEAD, COMMAND, END = LEAK.partition('{"command": "')[0], '{"command": "', '"}<|tool_call_end|>'


@pytest.mark.parametrize("beside", [{"role": "assistant"}, {"refusal": None, "role": "assistant"}])
def test_what_repair_holds_is_something(beside: Any) -> None:
    pieces = ["x" * 20] * 6000
    values = [chunk({**beside, "content": each}) for each in (HEAD, COMMAND, *pieces, END)]
    (item,) = output(*values)
    assert json.loads(item["arguments"]) == {"command": "".join(pieces)}


def of_choice(index: int, delta: Any, finish: Any = None) -> Any:
    return chunk(delta, finish, choice={"index": index})


def test_a_choice_that_begins_with_what_was_held_has_not_ended() -> None:
    pipeline = pipeline_for(REQUEST)
    native = {"tool_calls": [call(0, "{}", name="bash", call_id="c_1")]}
    values = [of_choice(0, {"content": "Hi."}), of_choice(0, {}, "stop")]
    values += [of_choice(1, {"content": "a <"}), of_choice(1, native)]
    pipeline.feed(sse(values, done=False))
    pipeline.close()
    assert pipeline.broken or pipeline.reply.writer.ended


@pytest.mark.parametrize("held", ["a", "a <"])
def test_the_end_of_a_choice_that_waits_is_its_hosts(held: str) -> None:
    pipeline = pipeline_for(REQUEST)
    values = [of_choice(0, {"content": "Hi"}), of_choice(1, {"content": held})]
    pipeline.feed(sse([*values, of_choice(0, {}, "length")]))
    pipeline.close()
    assert pipeline.reply.response["status"] == "incomplete"


def test_a_turn_that_a_limit_cut_is_cut_whatever_follows() -> None:
    pipeline = pipeline_for(REQUEST)
    cut = calls(call(0, '{"comm', name="bash", call_id="c_1"))
    frames = pipeline.feed(sse([cut, chunk({}, "length"), chunk({}, "stop")])) + pipeline.close()
    check([*new_reply(Evidence()).open(), *frames], OPENAI)
    assert pipeline.reply.response["status"] == "incomplete"


def test_a_usage_beside_what_is_of_a_call_is_the_clients_too() -> None:
    pipeline = pipeline_for(REQUEST)
    usage = {"usage": {"prompt_tokens": 5, "completion_tokens": 9}}
    values = [text(HEAD), text(COMMAND), text("l"), text("s") | usage, text(END)]
    pipeline.feed(sse([*values, chunk({}, "stop")]))
    pipeline.close()
    sides = pipeline.read.upstream.facts, pipeline.read.client.facts
    assert [side.output_tokens for side in sides] == [9, 9]
