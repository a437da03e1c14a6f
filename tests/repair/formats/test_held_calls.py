"""What holds for every format with tags around calls and arguments, whatever a model writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.call_reader import CANDIDATE_LIMIT, HELD_LIMIT
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, Dropped, LeftAsText, Refusal
from dragoman.repair.formats.glm import GLM
from dragoman.repair.formats.invoke import DSML, MINIMAX_M2
from dragoman.repair.formats.kimi_k3 import KIMI_K3
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.minimax_m3 import MINIMAX_M3
from dragoman.repair.formats.protocol import LeakFormat
from dragoman.repair.formats.qwen import QWEN
from tests.repair.streams import scanner_of
from tests.repair.test_scanner import gist
from tests.repair.turns import cut

from .leaks import REQUEST
from .turns import events_of

OP, CL, SEP = "<|open|>", "<|close|>", "<|sep|>"
D = "｜DSML｜"
P = "]<]minimax[>["
K3_CALL = f'{OP}call tool="bash" index="1"{SEP}'
K3_ARGUMENT = f'{OP}argument key="command" type="string"{SEP}'
OPENED: dict[LeakFormat, str] = {
    KIMI_K3: f"{OP}tools{SEP}{K3_CALL}{K3_ARGUMENT}",
    DSML: f'<{D}tool_calls><{D}invoke name="bash"><{D}parameter name="command" string="true">',
    MINIMAX_M2: '<minimax:tool_call><invoke name="bash"><parameter name="command">',
    MINIMAX_M3: f'{P}<tool_call>{P}<invoke name="bash">{P}<command>',
    QWEN: "<tool_call>\n<function=bash>\n<parameter=command>\n",
    GLM: "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>",
}
PIECES: dict[LeakFormat, list[str]] = {
    KIMI_K3: [
        *(OP, CL, SEP, "tools", "call", "argument", "json", "think", ' tool="bash"', ' key="x"'),
        *(f"{OP}tools{SEP}", K3_CALL, K3_ARGUMENT, f'{OP}json type="object"{SEP}{{"a":'),
        *(f"{CL}argument{SEP}", f"{CL}call{SEP}", f"{CL}tools{SEP}", f"{CL}json{SEP}"),
        *(f'{OP}call tool="rm"{SEP}', f"{OP}think{SEP}", f"{CL}think{SEP}", f"{OP}response{SEP}"),
    ],
    DSML: [
        *("<", f"<{D}", f"</{D}", "tool_calls", "invoke", "parameter", ' name="bash"', ">"),
        *(f"<{D}tool_calls>", f'<{D}invoke name="bash">', f"<{D}invoke name=rm>"),
        *(f'<{D}parameter name="command" string="true">', f'<{D}parameter name="x">'),
        *(f"</{D}parameter>", f"</{D}invoke>", f"</{D}tool_calls>"),
    ],
    MINIMAX_M2: [
        *("<", "</", "invoke", "parameter", ' name="bash"', ">", "<minimax:tool_call>"),
        *('<invoke name="bash">', "<invoke name='rm'>", "<parameter name=command>"),
        *('<parameter name="x">', "</parameter>", "</invoke>", "</minimax:tool_call>"),
    ],
    MINIMAX_M3: [
        *("]", "<x>", P, f"{P}<tool_call>", f'{P}<invoke name="bash">', f'{P}<invoke name="rm">'),
        *(f"{P}<command>", f"{P}<x>", f"{P}<item>", f"{P}</command>", f"{P}</x>", f"{P}</item>"),
        *(f"{P}</invoke>", f"{P}</tool_call>"),
    ],
    QWEN: [
        *("<tool_call>", "</tool_call>", "<function=bash>", "<function=rm>", "</function>"),
        *("<parameter=command>", "<parameter=timeout>", "<parameter=x>", "</parameter>", "</para"),
    ],
    GLM: [
        *("<tool_call>bash", "<tool_call>rm", "</tool_call>", "</arg_value>", "<arg_key>"),
        *(f"<arg_key>{key}</arg_key><arg_value>" for key in ("command", "timeout", "x")),
    ],
}
COMMON = ["\n", " ", "word ", "word", "12", "true", '"', "{", "}", "`", "```\n", '{"a":1}']


@pytest.mark.parametrize("leak", PIECES, ids=lambda leak: leak.name)
@given(st.data())
def test_any_cutting_reads_the_same_and_no_text_is_lost(
    leak: LeakFormat, data: st.DataObject
) -> None:
    pieces = data.draw(st.lists(st.sampled_from([*PIECES[leak], *COMMON]), max_size=12))
    text = "".join([data.draw(st.sampled_from(["", OPENED[leak]])), *pieces])
    whole = data.draw(st.booleans())
    search = MarkerSearch([leak])
    events = events_of([text], search, REQUEST, whole=whole)
    out = gist(events)
    for pieces in (list(text), data.draw(cut(text)), data.draw(cut(text))):
        assert gist(events_of(pieces, search, REQUEST, whole=whole)) == out
    for event in events:
        if isinstance(event, Call):
            json.loads(event.arguments)
    dropped = [event for event in events if isinstance(event, Dropped)]
    taken = [f"{event.kind.value} {event.what}".rstrip() for event in dropped]
    if not any("value" in what or "text" in what or "marker" in what for what in taken):
        assert out.count("word") == text.count("word")


@pytest.mark.parametrize("leak", OPENED, ids=lambda leak: leak.name)
def test_a_call_is_held_up_to_a_limit_and_its_text_need_not_wait(leak: LeakFormat) -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", MarkerSearch([leak]))
    text = OPENED[leak] + "e"
    assert gist(scanner.feed(text)) == ""
    assert (scanner.undecided, "".join(scanner.held_call)) == (0, text)
    word = 'cho "a\\'
    assert scanner.take_more(word) == ""
    text += word
    while len(text) <= HELD_LIMIT:
        assert scanner.take_more("x" * 100_000) == ""
        text += "x" * 100_000
    assert scanner.take_more("x") is None
    events = scanner.feed("x")
    assert gist(events) == text + "x"
    quoted = f"{OPENED[leak]}ls"  # by the rest of the value
    assert gist(scanner.feed(quoted) + scanner.close()) == quoted
    assert Refusal.TOO_LONG in [event.why for event in events if isinstance(event, LeftAsText)]


@pytest.mark.slow
@pytest.mark.parametrize("leak", PIECES, ids=lambda leak: leak.name)
def test_what_is_held_is_bounded(leak: LeakFormat) -> None:
    for opener in [*PIECES[leak], OPENED[leak], f"{OPENED[leak]}x", f"{PIECES[leak][0]}x "]:
        scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", MarkerSearch([leak]))
        step = opener * 100
        for _ in range(2 * CANDIDATE_LIMIT // len(step)):
            scanner.feed(step)
            assert scanner.undecided <= CANDIDATE_LIMIT + 2048
