"""What events of the Messages API say, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.messages.reader import MessagesReader
from dragoman.wire.json_codec import Json
from dragoman.wire.sse import Frame, encode_chunk
from tests.reply.words import words


def event(kind: str, **fields: Any) -> Frame:
    return encode_chunk({"type": kind, **fields})


def begin(index: int | None, **block: Any) -> Frame:
    return event("content_block_start", index=index, content_block=block)


def more(index: int, kind: str, **delta: Any) -> Frame:
    return event("content_block_delta", index=index, delta={"type": kind, **delta})


def stop(index: int) -> Frame:
    return event("content_block_stop", index=index)


MESSAGE: Json = {"type": "message", "id": "msg_1", "model": "kimi", "content": []}


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([event("message_start", message=MESSAGE), event("ping")], ["other", "other"]),
        (
            [begin(0, type="text", text=""), more(0, "text_delta", text="a"), stop(0)],
            ["text 0 begins", "text 0: a", "text 0 ends"],
        ),
        ([begin(0, type="text", text="a")], ["text 0 begins", "text 0: a"]),
        (
            [begin(None, type="text", text="a"), begin(None, type="text", text="b")],
            ["text 0 begins", "text 0: a", "text 1 begins", "text 1: b"],
        ),
        (
            [
                begin(0, type="thinking", thinking=""),
                more(0, "thinking_delta", thinking="t"),
                more(0, "signature_delta", signature="s"),
                stop(0),
            ],
            [
                "reasoning 0 begins",
                "reasoning 0: t",
                "reasoning 0 text ends",
                "reasoning 0 ends",
            ],
        ),
        (
            [
                begin(0, type="tool_use", id="c", name="f", input={}),
                more(0, "input_json_delta", partial_json='{"a":'),
                more(0, "input_json_delta", partial_json=""),
                more(0, "input_json_delta", partial_json="1}"),
                stop(0),
            ],
            ["call 0: c f(", 'call 0: ({"a":', "other call 0", "call 0: (1}", "call 0 ends"],
        ),
        ([begin(0, type="tool_use", name="f", input={"a": 1})], ['call 0:  f({"a":1}']),
        (
            [begin(0, type="server_tool_use", name="web_search"), stop(0)],
            ["other 0 begins server_tool_use", "other 0 ends"],
        ),
        # Without the beginning of its block; and of a block that has ended.
        ([more(0, "text_delta", text="a")], ["text 0: a"]),
        ([begin(1, type="tool_use", name="f"), stop(0)], ["call 0:  f("]),
        (
            [event("message_delta", delta={"stop_reason": "tool_use"}), event("message_stop")],
            ["0 finishes: tool_use", "done"],
        ),
        ([event("error", error={"message": "no"})], ["failed: no"]),
    ],
)
def test_words(frames: list[Frame], said: list[str]) -> None:
    assert words(MessagesReader(), *frames) == said


def test_a_whole_message_is_the_events_it_would_have_been() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "tool_use", "name": "f", "input": {"b": 1}}]
    reader = MessagesReader()
    message = MESSAGE | {"content": content, "stop_reason": "tool_use"}
    said = words(reader, encode_chunk(message))
    assert [word for word in said if not word.startswith("other")] == [
        *("text 0 begins", "text 0: a", "text 0 ends"),
        *("call 1:  f(", 'call 1: ({"b":1}', "call 1 ends"),
        *("0 finishes: tool_use", "done"),
    ]
    assert (reader.id, reader.model) == ("msg_1", "kimi")
