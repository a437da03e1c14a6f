"""Mistral's format as a table, and turns written in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.mistral import MISTRAL
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, scanned, turns
from tests.repair.turns import cut

LS = '{"command":"ls"}'
MEANT = f"[bash {LS}]"
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
TABLE = {
    "a list": (f"Look. [TOOL_CALLS][{OBJECT}]", f"Look. {MEANT}"),
    "a longer list": (f"[TOOL_CALLS] [{OBJECT}, {OBJECT}]\nDone.", f"{MEANT}{MEANT}\nDone."),
    "an id after it": (f'[TOOL_CALLS][{OBJECT[:-1]}, "id": "VvvODy9mT"}}]', MEANT),
    "no list": (f"[TOOL_CALLS]{OBJECT}", MEANT),
    "a list without its end": (f"[TOOL_CALLS][{OBJECT}", MEANT),
    "a name": (f"[TOOL_CALLS]bash[ARGS]{LS}", MEANT),
    "several": (
        f"[TOOL_CALLS]bash[ARGS]{LS}[TOOL_CALLS]bash[ARGS]{LS} Done.",
        f"{MEANT * 2} Done.",
    ),
    "an id before it": (f"[TOOL_CALLS]bash[CALL_ID]VvvODy9mT[ARGS]{LS}", MEANT),
    "a name alone": (f"[TOOL_CALLS]bash{LS}", MEANT),
    "end markers": (f"[TOOL_CALLS][{OBJECT}][/TOOL_CALLS]So.[/TOOL_CALLS]", f"{MEANT}So."),
    "brackets": ('[TOOL_CALLS]bash[ARGS]{"command": "[[ -f [TOOL_"}', None),
    "a quoted marker": ('[TOOL_CALLS]bash[ARGS]{"command": "[TOOL_CALLS]"}', None),
    "ended by the next": (
        f'[TOOL_CALLS]bash[ARGS]{{"command": "l[TOOL_CALLS]bash[ARGS]{LS}',
        "=",
    ),
    "without its token": (f"bash[ARGS]{LS}", MEANT),
    "several without it": (
        f"\nbash[ARGS]{LS}\nbash [ARGS] {LS} Done.",
        f"\n{MEANT}\n{MEANT} Done.",
    ),
    "one without it after one with it": (f"[TOOL_CALLS]bash[ARGS]{LS}bash[ARGS]{LS}", MEANT * 2),
    "without it, undeclared": (f"rm[ARGS]{LS}\nbasher[ARGS]{LS}", "="),
    "without it, in a line": (f"I call bash[ARGS]{LS}", "="),
    "its arguments' token in prose": ("bash[ARGS] is how [ARGS] stands: bash[ARGS]x", "="),
    "in a string": (r'[TOOL_CALLS]bash[ARGS]"{\"command\":\"ls\"}"', MEANT),
    "cut off": ('[TOOL_CALLS]bash[ARGS]{"command": "l', "="),
    "in code": (f"`[TOOL_CALLS]` and\n```\n[TOOL_CALLS][{OBJECT}]\n```\n", "="),
    "in prose": ("The token [TOOL_CALLS] begins a list [1] of {calls}.", "="),
    "undeclared": (f"[TOOL_CALLS]rm[ARGS]{LS} [TOOL_CALLS][{OBJECT.replace('bash', 'rm')}]", "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str | None) -> None:
    wanted = text if wanted == "=" else wanted or f"[bash {text.partition('[ARGS]')[2]}]"
    assert read_at_any_cut(text, MISTRAL) == wanted


@given(st.data(), turns(), st.booleans())
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn, listed: bool) -> None:
    calls = "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(value)}" for name, value in turn.calls)
    if listed:
        objects = [{"name": name, "arguments": value} for name, value in turn.calls]
        calls = f"[TOOL_CALLS]{json.dumps(objects)}"
    text = f"{turn.before}{calls}\n{turn.after}"  # where nothing closes a call, text has its line
    assert_reads_back(turn, data.draw(cut(text)), MISTRAL)


def test_a_call_without_its_token_begins_any_line() -> None:
    """What has left of its name before is text as well."""
    text = f"Look.\nbash[ARGS]{LS} Done."
    assert scanned([text], MarkerSearch([MISTRAL])) == f"Look.\n{MEANT} Done."
    assert scanned(list(text), MarkerSearch([MISTRAL])) == f"Look.\nbash{MEANT} Done."
