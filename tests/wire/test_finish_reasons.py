"""What a finish reason means is one thing to repair and to the bridge."""

from __future__ import annotations

import pytest

from dragoman.wire.finish_reasons import is_whole
from tests.bridge.replying import run
from tests.repair.streams import chunk


@pytest.mark.parametrize(
    ("finish", "whole", "event"),
    [
        *((finish, True, "response.completed") for finish in ("stop", "eos", "end_turn", "later")),
        *((finish, False, "response.incomplete") for finish in ("length", "max_tokens")),
        *((finish, False, "response.incomplete") for finish in ("content_filter", "sensitive")),
        *((finish, False, "response.failed") for finish in ("error", "abort", "network_error")),
    ],
)
def test_repair_and_the_bridge_agree_on_what_a_finish_reason_means(
    finish: str, whole: bool, event: str
) -> None:
    assert is_whole(finish) is whole
    assert run([chunk({"content": "x"}), chunk({}, finish)]).types[-1] == event
    assert is_whole(None) and is_whole(["length"])
