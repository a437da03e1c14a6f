"""Calls that come as text and natively: one of each kind that are equal are one call."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair import repeated_calls
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call
from dragoman.repair.repair_options import RepairOptions
from dragoman.repair.repeated_calls import RepeatedCalls
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.wire.reply_bounds import Budget
from dragoman.wire.sse import Frame
from tests.counting import calls_of
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse

Json = dict[str, Any]
PUSH, PULL = '{"command":"git push"}', '{"command":"git pull"}'
SPACED, TIMED = '{ "command" : "git \\u0070ush" }', '{"command":"git push","timeout":1}'
TURNED = '{"timeout":1.0, "command":"git push"}'


def leaked(arguments: str, name: str = "bash") -> str:
    return (
        "<|tool_calls_section_begin|><|tool_call_begin|>"
        f"functions.{name}:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )


def qwen(arguments: str) -> str:
    values = json.loads(arguments).items()
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in values)
    return f"<tool_call>\n<function=bash>\n{parameters}</function>\n</tool_call>"


# What a reply has, as (kind, arguments), and the arguments of the calls that are meant.
TURNS: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "leaked, then native": ([("leaked", PUSH), ("native", PUSH)], [PUSH]),
    "native, then leaked": ([("native", PUSH), ("leaked", PUSH)], [PUSH]),
    "written otherwise": ([("leaked", PUSH), ("native", SPACED)], [PUSH]),
    "members in another order": ([("native", TIMED), ("leaked", TURNED)], [TIMED]),
    "no arguments": ([("leaked", "{}"), ("native", "")], ["{}"]),
    "in another format": ([("qwen", PUSH), ("native", PUSH)], [PUSH]),
    "the other format last": ([("native", TIMED), ("qwen", TIMED)], [TIMED]),
    "two natives": ([("native", PUSH), ("native", PUSH)], [PUSH, PUSH]),
    "two leaked": ([("leaked", PUSH), ("leaked", PUSH)], [PUSH, PUSH]),
    "two leaked, one native": ([("leaked", PUSH)] * 2 + [("native", PUSH)], [PUSH, PUSH]),
    "one leaked, two natives": ([("leaked", PUSH)] + [("native", PUSH)] * 2, [PUSH, PUSH]),
    "one native, two leaked": ([("native", PUSH)] + [("leaked", PUSH)] * 2, [PUSH, PUSH]),
    "two of each": ([("leaked", PUSH)] * 2 + [("native", PUSH)] * 2, [PUSH, PUSH]),
    "by turns": ([("leaked", PUSH), ("native", PUSH)] * 2, [PUSH, PUSH]),
    "pairs": (
        [("leaked", PUSH), ("leaked", PULL), ("native", PUSH), ("native", PULL)],
        [PUSH, PULL],
    ),
    "other arguments": ([("leaked", PUSH), ("native", PULL)], [PUSH, PULL]),
    "other arguments, native first": ([("native", PUSH), ("leaked", PULL)], [PUSH, PULL]),
    "more arguments": ([("leaked", PUSH), ("native", TIMED)], [PUSH, TIMED]),
    "true is not 1": (
        [("leaked", '{"timeout":1}'), ("native", '{"timeout":true}')],
        ['{"timeout":1}', '{"timeout":true}'],
    ),
    "another tool": ([("leaked", "{}"), ("native finish", "{}")], ["{}", "{}"]),
}


def texts(kind: str, arguments: str) -> str:
    return qwen(arguments) if kind == "qwen" else leaked(arguments)


def native(index: int, arguments: str, name: str = "bash") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{index}x", "type": "function", "function": function}


def deltas_of(turn: list[tuple[str, str]], size: int, field: str = "content") -> Iterable[Json]:
    """A turn as deltas with at most `size` characters of a text, or of arguments."""
    index = 0
    for kind, arguments in turn:
        if not kind.startswith("native"):
            text = texts(kind, arguments)
            yield from ({field: text[at : at + size]} for at in range(0, len(text), size))
            continue
        yield {"tool_calls": [native(index, "", kind[7:] or "bash")]}
        for at in range(0, len(arguments), size):
            part = {"index": index, "function": {"arguments": arguments[at : at + size]}}
            yield {"tool_calls": [part]}
        index += 1


@pytest.mark.parametrize("name", TURNS)
def test_a_call_that_comes_twice_is_one(name: str) -> None:
    turn, meant = TURNS[name]
    for size, field in itertools.product((1, 7, 1000), ("content", "reasoning_content")):
        evidence = Evidence()
        chunks = [chunk(delta) for delta in deltas_of(turn, size, field)]
        ends = ("stop", "tool_calls")
        for stream in (sse([*chunks, chunk({}, end)]) for end in ends):
            out = read(repair(stream, REQUEST, evidence=evidence))
            assert sorted(call["arguments"] or "{}" for call in out.calls) == sorted(meant)
            assert len({call["id"] for call in out.calls}) == len(meant)
            assert out.text == ""
            assert out.finish in (["tool_calls"], ["stop"] if name == "two natives" else [])
        left = 2 * (len(turn) - len(meant))
        assert evidence.notes["left out", "a call of bash that came twice"] == left


@pytest.mark.parametrize("name", TURNS)
def test_it_is_one_in_a_reply_that_comes_whole(name: str) -> None:
    turn, meant = TURNS[name]
    natives = [native(n, a, k[7:] or "bash") for n, (k, a) in enumerate(turn) if "native" in k]
    text = "".join(texts(kind, arguments) for kind, arguments in turn if "native" not in kind)
    message = {"role": "assistant", "content": f"So.{text}", "tool_calls": natives}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    tools = DeclaredTools.of_request(REQUEST)
    out = json.loads(
        repair_whole(json.dumps(body).encode(), tools, RepairOptions(), Evidence(), NOW)
    )
    (choice,) = out["choices"]
    calls = [call["function"]["arguments"] or "{}" for call in choice["message"]["tool_calls"]]
    assert [json.loads(call) for call in sorted(calls)] == [
        json.loads(one) for one in sorted(meant)
    ]
    assert choice["finish_reason"] == ("tool_calls" if text else "stop")
    assert choice["message"]["content"] == "So."


def test_a_call_that_came_whole_in_one_delta_or_without_an_index_is_known_too() -> None:
    for element in (native(0, PUSH), {k: v for k, v in native(0, PUSH).items() if k != "index"}):
        for chunks in itertools.permutations(
            [chunk({"tool_calls": [element]}), chunk({"content": leaked(PUSH)})]
        ):
            out = repair(sse([*chunks, chunk({}, "stop")]), REQUEST)
            assert out.count(b'"name"') == 1, out


def test_a_native_call_whose_name_comes_late_or_in_pieces_is_known_too() -> None:
    for heads in (
        [{"id": "x", "function": {}}, {"function": {"name": "bash"}}],
        [{"id": "x", "function": {"name": "ba"}}, {"function": {"name": "sh"}}],
        [{"id": "x", "function": {"name": "functions.bash:0"}}],
    ):
        elements = [*heads, {"function": {"arguments": PUSH}}]
        deltas = [{"tool_calls": [{"index": 0, **each}]} for each in elements]
        chunks = [chunk(delta) for delta in ({"content": leaked(PUSH)}, *deltas)]
        for order in (chunks, [*chunks[1:], chunks[0]]):
            out = repair(sse([*order, chunk({}, "stop")]), REQUEST)
            assert out.count(b"git push") == 1


def test_held_arguments_that_are_no_text_leave_as_they_came() -> None:
    more = [{"index": 0, "function": {"arguments": each}} for each in ({"a": 1}, "1", [2])]
    elements = (native(0, ""), {"id": "x", "function": 1}, *more)
    calls = [{"tool_calls": [each]} for each in elements]
    chunks = [chunk(delta) for delta in ({"content": leaked(PUSH)}, *calls)]
    out = repair(sse([*chunks, chunk({}, "stop")]), REQUEST)
    places = [out.index(each) for each in (b'"arguments":{"a":1}', b'"1"', b'"arguments":[2]')]
    assert places == sorted(places)


def test_mixed_deltas_of_both_kinds_are_known_too() -> None:
    text = list(leaked(PUSH))
    parts = [native(0, ""), *({"index": 0, "function": {"arguments": c}} for c in PUSH)]
    mixed = [
        chunk(delta)
        for one, other in itertools.zip_longest(text, parts)
        for delta in (one and {"content": one}, other and {"tool_calls": [other]})
        if delta
    ]
    for chunks in (mixed, mixed[1:2] + mixed[:1] + mixed[2:]):
        out = read(repair(sse([*chunks, chunk({}, "stop")]), REQUEST))
        assert [call["arguments"] for call in out.calls] == [PUSH]


def sent_at_once(turn: list[tuple[str, str]], size: int = 7) -> list[bytes]:
    """What leaves with each delta of a turn."""
    stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
    pipeline = RepairPipeline(stage, Evidence())
    return [pipeline.feed(sse([chunk(delta)], done=False)) for delta in deltas_of(turn, size)]


def test_what_repeats_nothing_leaves_as_it_arrives() -> None:
    for turn in (
        [("native", PUSH), ("native", PULL)],
        [("leaked", PUSH), ("native finish", "{}")],
        [("leaked", PUSH), ("native", PUSH), ("native", PUSH)],
    ):
        natives = len(list(deltas_of(turn[-1:], 7)))
        assert all(sent_at_once(turn)[-natives:])


def test_a_call_that_repeats_none_leaves_with_its_last_piece() -> None:
    for turn in ([("leaked", PUSH), ("native", PULL)], [("native", PUSH), ("leaked", PULL)]):
        sent = [arguments_in(piece) for piece in sent_at_once(turn, 1)]
        assert sum(PULL in arguments for arguments in sent) == 1


def arguments_in(stream: bytes) -> str:
    """The arguments of all calls in a stream."""
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in stream.split(b"\n\n") if line]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    return "".join(call["function"]["arguments"] for call in calls)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["leaked first", "native first"])
def test_half_a_repetition_is_never_handed_over(order: str) -> None:
    """However the reply ends within it: by a limit, an error, a break."""
    turn = [("leaked", PUSH), ("native", PUSH)]
    turn = turn if order == "leaked first" else turn[::-1]
    deltas = list(deltas_of(turn, 1))
    first = len(list(deltas_of(turn[:1], 1)))
    half = [chunk(delta) for delta in deltas[:first]]
    for number, held in enumerate(deltas[first:-1]):
        half.append(chunk(held))
        if number % 3:
            continue
        out = read(repair(sse([*half, chunk({}, "length")]), REQUEST))
        assert [call["arguments"] for call in out.calls] == [PUSH]
        assert out.finish == ["length"]
        assert repair(sse([*half, {"error": {"message": "died"}}]), REQUEST).count(b'"name"') == 1
        stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
        pipeline = RepairPipeline(stage, Evidence(), reports_end=True)
        sent = pipeline.feed(sse(half, done=False)) + pipeline.break_off("reset")
        assert sent.count(b'"name"') == 1 and pipeline.broken


def test_a_fault_while_a_call_is_held_breaks_the_reply_off() -> None:
    turn = [("leaked", PUSH), ("native", PULL)]
    stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
    pipeline = RepairPipeline(stage, Evidence())
    before = [sse([chunk(delta)], done=False) for delta in deltas_of(turn, 4)]
    for piece in before:
        pipeline.feed(piece)
    assert pipeline.fall_back() == b""
    assert pipeline.broken


def test_a_call_that_ends_is_compared_alone() -> None:
    deltas = [{"content": leaked(PUSH)}] * 40
    deltas += [{"tool_calls": [native(at, '{"a":')]} for at in range(200)]
    stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
    frames = [Frame(sse([chunk(delta)], done=False)) for delta in deltas]
    assert sum(len(stage.feed(frame)) > 0 for frame in frames) == 40
    last = {"index": 199, "function": {"arguments": "1}"}}
    end = Frame(sse([chunk({"tool_calls": [last]})], done=False))
    assert calls_of(lambda: stage.feed(end)) < 2_500, "not 40 comparisons for each of 200"


def test_what_is_compared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(turn: list[tuple[str, str]]) -> int:
        chunks = [chunk(delta) for delta in deltas_of(turn, 1000)]
        return len(read(repair(sse([*chunks, chunk({}, "stop")]), REQUEST)).calls)

    both = [("leaked", PUSH), ("native", PUSH)]
    long = ("native", f'{{"command":"{"x" * 3000}"}}')
    more = [*both, long, ("native", PULL), ("leaked", PULL)]
    assert calls(more) == 3
    monkeypatch.setattr(repeated_calls, "MAX_REPLY", 3000)
    assert (calls(both), calls(more)) == (1, 4)
    monkeypatch.undo()
    monkeypatch.setattr(repeated_calls, "MAX_REPLY", 100)
    assert (calls(both), calls([("native", PUSH), ("leaked", PUSH)])) == (2, 2)
    monkeypatch.undo()
    monkeypatch.setattr(repeated_calls, "MAX_COMPARED", 2)
    assert (calls(both), calls([*both, ("native", PULL), ("leaked", PULL)])) == (1, 3)
    monkeypatch.setattr(repeated_calls, "MAX_COMMAS", 0)
    values = ('{"timeout":1, "lines":2}', '{"lines":2, "timeout":1}')
    assert calls([("leaked", values[0]), ("native", values[0])]) == 1
    assert calls([("leaked", values[0]), ("native", values[1])]) == 2


def test_what_is_held_leaves_once_it_differs_and_nothing_is_held_after_it() -> None:
    compared: RepeatedCalls[str] = RepeatedCalls(Evidence(), Budget())
    compared.leaked(Call("bash", [PUSH]))
    call = compared.begin("bash", leaked=False)
    assert (compared.add(call, "piece", PULL), compared.holds) == ([], True)
    assert (compared.end(call), compared.holds) == (["piece"], False)
    assert compared.close() == []


def test_what_follows_a_call_that_was_dropped_is_dropped() -> None:
    compared: RepeatedCalls[str] = RepeatedCalls(Evidence(), Budget())
    compared.leaked(Call("bash", [PUSH]))
    call = compared.begin("bash", leaked=False)
    assert (compared.add(call, "piece", PUSH), compared.end(call)) == ([], [])
    assert (compared.add(call, "more"), compared.holds) == ([], False)
