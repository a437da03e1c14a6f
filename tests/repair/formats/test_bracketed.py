"""Calls with arguments in brackets (Gemma, LFM2, MiniMax behind proxies) as tables, and turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.repair.events import Call, LeftAsText
from dragoman.repair.formats.formats_by_family import ALL, FormatChoice
from dragoman.repair.formats.literals import MAX_TOKENS
from dragoman.repair.formats.marker_search import MarkerSearch
from tests.repair.formats.turns import (
    DECLARED,
    Turn,
    assert_reads_back,
    events_of,
    read_at_any_cut,
    streamed,
    turns,
)
from tests.repair.streams import scanner_of
from tests.repair.turns import cut

LS = '{"command":"ls"}'
MEANT = f"[bash {LS}]"
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
FILE = "mcp__files__read-file"


def formats(names: str) -> MarkerSearch:
    choice = FormatChoice.of(names)
    assert choice is not None
    return choice.looked_for("")


GEMMA = {
    "a call": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>', MEANT),
    "values": (
        '<|tool_call>call:bash{command:<|"|>a "b" {c} <d|> \\n\n<|"|>,timeout:-2}<tool_call|>',
        r'[bash {"command":"a \"b\" {c} <d|> \\n\n","timeout":-2}]',
    ),
    "nested": (
        f'<|tool_call>call:{FILE}{{path:<|"|>a<|"|>,lines:[1,{{a:<|"|>}}]<|"|>,b:[true,null]}}]}}',
        f'[{FILE} {{"path":"a","lines":[1,{{"a":"}}]","b":[true,null]}}]}}]',
    ),
    "no arguments": ("<|tool_call>call:finish{}<tool_call|>", "[finish {}]"),
    "several": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>' * 2, MEANT * 2),
    "several in one": ("<|tool_call>call:bash{command:'ls'} call:finish{}<tool_call|>.", None),
    "text around": ('So. <|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|> Done.', None),
    "plain quotes": ('<|tool_call>call:bash{command: "ls"}<tool_call|>', MEANT),
    "single quotes": (
        "<|tool_call>call:bash{command: 'l\\'s, {'}",
        """[bash {"command":"l's, {"}]""",
    ),
    "quoted keys": ('<|tool_call>call:bash{<|"|>command<|"|>:<|"|>ls<|"|>}<tool_call|>', MEANT),
    "round brackets": ('<|tool_call>call:bash(command:<|"|>ls<|"|>)<tool_call|>', MEANT),
    "as Python": ('<|tool_call>call:bash(command="ls", timeout=None)<tool_call|>', None),
    "JSON inside": ('<|tool_call>call:bash({"command": "ls"})<tool_call|>', MEANT),
    "JSON alone": (f"<|tool_call>{OBJECT}<tool_call|>", MEANT),
    "another opener": ('<|tool_call|>call:bash{command:<|"|>ls<|"|>}<tool_call|>', MEANT),
    "another closer": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}<|tool_call|>', MEANT),
    "the next token": (
        '<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|><|tool_response>',
        MEANT,
    ),
    "no closer": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}', MEANT),
    "half a closer": ('<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_c', MEANT),
    "blanks": ('<|tool_call>\n call: bash { command : <|"|>ls<|"|> , }\n<tool_call|>', MEANT),
    "a server": ('<|tool_call>call:google:mcp:x:bash{command:<|"|>ls<|"|>}<tool_call|>', MEANT),
    "a string for an integer": (
        '<|tool_call>call:bash{command:5,timeout:<|"|>20<|"|>}<tool_call|>',
        '[bash {"command":"5","timeout":20}]',
    ),
    "a call in a string": (
        '<|tool_call>call:bash{command:<|"|><|tool_call>call:finish{}<tool_call|><|"|>}',
        '[bash {"command":"<|tool_call>call:finish{}<tool_call|>"}]',
    ),
    "a bare value": ("<|tool_call>call:bash{command:ls}<tool_call|>", "="),
    "half a string": ('<|tool_call>call:bash{command:<|"|>ls}<tool_call|>', "="),
    "an argument twice": ("<|tool_call>call:bash{command:'a',command:'b'}<tool_call|>", "="),
    "no value": ("<|tool_call>call:bash{command:}<tool_call|>", "="),
    "a list": ("<|tool_call>call:bash{'ls'}<tool_call|>", "="),
    "a damaged one that quotes a call": (
        f'<|tool_call>call:bash{{timeout:x,command:<|"|><tool_call>{OBJECT}</tool_call><|"|>}} a',
        "=",
    ),
    "undeclared": ("<|tool_call>call:rm{path:'x'}<tool_call|>", "="),
    "cut off": ('<|tool_call>call:bash{command:<|"|>l', "="),
    "cut off in its head": ("<|tool_call>call:ba", "="),
    "prose": ("It writes <|tool_call>call: and a {name}; <|tool_call> alone, call:bash{x}.", "="),
}
GEMMA["several in one"] = (GEMMA["several in one"][0], f"{MEANT}[finish {{}}].")
GEMMA["text around"] = (GEMMA["text around"][0], f"So. {MEANT} Done.")
GEMMA["as Python"] = (GEMMA["as Python"][0], '[bash {"command":"ls","timeout":null}]')
BEGIN, END = "<|tool_call_start|>", "<|tool_call_end|>"
LFM2 = {
    "a call": (f'{BEGIN}[bash(command="ls")]{END}', MEANT),
    "several": (f"{BEGIN}[bash(command='ls'), finish(), bash(command='ls')] {END}.", None),
    "values": (
        f"{BEGIN}[{FILE}(path='a\\n\\'\\u00e9\\x41\\d', lines=[1, -2.5, True, {{'a': None}}, []])]",
        f'[{FILE} {{"path":"a\\n\'éA\\\\d","lines":[1,-2.5,true,{{"a":null}},[]]}}]',
    ),
    "three quotes": (
        f'{BEGIN}[bash(command="""a "b"\n""")]{END}',
        r'[bash {"command":"a \"b\"\n"}]',
    ),
    "an empty string": (f"{BEGIN}[bash(command='')]{END}", '[bash {"command":""}]'),
    "no brackets": (f'{BEGIN}bash(command="ls"){END}', MEANT),
    "no closer": (f'{BEGIN}[bash(command="ls")]', MEANT),
    "JSON": (f"{BEGIN}[{OBJECT}]{END}", MEANT),
    "its closer in a string": (f'{BEGIN}[bash(command="{END})]")]{END}', None),
    "an expression": (f"{BEGIN}[bash(command='a' + 'b')]{END}", "="),
    "a call in a call": (f"{BEGIN}[bash(command=str(5))]{END}", "="),
    "a name": (f"{BEGIN}[bash(command=command)]{END}", "="),
    "no keyword": (f"{BEGIN}[bash('ls')]{END}", "="),
    "a format string": (f"{BEGIN}[bash(command=f'ls')]{END}", "="),
    "a tuple": (f"{BEGIN}[{FILE}(lines=(1, 2))]{END}", "="),
    "undeclared": (f"{BEGIN}[rm(path='x')]{END}", "="),
    "the second one is not declared": (f"{BEGIN}[bash(command='ls'), rm()]{END}.", None),
    "no call": (f"{BEGIN}[1, 2]{END} {BEGIN}[bash]{END} {BEGIN}x.{END}", "="),
    "cut off": (f"{BEGIN}[bash(command='ls'", "="),
    "a call of no tool after it": (
        '<|tool_call_start|>[bash(command="ls"), rm()]',
        f"{MEANT}, rm()]",
    ),
    "what may be its string, and a mark that is not escaped": (
        '<|tool_call_start|>[bash(command="ls"), rm(path="y")]',
        "=",
    ),
}
LFM2["several"] = (LFM2["several"][0], f"{MEANT}[finish {{}}]{MEANT}.")
LFM2["its closer in a string"] = (
    LFM2["its closer in a string"][0],
    f'[bash {{"command":"{END})]"}}]',
)
LFM2["the second one is not declared"] = (
    LFM2["the second one is not declared"][0],
    f"{MEANT}, rm()]{END}.",
)
MINIMAX = {
    "a call": (
        '[TOOL_CALL]\n{tool => "bash", args => {\n  --command "ls"\n}}\n[/TOOL_CALL]',
        MEANT,
    ),
    "several arguments": (
        '[TOOL_CALL]{tool => "bash", args => { --timeout 5 --command "a \\"b\\"\n"}}[/TOOL_CALL].',
        r'[bash {"timeout":5,"command":"a \"b\"\n"}].',
    ),
    "JSON arguments": ('[TOOL_CALL]{tool => "bash", args => {"command":"ls"}}[/TOOL_CALL]', MEANT),
    "JSON": (f"[TOOL_CALL]\n{OBJECT}\n[/TOOL_CALL]", MEANT),
    "no arguments": ('[TOOL_CALL]{tool => "finish", args => {}}[/TOOL_CALL]', "[finish {}]"),
    "no end": ('[TOOL_CALL]{tool => "bash", args => {--command "ls"}}', MEANT),
    "a string for an integer": (
        '[TOOL_CALL]{tool => "bash", args => {--command "5" --timeout "7"}}[/TOOL_CALL]',
        '[bash {"command":"5","timeout":7}]',
    ),
    "a bare value": ('[TOOL_CALL]{tool => "bash", args => {--command ls}}[/TOOL_CALL]', "="),
    "undeclared": ('[TOOL_CALL]{tool => "rm", args => {--path "x"}}[/TOOL_CALL]', "="),
    "prose": ("[TOOL_CALL] is {tool => and args}; [TOOL_CALL]{name}[/TOOL_CALL]", "="),
}


@pytest.mark.parametrize(
    ("names", "text", "wanted"),
    [
        pytest.param(names, *pair, id=f"{names}: {what}")
        for names, table in (("gemma", GEMMA), ("lfm2", LFM2), ("minimax_text", MINIMAX))
        for what, pair in table.items()
    ],
)
def test_what_a_text_says_however_it_is_cut(names: str, text: str, wanted: str) -> None:
    wanted = text if wanted == "=" else wanted
    found = read_at_any_cut(text, *formats(f"{names},hermes,mistral"))
    assert found.replace(": ", ":") == wanted.replace(": ", ":")


def test_among_all_formats_the_same_is_said() -> None:
    for table in (GEMMA, LFM2, MINIMAX):
        for what, (text, wanted) in table.items():
            said = read_at_any_cut(text[:400], *ALL) if what == "a call" else None
            assert said in (None, wanted)


@pytest.mark.parametrize(
    "text", ["<|tool_call>call:bash{command:ls}", f"{BEGIN}[bash(command=ls)]{END}"]
)
def test_a_damaged_call_is_recorded(text: str) -> None:
    events = events_of([text], ALL)
    assert any(isinstance(each, LeftAsText) and "damaged" in each.what for each in events)


@pytest.mark.parametrize(
    "half", ['<|tool_call>call:bash{command:<|"|>l', f"{BEGIN}[bash(", '[TOOL_CALL]{tool => "bash"']
)
def test_a_call_that_is_cut_off_is_text_and_the_turn_was_cut(half: str) -> None:
    for pieces in ([half], list(half)):
        out = streamed(pieces, *ALL)
        assert (out.content, out.calls, out.finish) == (half, [], ["length"])


@pytest.mark.parametrize(
    "head",
    [
        "<|tool_call>call:bash{command:",
        f"{BEGIN}[bash(command=",
        '[TOOL_CALL]{tool => "bash", args => {--command ',
    ],
)
@pytest.mark.parametrize("quote", ['"', "'", '"""', '<|"|>'])
def test_a_long_string_in_many_pieces_costs_what_its_length_costs(head: str, quote: str) -> None:
    scanner = scanner_of(DECLARED, "declared", ALL)
    events = scanner.feed(head + quote)
    line = "ab<c {x} \\\\ 'd' " if quote[0] != "'" else 'ab<c {x} \\\\ "d" '
    for _ in range(20_000):
        if scanner.take_more(line) is None:
            events += scanner.feed(line)
    tail = {"<": "}<tool_call|>", "[": "}}"}[head[0]] if BEGIN not in head else ")]"
    events += [*scanner.feed(quote + tail), *scanner.close()]
    assert [each.name for each in events if isinstance(each, Call)] == ["bash"]


