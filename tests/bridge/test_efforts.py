"""``reasoning.effort`` in the words of each model family."""

from __future__ import annotations

import pytest

from .converting import Json, converted

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
OFF: Json = {"thinking": {"type": "disabled"}}
LOW_TO_HIGH = ("low", "low", "low", "medium", "high", "high", "high")


def sent(model: str, effort: str, **fields: object) -> Json:
    """What a request says of thinking."""
    body = {"model": model, "input": "x", "reasoning": {"effort": effort}, **fields}
    made = converted(body)
    chat = {name: value for name, value in made.chat.items() if name not in ("model", "messages")}
    changed = chat.get("reasoning_effort", effort) != effort
    assert changed == any(note.startswith("changed reasoning.effort") for note in made.notes)
    return chat


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("kimi-k3", ("low", "low", "low", "high", "high", "max", "max")),
        ("moonshotai/Kimi-K2.5-TEE", (OFF, *LOW_TO_HIGH[1:])),
        ("kimi-k2.6", (OFF, *LOW_TO_HIGH[1:])),
        # These always think.
        ("kimi-k2.7-code", LOW_TO_HIGH),
        ("kimi-k2-thinking", LOW_TO_HIGH),
        ("kimi-for-coding", LOW_TO_HIGH),
        # This never does.
        ("kimi-k2-0905-preview", ({}, *EFFORTS[1:])),
        ("gpt-oss-120b", LOW_TO_HIGH),
        ("gpt-5.4", EFFORTS),
        ("some-model", EFFORTS),
    ],
)
def test_an_effort_becomes_the_nearest_that_the_family_knows(
    model: str, efforts: tuple[str | Json, ...]
) -> None:
    for effort, expected in zip(EFFORTS, efforts, strict=True):
        wanted = {"reasoning_effort": expected} if isinstance(expected, str) else expected
        assert sent(model, effort) == wanted


@pytest.mark.parametrize("model", ["kimi-k3", "kimi-k2.5", "gpt-oss-20b"])
def test_an_effort_that_nobody_knows_is_left_to_the_host(model: str) -> None:
    assert sent(model, "ludicrous") == {"reasoning_effort": "ludicrous"}


def test_what_the_client_itself_says_of_thinking_stands() -> None:
    thinking = {"type": "enabled"}
    assert sent("kimi-k2.6", "none", thinking=thinking) == {"thinking": thinking}
