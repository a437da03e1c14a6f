"""Replay: what has not changed is told to be unchanged, and what has is shown."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.model_families import family_of
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.responses.dialects import DIALECTS
from dragoman.inspect.exchange import Exchange
from dragoman.inspect.fixture import IncompleteError
from dragoman.inspect.replay import MAX_LINES, compare, replay
from dragoman.notes import Evidence
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.pending import Policy
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import FrameSplitter
from fixtures.regenerate import chat_fixtures, upstream
from fixtures.server import FOLDER
from tests.bridge.converting import convert, cured
from tests.bridge.replying import feed

FIXTURES = chat_fixtures()


def repaired(folder: Path) -> Exchange:
    """The flow that a repair fixture is a record of."""
    file = upstream(folder)
    assert file is not None
    request = (folder / "request.json").read_bytes()
    got = (folder / f"chat{file.suffix}").read_bytes()
    return Exchange("repair", request, request, file.read_bytes(), got)


def bridged(request: Path, answer: Path, dialect: str = "openai", **more: Any) -> Exchange:
    """A bridged flow as it runs in the proxy, with ids and times of its own."""
    body = json.loads((request / "request.json").read_bytes()) | {"stream": True, **more}
    conversion = convert(body, unsupported="drop", evidence=Evidence())
    reply = ReplyConverter(
        conversion.turn,
        DIALECTS[dialect],
        Evidence(),
        response_id=f"resp_{uuid.uuid4().hex}",
        created_at=int(time.time()),
        clock=time.time,
    )
    repair = ChatStreamRepair(
        DeclaredTools.of_request(conversion.chat), Policy(), Evidence(), int(time.time())
    )
    sent = (answer / "upstream.sse").read_bytes()
    splitter = FrameSplitter()
    frames = [f for frame in splitter.feed(sent) + splitter.close() for f in repair.feed(frame)]
    out = [done for frame in frames + repair.close() for done in feed(reply, frame)]
    got = b"".join(frame.raw for frame in out + reply.close())
    options = {"dragoman_dialect": dialect, "dragoman_repair": "on"}
    return Exchange("bridge", dumps(body), dumps(conversion.chat), sent, got, options=options)


def test_every_fixture_is_unchanged() -> None:
    for folder in FIXTURES:
        (line,) = compare(repaired(folder))
        assert line.startswith("reply: unchanged"), folder


def test_a_reply_whose_tools_were_sent_with_other_names_is_unchanged() -> None:
    function = {"name": "a.b", "parameters": {"type": "object"}}
    asked = {"model": "kimi-k2.6", "tools": [{"type": "function", "function": function}]}
    made = cured(asked, family_of("kimi-k2.6")).request
    name = made["tools"][0]["function"]["name"]
    call = {"id": "x", "type": "function", "function": {"name": name, "arguments": "{}"}}
    sent = dumps({"choices": [{"index": 0, "message": {"tool_calls": [call]}}]})
    got = sent.replace(name.encode(), b"a.b")
    (line,) = compare(Exchange("repair", dumps(asked), dumps(made), sent, got))
    assert line.startswith("reply: unchanged")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["kimi_specification", "clean_text", "clean_error_frame"])
def test_a_bridged_turn_is_unchanged_but_for_times_and_ids(dialect: str, name: str) -> None:
    exchange = bridged(FOLDER / "bridge_codex_second_turn", FOLDER / name, dialect)
    reply, request = compare(exchange)
    assert reply.startswith("reply: unchanged")
    assert request.startswith("request: unchanged")


@pytest.mark.parametrize("by", ["upstream", "client"])
def test_a_stream_that_was_broken_off_is_unchanged(by: str) -> None:
    exchange = repaired(FOLDER / "kimi_specification")
    upstream = exchange.upstream_reply
    half = upstream[: upstream.index(b"\n\n", upstream.index(b" functions")) + 2]
    broken = replace(exchange, upstream_reply=half, error="it broke off")
    told, cut = replay(broken).possible_replies
    assert told.startswith(cut)
    assert len(told) > len(cut), "what was held"
    got = told if by == "upstream" else cut
    (line,) = compare(replace(broken, client_reply=got))
    assert line.startswith("reply: unchanged")


def test_heartbeats_are_no_difference() -> None:
    exchange = bridged(FOLDER / "bridge_codex_second_turn", FOLDER / "clean_text")
    beat = b'event: response.in_progress\ndata: {"type":"response.in_progress"}\n\n'
    more = exchange.client_reply.replace(b"\n\n", b"\n\n" + beat, 3)
    assert compare(replace(exchange, client_reply=more))[0].startswith("reply: unchanged")


def test_what_has_changed_is_shown_where_it_did() -> None:
    exchange = repaired(FOLDER / "kimi_specification")
    reply = exchange.client_reply
    was = reply.replace(b'"finish_reason":"tool_calls"', b'"finish_reason":"stop"')
    assert was != reply
    head, sizes, *lines = compare(replace(exchange, client_reply=was))
    assert "CHANGED" in head
    assert (sizes.count("record"), sizes.count("replay")) == (1, 1)
    (old,) = (line for line in lines if line.startswith("-"))
    (new,) = (line for line in lines if line.startswith("+"))
    assert old[1:7] == new[1:7], "its number"
    assert '"stop"' in old
    assert '"tool_calls"' in new


def test_an_event_of_another_name_is_shown() -> None:
    exchange = bridged(FOLDER / "bridge_sdk_plain", FOLDER / "clean_text")
    was = exchange.client_reply.replace(b"event: response.created\n", b"event: created\n")
    _, _, *lines = compare(replace(exchange, client_reply=was))
    (old,) = (line for line in lines if line.startswith("-"))
    (new,) = (line for line in lines if line.startswith("+"))
    assert ("event: created" in old, "event:" in new) == (True, False)


def test_a_request_that_is_converted_otherwise_is_shown() -> None:
    exchange = bridged(FOLDER / "bridge_sdk_plain", FOLDER / "clean_text")
    was = exchange.upstream_request.replace(b'"user"', b'"human"')
    assert was != exchange.upstream_request
    lines = compare(replace(exchange, upstream_request=was))
    assert any(line.startswith("request: CHANGED") for line in lines)
    assert any(line.startswith("-") and "human" in line for line in lines)


@pytest.mark.parametrize(
    "change",
    [
        {"client_request": b""},
        {"upstream_reply": b""},
        {"upstream_missing": 1},
        {"client_missing": 1},
    ],
)
def test_what_was_not_kept_whole_is_not_replayed(change: dict[str, Any]) -> None:
    with pytest.raises(IncompleteError):
        compare(replace(repaired(FOLDER / "kimi_specification"), **change))


@given(
    st.sampled_from(["watch", "repair", "bridge"]),
    st.tuples(
        st.sampled_from([b"", b"data: ", b'data: {"choices":[{"delta":{"content":"']),
        st.binary(min_size=1, max_size=60),
    ),
    st.binary(max_size=60),
    st.sampled_from([200, 302, 400, 502]),
    st.booleans(),
)
def test_any_flow_can_be_compared(
    job: Any, answer: tuple[bytes, bytes], got: bytes, status: int, stream: bool
) -> None:
    body = dumps({"model": "m", "input": "i", "messages": [], "stream": stream})
    lines = compare(Exchange(job, body, body, b"".join(answer), got, status=status))
    assert all(line.isprintable() for line in lines)


@pytest.mark.slow
def test_a_long_stream_that_differs_everywhere_is_told_of_briefly() -> None:
    frame = b'data: {"choices":[{"index":0,"delta":{"content":"word %d"}}]}\n\n'
    sent = b"".join(frame % n for n in range(100_000))
    was = sent.replace(b"word", b"ward")
    start = time.thread_time()
    lines = compare(Exchange("repair", b"{}", b"{}", sent, was))
    assert time.thread_time() - start < 20
    assert len(lines) <= MAX_LINES + 2
