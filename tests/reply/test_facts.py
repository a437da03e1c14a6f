"""The facts of a reply are the same, read from frames as they passed or from its bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import (
    api_of,
    read_reply,
    repair_in_steps,
    tools_of,
    turn_reader,
)
from dragoman.chat.repair import ChatRepair
from dragoman.inspect.parse.reply import parse_reply
from dragoman.inspect.parse.values import ParsedCall as Call
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.facts import MAX_FRAMES, TAIL, ReplyReader
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import RepairStage, at_once
from dragoman.wire.sse import Frame
from dragoman.wire.usage import Counts
from fixtures.server import FOLDER
from tests.bridge import messages_streams
from tests.bridge.recorded import BODIES, joined_up, request_of
from tests.repair.streams import chunk, sse

FIXTURES = sorted(
    each.name
    for each in FOLDER.iterdir()
    if (each / "upstream.sse").exists() and (each / "request.json").exists()
)


def repairing(request: Any) -> RepairPipeline:
    tools, evidence = DeclaredTools.of_request(request), Evidence()
    return RepairPipeline(
        ChatRepair(tools, RepairOptions(), evidence, 1), evidence, read=turn_reader()
    )


@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize("name", FIXTURES)
def test_what_passed_has_the_facts_of_its_bytes(name: str, size: int) -> None:
    folder = FOLDER / name
    body = (folder / "upstream.sse").read_bytes()
    pipeline = repairing(json.loads((folder / "request.json").read_bytes()))
    sent = b"".join(pipeline.feed(body[at : at + size]) for at in range(0, len(body), size))
    sent += pipeline.close()
    if not pipeline.read.knows:
        pytest.skip("no event stream")
    upstream, client = pipeline.read.upstream.facts, pipeline.read.client
    known = {"calls": upstream.calls} if name == CUT_NAME else {}
    assert upstream == replace(read_reply(body).facts, **known)
    assert client.facts == replace(read_reply(sent).facts, first_token=None)
    assert client.calls == read_reply(sent).calls


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.sse")), ids=lambda path: path.parent.name)
def test_a_view_shows_what_the_facts_say(path: Path) -> None:
    body = path.read_bytes()
    facts, view = read_reply(body).facts, parse_reply(body)
    calls = [part for choice in view.choices for part in choice.parts if isinstance(part, Call)]
    usage = view.usage or Counts()
    assert facts.model == view.model
    assert (facts.input_tokens, facts.output_tokens) == (usage.input, usage.output)
    assert facts.calls == tuple(call.name for call in calls if call.name)
    assert len(facts.finishes) == len([choice for choice in view.choices if choice.finish])
    assert bool(facts.error_code) == (view.error is not None)


def test_an_error_is_forgotten_only_when_a_finish_reason_follows() -> None:
    first, usage = {"error": {"message": "no", "code": "busy"}}, {"output_tokens": 1}
    for then in ({"x": 1}, {"choices": [], "usage": usage}, chunk({"content": "Hi"})):
        assert read_reply(sse([first, then], done=False)).facts.error_code == "busy"
    assert read_reply(sse([first, chunk({}, "stop")])).facts.error_code == ""
    shown = parse_reply(sse([first, chunk({}, "stop")])).error
    assert shown is not None and shown.code == "busy", "a page shows it all the same"


CUT_NAME = "call_name_cut"
"""A name that the upstream cuts is read with those of the tools, as they are known."""


@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_came_whole_has_the_facts_of_its_bytes(path: Path) -> None:
    request, body = request_of(path), path.read_bytes()
    api = api_of(request, body)
    if not (body := joined_up(body, api)):
        pytest.skip("it failed")
    read = turn_reader(keeps=True)
    tools = tools_of(request, api)
    sent = at_once(repair_in_steps(body, tools, RepairOptions(), Evidence(), 1, read=read))
    upstream, client = read_reply(body, keeps=True), read_reply(sent, keeps=True)
    assert read.upstream.facts == upstream.facts
    # A response that is repaired has a status; the word that leaves has a finish reason.
    differ = {"first_token": None} | ({"finishes": ()} if api == "responses" else {})
    assert replace(read.client.facts, **differ) == replace(client.facts, **differ)
    assert read.client.calls == client.calls
    assert turns(read.client) == turns(client)


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed", "cancelled"])
def test_a_response_that_came_whole_has_the_facts_of_its_bytes_whatever_its_status(
    status: str,
) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    error = {"code": "server_error", "message": "Broken."} if status == "failed" else None
    response = {"object": "response", "status": status, "error": error, "output": [call]}
    read, body = turn_reader(), json.dumps(response).encode()
    tools, evidence = tools_of({}, "responses"), Evidence()
    assert at_once(repair_in_steps(body, tools, RepairOptions(), evidence, 1, read=read)) == body
    of_bytes = replace(read_reply(body).facts, first_token=None)
    assert of_bytes.calls == ("bash",)
    assert replace(read.upstream.facts, first_token=None) == of_bytes
    assert replace(read.client.facts, first_token=None) == of_bytes


def turns(read: ReplyReader) -> Any:
    kept = read.turns(last=True)
    return [(turn.reasoning, [call.name for call in turn.call_deltas]) for turn in kept]


def test_a_first_chunk_with_text_names_the_model() -> None:
    pipeline = repairing({})
    pipeline.feed(sse([chunk({"content": "Hi"})], done=False))
    facts = pipeline.read.client.facts
    assert (facts.parsed, facts.model, facts.answered) == (True, "kimi", "text")


def test_a_call_of_a_message_is_read_from_its_block_and_its_deltas() -> None:
    body = messages_streams.stream([("tool_use", ("bash", ['{"a":', "1}"])), ("text", ["Yes."])])
    assert read_reply(body).calls == [("bash", '{"a":1}')]


@pytest.mark.slow
def test_the_end_of_a_long_response_is_read() -> None:
    delta = {"type": "response.output_text.delta", "delta": "word " * 10}
    response = {"object": "response", "status": "completed", "usage": {"output_tokens": 9}}
    text = {"type": "message", "content": [{"type": "output_text", "text": "word " * TAIL}]}
    last = {"type": "response.completed", "response": response | {"output": [text]}}
    lines = [json.dumps(each).encode() for each in [delta] * (MAX_FRAMES + 9) + [last]]
    facts = read_reply(b"".join(b"data: %b\n\n" % line for line in lines)).facts
    assert (facts.finishes, facts.output_tokens, facts.early) == (("completed",), 9, False)


def test_after_a_fault_the_facts_are_not_known_and_the_reply_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = sse([chunk({"content": "Hi"})], done=False)
    for stage in (RepairStage(), ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), 1)):
        pipeline = RepairPipeline(stage, Evidence(), read=(read := turn_reader()))
        assert pipeline.feed(body) == body and read.knows
        for name in ("frame", "words"):
            monkeypatch.setattr(read.client, name, None)
        assert pipeline.feed(sse([])) == sse([])
        assert not read.knows and isinstance(read.fault, TypeError)


def test_an_error_of_ours_is_not_the_upstreams() -> None:
    pipeline = RepairPipeline(
        ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), 1),
        Evidence(),
        breaks=False,
        read=turn_reader(),
    )
    pipeline.feed(sse([chunk({"content": "Hi"})], done=False))
    assert b"server_error" in pipeline.break_off("It broke off.")
    assert pipeline.read.upstream.facts.error_code == ""
    assert pipeline.read.client.facts.error_code == "server_error"


@pytest.mark.parametrize(
    "idle",
    [b"data: {}\n\n", b"data: []\n\n", b'data: {"choices":[]}\n\n', b"event: x\r\ndata: 1\r\n\r\n"],
)
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_frame_that_says_nothing_is_read_once_however_often_it_comes(
    idle: bytes, size: int
) -> None:
    head, *rest = sse(
        [chunk({"content": "Hi"}), chunk({"content": " <|"}), chunk({}, "stop")]
    ).split(b"\n\n")
    body = idle * 300 + head + b"\n\n" + b"".join(idle * 300 + each + b"\n\n" for each in rest[:-1])
    pipeline = repairing({})
    reader = pipeline.read
    assert reader is not None
    read = 0

    def counted(frame: Frame) -> list[Frame]:
        nonlocal read
        read += 1
        return feed(frame)

    feed = pipeline._repair.feed
    pipeline._repair.feed = counted  # type: ignore[method-assign]
    sent = b"".join(pipeline.feed(body[at : at + size]) for at in range(0, len(body), size))
    sent += pipeline.close()
    assert sent == body
    assert read < 320, "only while a text is in doubt each waits, and is read"
    facts = read_reply(body).facts
    assert reader.upstream.facts == facts
    assert reader.client.facts == replace(facts, first_token=None)
