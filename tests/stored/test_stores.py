"""What every store promises, of each back-end."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from dragoman.stored.store import Store, StoreError
from tests.stored.backends import MB, Backend

OWNER, OTHER = "a" * 64, "b" * 64
DAY = 86400.0
HOSTILE_IDS = ["", "resp_\ud800", "a:b", "a\0b", "a\r\nb", "%s';--", "ü" * 5000, "resp_*"]


@pytest.fixture
def store(backend: Backend) -> Store:
    return backend.open()


def test_what_is_put_is_got_in_the_order_asked_for(backend: Backend, store: Store) -> None:
    for number in range(5):
        store.put(OWNER, f"resp_{number}", bytes([number]) * number, backend.now)
    asked = ["resp_4", "resp_none", "resp_0", "resp_4", "resp_2"]
    found = store.get(OWNER, asked, backend.now)
    assert found == [b"\4" * 4, None, b"", b"\4" * 4, b"\2\2"]
    assert store.get(OWNER, [], backend.now) == []


def test_a_chain_of_five_hundred_is_got_at_once(backend: Backend, store: Store) -> None:
    ids = [f"resp_{number}" for number in range(500)]
    for name in ids:
        store.put(OWNER, name, name.encode(), backend.now, keeps=ids if name == ids[-1] else ())
    assert store.get(OWNER, ids, backend.now) == [name.encode() for name in ids]
    assert store.get(OTHER, ids, backend.now) == [None] * 500
    backend.advance(31 * DAY)
    assert store.get(OWNER, ids, backend.now) == [None] * 500


def test_a_put_takes_the_place_of_what_was_there(backend: Backend, store: Store) -> None:
    store.put(OWNER, "resp_1", b"old", backend.now)
    store.put(OWNER, "resp_1", b"new", backend.now)
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"new"]


def test_an_owner_sees_only_what_is_its_own(backend: Backend, store: Store) -> None:
    store.put(OWNER, "resp_1", b"mine", backend.now)
    store.put(OTHER, "resp_2", b"theirs", backend.now)
    assert store.get(OTHER, ["resp_1", "resp_2"], backend.now) == [None, b"theirs"]
    assert not store.delete(OTHER, "resp_1")
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"mine"]


def test_the_same_id_of_two_owners_is_two_responses(backend: Backend, store: Store) -> None:
    store.put(OWNER, "resp_1", b"mine", backend.now)
    store.put(OTHER, "resp_1", b"theirs", backend.now)
    assert store.delete(OTHER, "resp_1")
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"mine"]


def test_what_is_deleted_is_gone_and_only_once(backend: Backend, store: Store) -> None:
    store.put(OWNER, "resp_1", b"blob", backend.now)
    assert store.delete(OWNER, "resp_1")
    assert not store.delete(OWNER, "resp_1")
    assert store.get(OWNER, ["resp_1"], backend.now) == [None]


@pytest.mark.parametrize("hostile", HOSTILE_IDS, ids=ascii)
def test_any_id_is_an_id_like_others(backend: Backend, store: Store, hostile: str) -> None:
    assert store.get(OWNER, [hostile], backend.now) == [None]
    store.put(OWNER, hostile, b"blob", backend.now, keeps=[hostile, "resp_\udfff"])
    assert store.get(OWNER, [hostile, hostile + "x"], backend.now) == [b"blob", None]
    assert store.delete(OWNER, hostile)


def test_a_large_blob_comes_back_whole(backend: Backend, store: Store) -> None:
    blob = os.urandom(8 * MB)
    store.put(OWNER, "resp_1", blob, backend.now)
    assert store.get(OWNER, ["resp_1"], backend.now) == [blob]


def test_the_secret_stays(backend: Backend, store: Store) -> None:
    secret = store.secret()
    assert len(secret) == 32
    assert store.secret() == secret
    assert backend.shared == (backend.open().secret() == secret)


def test_another_instance_sees_what_was_put(backend: Backend, store: Store) -> None:
    if not backend.shared:
        pytest.skip("what is in memory is for its process alone")
    other = backend.open()
    store.put(OWNER, "resp_1", b"one", backend.now)
    other.put(OWNER, "resp_2", b"two", backend.now, keeps=["resp_1"])
    assert store.get(OWNER, ["resp_1", "resp_2"], backend.now) == [b"one", b"two"]
    assert other.get(OWNER, ["resp_1", "resp_2"], backend.now) == [b"one", b"two"]


def test_a_response_is_kept_for_its_days_and_not_longer(backend: Backend) -> None:
    store = backend.open(days=30)
    store.put(OWNER, "resp_1", b"blob", backend.now)
    backend.advance(29.9 * DAY)
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"blob"]
    backend.advance(0.2 * DAY)
    assert store.get(OWNER, ["resp_1"], backend.now) == [None]


def test_to_be_gone_on_from_makes_a_response_young_again(backend: Backend) -> None:
    store = backend.open(days=30)
    store.put(OWNER, "resp_1", b"one", backend.now)
    store.put(OWNER, "resp_idle", b"idle", backend.now)
    store.put(OTHER, "resp_1", b"theirs", backend.now)
    backend.advance(20 * DAY)
    store.put(OWNER, "resp_2", b"two", backend.now, keeps=["resp_1", "resp_none"])
    backend.advance(20 * DAY)
    asked = ["resp_1", "resp_2", "resp_idle", "resp_none"]
    assert store.get(OWNER, asked, backend.now) == [b"one", b"two", None, None]
    assert store.get(OTHER, ["resp_1"], backend.now) == [None]


def test_what_is_too_old_is_not_made_young_again(backend: Backend) -> None:
    store = backend.open(days=30)
    store.put(OWNER, "resp_1", b"one", backend.now)
    backend.advance(31 * DAY)
    store.put(OWNER, "resp_2", b"two", backend.now, keeps=["resp_1"])
    assert store.get(OWNER, ["resp_1", "resp_2"], backend.now) == [None, b"two"]


def test_beyond_the_bound_what_was_used_the_longest_ago_goes_first(backend: Backend) -> None:
    if not backend.bounded:
        pytest.skip("Redis has a bound of its own")
    store = backend.open(max_bytes=MB)
    names = [f"resp_{number}" for number in range(40)]
    for number, name in enumerate(names):
        keeps = ["resp_0"] if number else []
        store.put(OWNER, name, os.urandom(50_000), backend.now + number, keeps)
    found = [blob is not None for blob in store.get(OWNER, names, backend.now)]
    assert found[0]
    kept = found[1:].count(True)
    assert found[1:] == [False] * (39 - kept) + [True] * kept
    assert 15 <= kept < 20


def test_what_is_put_again_and_again_counts_once(backend: Backend) -> None:
    store = backend.open(max_bytes=MB)
    store.put(OWNER, "resp_1", b"one", backend.now)
    for _ in range(100):
        store.put(OWNER, "resp_2", os.urandom(50_000), backend.now)
        store.put(OWNER, "resp_3", b"three", backend.now)
        assert store.delete(OWNER, "resp_3")
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"one"]


def test_a_response_that_alone_is_too_large_is_an_error_and_harms_nothing(
    backend: Backend,
) -> None:
    if not backend.bounded:
        pytest.skip("Redis has a bound of its own")
    store = backend.open(max_bytes=100_000)
    store.put(OWNER, "resp_1", b"one", backend.now)
    with pytest.raises(StoreError, match="dragoman_store_max"):
        store.put(OWNER, "resp_1", bytes(100_001), backend.now)
    assert store.get(OWNER, ["resp_1"], backend.now) == [b"one"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 60_000), min_size=1, max_size=60), steps=st.data())
def test_the_last_put_is_always_kept(
    backend: Backend, sizes: list[int], steps: st.DataObject
) -> None:
    """Even if the clock is set back, and whatever its size."""
    backend.clear()
    store = backend.open(max_bytes=60_000)
    for number, size in enumerate(sizes):
        backend.advance(steps.draw(st.sampled_from([-60.0, 0.0, 60.0])))
        store.put(OWNER, f"resp_{number % 50}", bytes(size), backend.now)
        assert store.get(OWNER, [f"resp_{number % 50}"], backend.now) == [bytes(size)]


class Model(RuleBasedStateMachine):
    """A store beside a dict that is to say the same.

    Nothing is ever within a minute of the end of its time, for in Redis that passes.
    """

    backend: Backend
    LIFE = 1000.0
    owners = st.sampled_from([OWNER, OTHER])
    ids = st.sampled_from(["resp_1", "resp_2", "resp_3", "resp_4", "a:b", "resp_\ud800"])

    def __init__(self) -> None:
        super().__init__()
        self.backend.clear()
        self.store = self.backend.open(days=self.LIFE / DAY)
        self.secret = self.store.secret()
        self.kept: dict[tuple[str, str], tuple[float, bytes]] = {}

    def expected(self, owner: str, name: str) -> bytes | None:
        used, blob = self.kept.get((owner, name), (0.0, b""))
        return blob if used > self.backend.now - self.LIFE else None

    @rule(owner=owners, name=ids, blob=st.binary(max_size=9000), keeps=st.lists(ids, max_size=6))
    def put(self, owner: str, name: str, blob: bytes, keeps: list[str]) -> None:
        self.store.put(owner, name, blob, self.backend.now, keeps)
        for kept in keeps:
            if (earlier := self.expected(owner, kept)) is not None:
                self.kept[owner, kept] = self.backend.now, earlier
        self.kept[owner, name] = self.backend.now, blob

    @rule(owner=owners, name=ids)
    def delete(self, owner: str, name: str) -> None:
        deleted = self.store.delete(owner, name)
        # One that is too old may be there still, or not.
        if self.expected(owner, name) is not None or (owner, name) not in self.kept:
            assert deleted == ((owner, name) in self.kept)
        self.kept.pop((owner, name), None)

    @rule(steps=st.integers(1, 4))
    def time_passes(self, steps: int) -> None:
        self.backend.advance(steps * 300)

    @rule()
    def reopen(self) -> None:
        if self.backend.shared:
            self.store.close()
            self.store = self.backend.open(days=self.LIFE / DAY)
            assert self.store.secret() == self.secret

    @rule(owner=owners, names=st.lists(ids, max_size=8))
    def get(self, owner: str, names: list[str]) -> None:
        expected = [self.expected(owner, name) for name in names]
        assert self.store.get(owner, names, self.backend.now) == expected

    @invariant()
    def all_is_as_in_the_model(self) -> None:
        names = ["resp_1", "resp_2", "resp_3", "resp_4", "a:b", "resp_\ud800"]
        for owner in (OWNER, OTHER):
            self.get(owner, names)


def test_a_store_does_what_a_dict_would(backend: Backend) -> None:
    machine: Any = type("OfBackend", (Model,), {"backend": backend})
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=25))


# A bound that owners share


def filled(store: Store, owner: str, count: int, backend: Backend, size: int = 50_000) -> list[str]:
    names = [f"resp_{owner[:1]}_{number}" for number in range(count)]
    for name in names:
        backend.now += 1
        store.put(owner, name, os.urandom(size), backend.now)
    return names


def count_of(store: Store, owner: str, names: list[str], backend: Backend) -> int:
    return sum(blob is not None for blob in store.get(owner, names, backend.now))


def test_who_fills_the_store_pushes_out_what_is_their_own(backend: Backend) -> None:
    if not backend.bounded:
        pytest.skip("Redis has a bound of its own")
    store = backend.open(max_bytes=MB)
    few = [filled(store, letter * 64, 2, backend) for letter in "bcd"]
    many = filled(store, OWNER, 100, backend)
    for letter, names in zip("bcd", few, strict=True):
        assert count_of(store, letter * 64, names, backend) == 2
    assert 8 <= count_of(store, OWNER, many, backend) < 15
    assert store.get(OWNER, many[-1:], backend.now) != [None]


def test_who_comes_to_a_full_store_gets_a_share_of_it(backend: Backend) -> None:
    if not backend.bounded:
        pytest.skip("Redis has a bound of its own")
    store = backend.open(max_bytes=MB)
    many = filled(store, OWNER, 40, backend)
    others = filled(store, OTHER, 40, backend)
    shares = [count_of(store, OWNER, many, backend), count_of(store, OTHER, others, backend)]
    assert all(6 <= share <= 12 for share in shares), shares
    assert count_of(store, OWNER, many[-6:], backend) == 6, "the newest stay"
