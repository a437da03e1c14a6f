"""The stages alone, in this process: what they do in a second, without any proxy.

CI runs this to see that the benchmark still works; what it says depends on the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from dragoman.bridge.host_requirements import family_of
from dragoman.bridge.reader_writer_pairs import turn_reader
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.responses_reply import responses_reply
from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.proxy.stored.open_store import open_store
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.turn_context import TurnContext
from dragoman.responses.dialects import OPENAI
from dragoman.responses.repair import ResponsesRepair
from dragoman.stored.store import Limits
from dragoman.stored.turn_reasoning import History, keep, recall
from dragoman.wire import json_codec
from dragoman.wire.chat_calls import CallDelta
from dragoman.wire.sse import Frame, FrameSplitter, split
from tests.bench.bench import Bench
from tests.bench.figures import Goal, Row, Samples
from tests.bench.streams import LEAKS, OPENERS, TOOLS, frames
from tests.bridge.converting import convert, cured, drained
from tests.bridge.hosts import VLLM
from tests.bridge.replying import feed

EVENTS = 5_000
TURNS = 10_000
HISTORY, ITEMS = 2_000_000, 500
"""Bytes and items of a long conversation."""


def _repair() -> ChatRepair:
    return ChatRepair(DeclaredTools.of_request({"tools": TOOLS}), RepairOptions(), Evidence(), 1)


def _reply() -> ReplyConverter:
    turn = TurnContext({}, "kimi-k2.5", True, {})
    clock = time.time
    return responses_reply(
        turn, OPENAI, Evidence(), response_id="resp_1", created_at=1, clock=clock
    )


def _splitting(pieces: Iterable[bytes]) -> list[Frame]:
    splitter = FrameSplitter()
    return [frame for piece in pieces for frame in splitter.feed(piece)]


def _repairing(pieces: Iterable[bytes], *, keeps: bool = False) -> list[Frame]:
    repair = _repair()
    repair.facts = turn_reader(keeps=True) if keeps else None
    return [done for frame in _splitting(pieces) for done in repair.feed(frame)] + repair.close()


def _bridging(pieces: Iterable[bytes]) -> list[Frame]:
    reply = _reply()
    out = [event for frame in _repairing(pieces) for event in feed(reply, frame)] + reply.close()
    assert b'"type":"response.completed"' in out[-1].raw
    return out


_STAGES: tuple[tuple[str, Callable[[Iterable[bytes]], list[Frame]], tuple[str, ...]], ...] = (
    ("sse", _splitting, ("clean",)),
    ("sse, kimi", _repairing, ("clean", "calls", "long_call", "native")),
    ("sse, repair", _repairing, tuple(f"calls_{leak}" for leak in LEAKS)),
    ("sse, repair", _repairing, tuple(f"openers_{opener}" for opener in OPENERS)),
    ("sse, kimi, reasoning", partial(_repairing, keeps=True), ("clean", "thinking", "native")),
    ("sse, kimi, bridge", _bridging, ("thinking", "calls", "native")),
)


def stages(bench: Bench | None = None) -> Iterator[Row]:
    """Events a second, each stage with those in front of it."""
    del bench
    for stage, run, streams in _STAGES:
        for stream in streams:
            pieces = frames(f"{stream}-{EVENTS}")
            speeds = [len(pieces) / _seconds(run, pieces) / 1000 for _ in range(7)][2:]
            what = f"stages alone: {stage}; {stream.replace('_', ' ')}"
            yield Row(what, "1,000 events/s", None, Samples(speeds), "value", None, "–")


def native(bench: Bench | None = None) -> Iterator[Row]:
    """A clean stream of a host that speaks the Responses API: what its repair costs more than
    one that is only watched, which is not even split into events."""
    del bench
    stream = VLLM.stream([("text", ["word, "] * EVENTS)])
    pieces = [frame.raw for frame in split(stream)]
    speeds = [len(pieces) / _seconds(_repairing_native, pieces) / 1000 for _ in range(7)][2:]
    what = "stages alone: sse, native Responses; clean"
    yield Row(what, "1,000 events/s", None, Samples(speeds), "value", None, "–")


def _repairing_native(pieces: Iterable[bytes]) -> None:
    tools = ResponsesTools.of_request({"model": "kimi-k2.7"})
    repair = ResponsesRepair(tools, RepairOptions(), Evidence(), 1)
    pipeline = RepairPipeline(repair, Evidence())
    for piece in pieces:
        assert pipeline.feed(piece) == piece


def conversion(bench: Bench) -> Iterator[Row]:
    """A request with a long history, from its bytes to those that go upstream."""
    body = history()

    sides = {"": partial(_seconds, _converting, body)}
    found = bench.rounds("request conversion", sides, rounds=40)
    what = f"request conversion, {len(body) / 1e6:.1f} MB with {ITEMS} items"
    yield Row(what, "ms", None, Samples.of(found[""], 1e3), "value", Goal(40), "–")


def _converting(body: bytes) -> None:
    """What is done to a request, but for what the proxy does with any."""
    converted = convert(json_codec.loads(body), unsupported="drop", evidence=Evidence())
    DeclaredTools.of_request(converted.chat)
    assert len(json_codec.dumps(converted.chat)) > HISTORY * 0.9


def cure(bench: Bench) -> Iterator[Row]:
    """What a chat request costs that is left alone, one that is changed, and the reasoning of one
    turn among ten thousand."""
    for model, run, what, goal in (
        ("gpt-5.4", _left_alone, "chat request that is left alone", Goal(20)),
        ("deepseek-v4", _curing, "chat request that is changed", Goal(80)),
    ):
        body = chat_history(model)
        found = bench.rounds(what, {"": partial(_seconds, run, body)}, rounds=20)
        row = f"{what}, {len(body) / 1e6:.1f} MB"
        yield Row(row, "ms", None, Samples.of(found[""], 1e3), "value", goal, "–")
    store = open_store("", confdir=bench.confdir(), limits=Limits(30, 1 << 30))
    for number in range(TURNS):
        names = History().names([CallDelta(0, "", f"tool_{number}", "{}")])
        keep(store, "owner", names=names, text="thought " * 100, now=time.time(), used=())

    def look_up(number: int) -> None:
        names = History().names([CallDelta(0, "", f"tool_{number}", "{}")])
        assert recall(store, "owner", [names], time.time())[0]

    samples = Samples([_seconds(look_up, number) * 1e3 for number in range(0, TURNS, 10)])
    store.close()
    what = f"reasoning of one of {TURNS:,} turns (SQLite)"
    yield Row(what, "ms", None, samples, "value", Goal(1), "–")


def _left_alone(body: bytes) -> None:
    value = json_codec.loads(body)
    assert cured(value, family_of(value["model"])).request is value


def _curing(body: bytes) -> None:
    value = json_codec.loads(body)
    drained(History.of(value["messages"]))
    made = cured(value, family_of(value["model"])).request
    assert made is not value
    json_codec.dumps(made)


def chat_history(model: str) -> bytes:
    """The same of a chat client that leaves reasoning out."""
    text = 'The assembler headers are in /usr/include/asm: «errno.h» says "1".\n'
    long = text * (HISTORY * 2 // ITEMS // len(text.encode()))
    messages: list[dict[str, Any]] = []
    for number in range(ITEMS // 2):
        function = {"name": "bash", "arguments": json.dumps({"command": text})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": long},
        ]
    request = {"model": model, "messages": messages, "tools": TOOLS, "stream": True}
    return json.dumps(request, ensure_ascii=False).encode()


def history() -> bytes:
    """A conversation in which an agent reads files and says what it sees."""
    items: list[dict[str, Any]] = []
    text = 'The assembler headers are in /usr/include/asm: «errno.h» says "1".\n'
    long = text * (HISTORY * 4 // 3 // ITEMS // len(text.encode()))
    while len(items) < ITEMS:
        number = len(items)
        call = {"call_id": f"call_{number}", "type": "function_call"}
        said = {"type": "output_text", "text": long, "annotations": []}
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": long}]},
            {"type": "function_call", "name": "bash", **call, "arguments": json.dumps({"a": text})},
            {**call, "type": "function_call_output", "output": long},
            {"type": "message", "role": "assistant", "content": [said]},
        ]
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    return json.dumps(
        {"model": "kimi-k2.5", "input": items[:ITEMS], "tools": tools, "stream": True},
        ensure_ascii=False,
    ).encode()


def _seconds(run: Callable[[Any], Any], argument: Any) -> float:
    began = time.perf_counter()
    run(argument)
    return time.perf_counter() - began
