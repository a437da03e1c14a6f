"""JSON calls between the markers of several families, as a table, and turns written in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.repair.formats.enclosed_json import (
    CALLING_TOOL,
    DOUBAO,
    GRANITE,
    LLAMA,
    MINIMAX_TEXT,
    NEMOTRON,
    SEED,
    TOOLS,
)
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.mistral import MISTRAL
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, turns
from tests.repair.turns import cut

LS = '{"command": "ls"}'
MEANT = f"[bash {LS}]"
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
PARAMETERS = OBJECT.replace("arguments", "parameters")
MARKERS = {
    "<TOOLCALL>": "</TOOLCALL>",
    "<tools>": "</tools>",
    "<|python_tag|>": "<|eom_id|>",
    "<|tool_call|>": "<|/tool_call|>",
    "<|FunctionCallBegin|>": "<|FunctionCallEnd|>",
    "<seed:tool_call>": "</seed:tool_call>",
    "[TOOL_CALL]": "[/TOOL_CALL]",
}
FORMATS = (NEMOTRON, TOOLS, LLAMA, GRANITE, DOUBAO, SEED, MINIMAX_TEXT, CALLING_TOOL)
BODIES = {
    "an object": (OBJECT, MEANT),
    "a list": (f" [{OBJECT}, {PARAMETERS}] ", MEANT * 2),
    "several": (f"\n{OBJECT}\n{OBJECT}\n", MEANT * 2),
    "after a semicolon": (f"{PARAMETERS}; {PARAMETERS}", MEANT * 2),
    "as the API has it": (f'[{{"type": "function", "function": {OBJECT}}}]', MEANT),
    "arguments in a string": (json.dumps({"name": "bash", "arguments": LS}), MEANT),
    "undeclared": (OBJECT.replace("bash", "rm"), "="),
    "another object": ('{"title": "bash", "arguments": {}}', "="),
    "no object": ("[1, 2]", "="),
    "prose": (" begins a call", "="),
}
CALLING = {
    "a call": (f"[Calling tool: bash({LS})]", MEANT),
    "after text": (f"Look.\n[Calling tool: bash( {LS})]\nDone.", f"Look.\n{MEANT}\nDone."),
    "several": (f"[Calling tool: bash({LS})]\n" * 2, MEANT * 2),
    "without its end": (f"[Calling tool: bash({LS}", MEANT),
    "a client's own words": ("[Calling tool: bash]\n[Calling tool: bash...] [Calling tool: ", "="),
    "code": ("[Calling tool: bash(x)] [Calling tool: {name}({arguments})]", "="),
    "undeclared": (f"[Calling tool: rm({LS})]", "="),
    "cut off": ('[Calling tool: bash({"command": "l', "="),
}


@pytest.mark.parametrize("begin", MARKERS)
@pytest.mark.parametrize(("body", "wanted"), BODIES.values(), ids=list(BODIES))
def test_what_stands_between_markers_however_it_is_cut(begin: str, body: str, wanted: str) -> None:
    text = f"Look. {begin}{body}{MARKERS[begin]}."
    wanted = text if wanted == "=" else f"Look. {wanted}."
    assert read_at_any_cut(text, *FORMATS, MISTRAL) == wanted


@pytest.mark.parametrize("begin", MARKERS)
def test_a_call_without_its_last_marker_is_whole(begin: str) -> None:
    assert read_at_any_cut(begin + OBJECT, *FORMATS) == MEANT
    cut_off = begin + OBJECT[:-4]
    assert read_at_any_cut(cut_off, *FORMATS) == cut_off


@pytest.mark.parametrize(("text", "wanted"), CALLING.values(), ids=list(CALLING))
def test_what_a_text_says_of_a_call(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, *FORMATS).strip() == (text if wanted == "=" else wanted).strip()


@given(st.data(), turns(), st.sampled_from(sorted(MARKERS)), st.sampled_from(["\n", "; ", "["]))
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn, begin: str, joint: str) -> None:
    objects = [{"name": name, "arguments": value} for name, value in turn.calls]
    body = json.dumps(objects) if joint == "[" else joint.join(map(json.dumps, objects))
    text = f"{turn.before}{begin}{body}{MARKERS[begin]}{turn.after}"
    assert_reads_back(turn, data.draw(cut(text)), *MarkerSearch(FORMATS))


@given(st.data(), turns())
@settings(max_examples=20)
def test_a_turn_that_shows_its_calls_is_read_back(data: st.DataObject, turn: Turn) -> None:
    calls = [f"[Calling tool: {name}({json.dumps(value)})]\n" for name, value in turn.calls]
    text = f"{turn.before}{''.join(calls)}{turn.after}"
    assert_reads_back(turn, data.draw(cut(text)), CALLING_TOOL)
