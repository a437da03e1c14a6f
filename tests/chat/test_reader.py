"""What chunks of Chat Completions say, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.chat.reader import ChatReader
from dragoman.wire.json_codec import Json
from dragoman.wire.sse import DONE, Frame, encode_chunk
from tests.reply.words import words


def chunk(*deltas: Json, finish: str | None = None, **members: Any) -> Frame:
    choices = [
        {"index": at, "delta": delta, "finish_reason": finish} for at, delta in enumerate(deltas)
    ]
    return encode_chunk({"id": "chat_1", "model": "kimi", "choices": choices, **members})


def call(text: str = "", name: str = "", call_id: str = "", index: int | None = 0) -> Json:
    function = {"name": name} if name else {}
    element: Json = {"index": index, "function": function | {"arguments": text}}
    return {"tool_calls": [element | ({"id": call_id} if call_id else {})]}


CITED = ["https://a.example", "https://b.example"]


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([chunk({"role": "assistant", "content": ""})], []),
        ([chunk({"content": "a"}), chunk({"content": "b"})], ["text 0: a", "text 0: b"]),
        (
            [chunk({"reasoning": "t", "content": "a"}), chunk({}, finish="stop"), DONE],
            ["reasoning 0: t", "text 1: a", "0 finishes: stop", "done"],
        ),
        ([chunk({"reasoning": "t", "reasoning_content": "t"})], ["reasoning 0: t"]),
        (
            [chunk({"reasoning": "t", "reasoning_details": [{"text": "u"}]})],
            ["reasoning 0: t", "reasoning 1: u again"],
        ),
        ([chunk({"content": "a"}, {"content": "b"})], ["text 0: a", "text 1: b"]),
        (
            [
                chunk(
                    {
                        "content": [
                            {"type": "text", "text": "a"},
                            {"type": "thinking", "thinking": [{"text": "t"}]},
                            {"type": "image"},
                            {"type": "text", "text": "b"},
                        ]
                    }
                )
            ],
            ["text 0: a", "reasoning 1!: t", "text 0: b", "other CONTENT 1"],
        ),
        ([chunk({"refusal": "no"})], ["refusal 0!: no"]),
        (
            [chunk(call(name="f", call_id="c")), chunk(call('{"a":')), chunk(call("1}"))],
            ["call 0: c f(", 'call 0: ({"a":', "call 0: (1}", "call 0 ends"],
        ),
        (
            [chunk(call("{}", name="f", call_id="c")), chunk(call("{}", name="f", call_id="d"))],
            ["call 0: c f({}", "call 0 ends", "call 1: d f({}", "call 1 ends"],
        ),
        (
            [chunk(call("{}", name="f")), chunk(call(name="f")), chunk(call(name="<|x|>"))],
            ["call 0:  f({}", "call 0 ends", "other HEAD 1", "other TOKEN 1"],
        ),
        ([chunk(call(name="f")), chunk(call("x", call_id="c"))], ["call 0:  f(", "call 0: c f(x"]),
        (
            [chunk({"function_call": {"name": "f", "arguments": "{}"}})],
            ["call 0!:  f({}", "call 0! ends"],
        ),
        ([chunk({"tool_calls": [{}]}), chunk({"new": 1})], ["other CALL 1", "other FIELD 1"]),
        (
            [
                chunk({"content": "a"}, citations=CITED[:1]),
                chunk({"content": "b"}, citations=CITED),
            ],
            ["text 0: a", f"cited {CITED[0]}", "text 0: b", f"cited {CITED[1]}"],
        ),
        ([encode_chunk({"error": {"message": "no"}})], ["failed: no"]),
        ([Frame(b'event: error\ndata: {"message": "no"}\n\n')], ["failed: no"]),
        ([encode_chunk({"choices": [1]})], ["other CHOICE 1"]),
        ([Frame(b": waits\n\n"), Frame(b"data: {\n\n")], ["other", "other"]),
    ],
)
def test_words(frames: list[Frame], said: list[str]) -> None:
    assert words(ChatReader(), *frames) == said


def test_log_probabilities_are_those_of_the_text_of_their_chunk() -> None:
    choice = {
        "delta": {"reasoning": "t", "content": "a"},
        "logprobs": {"content": [{"token": "a"}]},
    }
    thoughts = words(ChatReader(), encode_chunk({"choices": [choice]}))
    assert thoughts == ["reasoning 0: t", "text 1: a"]
    choice["delta"] = {"content": "a"}
    assert words(ChatReader(), encode_chunk({"choices": [choice]})) == ["text 0: a +"]
    choice["delta"] = {}
    assert words(ChatReader(), encode_chunk({"choices": [choice]})) == ["text 0:  +"]


def test_a_whole_reply_is_a_chunk_of_messages() -> None:
    message = {"content": "a", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    reply = encode_chunk({"choices": [{"message": message}]})
    assert words(ChatReader(), reply) == ["text 0: a", "call 1: c f(", "0 finishes: None"]


def test_a_frame_like_the_one_before_is_not_parsed() -> None:
    reader = ChatReader()
    for text in "ab":
        said = reader.more(chunk({"content": text}, usage={"prompt_tokens": 1}))
        assert said is not None
        assert said[1] == text
        assert reader.counted is not None
    assert reader.value["choices"][0]["delta"] == {"content": "a"}
    assert (reader.id, reader.model) == ("chat_1", "kimi")
