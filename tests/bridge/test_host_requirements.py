"""What a model family needs of a request."""

from __future__ import annotations

import pytest

from dragoman.bridge.host_requirements import family_of

from .converting import with_fields

K2 = "accounts/fireworks/models/kimi-k2p6-turbo"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("kimi-k2.5", "max_tokens"),
        ("gpt-5.4", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
    ],
)
def test_the_token_limit_has_the_name_the_family_knows(model: str, name: str) -> None:
    assert with_fields(model, max_output_tokens=7).chat[name] == 7


@pytest.mark.parametrize("model", [K2, "kimi-k3", "kimi-for-coding"])
def test_kimi_models_of_fixed_sampling_get_no_sampling_parameters(model: str) -> None:
    made = with_fields(
        model, temperature=0.7, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.2
    )
    assert set(made.chat) == {"model", "messages"}
    assert len([note for note in made.notes if note.startswith("dropped field")]) == 4


def test_other_kimi_models_keep_sampling_parameters() -> None:
    assert with_fields("kimi-k2-0905-preview", temperature=0.6).chat["temperature"] == 0.6


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("kimi-k2-0905-preview", "kimi-k2"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("kimi-k2-turbo-preview", "kimi-k2"),
        ("moonshot-v1-128k", "kimi-k2"),
        ("kimi-k2-thinking-turbo", "kimi-k2-thinking"),
        ("moonshot.kimi-k2-thinking", "kimi-k2-thinking"),
        ("k2-thinking", "kimi-k2-thinking"),
        ("kimi-k2.5", "kimi-k2.5"),
        ("moonshotai/Kimi-K2.5-TEE", "kimi-k2.5"),
        ("moonshotai/kimi-k2.6:nitro", "kimi-k2.5"),
        ("k2.6", "kimi-k2.5"),
        (K2, "kimi-k2.5"),
        ("kimi-k2.7-code", "kimi-k2.7"),
        ("accounts/fireworks/models/kimi-k3", "kimi-k3"),
        ("moonshotai/K3", "kimi-k3"),
        ("kimi-for-coding", "kimi"),
        ("kimi-latest", "kimi"),
        ("LLM360/K2-Think", "other"),
        ("deepseek-chat", "deepseek"),
        ("deepseek/deepseek-v4-flash", "deepseek"),
        ("accounts/fireworks/models/deepseek-v3p2", "deepseek"),
        ("deepseek-ai/DeepSeek-R1", "other"),
        ("deepseek-v3-0324", "other"),
        ("DeepSeek-R1-Distill-Qwen-32B", "qwen"),
        ("openai/gpt-oss-120b", "gpt-oss"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax"),
        ("z-ai/glm-5.2:free", "glm"),
        ("qwen3.6:27b", "qwen"),
        ("Qwen/QwQ-32B", "qwen"),
        ("gpt-5.4-mini", "openai"),
    ],
)
def test_a_model_name_has_its_family(model: str, family: str) -> None:
    assert family_of(model).name == family
