"""Streams speak when their upstream does not: at once, then after every silence.

The opening leaves with the upstream's headers.  A heartbeat is an event that says
nothing new, in the dialect's form; it stands between two events, never before the opening,
never after the terminal.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.test import tflow

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.proxy.flows.bridge_reply import BridgeStream
from dragoman.proxy.flows.live_stream import Command, ReplyContext
from dragoman.proxy.flows.repair_reply import RepairStream
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import FrameSplitter
from fixtures.server import Reply, Upstream
from tests.bridge.grammar import check
from tests.bridge.replying import new_reply
from tests.live import responses, wire
from tests.live.chat import CONTROLS, REQUEST, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.responses import Exchange, calls_of, text_of
from tests.repair.streams import chunk, read, sse

HEARTBEAT = 0.15
SILENCE = 0.5
"""Seconds: time for three heartbeats."""
COMMENT = b": waiting for the upstream\n\n"
SECTION = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
STREAM = sse(
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "I think"}),
        chunk({"content": "I say "}),
        chunk({"content": "<|tool_"}),
        chunk({"content": " this "}),
        chunk({"content": SECTION + '<|tool_call_argument_begin|>{"command": '}),
        chunk({"content": '"ls"}<|tool_call_end|><|tool_calls_section_end|>'}),
        chunk({}, "stop"),
    ]
)
MOMENTS = {
    # where the upstream pauses, and the event that a heartbeat then is
    "before the first event": (0, "response.in_progress"),
    "in reasoning": (STREAM.index(b'data: {"id"', STREAM.index(b"think")), "reasoning"),
    "in held text": (
        STREAM.index(b'data: {"id"', STREAM.index(b"<|tool_")),
        "response.output_text",
    ),
    "in a frame": (STREAM.index(b"this"), "response.output_text"),
    "in a call": (STREAM.index(b'\\"ls'), "response.output_text"),
    "after the finish reason": (STREAM.index(b"data: [DONE]"), "response.in_progress"),
}
GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture(params=["1 to 1", "2 to 2"])
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(
    plain_upstream: Upstream, tls_upstream: Upstream, mitmdump: GetMitmdump
) -> Callable[..., Chat]:
    """Gives a chat over a route with that heartbeat."""

    def get(route: str = "1 to 1", heartbeat: float = HEARTBEAT) -> Chat:
        upstream = tls_upstream if route == "2 to 2" else plain_upstream
        options = [f"dragoman_heartbeat={heartbeat}", "dragoman_bridge=~all"]
        options.append(f"test_upstream_http2={str(route == '2 to 2').lower()}")
        arguments = [word for option in options for word in ("--set", option)]
        arguments += ["--mode", f"reverse:{upstream.url}"]
        return Chat(upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))

    return get


def ask(
    chat: Chat,
    options: str,
    *,
    stream: bytes = STREAM,
    dialect: str = "openai",
    **more: Any,
) -> Exchange:
    got = chat.ask(
        Reply(stream),
        options,
        path="/v1/responses",
        request=responses.REQUEST,
        headers=(("x-dragoman-dialect", dialect),),
        **more,
    )
    return Exchange(got, [])


def beaten_twice(kind: str = "") -> Callable[[bytes], bool]:
    """Whether a body holds two heartbeats, of a kind if it is given."""

    def check(body: bytes) -> bool:
        frames = FrameSplitter().feed(body)
        events = [json.loads(f.data) for f in frames if f.data and f.data != b"[DONE]"]
        return len([found for found in beats(events) if kind in ("", found)]) >= 2

    return check


def beats(events: list[dict[str, Any]]) -> list[str]:
    """The types of the events that say nothing new."""
    return [
        event["type"].removesuffix(".delta")
        for number, event in enumerate(events)
        if event.get("delta") == "" or event["type"] in ("ping", "response.in_progress")
        if number != 1
    ]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_silent_upstream_is_bridged_by_heartbeats(
    start: Callable[..., Chat], dialect: str, moment: str
) -> None:
    at, kind = MOMENTS[moment]
    spoken = DIALECTS[dialect]
    if spoken.ping:
        kind = "ping"
    elif kind == "reasoning":
        summary = "response.reasoning_summary_text"
        kind = summary if spoken.reasoning_summary else "response.reasoning"
    options, release_when = f";cut=at:{at};hold=1", beaten_twice(kind)
    story = ask(start(), options, dialect=dialect, release_when=release_when).story(dialect)
    assert text_of(story.response) == "I say <|tool_ this "


def test_heartbeats_over_every_version_of_http(start: Callable[..., Chat], route: str) -> None:
    at, _ = MOMENTS["in a call"]
    http2, release_when = route == "2 to 2", beaten_twice()
    options = f";cut=at:{at};hold=1"
    story = ask(start(route), options, http2=http2, release_when=release_when).story()
    assert calls_of(story.response) == [("bash", {"command": "ls"})]


def test_the_opening_leaves_with_the_headers_even_without_heartbeats(
    start: Callable[..., Chat],
) -> None:
    exchange = ask(
        start(heartbeat=0),
        ";cut=at:0;hold=1",
        release_when=lambda body: b'"sequence_number":1' in body,
    )
    assert beats(exchange.story().events) == []


def test_heartbeats_do_not_repeat_megabytes_of_tools(start: Callable[..., Chat]) -> None:
    tools = [tool | {"description": "x" * 1_000_000} for tool in responses.TOOLS]
    got = start().ask(
        Reply(STREAM),
        ";cut=at:0;hold=1",
        path="/v1/responses",
        request=responses.REQUEST | {"tools": tools},
        release_when=beaten_twice(),
    )
    events = Exchange(got, []).story().events
    told = [len(event["response"]["tools"]) for event in events if "response" in event]
    assert told[:2] + told[-1:] == [2, 2, 2]
    assert set(told[2:-1]) == {0}


def test_nothing_is_said_before_the_headers_nor_after_the_terminal(
    start: Callable[..., Chat],
) -> None:
    exchange = ask(start(), f";delay={SILENCE}")
    assert exchange.reply.arrival(b'"sequence_number":0') >= SILENCE - 0.05
    assert exchange.story().response["status"] == "completed"
    chat = start()
    for path, request in (("/v1/responses", responses.REQUEST), ("/v1/chat/completions", REQUEST)):
        # The upstream's body ends later than its stream.
        stream = STREAM + b"\n"
        options = f";cut=at:{len(STREAM)};pace={SILENCE}"
        got = chat.ask(Reply(stream), options, path=path, request=request)
        assert got.complete
        last = FrameSplitter().feed(got.body)[-1].raw
        assert last.startswith(b"event: response.completed\n") or last == b"data: [DONE]\n\n"


def test_an_upstream_that_is_slow_but_not_silent_needs_no_heartbeat(
    start: Callable[..., Chat],
) -> None:
    words = [chunk({"content": f"w{n} "}) for n in range(20)]
    stream = sse([*words, chunk({}, "stop")])
    exchange = ask(start(heartbeat=4), ";cut=event;pace=0.25", stream=stream)
    assert beats(exchange.story().events) == []


# Repaired chat streams.


def comments(reply: wire.Reply) -> int:
    """How many heartbeats; each stands between two events, as every event is whole."""
    frames = FrameSplitter().feed(reply.body)
    for frame in frames:
        if frame.raw != COMMENT and frame.data != b"[DONE]":
            json.loads(frame.data or b"")
    assert b"".join(frame.raw for frame in frames) == reply.body
    return sum(frame.raw == COMMENT for frame in frames)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_silent_upstream_of_a_repaired_stream_is_bridged_by_comments(
    start: Callable[..., Chat], moment: str
) -> None:
    options = f";cut=at:{MOMENTS[moment][0]};hold=1"
    got = start().ask(STREAM, options, release_when=lambda body: body.count(COMMENT) >= 2)
    assert got.complete
    assert comments(got) >= 2
    assert read(got.body).content == "I say <|tool_ this "
    assert [call["name"] for call in read(got.body).calls] == ["bash"]


def test_comments_come_while_all_that_comes_is_held_back(start: Callable[..., Chat]) -> None:
    marker = "<|tool_calls_section_begin|>"
    stream = sse([*(chunk({"content": char}) for char in marker), chunk({}, "stop")])
    assert comments(start().ask(stream, ";cut=event;pace=0.1")) >= 3
    assert comments(start(heartbeat=0).ask(stream, ";cut=event;pace=0.01")) == 0


def test_a_client_that_asked_for_no_stream_hears_no_comments(start: Callable[..., Chat]) -> None:
    options = f";cut=at:{MOMENTS['in a call'][0]};pace={SILENCE}"
    got = start().ask(STREAM, options, request=REQUEST | {"stream": False})
    assert got.complete
    assert comments(got) == 0


# Whatever the moment.


def record() -> FlowRecorder:
    return FlowRecorder(tflow.tflow(), "bridge", keep=0)


def repair() -> ChatRepair:
    return ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), 0)


pieces = st.lists(st.integers(0, len(STREAM)), max_size=12).map(
    lambda cuts: [STREAM[a:b] for a, b in itertools.pairwise([0, *sorted(cuts), len(STREAM)])]
)
steps = st.tuples(pieces, st.lists(st.booleans(), min_size=14, max_size=14), st.booleans())


@given(steps, st.sampled_from(sorted(DIALECTS)))
def test_heartbeats_at_any_moment_keep_the_grammar(
    steps: tuple[list[bytes], list[bool], bool], dialect: str
) -> None:
    stream = BridgeStream(
        new_reply(Evidence(), DIALECTS[dialect]),
        repair(),
        ReplyContext("", record(), heartbeat=1, breaks=False),
        keeps=False,
    )
    story = check(FrameSplitter().feed(_run(stream, *steps)), DIALECTS[dialect])
    assert text_of(story.response) in ("I say <|tool_ this ", "I say <|tool_ this")


@given(steps)
def test_comments_at_any_moment_change_nothing_that_is_read(
    steps: tuple[list[bytes], list[bool], bool],
) -> None:
    stream = RepairStream(
        repair(),
        ReplyContext("", record(), heartbeat=1),
        reports_end=True,
    )
    out = _run(stream, steps[0], steps[1], False)
    assert read(out.replace(COMMENT, b"")) == read(out)
    assert read(out).content == "I say <|tool_ this "
    assert read(out).finish == ["tool_calls"]


def _run(
    stream: BridgeStream | RepairStream, pieces: list[bytes], beats: list[bool], breaks: bool
) -> bytes:
    done: list[Command] = [*stream.opening()]
    for piece, beat in zip(pieces, beats, strict=False):
        if beat:
            done += stream.wake()
        done += stream.receive(piece) if piece else []
    done += stream.fail("gone") if breaks else stream.receive(b"")
    assert _sent(stream.wake()) == b""
    return _sent(done)


def _sent(commands: Iterable[Command]) -> bytes:
    return b"".join(each for each in commands if isinstance(each, bytes))
