"""DeepSeek's format as a table, and turns written in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.deepseek import DEEPSEEK
from tests.repair.formats.leaks import said
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, turns
from tests.repair.turns import cut

CSB, CSE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CB, SEP, CE = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
LS = '{"command":"ls"}'
MEANT = f"[bash {LS}]"
R1 = f"{CB}function{SEP}bash\n```json\n{LS}\n```{CE}"
V31 = f"{CB}bash{SEP}{LS}{CE}"
TABLE = {
    "R1": (f"Look.\n{CSB}{R1}{CSE}", f"Look.\n{MEANT}"),
    "several": (f"{CSB}{R1}\n{R1}{CSE}\nDone.", f"{MEANT}{MEANT}\nDone."),
    "V3.1": (f"{CSB}{V31}{V31}{CSE}", MEANT * 2),
    "no section": (f"{V31} Done.", f"{MEANT} Done."),
    "no begin of a call": (f"{CSB}bash{SEP}{LS}{CE}{CSE}", MEANT),
    "no end of a call": (f"{CSB}{CB}bash{SEP}{LS}{CB}bash{SEP}{LS}{CSE}", MEANT * 2),
    "no end at all": (f"{CSB}{CB}bash{SEP}{LS}", MEANT),
    "a fence without its end": (
        f"{CSB}{CB}function{SEP}bash\n```json\n{LS}{CE}{CSE}.",
        f"{MEANT}.",
    ),
    "no arguments": (f"{CSB}{CB}finish{SEP}{CE}{CSE}", "[finish {}]"),
    "other separators": (V31.replace("▁", "_") + V31.replace("▁", " "), MEANT * 2),
    "a tool of that name": (f"{CB}function{SEP}{LS}{CE}", "="),
    "a quoted token": (
        f'{CB}bash{SEP}{{"command":"echo {CE}"}}{CE}.',
        f'[bash {{"command":"echo {CE}"}}].',
    ),
    "ended by its marker": (f'{CB}bash{SEP}{{"command":"l{CE}.', "="),
    "cut off": (f'{CSB}{CB}bash{SEP}{{"command":"l', "="),
    "a stray token": (f"So.{CSE} It is.", "So. It is."),
    "a named token": (f"So {CSE} it is.", "="),
    "in code": (f"`{CSB}` and\n```\n{CSB}{V31}{CSE}\n```\n", "="),
    "a token in prose": (f"The token {CSB} begins them.", "="),
    "an undeclared tool in a fence, then a declared one": (
        f"{CSB}{R1.replace('bash', 'rm')}\n{R1}{CSE}",
        f"{CSB}{R1.replace('bash', 'rm')}\n{MEANT}",
    ),
    "an undeclared tool in a fence, then a fence": (
        f"{CSB}{R1.replace('bash', 'rm')}{CSE}\n```\n{CSB}{R1}{CSE}\n```\n",
        "=",
    ),
    "an undeclared tool": (f"{CSB}{CB}rm{SEP}{LS}{CE}{CSE} x", "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, DEEPSEEK) == (text if wanted == "=" else wanted)


def in_a_fence(name: str, arguments: dict[str, Any]) -> str:
    return f"{CB}function{SEP}{name}\n```json\n{json.dumps(arguments)}\n```{CE}"


def as_json(name: str, arguments: dict[str, Any]) -> str:
    return f"{CB}{name}{SEP}{json.dumps(arguments, ensure_ascii=False)}{CE}"


def in_lines(name: str, arguments: dict[str, Any]) -> str:
    """As Composer writes it."""
    lines = "".join(f"{SEP}{key}\n{said(value)}\n" for key, value in arguments.items())
    return f"{CB}\n{name}\n{lines or SEP}{CE}"


@pytest.mark.parametrize("write", [in_a_fence, as_json, in_lines])
@given(st.data(), turns())
def test_a_turn_is_read_back(
    write: Callable[[str, dict[str, Any]], str], data: st.DataObject, turn: Turn
) -> None:
    calls = [write(name, arguments) for name, arguments in turn.calls]
    text = f"{turn.before}{CSB}{''.join(calls)}{CSE}{turn.after}"
    assert_reads_back(turn, data.draw(cut(text)), DEEPSEEK)