@pytest.mark.parametrize(
    ("begin", "again", "end", "why"),
    [
        ("[", '"",', "])]", "too long"),
        ("[", "[],", "])]", "too long"),
        ("[", "1,", "])]", "damaged"),
        ("[", "a ", "])]", "damaged"),
        ('"', "\\n", '")]', ""),
        ('"', "<|", '")]', ""),
    ],
)
def test_the_brackets_and_values_of_a_call_have_a_bound(
    begin: str, again: str, end: str, why: str
) -> None:
    text = f"{BEGIN}[bash(command={begin}{again * (MAX_TOKENS + 1)}{end}"
    size = 1 if again == "<|" else 1000
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = events_of(pieces, formats("lfm2"))
    left = [each for each in events if isinstance(each, LeftAsText)]
    assert [why in f"{each.what} {each.why.value}" for each in left] == [True] * bool(why)
    assert any(isinstance(each, Call) for each in events) == (not why)


def gemma(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return f"[{','.join(map(gemma, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def lfm2(turn: Turn) -> str:
    calls = [
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in turn.calls
    ]
    return f"{BEGIN}[{', '.join(calls)}]{END}"


def arrows(turn: Turn) -> str:
    return "\n".join(
        f'[TOOL_CALL]\n{{tool => "{name}", args => {{\n'
        + "\n".join(f"  --{key} {json.dumps(value)}" for key, value in arguments.items())
        + "\n}}\n[/TOOL_CALL]"
        for name, arguments in turn.calls
    )


WRITERS: dict[str, Callable[[Turn], str]] = {
    "gemma": lambda turn: "".join(
        f"<|tool_call>call:{name}{gemma(arguments)}<tool_call|>" for name, arguments in turn.calls
    ),
    "lfm2": lfm2,
    "minimax_text": arrows,
}


@given(st.data(), turns(), st.sampled_from(sorted(WRITERS)))
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn, name: str) -> None:
    assume('<|\\"|>' not in json.dumps(turn.calls))  # Gemma has no way to write it
    text = f"{turn.before}{WRITERS[name](turn)}{turn.after}"
    assert_reads_back(turn, data.draw(cut(text)), *formats(name))
