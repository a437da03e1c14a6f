"""The fuzzers' targets on the fixtures, and on fixtures that hypothesis has damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, WORDS, seeds

SEEDS = {target: [seed for seed in seeds(target) if len(seed) < 4000] for target in TARGETS}
damages = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 30),
        st.binary(max_size=4) | st.sampled_from([word.encode() for word in WORDS]),
    ),
    min_size=1,
    max_size=6,
)


def damaged(seed: bytes, damage: list[tuple[float, int, bytes]]) -> bytes:
    """`seed` with some bytes replaced, at some places."""
    for where, size, other in damage:
        at = int(where * len(seed))
        seed = seed[:at] + other + seed[at + size :]
    return seed


@pytest.mark.parametrize("target", TARGETS)
def test_no_fixture_breaks_a_promise(target: str) -> None:
    assert SEEDS[target]
    for seed in SEEDS[target]:
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
@given(st.data())
def test_no_damaged_fixture_breaks_a_promise(target: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[target]))
    TARGETS[target](damaged(seed, data.draw(damages)))


@pytest.mark.parametrize("target", ["sse", "scanner", "repair", "writer"])
@given(st.binary(min_size=4, max_size=4), st.lists(st.sampled_from(WORDS) | st.text(max_size=4)))
def test_no_soup_breaks_a_promise(target: str, head: bytes, words: list[str]) -> None:
    TARGETS[target](head + "".join(words).encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=200), st.sampled_from(sorted(TARGETS)))
def test_no_bytes_break_a_promise(data: bytes, target: str) -> None:
    TARGETS[target](data)
