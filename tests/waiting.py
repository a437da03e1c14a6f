"""Waiting for what comes about by itself, on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds: for ever, but a test that fails should end."""


def eventually(condition: Callable[[], object], what: object = None) -> None:
    """Return once `condition` is true; fail if it does not become so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.01)
