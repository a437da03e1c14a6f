"""The families of a model, by its name: the one place that knows their names.

Names come with vendor prefixes, suffixes and spellings of their own
(``moonshotai/Kimi-K2.5-TEE``, ``accounts/fireworks/models/deepseek-v4``,
``z-ai/glm-5.2:free``); some are of two families (``DeepSeek-R1-Distill-Qwen-32B``).
"""

from __future__ import annotations

import re
from functools import lru_cache

_FAMILIES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "kimi": r"kimi|moonshot|(?:^|[/:])k[23](?:p[0-9])?(?![0-9a-z]|-think(?!ing))",
        "deepseek": r"deepseek",
        "qwen": r"qwen|qwq|qvq",
        "glm": r"glm",
        "minimax": r"minimax|abab",
        "gpt-oss": r"gpt[-_ ]?oss",
        "mistral": r"mi[sx]tral|magistral|devstral|codestral|ministral|pixtral|voxtral",
        "hermes": r"hermes",
        "gemma": r"gemma",
        "lfm": r"(?:^|[/:])lfm",
        "llama": r"llama",
        "nemotron": r"nemotron",
        "granite": r"granite|(?:^|[/:])phi-?[0-9]",
        "seed": r"doubao|seed-",
        "muse": r"(?:^|[/:-])muse(?![a-z])",
        # Those that run only at their vendor's.
        "openai": r"(?<![a-z])(?:chat)?gpt(?![-_ ]?oss)|(?:^|[/:.@])(?:o[1-9](?![0-9a-z])|codex-)",
        "anthropic": r"claude",
        "google": r"gemini",
        "xai": r"(?<![a-z])grok",
        # Others on open hosts.
        "open": (
            r"command-|(?:^|[/:])step-|ernie|longcat|hunyuan|mimo-|internlm|intern-s|(?:^|[/:])yi-"
            r"|falcon|olmo|jamba|(?:^|[/:.])nova-|exaone|(?:^|[/:])solar|(?:^|[/:])ling-|(?:^|[/:])ring-"
        ),
    }.items()
}
VENDORS = frozenset({"openai", "anthropic", "google", "xai"})
"""Families that run only at their vendor's, and have no tokens that leak."""


@lru_cache(maxsize=1024)
def families_of(*names: str) -> frozenset[str]:
    """The families of a model that has all of these names; empty if it is not known."""
    lowered = [name.lower() for name in names]
    return frozenset(
        family
        for family, pattern in _FAMILIES.items()
        if any(pattern.search(name) for name in lowered)
    )
