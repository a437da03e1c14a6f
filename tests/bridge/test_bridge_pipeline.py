"""The stages of a bridged reply, composed: the same however it comes, and always one end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline, answer
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import at_once
from dragoman.responses.dialects import OPENAI
from dragoman.wire.chat_end import EARLY
from dragoman.wire.reply_bounds import MAX_REMEMBERED
from dragoman.wire.sse import LARGE, Frame
from fixtures.regenerate import NOW, chat_fixtures, request
from tests.repair.formats.turns import DECLARED
from tests.repair.streams import chunk, sse
from tests.repair.test_told_back import MODELS, cuts, every_document
from tests.repair.turns import REQUEST
from tests.reply.test_calls import DEFECTS, meant
from tests.reply.test_calls import stream as native_stream

from .grammar import check, check_prefix
from .replying import call, calls, ended, feed_body, new_reply, text
from .replying import chunk as chat_chunk
from .replying import sse as chat_sse

STREAMS = [folder for folder in chat_fixtures() if (folder / "upstream.sse").exists()]
LEAK = next(folder for folder in STREAMS if folder.name == "kimi_specification")


def stage(folder: Path) -> ChatRepair:
    tools = DeclaredTools.of_request(request(folder))
    return ChatRepair(tools, RepairOptions(), Evidence(), NOW)


@pytest.mark.parametrize("folder", STREAMS, ids=lambda folder: folder.name)
def test_a_stream_is_the_same_in_any_pieces_and_whole(folder: Path) -> None:
    stream = (folder / "upstream.sse").read_bytes()
    whole = feed_body(new_reply(Evidence()), stream, stage(folder))
    cut: dict[int, list[Frame]] = {}
    for size in (1, 300, 1_000_000):
        pipeline = BridgePipeline(new_reply(Evidence()), stage(folder))
        frames = pipeline.reply.open()
        for begin in range(0, len(stream), size):
            frames += pipeline.feed(stream[begin : begin + size])
        cut[size] = frames + pipeline.close()
    # A stream without an end breaks off; then what is held of a call is not sent.
    assert cut[1] == cut[300] == cut[1_000_000]
    assert cut[1] == (whole[: len(cut[1])] if pipeline.broken else whole)


@pytest.mark.parametrize("repaired", [True, False])
def test_what_comes_after_the_client_s_end_is_no_fact_of_its_reply(*, repaired: bool) -> None:
    repair = ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), NOW) if repaired else None
    pipeline = BridgePipeline(new_reply(Evidence()), repair)
    pipeline.reply.open()
    failed = {"error": {"message": "Overloaded.", "code": "overloaded"}}
    pipeline.feed(chat_sse([text("Hel"), failed], done=False))
    assert pipeline.reply.writer.ended
    pipeline.read.ended(pipeline.reply.response)
    facts = pipeline.read.client.facts
    assert facts.error_code
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    pipeline.feed(chat_sse([text("lo"), text("!"), chat_chunk({}, "stop", usage=usage)]))
    assert pipeline.read.client.facts == facts


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


def test_after_a_large_event_what_follows_waits_for_the_next_call_and_nothing_is_lost() -> None:
    stream = chat_sse([text("a"), text("b" * LARGE), text("c"), *ended("stop")])
    one = BridgePipeline(new_reply(Evidence()), None)
    steps = [one.feed(stream)]
    while one.waits:
        steps.append(one.feed(b""))
    deltas = [
        [frame.json["delta"][:1] for frame in step if ".delta" in frame.json["type"]]
        for step in steps
    ]
    assert [each for each in deltas if each] == [["a"], ["b"], ["c"]]
    expected = [frame for step in steps for frame in step] + one.close()
    many = BridgePipeline(new_reply(Evidence()), None)
    got = [
        frame for at in range(0, len(stream), 7000) for frame in many.feed(stream[at : at + 7000])
    ]
    assert got + many.close() == expected
    closed = BridgePipeline(new_reply(Evidence()), None)
    assert closed.feed(stream) + closed.close() == expected


def test_what_waits_behind_a_large_event_is_sent_before_a_break() -> None:
    stream = chat_sse([text("a"), text("b" * LARGE), text("c"), text("d")], done=False)
    broken = BridgePipeline(new_reply(Evidence()), None, breaks=False)
    frames = broken.feed(stream) + broken.give_up("the connection was lost")
    said = [frame.json["delta"][:1] for frame in frames if ".delta" in frame.json["type"]]
    assert said == ["a", "b", "c", "d"]
    assert frames[-1].json["type"] == "response.failed"


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

    def faulty(frame: Frame) -> list[Frame]:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise ValueError("a fault")
        return feed(frame)

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
    repair = ChatRepair(DECLARED, RepairOptions(), Evidence(), NOW)
    feed_body(reply, native_stream(DEFECTS[shape]), repair)
    items = [(item["name"], json.loads(item["arguments"])) for item in reply.response["output"]]
    assert items == meant(shape)


LEAKED = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
)


@pytest.mark.parametrize("after", ["", "After.", "\n\nAfter."])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_text_around_a_leaked_call_is_the_same_items_streamed_and_not(
    field: str, after: str
) -> None:
    told = "Before. " + LEAKED + after
    chunks = [chat_chunk({field: told[at : at + 7]}) for at in range(0, len(told), 7)]
    choice = {"index": 0, "message": {"content": None, field: told}, "finish_reason": "stop"}
    items, tools = [], DeclaredTools.of_request(request(LEAK))
    for body in (chat_sse([*chunks, *ended()]), json.dumps({"choices": [choice]}).encode()):
        repair = ChatRepair(tools, RepairOptions().bridged, Evidence(), NOW)
        feed_body(reply := new_reply(Evidence()), body, repair)
        items.append(reply.response["output"])
    assert items[0] == items[1]
    kind = "message" if field == "content" else "reasoning"
    assert [item["type"] for item in items[0]] == [kind, "function_call", *[kind] * bool(after)]


TINY = {
    "line ends": b"\n\n",
    "comments": b":\n\n",
    "markers": b"<\n\n",
    "data": b"data: 1\n\n",
    "chunks": b'data: {"choices":[]}\n\n',
    "chunks with a marker": b'data: {"choices":[{"delta":{"content":"<"}}]}\n\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("tiny", TINY)
def test_very_many_tiny_frames_hide_no_end(tiny: str) -> None:
    frames = TINY[tiny] * 5_000
    body = chat_sse([text("said")], done=False) + frames + chat_sse(ended())
    feed_body(reply := new_reply(Evidence()), body, stage(LEAK))
    (item,) = reply.response["output"]
    assert item["content"][0]["text"] == "said" + "<" * frames.count(b'"<"')
    assert reply.response["status"] == "completed"
    repair = ChatRepair(DeclaredTools.of_request(request(LEAK)), RepairOptions(), Evidence(), NOW)
    assert at_once(RepairPipeline(repair, Evidence()).whole(body)) == body


MARKERS = (
    "<|tool_call_begin|>",
    "<|tool_calls_section_begin|>",
    LEAKED.partition("{")[0],
    "<|tool_call",
)


@pytest.mark.parametrize("marker", MARKERS)
def test_markers_without_end_are_text_or_a_call_and_a_turn_that_ends(marker: str) -> None:
    body = chat_sse([*[text(marker * 1000)] * 5, *ended()])
    pipeline = BridgePipeline(new_reply(Evidence()), stage(LEAK))
    frames = pipeline.reply.open() + pipeline.feed(body) + pipeline.close()
    response = check(frames, OPENAI).response
    assert response["status"] in ("completed", "incomplete")
    assert json.dumps(response["output"]).count(marker) > 4000


HALF = chat_sse([text("Let me"), text(" see. <|tool_")], done=False)
BREAKS = {"gone": "The upstream broke off: gone (connection error)", "": EARLY}
"""What the upstream's connection says, if it breaks, and why the client's reply breaks off then."""


@pytest.mark.parametrize("gone", BREAKS)
def test_a_break_stays_a_break_after_what_was_held(gone: str) -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), stage(LEAK))
    frames = pipeline.reply.open() + pipeline.feed(HALF)
    frames += pipeline.give_up(gone) if gone else pipeline.close()
    assert pipeline.broken == BREAKS[gone]
    story = check_prefix(frames, OPENAI)
    assert story.deltas == {0: "Let me see. "}
    assert not any("done" in event["type"] for event in story.events)


@pytest.mark.parametrize("gone", BREAKS)
def test_text_that_was_held_at_a_break_ends_no_call(gone: str) -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), stage(LEAK))
    called = chat_sse([calls(call(0, "{}", name="echo")), text("and <|tool_")], done=False)
    frames = pipeline.reply.open() + pipeline.feed(called)
    frames += pipeline.give_up(gone) if gone else pipeline.close()
    assert check_prefix(frames, OPENAI).deltas == {0: "{}"}
    assert not any("done" in frame.json["type"] for frame in frames)


@pytest.mark.parametrize("gone", BREAKS)
def test_where_a_reply_cannot_be_broken_off_a_break_fails_the_turn(gone: str) -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), None, breaks=False)
    frames = pipeline.reply.open() + pipeline.feed(HALF)
    frames += pipeline.give_up(gone) if gone else pipeline.close()
    response = check(frames, OPENAI).response
    assert (response["status"], response["error"]["message"]) == ("failed", BREAKS[gone])
    assert not pipeline.broken


@pytest.mark.parametrize("gone", BREAKS)
def test_after_its_finish_reason_a_turn_is_whole(gone: str) -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), stage(LEAK))
    frames = pipeline.reply.open() + pipeline.feed(HALF + chat_sse(ended()[:1], done=False))
    frames += pipeline.give_up(gone) if gone else pipeline.close()
    assert check(frames, OPENAI).response["status"] == "completed"
    assert not pipeline.broken


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("body", [b"", HALF])
def test_a_whole_reply_that_ends_early_is_an_http_error(body: bytes, stream: bool) -> None:
    given = at_once(
        answer(new_reply(Evidence()), body, status=200, stream=stream, repair=stage(LEAK))
    )
    assert (given.status, given.stream) == (502, False)
    assert json.loads(given.body)["error"]["code"] == "server_error"


@pytest.mark.parametrize(("status", "sent"), [(404, 404), (503, 503), (302, 502)])
def test_an_error_keeps_its_status_and_a_redirect_is_not_followed(status: int, sent: int) -> None:
    body = b'{"error":{"message":"no"}}'
    given = at_once(answer(new_reply(Evidence()), body, status=status, stream=True))
    assert (given.status, given.stream) == (sent, False)
    assert json.loads(given.body)["error"]["message"] == "no"


def test_a_document_is_converted_once_it_is_whole() -> None:
    pipeline = BridgePipeline(new_reply(Evidence()), None, max_document=1000)
    frames = pipeline.reply.open()
    body = json.dumps({"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]})
    assert pipeline.feed(body[:20].encode()) + pipeline.feed(body[20:].encode()) == []
    response = check(frames + pipeline.close(), OPENAI).response
    assert response["output"][0]["content"][0]["text"] == "Hi."


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
        feed_body(reply, told, ChatRepair(tools, RepairOptions(), Evidence(), NOW))
        (item,) = reply.response["output"]
        assert (item["type"], item["content"][0]["text"]) == ("message", text)


@pytest.mark.parametrize("leaked", ["whole", "open"])
def test_what_repair_holds_when_it_gives_up_is_a_whole_call_or_text(leaked: str) -> None:
    end = '"}<|tool_call_end|>'
    leak = 'Hi <|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "a'
    elements = [call(0, '{"command": "', name="bash", call_id="n")]
    elements += [call(at, "b", call_id=f"n{at}") for at in range(1, MAX_REMEMBERED)]
    deltas = [text(leak + end) if leaked == "whole" else text(leak), *map(calls, elements)]
    deltas += [calls(call(0, '"}'))] + ([] if leaked == "whole" else [text(end)])
    reply = new_reply(evidence := Evidence())
    repair = ChatRepair(DECLARED, RepairOptions(), evidence, NOW)
    check(feed_body(reply, chat_sse([*deltas, *ended("tool_calls")]), repair), OPENAI)
    assert "gave up repair too many calls" in evidence.lines()
    items = reply.response["output"]
    ran = [each["arguments"] for each in items if each["type"] == "function_call"]
    shown = [each["content"][0]["text"] for each in items if each["type"] == "message"]
    native = f'{{"command": "{"b" * (MAX_REMEMBERED - 1)}"}}'
    if leaked == "whole":
        assert (ran, shown) == (['{"command": "a"}', native], ["Hi "])
    else:
        assert (ran, "".join(shown)) == ([native], leak + end)
