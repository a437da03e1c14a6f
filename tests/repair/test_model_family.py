"""The families of a model, by the names under which hosts and routers serve it."""

from __future__ import annotations

import pytest

from dragoman.repair.model_family import families_of


@pytest.mark.parametrize(
    ("names", "families"),
    [
        (["kimi-k2.5"], "kimi"),
        (["moonshotai/Kimi-K2-Instruct"], "kimi"),
        (["accounts/fireworks/models/kimi-k2p6"], "kimi"),
        (["k2"], "kimi"),
        (["vendor/k3"], "kimi"),
        (["k2-thinking"], "kimi"),
        (["LLM360/K2-Think"], ""),
        (["gpt-5.5"], "openai"),
        (["openai/gpt-4o-mini"], "openai"),
        (["chatgpt-4o-latest"], "openai"),
        (["o3-mini"], "openai"),
        (["us.anthropic.claude-sonnet-4-5"], "anthropic"),
        (["google/gemini-3-pro"], "google"),
        (["x-ai/grok-5"], "xai"),
        (["gpt-oss-120b"], "gpt-oss"),
        (["openai/gpt-oss-20b:free"], "gpt-oss"),
        (["GPT_OSS_120B"], "gpt-oss"),
        (["groq/llama-4"], "llama"),
        (["accounts/fireworks/models/deepseek-v4"], "deepseek"),
        (["z-ai/glm-5.2:free"], "glm"),
        (["Qwen/Qwen3-Coder-480B"], "qwen"),
        (["MiniMaxAI/MiniMax-M2"], "minimax"),
        (["mistralai/Devstral-Small"], "mistral"),
        (["NousResearch/Hermes-4-Llama-70B"], "hermes llama"),
        (["DeepSeek-R1-Distill-Qwen-32B"], "deepseek qwen"),
        (["google/gemma-4-31b-it"], "gemma"),
        (["LiquidAI/LFM2.5-8B"], "lfm"),
        (["nvidia/llama-3.3-nemotron-super-49b"], "llama nemotron"),
        (["doubao-seed-2.0-pro"], "seed"),
        (["microsoft/phi-4-mini"], "granite"),
        (["cohere/command-a"], "open"),
        (["my-model"], ""),
        (["auto"], ""),
        ([""], ""),
        (["gpt-5.5", "moonshotai/kimi-k2.5"], "kimi openai"),
        (["auto", "deepseek-v4"], "deepseek"),
    ],
)
def test_the_families_of_a_model(names: list[str], families: str) -> None:
    assert families_of(*names) == set(families.split())
