"""What a reply may spend is counted once for all its choices and texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.notes import Evidence
from dragoman.repair import repeated_calls
from dragoman.repair.formats.formats_by_family import ALL
from dragoman.repair.formats.kimi_k2 import KIMI_K2
from dragoman.repair.scan_state import ScanState
from dragoman.reply import choice_turn
from dragoman.reply.stage import at_once
from dragoman.wire.json_codec import MAX_NESTING, PIECE
from dragoman.wire.reply_bounds import LIKENESSES, MAX_PARTS, MAX_VALUES, OF_A_CALL, Budget
from dragoman.wire.sse import Document
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import chunk, repair, sse

ARGUMENTS = '{"command":"git push"}'
LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>"
)


def of_choice(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    made = chunk(delta, finish)
    made["choices"][0]["index"] = index
    return made


def native(arguments: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}


def test_what_is_kept_of_all_choices_is_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    long = '{"command":"' + "x" * 400_000 + '"}'
    reply = sse([of_choice(index, native(long)) for index in range(40)])
    kept = read_reply(reply).calls
    assert 8 * 1024 * 1024 - 400_100 < sum(len(each) for _, each in kept) <= 8 * 1024 * 1024
    monkeypatch.setattr(choice_turn, "MAX_REPLY", 1_000_000)
    assert len(read_reply(reply).calls) == 2


@pytest.mark.parametrize(("size", "calls"), [(0, 2), (3000, 3)])
def test_what_one_choice_has_spent_another_cannot_spend(
    size: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that came twice is one as long as both can be kept to be compared."""
    monkeypatch.setattr(repeated_calls, "MAX_REPLY", 3000)
    first = native('{"command":"' + "x" * size + '"}')
    deltas = [(0, first), (1, {"content": LEAK}), (1, native(ARGUMENTS))]
    ends = [of_choice(index, {}, "tool_calls") for index in (0, 1)]
    reply = repair(sse([*(of_choice(*each) for each in deltas), *ends]), REQUEST)
    assert reply.count(b'"bash"') == calls


def test_a_call_makes_up_for_markers_and_no_more_than_there_were() -> None:
    budget = Budget()
    state = ScanState(ALL, budget)
    budget.in_vain[KIMI_K2], budget.all_in_vain = LIKENESSES * 3, 5
    state.add_call(KIMI_K2)
    assert (budget.calls, budget.in_vain[KIMI_K2], budget.all_in_vain) == (1, 0, 2)
    budget.in_vain[KIMI_K2], budget.all_in_vain = LIKENESSES * 99, 99
    state.add_call(KIMI_K2)
    assert budget.all_in_vain == budget.in_vain[KIMI_K2] // LIKENESSES == 99 - OF_A_CALL


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * MAX_NESTING * 2 + b"]" * MAX_NESTING * 2,
        json.dumps({"text": "a, [b] {c}\n" * 100_000}).encode(),
        json.dumps([0] * MAX_VALUES).encode(),
        json.dumps({"choices": [0] * (MAX_PARTS + 1)}).encode(),
    ],
)
def test_a_document_is_read_in_steps_as_at_once(body: bytes) -> None:
    in_steps = Document(body)
    at_once(in_steps.read())
    outcomes = []
    for document in (in_steps, Document(body)):
        evidence = Evidence()
        value = document.json
        document.note_bound(evidence)
        outcomes.append((value, document.fault, evidence.notes))
    assert outcomes[0] == outcomes[1]


def test_others_have_their_turn_while_a_document_is_counted() -> None:
    text = json.dumps(["x" * PIECE * 9 + "," * MAX_VALUES + "[{"]).encode()
    assert sum(1 for _ in Document(text).read()) == 1 + -(-len(text) // PIECE)
