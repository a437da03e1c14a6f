"""Calls between tags, as pairs of text and call: whole, with hostile values, and damaged.

A damaged call is the right call or text to the character, never another call.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, LeftAsText, ScanEvent, Text
from dragoman.repair.formats.formats_by_family import AUTO
from dragoman.repair.formats.glm import TABLE
from dragoman.repair.formats.tagged_call import read_call
from tests.repair.streams import scanner_of

from .leaks import said
from .turns import events_of

pytestmark = pytest.mark.slow

OP, CL, SEP = "<|open|>", "<|close|>", "<|sep|>"
D, P = "｜DSML｜", "]<]minimax[>["
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TOOLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "write_file": ({"path": STRING, "content": STRING}, ["path", "content"]),
    "bash": ({"command": STRING, "timeout": INTEGER}, ["command"]),
    "search": ({"query": STRING, "kind": STRING}, ["query"]),
    "count": (
        {"n": INTEGER, "lines": {"type": "array", "items": STRING}, "options": {"type": "object"}},
        [],
    ),
    "typed": (
        {"n": INTEGER, "on": {"type": "boolean"}, "lines": {"type": "array", "items": STRING}},
        [],
    ),
    "send_command": ({"shell": STRING, "command": STRING}, ["command"]),
    "open": ({"path": STRING}, ["path"]),
}
REQUEST = {
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {
                    "type": "object",
                    "properties": declared,
                    "required": required,
                    "additionalProperties": name == "open",
                },
            },
        }
        for name, (declared, required) in TOOLS.items()
    ]
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "/tmp/a.txt", "content": "hello\nworld"}),
    ("bash", {"command": "ls -la", "timeout": 15}),
    ("search", {"query": "needle", "kind": "code"}),
    ("search", {"query": ""}),
    ("typed", {"n": 3, "on": True, "lines": ["a", "<b>"]}),
    ("open", {"path": "p", "mode": "fast", "size": 4}),
]
LINES: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "\na\n", "content": "hello\n\n"}),
]
"""Values with line ends, where these are no formatting."""
Parts = list[str | tuple[str]]
"""A call as its tags, and in tuples what is between them."""
Writer = Callable[[str, dict[str, Any], str], Parts]


def qwen(name: str, arguments: dict[str, Any], line: str) -> Parts:
    parts: Parts = ["<tool_call>", (line,), f"<function={name}>", (line,)]
    for key, value in arguments.items():
        written = (f"{line}{said(value)}{line}",)
        parts += [f"<parameter={key}>", written, "</parameter>", (line,)]
    return [*parts, "</function>", (line,), "</tool_call>"]


def glm(name: str, arguments: dict[str, Any], line: str) -> Parts:
    parts: Parts = ["<tool_call>", (name + line,)]
    for key, value in arguments.items():
        parts += ["<arg_key>", (key,), "</arg_key>", (line,)]
        parts += ["<arg_value>", (said(value),), "</arg_value>", (line,)]
    return [*parts, "</tool_call>"]


def invocations(section: str, head: str = "", *, typed: bool = False) -> Writer:
    def write(name: str, arguments: dict[str, Any], line: str) -> Parts:
        parts: Parts = [f"<{head}{section}>", (line,), f'<{head}invoke name="{name}">', (line,)]
        for key, value in arguments.items():
            kind = f' string="{str(isinstance(value, str)).lower()}"' if typed else ""
            parts += [f'<{head}parameter name="{key}"{kind}>', (said(value),)]
            parts += [f"</{head}parameter>", (line,)]
        return [*parts, f"</{head}invoke>", (line,), f"</{head}{section}>"]

    return write


def xai(name: str, arguments: dict[str, Any], line: str) -> Parts:
    parts: Parts = [f'<xai:function_call name="{name}">', (line,)]
    for key, value in arguments.items():
        parts += [f'<parameter name="{key}">', (said(value),), "</parameter>", (line,)]
    return [*parts, "</xai:function_call>"]


def minimax_m3(name: str, arguments: dict[str, Any], line: str) -> Parts:
    parts: Parts = [f"{P}<tool_call>", (line,), f'{P}<invoke name="{name}">', (line,)]
    for key, value in arguments.items():
        parts += [f"{P}<{key}>", (said(value),), f"{P}</{key}>", (line,)]
    return [*parts, f"{P}</invoke>", (line,), f"{P}</tool_call>"]


def kimi_k3(name: str, arguments: dict[str, Any], line: str) -> Parts:
    parts: Parts = [f"{OP}tools{SEP}", (line,), f'{OP}call tool="{name}" index="1"{SEP}', (line,)]
    for key, value in arguments.items():
        kind = "string" if isinstance(value, str) else "number"
        parts += [f'{OP}argument key="{key}" type="{kind}"{SEP}', (said(value),)]
        parts += [f"{CL}argument{SEP}", (line,)]
    return [*parts, f"{CL}call{SEP}", (line,), f"{CL}tools{SEP}"]


FORMATS = AUTO.looked_for("", claude=True)
WRITERS: dict[str, Writer] = {
    "kimi_k3": kimi_k3,
    "dsml": invocations("tool_calls", D, typed=True),
    "qwen": qwen,
    "glm": glm,
    "minimax_m2": invocations("minimax:tool_call"),
    "minimax_m3": minimax_m3,
    "claude": invocations("function_calls", "antml:"),
    "xai": xai,
    "gigachat": invocations("tool_calls", "｜GCML｜", typed=True),
}


def text_of(parts: Parts) -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in parts)


def events(text: str, size: int = 0) -> list[ScanEvent]:
    pieces = [text[at : at + (size or len(text))] for at in range(0, len(text), size or len(text))]
    return events_of(pieces, FORMATS, REQUEST)


def meant(text: str, size: int = 0) -> tuple[str, list[tuple[str, Any]]]:
    """The text and the calls that are read."""
    rest, calls = "", []
    for event in events(text, size):
        if isinstance(event, Text):
            rest += event.text
        elif isinstance(event, Call):
            calls.append((event.name, json.loads(event.arguments)))
    return rest, calls


def damages(tag: str, dice: random.Random, cuts: int = 2) -> list[str]:
    """What may be left of a tag: nothing, two of it, or one of the halves, cut after its first
    character, before its last, and at some others."""
    places = {1, len(tag) - 1, *(dice.randrange(1, len(tag)) for _ in range(cuts))}
    return ["", tag * 2, *(half for cut in sorted(places) for half in (tag[:cut], tag[cut:]))]


def damaged(parts: Parts, dice: random.Random, *, pairs: int = 0) -> Iterator[str]:
    """The call with each of its tags damaged in turn, or in the place of the next one; and with
    some pairs of its tags damaged, which are not neighbours: where nothing whole is left between
    two arguments, nobody can tell a damaged call from one that lacks an argument."""
    tags = [at for at, part in enumerate(parts) if isinstance(part, str)]
    changes = [{at: each} for at in tags for each in damages(str(parts[at]), dice, cuts=1)]
    changes += [{a: str(parts[b]), b: str(parts[a])} for a, b in itertools.pairwise(tags)]
    for _ in range(pairs):
        one, other = sorted(dice.sample(range(len(tags)), 2))
        if other > one + 1:
            two = (tags[one], tags[other])
            changes.append({at: dice.choice(damages(str(parts[at]), dice)) for at in two})
    for change in changes:
        yield text_of([change.get(at, part) for at, part in enumerate(parts)])


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("follows", ["", "\nDone.", "call"])
def test_a_call_with_a_damaged_tag_is_that_call_or_text_and_never_another(
    name: str, follows: str
) -> None:
    write, mended, dice = WRITERS[name], 0, random.Random(name + follows)
    # Half a tag of M3 may be followed by a line end of its own, which looks like the value's.
    calls = CALLS if name in ("qwen", "minimax_m3") else CALLS + LINES
    # With and without line ends; of each call one of the two, whichever text follows.
    lines = ("", "\n") if follows == "\nDone." else ("\n", "")
    for call, line in zip(calls, itertools.cycle(lines), strict=False):
        other = ("bash", {"command": "pwd"})
        after = "\n" + text_of(write(*other, line)) if follows == "call" else follows
        pairs = 40 if call in (CALLS[0], CALLS[4]) and follows != "call" else 0
        for text in damaged(write(*call, line), dice, pairs=pairs):
            rest, read = meant(text + after)
            read = [each for each in read if follows != "call" or each != other]
            assert read in ([], [call]), text
            mended += bool(read)
            if not read and not pairs and follows != "call":
                assert rest == text + after
    assert mended > len(CALLS) * 2


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("value", ["ls > out.txt", "<p>a</p>", "a <b", "2 > 1 && x"])
def test_a_call_that_lacks_an_argument_is_a_call_whatever_its_value_holds(
    name: str, value: str
) -> None:
    for line in ("\n", ""):
        call = ("write_file", {"content": value})
        text = text_of(WRITERS[name](*call, line))
        assert meant(text + " Done.")[1] == [call], "its tool says what is missing"


@pytest.mark.parametrize("name", WRITERS)
def test_a_value_may_quote_the_tags_of_any_format(name: str) -> None:
    write = WRITERS[name]
    quoted = ("bash", {"command": "ls"})
    values = [text_of(other(*quoted, line)) for other in WRITERS.values() for line in ("\n", "")]
    closing = {"qwen": "</parameter>", "minimax_m2": "</parameter>", "glm": "</arg_value>"}
    closing |= {"dsml": f"</{D}parameter>", "minimax_m3": f"{P}</content>"}
    closing["kimi_k3"] = f"{CL}argument{SEP}"
    values += [f"a {tag} b" for tag in closing.values()]
    values += ["x</function>y", "</tool_call> z", "<tool_call>", '{"name": "bash"}', "<p>\n</p>"]
    for value in values:
        hostile = f"So:\n{value} it is"
        for arguments, line in (
            ({"path": "a", "content": hostile}, "\n"),
            ({"content": hostile, "path": "a"}, ""),
        ):
            text = text_of(write("write_file", arguments, line))
            for size in (0, 1, 7):
                assert meant(f"{text} Done.", size) == (" Done.", [("write_file", arguments)])


BASH = [("bash", {"command": "ls"})]
BASH_5: list[tuple[str, Any]] = [("bash", {"command": "ls", "timeout": 5})]
WRITE = [("write_file", {"path": "/tmp/x", "content": "hello"})]
CONTENT = "<arg_key>content</arg_key><arg_value>hello</arg_value></tool_call>"
TAIL = "</function></tool_call>"
TYPED: list[tuple[str, Any]] = [("typed", {"n": 3, "on": True})]
LISTS: list[tuple[str, Any]] = [("typed", {"lines": ["a", "b"], "n": 3})]
K3_LS = f'{OP}call tool="bash"{SEP}{OP}argument key="command" type="string"{SEP}ls'
K3_TOOLS = f"{OP}tools{SEP}"
K3_TIMEOUT = f'{OP}argument key="timeout" type="number"{SEP}5'
K3_END = f"{CL}argument{SEP}{CL}call{SEP}"
DSML_STRING = f'<{D}invoke name="bash"><{D}parameter name="command" string'
DSML_LS = f'{DSML_STRING}="true">ls'


@pytest.mark.parametrize(
    ("text", "calls"),
    {
        "GLM: no beginning of a value": (
            f"<tool_call>write_file<arg_key>path</arg_key>/tmp/x</arg_value>{CONTENT}",
            WRITE,
        ),
        "GLM: no beginning of another": (
            "<tool_call>write_file<arg_key>path</arg_key><arg_value>/tmp/x</arg_value>"
            "<arg_key>content</arg_key>hello</arg_value></tool_call>",
            WRITE,
        ),
        "GLM: a name glued to the first key": (
            "<tool_call>write_filepath</arg_key><arg_value>/tmp/x</arg_value>" + CONTENT,
            WRITE,
        ),
        "GLM: a name before the first key": (
            "<tool_call>write_file\npath</arg_key>\n<arg_value>/tmp/x</arg_value>" + CONTENT,
            WRITE,
        ),
        "GLM: no end of a key": (
            f"<tool_call>write_file<arg_key>path<arg_value>/tmp/x</arg_value>{CONTENT}",
            WRITE,
        ),
        "GLM: two tools fit what is glued": (
            "<tool_call>send_commandshellcommand</arg_key><arg_value>x</arg_value></tool_call>",
            [],
        ),
        "Qwen: another dialect": (
            f'<tool_call><function=bash><parameter name="command">ls</parameter>{TAIL}',
            BASH,
        ),
        "Qwen: a value without its opening tag": (
            "<tool_call><function=write_file><parameter=path>/tmp/x</parameter>hello</parameter>"
            + TAIL,
            WRITE,
        ),
        "Qwen: text between arguments": (
            "<tool_call><function=write_file><parameter=path>/tmp/x</parameter>and"
            f"<parameter=content>hello</parameter>{TAIL}",
            [],
        ),
        "Qwen: seed's section": (
            "<seed:tool_call><function=bash><parameter=command>ls</parameter></function>"
            "</seed:tool_call>",
            BASH,
        ),
        "M3: the first tag without its beginning": (
            f'<tool_call>\n{P}<invoke name="bash">{P}<command>ls{P}</command>{P}</invoke>'
            f"{P}</tool_call>",
            BASH,
        ),
        "M3: an opening tag is lost, and its end has the name": (
            f'{P}<invoke name="write_file">{P}<path>/tmp/x{P}</path>hello{P}</content>{P}</invoke>',
            WRITE,
        ),
        "M3: a list without its end": (
            f'{P}<invoke name="count">{P}<lines>{P}<item>a{P}</item>{P}<item>b{P}</item>'
            f"{P}<n>3{P}</n>{P}</invoke>",
            [("count", {"lines": ["a", "b"], "n": 3})],
        ),
        "M3: an integer that is none, without its end": (
            f'{P}<invoke name="count">{P}<n>3>{P}<lines>{P}<item>a{P}</item>{P}</lines>'
            f"{P}</invoke>",
            [],
        ),
        "GLM: an object that is cut off, without its end": (
            '<tool_call>count<arg_key>options</arg_key><arg_value>{"a": 1'
            "<arg_key>n</arg_key><arg_value>3</arg_value></tool_call>",
            [],
        ),
        "M2: markup without its end": (
            '<invoke name="bash"><parameter name="command">cat <b> </b>\n</invoke>',
            [("bash", {"command": "cat <b> </b>"})],
        ),
        "DSML: a type against the schema": (
            f'<{D}invoke name="bash"><{D}parameter name="command" string="false">ls</{D}parameter>'
            f'<{D}parameter name="timeout" string="true">5</{D}parameter></{D}invoke>',
            [("bash", {"command": "ls", "timeout": 5})],
        ),
        "K3: one JSON text that is none": (
            f'{OP}call tool="bash"{SEP}{OP}json type="object"{SEP}{{no{CL}json{SEP}{CL}call{SEP}',
            [],
        ),
    }.values(),
)
def test_what_was_seen_in_the_wild(text: str, calls: list[tuple[str, Any]]) -> None:
    for size in (0, 1, 5):
        assert meant(text, size) == ("" if calls else text, calls)


M3_LISTS = (
    f'{P}<tool_call>{P}<invoke name="typed">{P}<lines>{P}<item>a{P}</item>{P}<item>b{P}</item>'
)
QUOTES = '<invoke name="x">\n<parameter name="a">1</parameter>\n<parameter name="b">2</parameter>'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        # Parts of the closing tag.
        (f"{K3_LS}close|>argument{SEP}{CL}call{SEP}", []),
        (f"{K3_LS}argument{SEP}{CL}call{SEP}", BASH),
        # Nothing else is missing: it may have been `ls -la`, and half its closing tag.
        (f"{K3_TOOLS}{K3_LS} -largument{SEP}{CL}call{SEP}{CL}tools{SEP}", []),
        (f"{K3_TOOLS}{K3_LS[len(OP) :]}argument{SEP}{CL}call{SEP}{CL}tools{SEP}", BASH),
        (f"{K3_TOOLS}{K3_LS}argument{SEP}{K3_TIMEOUT}argument{SEP}{CL}call{SEP}", BASH_5),
        (f"{K3_TOOLS}{K3_LS}argument{SEP}{K3_TIMEOUT}{K3_END}{CL}tools{SEP}", []),
        (f"{K3_TOOLS}{K3_LS}argument{SEP}{K3_TIMEOUT[len(OP) :]}{K3_END}", BASH_5),
        (f"{K3_LS}<|{CL}call{SEP}", []),
        ("<tool_call><function=bash><parameter=command>ls</</function></tool_call>", []),
        # What is left of an opening tag after a closing tag.
        (f'{K3_LS}{CL}argument{SEP}open|>argument key="timeout" type="number"{SEP}5{K3_END}', []),
        (f"{K3_LS}{CL}argument{SEP}>5{K3_END}", []),
        (f'{DSML_LS}</{D}parameter> string="false">5</{D}parameter></{D}invoke>', []),
        (f"{DSML_LS}</{D}parameter>\n>5</{D}parameter></{D}invoke>", []),
        # A value without its closing tag that is of another type.
        (f'{P}<invoke name="typed">{P}<n>3>{P}<on>true{P}</on>{P}</invoke>', []),
        (f'{P}<invoke name="typed">{P}<n>3{P}<on>true{P}</on>{P}</invoke>', TYPED),
        # A list without its closing tag.
        (f"{M3_LISTS}{P}<n>3{P}</n>{P}</invoke>{P}</tool_call>", LISTS),
        (f"{M3_LISTS}{P}</lines>{P}<n>3{P}</n>{P}</invoke>{P}</tool_call>", LISTS),
        # The opening tag of an argument that the tool has not, of which one closing tag is there.
        (f'{DSML_LS} <{D}parameter name="x" string="true"> y</{D}parameter></{D}invoke>', []),
        # An opening tag that has lost its end, and goes on in the value.
        ("<tool_call><function=bash><parameter=commandx = y > 2</parameter></function>", []),
        ('<invoke name="bash"><parameter name="command"x = y > 2</parameter></invoke>', []),
        (f'<{D}invoke name="bash"><{D}parameter nax = y > 2</{D}parameter></{D}invoke>', []),
        (f"{DSML_STRING}=code></{D}parameter></{D}invoke>", []),
        (f"{DSML_STRING}=ls > x</{D}invoke>", []),
        (f'<{D}invoke name="bash"><{D}parameter name=code></{D}parameter></{D}invoke>', []),
        (f'<{D}invoke name="bash"><{D}parameter name=command>ls</{D}parameter></{D}invoke>', BASH),
        (f"{DSML_STRING}=True>ls</{D}parameter></{D}invoke>", BASH),
        # A list with the first character of a tag.
        (f'{P}<invoke name="typed">{P}<lines>["a"]]{P}</lines>{P}</invoke>', []),
        # Another format's argument tags.
        (
            f"<tool_call><function=bash>\n<parameter=command>\n{QUOTES}\n</parameter>{TAIL}",
            [("bash", {"command": QUOTES})],
        ),
    ],
)
def test_a_damaged_value_is_no_part_of_a_call(text: str, calls: list[tuple[str, Any]]) -> None:
    for size in (0, 1, 5):
        assert meant(text, size) == ("" if calls else text, calls)


@pytest.mark.parametrize("name", ["kimi_k3", "dsml", "minimax_m3", "glm"])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_after_a_call_one_without_its_beginning_is_text(name: str, size: int) -> None:
    write, call = WRITERS[name], ("bash", {"command": "ls"})
    parts, other = write(*CALLS[0], "\n"), write(*call, "\n")
    # In one section, where the format has them: the second has lost its own opening tag.
    sections = name != "glm"
    lost = text_of(parts[4 if sections else 1 :])
    text = text_of(other[:-2] if sections else other) + "\n" + lost
    rest, calls = meant(text, size)
    assert calls == [call]
    assert rest.strip() == lost.strip()


@pytest.mark.parametrize("name", WRITERS)
def test_a_call_leaves_at_its_end_however_many_its_value_quotes(name: str) -> None:
    quoted = text_of(WRITERS[name](*CALLS[1], "\n")) * 50
    arguments = {"path": "a", "content": f"So:\n{quoted}."}
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", FORMATS)
    events = scanner.feed(text_of(WRITERS[name]("write_file", arguments, "\n")))
    assert [event.name for event in events if isinstance(event, Call)] == ["write_file"]


def test_a_damaged_call_is_recorded_as_one() -> None:
    text = f"<tool_call><function=bash><parameter=command>a</parameter>b<parameter=x>{TAIL}"
    left = [event for event in events(text) if isinstance(event, LeftAsText)]
    assert "damaged call of bash" in [event.what for event in left]


def test_the_text_of_a_call_is_read_by_one_function() -> None:
    tools = DeclaredTools.of_request(REQUEST)
    pair = "<arg_key>command</arg_key><arg_value>ls</arg_value>"
    assert read_call(f"{pair}</tool_call>", "bash", TABLE, tools) == '{"command":"ls"}'
    assert read_call(pair, "bash", TABLE, tools) == '{"command":"ls"}'
    assert read_call(f"{pair}and{pair}</tool_call>", "bash", TABLE, tools) is None
    assert read_call(f"{pair}</tool_call>.", "bash", TABLE, tools) is None
