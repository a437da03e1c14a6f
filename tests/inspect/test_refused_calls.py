"""What came of a turn with tools: out of the bytes of its reply, and what repair noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.inspect.exchange import Exchange
from dragoman.inspect.stats import Stats
from dragoman.notes import Evidence, TurnFacts
from dragoman.proxy.observe.monitor import refused
from dragoman.repair.declared_tools import DeclaredTools
from tests.repair.streams import chunk, repair, sse, summarize

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
REQUEST = {"tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]}
TOOLS = DeclaredTools.of_request(REQUEST)
LS = '{"command": "ls \\"é\\" 你"}'


def head(index: int, name: str = "bash", arguments: str = "", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"index": index, "id": f"c{index}", "type": "function", "function": function}
    return chunk({"tool_calls": [call]}) | more


def more(index: int, arguments: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def cut(index: int, arguments: str) -> list[dict[str, Any]]:
    return [more(index, arguments[at : at + 2]) for at in range(0, len(arguments), 2)]


def escaped(chunks: list[Any]) -> bytes:
    """The stream in ASCII, and closely written."""
    return b"".join(
        b"data: %b\n\n" % json.dumps(each, separators=(",", ":")).encode() for each in chunks
    )


def figures(body: bytes, client: bytes, tools: DeclaredTools, evidence: Evidence) -> dict[str, int]:
    """What is counted of the turn, and its leaked calls by their format."""
    seen = TurnFacts(summarize(client), summarize(client))
    evidence.refused_calls += refused(read_reply(body), tools)
    stats = Stats()
    exchange = Exchange("repair", b"", b"", evidence=evidence, has_tools=bool(tools))
    stats.add(exchange, seen, host="h", model="m")
    counted = stats.snapshot()
    counts = {
        name.removesuffix("_calls"): sum(counted.counts[name].values())
        for name in ("tool_turns", "calls", "refused_calls", "silent_turns")
    }
    counts |= counted.by("leaked_calls", "format")
    return {name: number for name, number in counts.items() if number}


def turn(**counts: int) -> dict[str, int]:
    return {"tool_turns": 1, **counts}


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([head(0), *cut(0, LS)], [("bash", LS)]),
        ([head(0), *cut(0, LS), head(1, "rm"), *cut(1, "{}")], [("bash", LS), ("rm", "{}")]),
        ([head(0), head(1), *cut(1, LS), *cut(0, "{}")], [("bash", "{}"), ("bash", LS)]),
        (
            [head(0, arguments=part) for part in ('{"command"', ':"x"}')],
            [("bash", '{"command":"x"}')],
        ),
        ([head(0, arguments=LS)], [("bash", LS)]),
        ([chunk({"content": '"tool_calls":[{"name":"x"}]'})], []),
    ],
    ids=["one", "two", "mixed", "the name each time", "whole", "a text"],
)
def test_the_calls_of_a_stream_are_read(chunks: list[Any], wanted: list[tuple[str, str]]) -> None:
    for body in (sse(chunks), escaped(chunks)):
        assert read_reply(body).calls == wanted


LEAK = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>"


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([chunk({"content": "Yes."})], turn()),
        ([chunk({"content": " \n"}), chunk({"reasoning_content": "So"})], turn(silent_turns=1)),
        ([chunk({"content": "\n\u00e9"})], turn()),
        ([head(0), *cut(0, LS)], turn(calls=1)),
        ([head(0), *cut(0, '{"command": 1}')], turn(calls=1, refused=1)),
        ([head(0), *cut(0, '{"command": ')], turn(calls=1, refused=1)),
        ([chunk({"content": LEAK})], turn(calls=1, kimi_k2=1, refused=1)),
        (
            [head(0), more(0, LS), chunk({"content": LEAK.replace("{}", LS.replace("ls", "id"))})],
            turn(calls=2, kimi_k2=1),
        ),
    ],
    ids=["answer", "silent", "escaped", "call", "schema", "no JSON", "leak", "both"],
)
def test_the_figures_of_a_turn(chunks: list[Any], wanted: dict[str, int]) -> None:
    chunks = [*chunks, chunk({}, "stop")]
    for body in (sse(chunks), escaped(chunks)):
        client = repair(body, REQUEST, evidence=(evidence := Evidence()))
        assert figures(body, client, TOOLS, evidence) == wanted


def test_a_turn_without_tools_has_no_figures() -> None:
    body = sse([chunk({"content": "Yes."}), chunk({}, "stop")])
    assert not figures(body, body, DeclaredTools({}), Evidence())


def test_a_whole_reply_is_looked_at_too() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    for message, wanted in (
        ({"content": None, "tool_calls": [call]}, turn(calls=1, refused=1)),
        ({"content": "", "reasoning_content": "So"}, turn(silent_turns=1)),
        ({"content": "Yes."}, turn()),
    ):
        body = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        assert figures(body, body, TOOLS, Evidence()) == wanted
