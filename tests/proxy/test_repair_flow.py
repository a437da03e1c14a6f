"""What repair is given of its time."""

from __future__ import annotations

import time

import pytest

from dragoman.proxy.flows import repair_flow


def test_no_two_replies_have_the_same_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of calls are made of it."""
    now = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: now)
    seconds = [repair_flow.new_second() for _ in range(100)]
    assert seconds == list(range(int(now), int(now) + 100))
    monkeypatch.setattr(time, "time", lambda: now + 500)
    assert repair_flow.new_second() == int(now) + 500
