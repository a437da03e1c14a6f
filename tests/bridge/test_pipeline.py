"""The stages of a bridged reply, composed: the same however it comes, and always one end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.bridge.reply.pipeline import BridgePipeline
from dragoman.bridge.responses.dialects import OPENAI
from dragoman.notes import Evidence
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.pending import Policy
from dragoman.wire.sse import Frame
from fixtures.regenerate import NOW, chat_fixtures, request
from tests.repair.formats.turns import DECLARED
from tests.repair.streams import chunk, sse
from tests.repair.test_native_calls import DEFECTS, meant
from tests.repair.test_native_calls import stream as native_stream
from tests.repair.test_told_back import MODELS, cuts, every_document
from tests.repair.turns import REQUEST

from .grammar import check
from .replying import call, calls, ended, feed_body, new_reply, text
from .replying import chunk as chat_chunk
from .replying import sse as chat_sse

STREAMS = [folder for folder in chat_fixtures() if (folder / "upstream.sse").exists()]
LEAK = next(folder for folder in STREAMS if folder.name == "kimi_specification")


def stage(folder: Path) -> ChatStreamRepair:
    tools = DeclaredTools.of_request(request(folder))
    return ChatStreamRepair(tools, Policy(), Evidence(), NOW)


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_a_stream_is_the_same_in_any_pieces_and_whole(folder: Path) -> None:
    stream = (folder / "upstream.sse").read_bytes()
    whole = feed_body(new_reply(Evidence()), stream, stage(folder))
    for size in (1, 300, 1_000_000):
        pipeline = BridgePipeline(new_reply(Evidence()), stage(folder))
        frames = pipeline.reply.open()
        for begin in range(0, len(stream), size):
            frames += pipeline.feed(stream[begin : begin + size])
        assert frames + pipeline.close() == whole, size


def test_deltas_that_come_in_one_read_are_written_one_by_one() -> None:
    words = [
        "a",
        " ",
        '"',
        "\\",
        "",
        "\U0001f600",
        "\ud83d",
        "\n",
        "<b>",
        "</think>",
        "x" * 5000,
        "z",
    ]
    head = calls(call(0, "", name="echo", call_id="c0"))
    values = [
        *(chat_chunk({"reasoning": word, "reasoning_content": word}) for word in words),
        *map(text, words),
        *(head, *(calls(call(0, part)) for part in ['{"', "q", '":"', *"some", "", '"}', " "])),
        *(calls(call(1, part, name=name)) for part, name in [("{", "exec"), *[('"', None)] * 5]),
        *map(text, words),
        *ended("tool_calls"),
    ]
    one, many = (BridgePipeline(new_reply(Evidence()), None) for _ in range(2))
    expected = [frame for value in values for frame in one.feed(chat_sse([value], done=False))]
    assert many.feed(chat_sse(values, done=False)) + many.close() == expected + one.close()


@pytest.mark.parametrize("blank", [b"\n\n\n", b"\n\n\n\n", b"\n\n\n\n\n"])
def test_an_event_may_end_with_several_blank_lines(blank: bytes) -> None:
    stream = (LEAK / "upstream.sse").read_bytes()
    one, many = (BridgePipeline(new_reply(Evidence()), stage(LEAK)) for _ in range(2))
    expected = one.feed(stream) + one.close()
    assert many.feed(stream.replace(b"\n\n", blank)) + many.close() == expected


@pytest.mark.parametrize("nth", [1, 2, 5, 9])
def test_after_a_fault_there_is_one_end(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    repair, reply = stage(LEAK), new_reply(Evidence())
    feed, calls = repair.feed, 0

    def faulty(frame: Frame, *, asked: bool = False) -> list[Frame]:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise ValueError("a fault")
        return feed(frame, asked=asked)

    monkeypatch.setattr(repair, "feed", faulty)
    pipeline = BridgePipeline(reply, repair)
    frames = pipeline.reply.open()
    with pytest.raises(ValueError, match="a fault"):
        pipeline.feed((LEAK / "upstream.sse").read_bytes())
    frames += pipeline.fail("A fault.")
    assert check(frames, OPENAI).response["status"] == "failed"
    assert pipeline.feed(b"data: [DONE]\n\n") + pipeline.close() == []


@pytest.mark.parametrize("shape", DEFECTS)
def test_a_native_call_that_carries_a_leak_is_one_item(shape: str) -> None:
    reply = new_reply(Evidence())
    repair = ChatStreamRepair(DECLARED, Policy(), Evidence(), NOW)
    feed_body(reply, native_stream(DEFECTS[shape]), repair)
    items = [(item["name"], json.loads(item["arguments"])) for item in reply.response["output"]]
    assert items == meant(shape)


def test_an_upstream_that_breaks_off_fails_the_turn() -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), None)
    frames = pipeline.reply.open()
    frames += pipeline.feed(b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\n')
    frames += pipeline.give_up("gone")
    response = check(frames, OPENAI).response
    assert response["status"] == "failed"
    assert "gone" in json.dumps(response["error"])


def test_a_document_is_handed_out_to_be_read() -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), None, max_document=100)
    pipeline.reply.open()
    assert pipeline.feed(b'{"choices"') + pipeline.feed(b": []}") + pipeline.close() == []
    assert pipeline.document == b'{"choices": []}'


def test_a_document_that_is_too_large_fails_the_turn() -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), None, max_document=10)
    frames = pipeline.reply.open() + pipeline.feed(b'{"choices": []}')
    assert check(frames, OPENAI).response["status"] == "failed"


@every_document
@pytest.mark.parametrize("model", MODELS)
def test_a_document_that_a_model_tells_is_one_message(document: Path, model: str) -> None:
    text, tools = document.read_text(), DeclaredTools.of_request(REQUEST | {"model": model})
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    deltas = [chunk({"content": piece}, model=model) for piece in cuts(text, "tokens")]
    streamed = sse([*deltas, chunk({}, "stop", model=model)])
    for told in (streamed, json.dumps({"model": model, "choices": [choice]}).encode()):
        reply = new_reply(Evidence())
        feed_body(reply, told, ChatStreamRepair(tools, Policy(), Evidence(), NOW))
        (item,) = reply.response["output"]
        assert (item["type"], item["content"][0]["text"]) == ("message", text)
