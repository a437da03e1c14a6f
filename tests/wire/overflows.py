"""How hosts say that a conversation is too long: the status and the body, in the form of each."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def anthropic(message: str, kind: str = "invalid_request_error") -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def vllm(message: str) -> Json:
    return {
        "object": "error",
        "message": message,
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }


_REDUCE = "Please reduce the length of the messages or completion."
OVERFLOWS: dict[str, tuple[int, Json]] = {
    "kimi": (400, anthropic("Your request exceeded model token limit: 262144 (requested: 291810)")),
    "openai": (
        400,
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted "
            "in 130212 tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
    ),
    "glm": (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    "minimax": (400, anthropic("invalid params, context window exceeds limit (2013)")),
    "qwen": (
        400,
        openai(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, "
            "258048]",
            "invalid_parameter_error",
        ),
    ),
    "sglang": (
        400,
        vllm(
            "The input (131100 tokens) is longer than the model's context length (131072 tokens)."
        ),
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (131100 tokens) exceeds the available context size (32768 "
                "tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 131100,
                "n_ctx": 32768,
            }
        },
    ),
    "llama.cpp before": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the "
                "context size or enable context shift",
                "type": "invalid_request_error",
            }
        },
    ),
    "vllm, prompt": (
        400,
        vllm(
            "The decoder prompt (length 131100) is longer than the maximum model length of 131072. "
            "Make sure that `max_model_len` is no smaller than the number of text tokens."
        ),
    ),
    "vllm, answer": (
        400,
        anthropic(
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum "
            "context length is 40960 tokens and your request has 12000 input tokens (32000 > 40960 "
            "- 12000)."
        ),
    ),
    "vllm": (
        400,
        anthropic(
            "You passed 120000 input tokens and requested 32000 output tokens. However, the "
            "model's context length is only 131072 tokens, resulting in a maximum input length of "
            "99072 tokens. Please reduce the length of the input prompt. "
            "(parameter=input_tokens, value=120000)"
        ),
    ),
    "mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 131100 tokens and 0 draft tokens, too large for model with "
            "131072 maximum context length",
            "type": "invalid_request_prompt",
            "param": None,
            "code": "3051",
        },
    ),
    "deepseek": (
        400,
        openai(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 "
            f"tokens (108000 in the messages, 32000 in the completion). {_REDUCE}"
        ),
    ),
    "openrouter": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you "
                "requested about 140000 tokens (108000 of text input, 32000 in the output). Please "
                "reduce the length of either one.",
                "code": 400,
                "metadata": {"provider_name": None},
            }
        },
    ),
    "groq, a minute": (
        413,
        openai(
            "Request too large for model `m` in organization `o` service tier `on_demand` on "
            "tokens per minute (TPM): Limit 6000, Requested 7271, please reduce your message size "
            "and try again.",
            "rate_limit_exceeded",
            "tokens",
        ),
    ),
    "groq": (400, openai(_REDUCE, "context_length_exceeded")),
    "together": (
        422,
        openai(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: "
            "7000 `inputs` tokens and 2000 `max_new_tokens`"
        ),
    ),
    "fireworks": (
        400,
        openai("The prompt is too long: 131100, model maximum context length: 131072"),
    ),
    "bedrock": (400, {"message": "Input is too long for requested model."}),
    "nvidia": (
        400,
        {"detail": "Input length 131100 exceeds maximum allowed token size 131072"},
    ),
    "mimo": (400, openai("the conversation has reached the maximum context limit", "400")),
    "xai": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 "
            "tokens.",
        },
    ),
    "litellm": (
        400,
        openai(
            "litellm.BadRequestError: litellm.ContextWindowExceededError: OpenAIException - This "
            "model's maximum context length is 128000 tokens.",
            "400",
        ),
    ),
    "any 413": (413, anthropic("Request exceeds the maximum size", "request_too_large")),
    "anthropic": (400, anthropic("prompt is too long: 210000 tokens > 200000 maximum")),
    "anthropic, answer": (
        400,
        anthropic(
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease "
            "input length or `max_tokens` and try again"
        ),
    ),
    "ollama": (400, {"error": "input length exceeds the context length"}),
    "ollama's cloud": (
        400,
        anthropic("prompt too long; exceeded max context length by 1205 tokens"),
    ),
    "lm studio": (
        400,
        anthropic(
            "The number of tokens to keep from the initial prompt is greater than the context "
            "length. Try to load the model with a larger context length, or provide a shorter "
            "input"
        ),
    ),
    "omlx": (
        400,
        anthropic("Prompt too long: 40001 tokens exceeds max context window of 32768 tokens"),
    ),
    "siliconflow": (
        400,
        {
            "code": 20015,
            "message": "max_total_tokens (140000) must be less than or equal to max_seq_len "
            "(131072)",
            "data": None,
        },
    ),
    "copilot": (
        400,
        openai(
            "prompt token count of 140000 exceeds the limit of 128000",
            "model_max_prompt_tokens_exceeded",
        ),
    ),
    "cerebras": (
        400,
        openai(
            f"{_REDUCE} Current length is 140000 while limit is 131072",
            "context_length_exceeded",
        ),
    ),
}
KNOWN = ("any 413", "anthropic", "anthropic, answer")
"""These are known to every client as they are."""
