"""Overflows in the words of hosts, and in those that every Messages client knows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dragoman.wire.context_overflow import (
    overflow_in,
    reworded_body,
    reworded_frame,
    with_overflow_reworded,
)
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame

from .overflows import KNOWN as KNOWN_HOSTS
from .overflows import OVERFLOWS

# What a host says, and the tokens and the limit that it names.
SAID: list[tuple[str, int | None, int | None]] = [
    ("Your request exceeded model token limit: 262144 (requested: 291810)", 291810, 262144),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130212 tokens. Please reduce the length of the messages.",
        130212,
        128000,
    ),
    (
        "This model's maximum context length is 40960 tokens. However, you requested 41216 tokens "
        "(40960 in the messages, 256 in the completion).",
        41216,
        40960,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context "
        "length is 40960 tokens and your request has 12000 input tokens (32000 > 40960 - 12000).",
        44000,
        40960,
    ),
    (
        "This endpoint's maximum context length is 131,072 tokens. However, you requested about "
        "140,000 tokens (108,000 of text input, 32,000 in the output).",
        140000,
        131072,
    ),
    (
        "You passed 120000 input tokens and requested 32000 output tokens. However, the model's "
        "context length is only 131072 tokens, resulting in a maximum input length of 99072 "
        "tokens. (parameter=input_tokens, value=120000)",
        152000,
        131072,
    ),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 7000 "
        "`inputs` tokens and 2000 `max_new_tokens`",
        9000,
        8193,
    ),
    (
        "The input (131100 tokens) is longer than the model's context length (131072 tokens).",
        131100,
        131072,
    ),
    (
        "The decoder prompt (length 131100) is longer than the maximum model length of 131072. "
        "Make sure that `max_model_len` is no smaller than the number of text tokens.",
        131100,
        131072,
    ),
    ("request (131100 tokens) exceeds the available context size (32768 tokens)", 131100, 32768),
    (
        "Prompt contains 131100 tokens and 0 draft tokens, too large for model with 131072 maximum "
        "context length",
        131100,
        131072,
    ),
    ("The prompt is too long: 131100, model maximum context length: 131072", 131100, 131072),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        1200000,
        1048576,
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        537812,
        131072,
    ),
    ("Prompt too long: 40001 tokens exceeds max context window of 32768 tokens", 40001, 32768),
    (
        "max_total_tokens (140000) must be less than or equal to max_seq_len (131072)",
        140000,
        131072,
    ),
    ("prompt token count of 140000 exceeds the limit of 128000", 140000, 128000),
    ("Current length is 140000 while limit is 131072", 140000, 131072),
    ("Input length 131100 exceeds maximum allowed token size 131072", 131100, 131072),
    ("You requested 140000 tokens but model only supports up to 131072", 140000, 131072),
    (
        "input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "300000 tokens.",
        300000,
        272000,
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 37139>= n_ctx: 4096). Try to load the model with a larger context length",
        37139,
        4096,
    ),
    (
        "The number of tokens to keep from the initial prompt is greater than the context length. "
        "Try to load the model with a larger context length",
        None,
        None,
    ),
    ("Range of input length should be [1, 258048]", None, 258048),
    ("ContextWindowExceededError: maximum context length is 128000 tokens", None, 128000),
    ("Prompt exceeds max length", None, None),
    ("invalid params, context window exceeds limit (2013)", None, None),
    ("the request exceeds the available context size. try increasing the context", None, None),
    ("Please reduce the length of the messages or completion.", None, None),
    ("Input is too long for requested model.", None, None),
    ("input length exceeds the context length", None, None),
    ("prompt too long; exceeded max context length by 1205 tokens", None, None),
    ("Prompt too long: 40001 tokens exceeds max context window", None, None),
    ("Input token length too long", None, None),
    ("Tokens in request more than max tokens allowed", None, None),
    ("the conversation has reached the maximum context limit", None, None),
    ("Context exceeds your deployment", None, None),
    (
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length "
        "10485760, but got a string with length 11000000 instead.",
        None,
        None,
    ),
    ("Expected a string with maximum length 10485760, but got one of 11000000", None, None),
    ("k3-256k supports only 256K context", None, None),
]
OTHERS = (
    "max_tokens must be at most 8192",
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "tool name too long: maximum length 64",
    "Expected a string with maximum length 1024, but got one of 1100",
    "messages.3: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "Request exceeds the maximum size",
    "Rate limit reached: tokens per min (TPM): Limit 30000, Used 29000. Reduce the length.",
)
KNOWN = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input",
)


def error(message: str, **more: Any) -> dict[str, Any]:
    inner = {"type": "invalid_request_error", "message": message, **more}
    return {"type": "error", "error": inner, "request_id": "req_1"}


def message_of(value: Any) -> str:
    return str(value["error"]["message"])


@pytest.mark.parametrize("status", [0, 400, 401, 413, 422, 500, 502])
@pytest.mark.parametrize(("said", "tokens", "limit"), SAID)
def test_an_overflow_has_the_numbers_of_the_host(
    said: str, tokens: int | None, limit: int | None, status: int
) -> None:
    overflow = overflow_in(error(said), status)
    assert overflow is not None
    assert (overflow.message, overflow.tokens, overflow.limit) == (said, tokens, limit)
    # By these Claude Code knows how much is too much.
    found = re.match(r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)", overflow.sentence)
    assert (found and (int(found[1]), int(found[2]))) == (
        None if tokens is None else (tokens, limit)
    )
    assert overflow.sentence.startswith("prompt is too long")
    assert overflow.sentence.endswith(f"({said})")
    new = with_overflow_reworded(error(said, param="x"), status)
    assert new == error(overflow.sentence, param="x")


@pytest.mark.parametrize("host", OVERFLOWS)
def test_each_host_is_understood_and_all_else_that_it_says_stays(host: str) -> None:
    status, value = OVERFLOWS[host]
    body = json.dumps(value).encode()
    sent = reworded_body(body, status)
    if host in KNOWN_HOSTS:
        assert sent == body
        return
    overflow = overflow_in(value, status)
    assert overflow is not None and overflow.message in json.dumps(value)
    assert overflow.sentence.endswith(f"({overflow.message})")
    assert sent == dumps(value).replace(dumps(overflow.message), dumps(overflow.sentence))
    event = b"event: error\ndata: " + body + b"\n\n"
    if status != 413:
        assert json.loads(reworded_frame(Frame(event)).data) == json.loads(sent)


@pytest.mark.parametrize("said", [*OTHERS, *KNOWN])
def test_all_else_is_the_very_object(said: str) -> None:
    value = error(said)
    assert with_overflow_reworded(value, 400) is value
    assert with_overflow_reworded(value) is value


def test_a_prompt_that_a_minute_has_no_room_for_is_one_with_413_alone() -> None:
    said = "Request too large for m on tokens per minute (TPM): Limit 6000, Requested 7271, please"
    value = error(said, type="tokens", code="rate_limit_exceeded")
    assert with_overflow_reworded(value, 429) is value
    sentence = message_of(with_overflow_reworded(value, 413))
    assert sentence == f"prompt is too long: 7271 tokens > 6000 maximum ({said})"


def test_fields_of_llama_cpp_have_the_numbers() -> None:
    said = "the request exceeds the available context size"
    value = error(said, type="exceed_context_size_error", n_prompt_tokens=9000, n_ctx=8192)
    new = message_of(with_overflow_reworded(value, 400))
    assert new == f"prompt is too long: 9000 tokens > 8192 maximum ({said})"


LONG = "input length exceeds the context length"
SENTENCE = f"prompt is too long ({LONG})"


@pytest.mark.parametrize(
    ("value", "new"),
    [
        ({"error": LONG}, {"error": SENTENCE}),
        ({"detail": LONG}, {"detail": SENTENCE}),
        (
            {"object": "error", "message": LONG, "code": 400},
            {"object": "error", "message": SENTENCE, "code": 400},
        ),
        ([error(LONG)], [error(SENTENCE)]),
        ({"errors": [{"message": LONG}, 1]}, {"errors": [{"message": SENTENCE}, 1]}),
        (LONG, SENTENCE),
        ([LONG], [SENTENCE]),
        ({"message": "no such tool"}, None),
        ([], None),
        (None, None),
        (7, None),
    ],
)
def test_an_error_of_any_shape_keeps_it(value: Any, new: Any) -> None:
    body = json.dumps(value).encode()
    sent = reworded_body(body, 400)
    if new is None:
        assert sent == body
    else:
        assert json.loads(sent) == new


def test_a_body_that_is_no_json() -> None:
    assert reworded_body(LONG.encode(), 500) == SENTENCE.encode()
    page = f"<html>{LONG}</html>".encode()
    assert reworded_body(page, 400) == page
    events = b'event: error\ndata: {"error": {"message": "%b"}}\n\n: end\n\n' % LONG.encode()
    assert reworded_body(events, 400) == events.replace(LONG.encode(), SENTENCE.encode()).replace(
        b'": ', b'":'
    )


def test_an_event_of_a_stream() -> None:
    line = f"data: {json.dumps(error(LONG))}\n\n".encode()
    for raw in (line, b"event: error\n" + line):
        frame = reworded_frame(Frame(raw))
        assert frame.raw.startswith(b"event: error\ndata: ")
        assert frame.json == error(SENTENCE)
    text = {"type": "content_block_delta", "delta": {"text": f'"error": {LONG}'}}
    for raw in (b": x\n\n", b"data: \n\n", b'data: {"error"\n\n', b'data: {"error": null}\n\n'):
        frame = Frame(raw)
        assert reworded_frame(frame) is frame
    frame = Frame(f"data: {json.dumps(text)}\n\n".encode())
    assert reworded_frame(frame) is frame
