"""Kimi K3's format, as a table: what leaks, and what a client gets of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Text
from dragoman.repair.formats.formats_by_family import ALL
from dragoman.repair.formats.kimi_k3 import KIMI_K3
from tests.repair.formats.turns import DECLARED, gist, repaired
from tests.repair.streams import Read, scanner_of

from .leaks import REQUEST, Calls, at_any_cut, calls, dropped, read_back, said

OP, CL, SEP = "<|open|>", "<|close|>", "<|sep|>"
CLOSE = f"{CL}call{SEP}{CL}tools{SEP}"


def argument(key: str, value: str, kind: str = "string") -> str:
    return f'{OP}argument key="{key}" type="{kind}"{SEP}{value}{CL}argument{SEP}'


def call(name: str, *arguments: str) -> str:
    return f'{OP}call tool="{name}" index="1"{SEP}{"".join(arguments)}{CL}call{SEP}'


def section(*written: str) -> str:
    return f"{OP}tools{SEP}{''.join(written)}{CL}tools{SEP}"


LS = call("bash", argument("command", "ls"))
RUN = '[bash {"command":"ls"}]'


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "a section": (f"Look.{section(LS)} Done.", f"Look.{RUN} Done."),
        "several calls": (section(LS, "\n", LS) + section(LS), RUN * 3),
        "a bare call": (f"a {LS} b", f"a {RUN} b"),
        "no arguments": (section(call("finish")), "[finish {}]"),
        "types": (
            section(
                call(
                    "write",
                    argument("path", "1"),
                    argument("mode", "7", "number"),
                    argument("text", "{no", "object"),
                    argument("lines", '["a"]', "array"),
                    argument("x", "null", "null"),
                )
            ),
            '[write {"path":"1","mode":7,"text":"{no","lines":["a"],"x":null}]',
        ),
        "no type: the schema's": (
            section(call("bash", f'{OP}argument key="timeout"{SEP}60{CL}argument{SEP}')),
            '[bash {"timeout":60}]',
        ),
        "escaped names, in another order": (
            section(
                f'{OP}call index="2" tool="bash"{SEP}{OP}argument type="string" '
                f'key="&amp;quot;&quot;"{SEP}x{CL}argument{SEP}{CL}call{SEP}'
            ),
            '[bash {"&quot;\\"":"x"}]',
        ),
        "as one JSON text": (
            section(
                call(
                    "bash",
                    f'{OP}json type="object"{SEP}{{"command": "{CL}json{SEP}"}}{CL}json{SEP}',
                )
            ),
            f'[bash {{"command": "{CL}json{SEP}"}}]',
        ),
        "that is no JSON": (
            section(call("bash", f'{OP}json type="object"{SEP}{{no{CL}json{SEP}'), LS),
            f'{OP}tools{SEP}{OP}call tool="bash" index="1"{SEP}{OP}json type="object"{SEP}{{no'
            f"{CL}json{SEP}{CL}call{SEP}{RUN}",
        ),
        "JSON without its marker": (
            section(call("bash", '{"command": "ls"}')),
            RUN.replace(":", ": "),
        ),
        "markers in a string": (
            section(call("bash", argument("command", f"a {SEP}\n{OP} argument {CL} argumen"))),
            f'[bash {{"command":"a {SEP}\\n{OP} argument {CL} argumen"}}]',
        ),
        "an argument twice": (
            section(call("bash", argument("command", "ls"), argument("command", "rm"))),
            RUN,
        ),
        "blanks inside markers": (
            f'{OP} tools {SEP}{OP} call tool="bash" {SEP}{OP} argument key="command" type="string" '
            f"{SEP}ls{CL} argument {SEP}{CL} call {SEP}\n{CL} tools {SEP}",
            RUN,
        ),
        "two markers lost before a call, one before an argument's end": (
            f'{OP}toolscall tool="bash" index="1"{SEP}{OP}argument key="command" type="string"{SEP}'
            f"lsargument{SEP}{CL}call{SEP}{CL}toolstoolsmessage{SEP}",
            RUN,
        ),
        "no marker between an argument's end and the next": (
            section(
                call("write", argument("path", "a") + f'argument key="text"{SEP}b{CL}argument{SEP}')
            ),
            '[write {"path":"a","text":"b"}]',
        ),
        "ends lost before the next marker": (
            f'{OP}tools{OP}call tool="bash"{SEP}{OP}argument key="command" type="string"{SEP}ls'
            f"{CL}argument{CL}call{CL}tools{CL}message{SEP}",
            RUN,
        ),
        "no end of an argument": (
            section(
                f'{OP}call tool="write"{SEP}\n{OP}argument key="path" type="string"{SEP}a\n'
                f'{argument("text", "b")}{OP}call tool="bash"{SEP}'
                f'{OP}argument key="command" type="string"{SEP}ls{CLOSE}'
            ),
            f'[write {{"path":"a","text":"b"}}]{RUN}',
        ),
        "the word of a channel that lost its first marker is text": (
            f"Lint passesresponse{SEP}{OP}tools{LS.removeprefix(OP)}",
            f"Lint passesresponse{RUN}",
        ),
        "channels": (
            f"Hm.{CL}think{SEP}{OP}response{SEP}Sure.{CL}response{SEP}{section(LS)}{CL}message{SEP}<|end_of_msg|>",
            f"Hm.Sure.{RUN}",
        ),
        "cut off in a string": (
            f'{OP}call tool="bash"{SEP}{OP}argument key="command" type="string"{SEP}rm -rf /a'
            f"{CL}arg",
            "=",
        ),
        "cut off in a word that may begin a marker": (
            f'{OP}call tool="bash"{SEP}{OP}argument key="command" type="string"{SEP}beta',
            "=",
        ),
        "no end after an argument": (
            f'{OP}tools{SEP}{OP}call tool="bash"{SEP}{argument("command", "ls")}{CL}ca',
            RUN,
        ),
        "cut off in the tag of an argument": (
            f'{OP}tools{SEP}{OP}call tool="bash"{SEP}{argument("command", "ls")}{OP}argument key="',
            "=",
        ),
        "cut off after all calls": (f"{OP}tools{SEP}{LS}{CL}to", RUN),
        "no section": (section(), ""),
    }.values(),
)
def test_what_leaks_is_read_as_it_is_meant(text: str, wanted: str) -> None:
    assert at_any_cut(KIMI_K3, text) == (text if wanted == "=" else wanted)


@pytest.mark.parametrize(
    "text",
    [
        f"`{OP}tools{SEP}` begins them, `{CL}tools{SEP}` ends them.",
        f"```\n{section(LS)}\n```\n",
        section(call("rm", argument("command", "ls"))),
        section(call("ba sh")),
        f'{OP}tools{SEP}{OP}call tool="bash" ls -la',
        f"the {OP} marker, {OP}nothing{SEP.removesuffix('>')} and {OP}tools{SEP} are",
        f'{OP}tools{SEP}{OP}call tool="bash" index="1"{SEP}...{CL}',
        f'a {OP}call tool="bash"{SEP} begins one',
    ],
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    assert at_any_cut(KIMI_K3, text) == text


def of_kimi(deltas: list[dict[str, Any]]) -> Read:
    """What a client of a Kimi model gets of a stream with these deltas."""
    tools = DeclaredTools.of_request(REQUEST | {"model": "kimi-k3"})
    return repaired(deltas, (KIMI_K3,), tools=tools)


def test_what_a_channel_says_goes_where_it_belongs() -> None:
    texts = [
        "Now.",
        f"{CL}think{SEP}{OP}resp",
        f"onse{SEP}Su",
        "re.",
        f"{OP}think{SEP}Hm.{CL}th",
        f"ink{SEP}A",
    ]
    out = of_kimi([{"reasoning_content": text} for text in texts])
    assert (out.reasoning, out.content) == ("Now.Hm.", "Sure.A")
    texts = [f"{OP}think{SEP}I see.{CL}think{SEP}Yes.", section(LS)]
    out = of_kimi([{"content": text} for text in texts])
    assert (out.reasoning, out.content) == ("I see.", "Yes.")
    assert (len(out.calls), out.finish) == (1, ["tool_calls"])


@pytest.mark.parametrize("name", ["a<|b", "x<|sep|>y", "<|open|>"])
def test_an_attribute_may_hold_what_markers_begin_with(name: str) -> None:
    text = section(call("bash", argument(name, "ls")))
    assert at_any_cut(KIMI_K3, text) == f'[bash {{"{name}":"ls"}}]'


def test_calls_of_another_format_are_found_in_a_channel() -> None:
    hermes = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
    text = f"Hm.{CL}think{SEP}{OP}response{SEP}So {hermes} and `{hermes}`.{CL}response{SEP}"
    for size in (len(text), 1, 7):
        scanner = scanner_of(DECLARED, "declared", ALL)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events = [event for piece in pieces for event in scanner.feed(piece)] + scanner.close()
        assert gist(events) == f'Hm.So [bash {{"command": "ls"}}] and `{hermes}`.'
        assert {e.kind for e in events if isinstance(e, Text) and e.start > 3} == {"content"}


def test_a_channel_ends_with_the_field_it_stands_in() -> None:
    deltas = [{"reasoning_content": f"{OP}think{SEP}Hm."}, {"content": "Yes."}, {"content": "!"}]
    out = of_kimi(deltas)
    assert (out.reasoning, out.content) == ("Hm.", "Yes.!")


def test_what_was_taken_out_is_recorded() -> None:
    text = (
        f"a{CL}think{SEP}b{CL}response{SEP}{section()}{section(LS)}{CL}message{SEP}<|end_of_msg|>"
    )
    assert dropped(KIMI_K3, text) == [
        "channel marker think_end",
        "stray response_end",
        "empty section",
        *["channel marker after a section"] * 2,
    ]


@pytest.mark.parametrize("end", ["", f"{CL}message{SEP}<|end_of_msg|>", "\n"])
def test_a_section_that_ends_a_turn_of_kimi_is_meant_in_an_open_fence(end: str) -> None:
    text = f"```\nx\n{section(LS)}{end}"
    assert at_any_cut(KIMI_K3, text, "any") == f"```\nx\n{RUN}"
    text += "\n```"
    assert at_any_cut(KIMI_K3, text, "any") == text


def write(turn: Calls) -> str:
    types = {str: "string", bool: "boolean", int: "number", type(None): "null"}
    types |= {list: "array", dict: "object"}
    return section(
        *(
            call(name, *(argument(key, said(v), types[type(v)]) for key, v in arguments.items()))
            for name, arguments in turn
        )
    )


@given(calls([OP, SEP, "<|clo", "argument", "<"], closer="argument<|"), st.integers(1, 60))
def test_generated_turns_are_read_back(turn: Calls, size: int) -> None:
    read_back(KIMI_K3, write, turn, size)
