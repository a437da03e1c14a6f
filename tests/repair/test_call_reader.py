"""What may be a call is held as it came, until it is certain what it is."""

from __future__ import annotations

import pytest

from dragoman.repair.call_reader import CallReader, Outcome
from dragoman.repair.call_rule import CallRule
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, Refusal
from dragoman.repair.formats.formats_by_family import ALL
from dragoman.repair.scan_state import ScanState
from dragoman.wire.reply_bounds import Budget
from tests.repair.formats.leaks import REQUEST

CALL = '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command":"ls"}'
END = "<|tool_call_end|>"


def begun(text: str) -> tuple[CallReader, ScanState]:
    """A reader that has been given a text which begins with a marker."""
    state = ScanState(ALL, Budget())
    state.fed = len(text)
    calls, marker = CallReader(DeclaredTools.of_request(REQUEST), state), ALL.find(text)
    assert marker is not None
    calls.begin(marker, CallRule("declared"), "", text[marker.end :])
    return calls, state


@pytest.mark.parametrize("end", [*range(len("<|tool_call_begin|>"), len(CALL + END))])
def test_half_a_call_waits_and_gives_nothing(end: int) -> None:
    calls, state = begun((CALL + END)[:end])
    assert calls.run() is Outcome.WAITS
    assert [event for event in state.take() if isinstance(event, Call)] == []


def test_a_whole_call_is_given_and_the_text_after_it_is_the_rest() -> None:
    calls, state = begun(CALL + END + " Done.")
    assert calls.run() is Outcome.LEFT
    calls.commit()
    (call,) = [event for event in state.take() if isinstance(event, Call)]
    assert (call.name, call.arguments) == ("bash", '{"command":"ls"}')
    assert calls.rest.strip() == "Done."
    assert calls.parser is calls.candidate is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CALL.replace("bash", "rm") + END, Refusal.UNDECLARED),
        ("<|tool_call_begin|>a, b and c" + END, Refusal.WITHOUT_HEADER),
    ],
    ids=["a tool that is not declared", "no header"],
)
def test_what_is_no_call_is_refused_whole(text: str, why: Refusal) -> None:
    calls, state = begun(text)
    assert (calls.run(), calls.refusal) == (Outcome.REFUSED, why)
    if calls.candidate is not None:
        calls.refuse(calls.candidate)
    assert state.take() == []
