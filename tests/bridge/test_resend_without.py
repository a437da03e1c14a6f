"""What is changed in a chat request that its host refuses, by the words of hosts."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.bridge.cure.resend_without import once_more

from .converting import Json

PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUFB"}}
LINE = "[An image was left out: this model reads no images.]"


def chat(**fields: Any) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def changed(said: str, **fields: Any) -> Json | None:
    """What the request is sent with then, beside its model."""
    made = once_more(chat(**fields), said)
    return None if made is None else {k: v for k, v in made.chat.items() if k != "model"}


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum "
            "context length is 40960 tokens and your request has 12000 input tokens "
            "(32000 > 40960 - 12000). None",
            28960,
        ),
        (
            "This model's maximum context length is 40960 tokens. However, you requested 44000 "
            "tokens (12000 in the messages, 32000 in the completion). Please reduce the length of "
            "the messages or completion.",
            28960,
        ),
        (
            "You passed 12000 input tokens and requested 32000 output tokens. However, the model's "
            "context length is only 40960 tokens, resulting in a maximum input length of 8960",
            28960,
        ),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 40960. Given: 12000 `inputs` tokens and "
            "32000 `max_new_tokens`",
            28960,
        ),
        (
            "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, "
            "whereas you provided 32000.",
            16384,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("Range of max_tokens should be [1, 8192]", 8192),
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` "
            "is less than the `context_window` for this model",
            8192,
        ),
        ("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens", 8192),
    ],
)
def test_an_answer_may_be_as_long_as_the_host_says(said: str, most: int) -> None:
    made = once_more(chat(max_tokens=32000), said)
    assert made is not None
    assert made.chat == chat(max_tokens=most)
    assert made.how == f"with {most} for max_tokens"


@pytest.mark.parametrize(
    "said",
    [
        # the conversation is too long: the client compacts
        "(32000 > 40960 - 40500)",
        "maximum context length is 40960 tokens. However, you requested 82000 tokens (50000 in the "
        "messages, 32000 in the completion).",
        "prompt is too long: 50000 tokens > 40960 maximum",
        "Rate limit reached for tokens: limit 30000, requested 40000",
        "",
    ],
)
def test_a_conversation_that_is_too_long_stays_refused(said: str) -> None:
    assert once_more(chat(max_tokens=32000), said) is None


def test_the_other_name_of_a_limit() -> None:
    said = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    made = once_more(chat(max_tokens=7, stream=True), said)
    assert made is not None
    assert list(made.chat.items())[2:] == [("max_completion_tokens", 7), ("stream", True)]


@pytest.mark.parametrize(
    "said",
    [
        "Failed to deserialize the JSON body into the target type: messages[13]: unknown variant "
        "`image_url`, expected `text` at line 1 column 6290571",
        "this model does not support image input (ref: b8bd630e)",
        "BadRequest: Model do not support image input. Request id: 02178",
        "No endpoints found that support image input is unsupported",
        "m is not a multimodal model",
        "'messages.0' : for 'role:user' the following must be satisfied[('messages.0.content' : "
        "value must be a string)]",
    ],
)
def test_images_are_lines_for_a_model_that_reads_none(said: str) -> None:
    parts = [{"type": "text", "text": "See"}, PICTURE]
    made = once_more({"model": "m", "messages": [{"role": "user", "content": parts}]}, said)
    assert made is not None
    assert made.chat["messages"] == [{"role": "user", "content": f"See\n{LINE}"}]
    assert once_more(chat(), said) is None


CEREBRAS = (
    "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is "
    "unsupported"
)
GROQ = (
    "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
    "'{}' is unsupported)]"
)


@pytest.mark.parametrize(
    ("said", "before", "after"),
    [
        (CEREBRAS, {"reasoning_content": "T"}, {"reasoning": "T"}),
        (GROQ.format("reasoning_content"), {"reasoning_content": "T"}, {"reasoning": "T"}),
        (GROQ.format("reasoning"), {"reasoning": "T"}, {}),
        (
            '[{"type":"extra_forbidden","loc":["body","messages",1,"assistant","reasoning_content"]'
            ',"msg":"Extra inputs are not permitted"}]',
            {"reasoning_content": "T"},
            {"reasoning": "T"},
        ),
    ],
)
def test_thoughts_have_the_name_that_the_host_knows_or_are_left_out(
    said: str, before: Json, after: Json
) -> None:
    told = {"role": "assistant", "content": "x"}
    user = {"role": "user", "content": "hi"}
    made = once_more({"model": "m", "messages": [user, told | before, user]}, said)
    assert made is not None
    assert made.chat["messages"] == [user, told | after, user]


def test_an_image_that_is_too_large_is_for_the_client() -> None:
    message = {"role": "user", "content": [PICTURE]}
    said = "image exceeds 5 MB maximum: not supported"
    assert once_more({"model": "m", "messages": [message]}, said) is None


@pytest.mark.parametrize(
    "said",
    [
        "This response_format type is unavailable now",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
        "This model does not support structured outputs",
    ],
)
def test_a_form_of_the_answer_is_asked_for_in_words(said: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    made = changed(said, response_format=form)
    assert made is not None
    assert list(made) == ["messages"]
    words = 'Answer with JSON alone, of this JSON Schema: {"type":"object"}'
    assert made["messages"][1:] == [{"role": "user", "content": words}]


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("`reasoning_effort` is not supported with this model", ["reasoning_effort"]),
        ("Model grok-4 does not support parameter reasoningEffort.", ["reasoning_effort"]),
        (
            '{"detail":[{"type":"extra_forbidden","loc":["body","reasoning_effort"],"msg":"Extra '
            'inputs are not permitted","input":"high"},{"type":"extra_forbidden","loc":["body",'
            '"top_k"]}]}',
            ["reasoning_effort", "top_k"],
        ),
        ("property 'top_k' is unsupported", ["top_k"]),
        ("Unrecognized request argument supplied: parallel_tool_calls", ["parallel_tool_calls"]),
        ("Extra inputs are not permitted, field: 'thinking'", ["thinking"]),
        ("Unsupported value: 'temperature' does not support 0.2 with this model", ["temperature"]),
    ],
)
def test_a_field_that_is_refused_is_left_out(said: str, fields: list[str]) -> None:
    everything = {
        "max_tokens": 10,
        "reasoning_effort": "high",
        "parallel_tool_calls": False,
        "top_k": 5,
        "thinking": {"type": "disabled"},
        "temperature": 0.2,
    }
    made = changed(said, **everything)
    assert made is not None
    assert {*everything} - {*made} == {*fields}


@pytest.mark.parametrize(
    "said",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
        "Invalid API key",
        "tools.0.function.parameters is not a valid moonshot flavored json schema",
        "The model `m` does not exist",
    ],
)
def test_any_other_refusal_is_the_clients(said: str) -> None:
    made = once_more(chat(max_tokens=10, thinking={"type": "enabled"}, top_k=5), said)
    assert made is None
