"""What is known of a host that has refused something."""

from __future__ import annotations

from dragoman.notes import Evidence
from dragoman.proxy.flows.learned_refusals import LEARNED_FOR, MAX_MODELS, LearnedRefusals, adapted

ONE, OTHER = (b"one", "m"), (b"other", "m")
NO_EFFORT = "`reasoning_effort` is not supported with this model"
NO_TOP_K = "property 'top_k' is unsupported"
LITTLE_LEFT = "(32000 > 40960 - 12000)"


def test_it_holds_for_a_day_and_for_who_asked() -> None:
    known = LearnedRefusals()
    known.learn(ONE, (NO_EFFORT,), 0)
    known.learn(ONE, (NO_TOP_K,), 10)
    assert known.of(ONE, 20) == (NO_EFFORT, NO_TOP_K)
    assert known.of(OTHER, 20) == ()
    assert known.of(ONE, 10 + LEARNED_FOR) == ()


def test_only_the_latest_are_kept() -> None:
    known = LearnedRefusals()
    for number in range(MAX_MODELS + 1):
        known.learn((b"", str(number)), tuple("abcde"), 0)
        known.learn((b"", str(number)), tuple("ef"), 0)
    assert known.of((b"", "0"), 0) == ()
    assert known.of((b"", "1"), 0) == ("b", "c", "d", "e", "f")


def test_a_request_is_adapted_to_what_is_so_of_each() -> None:
    chat = {"messages": [], "reasoning_effort": "high", "top_k": 1, "max_tokens": 32000}
    evidence = Evidence()
    made = adapted(chat, (NO_EFFORT, LITTLE_LEFT, NO_TOP_K), evidence)
    assert made == {"messages": [], "max_tokens": 32000}
    assert evidence.lines() == [
        "sent at once without reasoning_effort",
        "sent at once without top_k",
    ]
