"""Heartbeats in a Responses reply of a host that speaks the API itself: events without news."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.wire.heartbeats import HEARTBEAT
from dragoman.wire.sse import encode_chunk, split
from tests.bridge.hosts import HOSTS, OPENAI, Host, Said
from tests.bridge.native_grammar import check_native
from tests.responses.test_repair import CALLED, SECTION, cut, repaired, shown, stage, text

Json = dict[str, Any]
CLEAN: list[Said] = [
    [("reasoning", ["Let me", " see."]), ("text", ["So ", "it is."])],
    [("call", ["bash", '{"command":"ls"}']), ("call", ["bash", "{}"]), ("text", ["Two."])],
]
LEAKING: Said = [("reasoning", ["Now."]), ("text", ["Here.", *cut(SECTION, 9), "So."])]

LAST = len(OPENAI.events(LEAKING)) - 1
"""The number of the last event of a host that adds its parts; others have fewer."""


def beaten(stream: bytes, beats: list[int], evidence: Evidence | None = None) -> bytes:
    """The reply with a heartbeat after each of these frames, twice if it is there twice."""
    pipeline, out = RepairPipeline(stage(evidence=evidence), Evidence()), list[bytes]()
    for number, frame in enumerate(split(stream)):
        out.append(pipeline.feed(frame.raw))
        out += [pipeline.heartbeat() for _ in range(beats.count(number))]
    return b"".join([*out, pipeline.close()])


def events_of(stream: bytes) -> list[Json]:
    return [json.loads(frame.data) for frame in split(stream) if frame.data and not frame.is_done]


def is_heartbeat(event: Json, before: Json | None) -> bool:
    again = event["type"] == "response.in_progress" and before is not None
    return event.get("delta") == "" or (again and before["type"] != "response.created")


def without_heartbeats(events: list[Json]) -> list[Json]:
    pairs = zip(events, [None, *events], strict=False)
    return [
        {name: event[name] for name in event if name != "sequence_number"}
        for event, before in pairs
        if not is_heartbeat(event, before)
    ]


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_clean_reply_differs_in_its_numbers_alone(host: Host) -> None:
    for said in CLEAN:
        stream = host.stream(said)
        came = events_of(stream)
        for at in range(1, len(came) - 1):
            sent = check_native(beaten(stream, [at, at]))
            assert len(sent) == len(came) + 2
            assert sent[: at + 1] == came[: at + 1]
            for number, (event, host_event) in enumerate(
                zip(sent[at + 3 :], came[at + 1 :], strict=True)
            ):
                assert event == {**host_event, "sequence_number": at + 3 + number}


@given(st.sampled_from(HOSTS), st.lists(st.integers(1, LAST - 1), max_size=8))
def test_a_leak_is_repaired_the_same_whenever_heartbeats_come(host: Host, beats: list[int]) -> None:
    evidence = Evidence()
    last = len(host.events(LEAKING)) - 1
    beats = [beat for beat in beats if beat < last]
    sent = check_native(beaten(host.stream(LEAKING), beats, evidence))
    expected = check_native(repaired(host.stream(LEAKING)))
    assert shown(sent[-1]["response"]["output"]) == shown(expected[-1]["response"]["output"])
    assert without_heartbeats(sent) == without_heartbeats(expected)
    assert evidence.calls == {"bash": 1}


def test_while_a_call_is_held_its_text_has_empty_deltas() -> None:
    stream = OPENAI.stream(LEAKING)
    frames = list(split(stream))
    opener = next(n for n, frame in enumerate(frames) if b"<|tool_ca" in frame.raw)
    sent = check_native(beaten(stream, [opener + 1] * 3))
    beats = [event for event in sent if event.get("delta") == ""]
    assert {event["type"] for event in beats} == {"response.output_text.delta"}
    assert len(beats) == 3
    assert shown(sent[-1]["response"]["output"])[1:3] == [text("Here."), CALLED]


def test_between_two_items_a_heartbeat_has_those_that_have_ended() -> None:
    stream = OPENAI.stream(CLEAN[0])
    done = next(n for n, event in enumerate(events_of(stream)) if "item.done" in event["type"])
    event = events_of(beaten(stream, [done]))[done + 1]
    assert event["type"] == "response.in_progress"
    assert shown(event["response"]["output"]) == [text("Let me see.", "reasoning")]


def test_within_a_native_call_after_a_leak_a_heartbeat_is_an_empty_delta_of_it() -> None:
    said: Said = [("text", [SECTION]), ("call", ["other", '{"command":"pwd"}'])]
    stream = OPENAI.stream(said)
    delta = next(n for n, event in enumerate(events_of(stream)) if "arguments.d" in event["type"])
    sent = check_native(beaten(stream, [delta]))
    (beat,) = (event for event in sent if event.get("delta") == "")
    assert beat["type"] == "response.function_call_arguments.delta"


def test_before_the_first_event_and_after_the_last_a_heartbeat_is_a_comment() -> None:
    pipeline = RepairPipeline(stage(), Evidence())
    pipeline.feed(b": hello\n\n")
    assert pipeline.heartbeat() == HEARTBEAT.raw
    pipeline.feed(OPENAI.stream(CLEAN[0]))
    assert pipeline.heartbeat() == HEARTBEAT.raw


def test_a_host_that_does_not_number_its_events_gets_no_numbers() -> None:
    events = [dict(event) for event in OPENAI.events(CLEAN[0])]
    for event in events:
        del event["sequence_number"]
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    sent = events_of(beaten(stream, [3, 9]))
    assert len(sent) == len(events) + 2
    assert not any("sequence_number" in event for event in sent)


def test_heartbeats_do_not_repeat_megabytes_of_tools() -> None:
    tools = [{"type": "function", "name": "bash", "description": "x" * 100_000}]
    host = Host(**{**vars(OPENAI), "of_response": {"tools": tools}})
    for said, at in ((CLEAN[0], 1), (LEAKING, len(host.events(LEAKING)) - 2)):
        sent = events_of(beaten(host.stream(said), [at]))
        beats = [event for event, before in itertools.pairwise([*sent[1:], sent[0]])]
        told = [e["response"]["tools"] for e in beats if e["type"] == "response.in_progress"]
        assert [bool(each) for each in told] == [True, False]


def test_a_reply_that_breaks_off_has_no_gap_after_heartbeats() -> None:
    stream = OPENAI.stream(LEAKING)
    pipeline, out = RepairPipeline(stage(), Evidence()), list[bytes]()
    for frame in list(split(stream))[:14]:
        out += [pipeline.feed(frame.raw), pipeline.heartbeat()]
    sent = events_of(b"".join([*out, pipeline.break_off("gone")]))
    assert [event["sequence_number"] for event in sent if "sequence_number" in event] == [
        *range(len(sent))
    ]


@pytest.mark.parametrize("said", [CLEAN[0], LEAKING])
@pytest.mark.parametrize("kind", ["error", "ping"])
def test_what_is_no_event_of_the_response_has_the_next_number_too(said: Said, kind: str) -> None:
    """Clients read an `error` event, and its number, as any other."""
    events = OPENAI.events(said)[:-1]
    error = {"type": kind, "code": "server_error", "message": "m", "param": None}
    sent = [encode_chunk(event) for event in events]
    sent.append(encode_chunk({**error, "sequence_number": len(events)}))
    out = beaten(b"".join(frame.raw for frame in sent), [2, 5])
    told = events_of(out)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert {**error, "sequence_number": len(told) - 1} == told[-1]
