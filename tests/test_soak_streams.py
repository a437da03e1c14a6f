"""The streams of the soak test, alone and without a proxy: whole, and broken off anywhere."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.responses.dialects import DIALECTS
from tests.bridge.replying import NOW, new_reply
from tests.soak.check import compare_bridged, compare_repaired, lost
from tests.soak.plan import Plan, plan_of

BREAKS = 10
"""Places at which each stream breaks off."""


def repair_of(plan: Plan) -> ChatRepair:
    """Both jobs' streams are chat completions."""
    asked = json.loads(replace(plan, job="repair").request)
    return ChatRepair(DeclaredTools.of_request(asked), RepairOptions(), Evidence(), int(NOW))


def repaired(plan: Plan, data: bytes, *, dies: bool) -> str:
    pipeline = RepairPipeline(repair_of(plan), Evidence(), reports_end=True)
    body = pipeline.feed(data)
    body += pipeline.break_off("gone") if dies else pipeline.close()
    return compare_repaired(plan, body, whole=not dies, died=dies) or what_is_lost(plan, data, body)


def bridged(plan: Plan, data: bytes, *, dies: bool) -> str:
    reply = new_reply(Evidence(), dialect=DIALECTS[plan.dialect])
    pipeline = BridgePipeline(reply, repair_of(plan))
    frames = pipeline.reply.open() + pipeline.feed(data)
    frames += pipeline.give_up("gone") if dies else pipeline.close()
    body = b"".join(frame.raw for frame in frames)
    return compare_bridged(plan, body, whole=not dies, died=dies) or what_is_lost(plan, data, body)


def what_is_lost(plan: Plan, data: bytes, body: bytes) -> str:
    """Whole events of the data whose text the client did not get."""
    ends = list(itertools.accumulate(map(len, plan.frames)))
    sent = {at for at, end in enumerate(ends) if end <= len(data)}
    return "".join(f"event {at} is lost; " for at in lost(plan, body, sent))


@pytest.mark.parametrize("seed", range(1000, 1012))
@pytest.mark.parametrize("job", ["repair", "bridge"])
def test_a_stream_that_breaks_off_gives_the_beginning_of_what_was_meant(
    job: str, seed: int
) -> None:
    run = bridged if job == "bridge" else repaired
    rng = random.Random(seed)
    plan = plan_of(f"{seed}-1-{job}-{rng.randint(8, 40)}")
    assert run(plan, plan.body, dies=False) == ""
    for at in rng.choices(range(1, len(plan.frames) - 3), k=BREAKS):
        data = b"".join(plan.frames[:at])
        assert run(plan, data, dies=True) == "", at
        torn = data + plan.frames[at][: rng.randrange(len(plan.frames[at]))]
        assert run(plan, torn, dies=True) == "", at
