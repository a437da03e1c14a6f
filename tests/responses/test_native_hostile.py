"""Native Responses replies in which anything is odd: nothing raises, and bytes that are no
event pass."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import stage_for, tools_of, turn_reader
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.responses.host_reader import HostReader
from dragoman.wire.chat_end import is_half
from dragoman.wire.reply_bounds import MAX_HELD_BYTES, MAX_UNREAD
from dragoman.wire.sse import Frame, encode_chunk
from tests.bridge import messages_streams
from tests.bridge.hosts import HOSTS, OPENAI
from tests.bridge.test_reader_writer_pairs import repaired as repaired_whole
from tests.counting import calls_of
from tests.responses.test_repair import SECTION, cut, repaired, stage

pytestmark = pytest.mark.slow

ODD = ("null", "true", "-1", "1", "1e400", "2" + "0" * 70, '""', '"message"', "[]", "[1]", "{}")
KINDS = ('"response.output_text.delta"', '"response.output_item.added"', '"response.completed"')


def paths(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value, and where something stands in it."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in list(members):
        yield value, key
        if isinstance(member, dict | list):
            yield from paths(member)


def mutant(seed: int) -> list[Any]:
    chosen = random.Random(seed)
    leaked = cut(SECTION, chosen.choice([3, 20, 99]))
    said = [
        ("reasoning", ["a ", SECTION[: chosen.randrange(200)]]),
        *(("text", ["One ", *leaked, " z"]), ("call", ["bash", "{}"]), ("text", [SECTION])),
    ]
    events = json.loads(json.dumps(chosen.choice(HOSTS).events(said)))
    for _ in range(chosen.randrange(1, 4)):
        at = chosen.randrange(len(events))
        kind = chosen.choice(["drop", "repeat", "move", *["change"] * 6])
        if kind == "drop":
            del events[at]
        elif kind in ("repeat", "move"):
            event = events[at] if kind == "repeat" else events.pop(at)
            events.insert(chosen.randrange(len(events)), json.loads(json.dumps(event)))
        else:
            holder, key = chosen.choice(list(paths(events[at])) or [(events, at)])
            holder[key] = json.loads(chosen.choice(ODD + KINDS))
    return events


@pytest.mark.parametrize("seeds", [range(150), range(150, 300)], ids=str)
def test_nothing_raises(seeds: range) -> None:
    for seed in seeds:
        events = mutant(seed)
        repaired(b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events))
        for event in events:
            if isinstance(event, dict) and event.get("type") == "response.completed":
                repaired_whole(json.dumps(event.get("response")).encode())


def test_many_items_without_an_index_cost_little_each() -> None:
    host = HostReader()
    added = {"type": "response.output_item.added", "item": {"type": "message"}}

    def calls(count: int) -> int:
        return calls_of(lambda: [list(host.read(added)) for _ in range(count)])

    first = calls(100)
    calls(20_000)
    assert calls(100) <= first


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("leaked_first", [False, True])
def test_an_item_of_an_odd_type_is_copied(kind: str, *, leaked_first: bool) -> None:
    events = HOSTS[0].events([("text", [SECTION]), ("call", ["bash", "{}"])])
    odd = {"id": "odd", "type": json.loads(kind), "more": 1}
    at = -1 if leaked_first else 2
    added = {"type": "response.output_item.added", "item": odd}
    events[at:at] = [added, added | {"type": "response.output_item.done"}]
    for number, event in enumerate(events):
        event["sequence_number"] = number
        event.pop("output_index", None)
    out = repaired(b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events))
    assert b'"call_id":"functions.bash:0"' in out
    assert out.replace(b" ", b"").count(b'"more":1') >= 2


@pytest.mark.parametrize("before", [[], [SECTION]], ids=["first", "after a call"])
@pytest.mark.parametrize(("count", "size"), [(MAX_UNREAD + 1, 1), (8, MAX_HELD_BYTES // 8)])
def test_what_waits_for_half_a_call_is_bounded(before: list[str], count: int, size: int) -> None:
    events = HOSTS[0].events([("text", [*before, "<|tool_call_begin|>functions.ba"])])
    *begun, half = events[: 5 + len(before)]
    evidence = Evidence()
    repair = stage(evidence=evidence)
    for event in [*begun, half, *[{**half, "output_index": 1, "delta": "x" * size}] * count]:
        repair.feed(encode_chunk(event))
    assert "gave up repair too much to hold back" in evidence.lines()


@pytest.mark.parametrize("before", [[], [SECTION]], ids=["clean", "after a call"])
def test_a_reply_that_is_too_long_passes_or_after_a_change_ends_with_an_error(
    before: list[str],
) -> None:
    *begun, half = HOSTS[0].events([("text", [*before, "Well."])])[: 5 + len(before)]
    repair = stage(evidence=(evidence := Evidence()))
    frames = [encode_chunk(event) for event in begun]
    frames += [encode_chunk({**half, "delta": "word " * (MAX_HELD_BYTES // 50)})] * 12
    sent = [repair.feed(frame) for frame in frames]
    assert "gave up repair a reply that is too long" in evidence.lines()
    if before:
        assert sent.pop() == [] and b"too long" in [out for each in sent for out in each][-1].raw
    else:
        assert sent == [[frame] for frame in frames]
    assert repair.close() == []


@pytest.mark.parametrize("api", ["responses", "messages"])
def test_a_clean_early_end_passes_no_half_event(api: str) -> None:
    """At any byte: all events that were whole, or lack only their blank line; then a break."""
    body = OPENAI.stream([("reasoning", ["Hm"]), ("text", ["Hi ", "there."])])
    asked: Any = {"model": "m", "input": "x"}
    if api == "messages":
        body, asked = messages_streams.stream([("text", ["Hi ", "there."])]), {"messages": []}
    near = {end.start() + step for end in re.finditer(b"\n", body) for step in range(-1, 3)}
    for at in sorted(near.union(range(1, len(body), 9)) & set(range(1, len(body)))):
        stage = stage_for(tools_of(asked, api), RepairOptions(), Evidence(), 1)
        pipeline = RepairPipeline(stage, Evidence(), read=turn_reader())
        sent = pipeline.feed(body[:at]) + pipeline.close()
        whole = body[: body.rfind(b"\n\n", 0, at) + 2] if b"\n\n" in body[:at] else b""
        if sent != whole:
            assert sent == body[:at] and not is_half(Frame(sent[len(whole) :]))
        assert bool(pipeline.broken) == (sent != body[:at])
