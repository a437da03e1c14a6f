"""What events of the Responses API say, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.responses.reader import ResponsesReader
from dragoman.wire.json_codec import Json
from dragoman.wire.sse import Frame, encode_chunk
from tests.reply.words import words


def event(kind: str, **fields: Any) -> Frame:
    return encode_chunk({"type": f"response.{kind}", "output_index": 0, **fields})


def added(**item: Any) -> Frame:
    return event("output_item.added", item=item)


def done(**item: Any) -> Frame:
    return event("output_item.done", item=item)


def ended(kind: str, **fields: Any) -> Frame:
    response = {"object": "response", "id": "resp_1", "model": "kimi", "status": kind, **fields}
    return encode_chunk({"type": f"response.{kind}", "response": response})


CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}
TEXT: Json = {"type": "output_text", "text": "a"}
MESSAGE: Json = {"type": "message", "id": "msg_1", "content": []}


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (
            [
                added(**MESSAGE),
                event("content_part.added", content_index=0, part=TEXT | {"text": ""}),
                event("output_text.delta", content_index=0, delta="a"),
                event("output_text.done", content_index=0, text="a"),
                done(**MESSAGE | {"content": [TEXT]}),
            ],
            [
                *("text 0 begins", "text 0 text ends", "text 1: ", "text 1: a"),
                *("text 0 text ends", "text 0 text ends", "text 0 ends"),
            ],
        ),
        # All of it with its end.
        (
            [done(**MESSAGE | {"content": [TEXT]})],
            ["text 0 begins", "text 1: a", "text 0 text ends", "text 0 ends"],
        ),
        (
            [
                added(**CALL, arguments=""),
                event("function_call_arguments.delta", delta='{"a"'),
                event("function_call_arguments.delta", delta=":1}"),
                event("function_call_arguments.done", arguments='{"a":1}'),
                done(**CALL, arguments='{"a":1}'),
            ],
            ["call 0: c f(", 'call 0: ({"a"', "call 0: (:1}", "call 0 text ends", "call 0 ends"],
        ),
        ([done(**CALL, arguments="{}")], ["call 0: c f(", "call 0: ({}", "call 0 ends"]),
        (
            [done(**CALL, arguments="{", status="incomplete")],
            ["call 0: c f(", "call 0 is cut"],
        ),
        (
            [
                added(type="custom_tool_call", call_id="c", name="f", input=""),
                event("custom_tool_call_input.delta", delta="x"),
                done(type="custom_tool_call", call_id="c", name="f", input="xy"),
            ],
            ["call 0: c f(", "call 0: (x", "call 0: (y", "call 0 ends"],
        ),
        (
            [done(type="web_search_call", id="ws_1", action={"query": "q"})],
            ["other 0 begins web_search", "other 0 ends"],
        ),
        (
            [
                added(**MESSAGE),
                event("output_text.delta", content_index=0, delta="a"),
                event("output_text.annotation.added", annotation={"url": "https://a.example"}),
            ],
            ["text 0 begins", "text 1: a", "cited https://a.example"],
        ),
        ([ended("completed", output=[])], ["0 finishes: stop completed"]),
        (
            [ended("incomplete", incomplete_details={"reason": "max_output_tokens"})],
            ["0 finishes: length incomplete max_output_tokens"],
        ),
        (
            [ended("completed", status="incomplete", required_action={}, output=[])],
            ["0 finishes: tool_calls incomplete"],
        ),
        ([ended("failed", error={"code": "server_error", "message": "no"})], ["failed: no"]),
        ([encode_chunk({"type": "error", "message": "no"})], ["failed: no"]),
        ([encode_chunk({"type": "ping"})], ["other"]),
    ],
)
def test_words(frames: list[Frame], said: list[str]) -> None:
    assert words(ResponsesReader(), *frames) == said


def test_a_whole_response_is_its_last_event() -> None:
    output = [MESSAGE | {"content": [TEXT]}, CALL | {"arguments": "{}"}]
    whole = {"object": "response", "model": "kimi", "status": "completed", "output": output}
    reader = ResponsesReader()
    assert words(reader, encode_chunk(whole)) == [
        *("text 0 begins", "text 1: a", "text 0 text ends", "text 0 ends"),
        *("call 2: c f(", "call 2: ({}", "call 2 ends", "0 finishes: stop completed"),
    ]
    assert reader.model == "kimi"
