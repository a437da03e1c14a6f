"""Known refusals are known by the texts with which hosts answer."""

from __future__ import annotations

import pytest

from dragoman.inspect.refusals import reason_in, refusal_in

TEXTS = [
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index "
    "2",
    "The reasoning_content in the thinking mode must be passed back to the API.",
    "The content[].thinking in the thinking mode must be passed back to the API.",
    "Missing `reasoning_content` field in the assistant message at message index 2.",
    "Invalid assistant message: content or tool_calls must be set",
    "tools.function.parameters is not a valid moonshot flavored json schema, details: <…>",
    "invalid temperature: only 1 is allowed for this model",
    "Invalid request: the message at position 8 with role 'assistant' must not be empty",
    "Invalid request: text content is empty",
    "an assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: Read:158",
    "tool_call_id  is not found",
    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    "Thinking mode does not support this tool_choice",
    "tool_choice 'required' is incompatible with thinking enabled",
    "function name is invalid, must start with a letter and can contain letters, numbers, "
    "underscores, and dashes",
    "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that "
    "matches the pattern '^[a-zA-Z0-9_-]+$'.",
    "System message must be at the beginning.",
    "Unexpected role 'user' after role 'tool'",
    "After the optional system message, conversation roles must alternate user/assistant/user",
    "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - "
    "'messages.0.role'",
    '{"error":{"message":"Provider returned error","metadata":{"raw":"{\\"error\\":{\\"message\\":'
    '\\"invalid temperature: only 1 is allowed for this model\\"}}"}}}',
    "a max of 128 tools can be supported",
    "Kimi For Coding is currently only available for Coding Agents such as Kimi CLI",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_known_refusal_has_an_advice(text: str) -> None:
    assert refusal_in(text)


def test_another_has_none() -> None:
    assert refusal_in("The model `kimi-k2` does not exist.") is None


def test_the_advice_does_not_name_what_is_done_already() -> None:
    refusal = refusal_in("moonshot flavored json schema")
    assert refusal is not None
    assert "dragoman_cure=auto" in refusal.told("off")
    assert "dragoman_cure=auto" not in refusal.told("on") + refusal.told("cured")
    assert "please report" in refusal.told("cured")


@pytest.mark.parametrize(
    ("message", "param", "reason"),
    [
        ("The model `gpt-9` does not exist", "", "model does not exist"),
        ("Invalid value: 'me'. Supported values are: 'a'.", "input[0].role", "input[0].role: "),
        ("Unsupported parameter: 'max_tokens' is not supported", "", "max_tokens: Unsupported"),
        ("`temperature` is deprecated for this model.", "", "temperature: is deprecated for this"),
        ("messages.3.content: text content blocks must be non-empty", "", "messages.3.content"),
        ("Error code: 400 - litellm.BadRequestError: bad image sent", "", "bad image sent"),
        ("Invalid request: tool call ids must be unique, found twice", "", "tool call ids must be"),
        ("'background' needs a store", "", "needs a store"),
        ('Input should be {"a": "secret words"}', "", "Input should be"),
        ("Got: 'some secret words' and more", "sk-123", "Got"),
        ("Value sk-abc123def456 is no key", "", "Value is no key"),
        ("Die Anfrage ist ungültig: »secret« fehlt", "", "Die Anfrage ist ungültig"),
        ("The model “secret” is overloaded", "", "model is overloaded"),
        ("messages 参数非法。请检查文档。", "", "messages 参数非法"),
        ("参数错误：“secret” 不合法", "", "参数错误"),
        ("", "", ""),
    ],
)
def test_the_reason_begins_with_what_matters_and_repeats_no_value(
    message: str, param: str, reason: str
) -> None:
    told = ": ".join(filter(None, reason_in(message, param)))
    assert told.startswith(reason)
    assert "secret" not in told and "sk-" not in told and "me" not in told.split()
