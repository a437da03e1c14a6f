"""Texts that are nearly calls: no quotation mark, closing tag or missing argument makes another."""

from __future__ import annotations

import json

import pytest

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Call, LeftAsText, ScanEvent, Text
from dragoman.repair.formats.formats_by_family import ALL
from tests.repair.streams import scanner_of


def tool(name: str, *required: str, **properties: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}}
    schema["required"] = list(required)  # type: ignore[assignment]
    return {"type": "function", "function": {"name": name, "parameters": schema}}


REQUEST = {
    "tools": [
        tool("bash", "command", command="string", timeout="integer"),
        tool("read", "path", path="string", limit="integer"),
        tool("finish"),
    ]
}


def events_of(text: str, size: int) -> list[ScanEvent]:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ALL)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [event for piece in pieces for event in scanner.feed(piece)] + scanner.close()


def read(text: str) -> tuple[str, list[tuple[str, object]]]:
    """The text, and the calls; they are the same however it is cut."""
    out = []
    for size in (len(text), 1, 5):
        events = events_of(text, size)
        said = "".join(event.text for event in events if isinstance(event, Text))
        calls = [(e.name, json.loads(e.arguments)) for e in events if isinstance(e, Call)]
        out.append((said, calls))
    assert out[0] == out[1] == out[2]
    return out[0]


JSON = {
    "k2": "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "deepseek": "<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "r1": "<｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{}\n```<｜tool▁call▁end｜>",
    "hermes": '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>',
    "harmony": "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{}<|call|>",
    "mistral": "[TOOL_CALLS]bash[ARGS]{}",
    "mistral's list": '[TOOL_CALLS][{"name": "bash", "arguments": {}}]',
    "nemotron": '<TOOLCALL>[{"name": "bash", "arguments": {}}]</TOOLCALL>',
    "llama": '<|python_tag|>{"name": "bash", "parameters": {}}',
    "a client's words": "[Calling tool: bash({})]",
    "glm": "<tool_call>bash>{}</tool_call>",
    "qwen": "<tool_call><function=bash>{}</function></tool_call>",
    "gemma": "<|tool_call>call:bash({})<tool_call|>",
}
BRACKETS = {
    "gemma": '<|tool_call>call:bash{command:"¦"}<tool_call|>',
    "lfm2": '<|tool_call_start|>[bash(command="¦")]<|tool_call_end|>',
    "minimax": '[TOOL_CALL]\n{tool => "bash", args => {\n  --command "¦"\n}}\n[/TOOL_CALL]',
}
SHAPES = {name: shape.replace("{}", '{"command": "¦"}', 1) for name, shape in JSON.items()}
SHAPES |= {f"{name}, brackets": shape for name, shape in BRACKETS.items()}
UNESCAPED = [
    'echo "}" >> a.c',
    'echo "}} ok',
    'a "}\n b',
    'if (a) { "}\n}\n',
    'f("})") {',
    '"}',
    'a"}}]"',
    'x "]} y',
    'x ")] y',
    'x "}, "timeout": 5',
    'x"}]}\n\nDone.',
    'echo "}</tool_call>',
    '"}</tool_call>',
    'x "}</tool_call> y',
    'x"), rm(path="y',
]


@pytest.mark.parametrize("after", ["", "\nDone.", " x"])
@pytest.mark.parametrize("value", UNESCAPED)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_quotation_mark_that_is_not_escaped_runs_nothing_else(
    shape: str, value: str, after: str
) -> None:
    _, calls = read(shape.replace("¦", value) + after)
    assert calls in ([], [("bash", {"command": value})])


@pytest.mark.parametrize(
    "arguments", ["{...}", "{}", "{'command': 'ls'}", r"{\"command\": \"ls\"}"]
)
@pytest.mark.parametrize(
    ("before", "after"), [("It writes ", " and stops."), ("It is:\n\n", "\n\nThat is JSON.")]
)
@pytest.mark.parametrize("name", sorted(JSON.keys() - {"gemma"}))
def test_a_text_that_shows_a_format_is_a_text(
    name: str, before: str, after: str, arguments: str
) -> None:
    text = f"{before}{JSON[name].replace('{}', arguments, 1)}{after}"
    assert read(text) == (text, [])


TAGS = {
    "minimax_m2": (
        '<invoke name="bash"><parameter name="command">¦</invoke>',
        '<parameter name="timeout">5</parameter>',
    ),
    "qwen": ("<function=bash>\n<parameter=command>\n¦\n</function>", "\n<parameter=timeout>\n5\n"),
    "glm": (
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>¦\n</tool_call>",
        "<arg_key>timeout</arg_key><arg_value>5</arg_value>",
    ),
    "minimax_m3": (
        ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="bash">]<]minimax[>[<command>¦'
        "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
        "]<]minimax[>[<timeout>5]<]minimax[>[</timeout>",
    ),
    "dsml": (
        '<｜DSML｜invoke name="bash"><｜DSML｜parameter name="command" string="true">¦'
        "</｜DSML｜invoke>",
        '<｜DSML｜parameter name="timeout">5</｜DSML｜parameter>',
    ),
    "kimi_k3": (
        '<|open|>call tool="bash"<|sep|><|open|>argument key="command" type="string"<|sep|>¦'
        "<|close|>call<|sep|>",
        '<|open|>argument key="timeout" type="number"<|sep|>5<|close|>argument<|sep|>',
    ),
}
CLOSED_BY_NAMES = ("minimax_m2", "qwen", "glm")
WRONG = ["</param>", "</>", "</arg>", "</parameters>", "</parameer>", "</arg_val>", "</b>"]


@pytest.mark.parametrize("tag", WRONG)
@pytest.mark.parametrize("name", TAGS)
def test_a_value_that_another_tag_closes_is_no_argument(name: str, tag: str) -> None:
    shape, more = TAGS[name]
    for text in (shape.replace("¦", f"ls{tag}"), shape.replace("¦", f"ls{tag}{more}")):
        assert read(text) == (text, [])


@pytest.mark.parametrize("name", CLOSED_BY_NAMES)
def test_a_value_that_its_own_name_closes_is_one(name: str) -> None:
    shape, more = TAGS[name]
    assert read(shape.replace("¦", "ls</command>"))[1] == [("bash", {"command": "ls"})]
    calls = [("bash", {"command": "ls", "timeout": 5})]
    assert read(shape.replace("¦", f"ls</command>{more}"))[1] == calls


@pytest.mark.parametrize(
    "value",
    [
        "text with a literal <parameter=fake> inside",
        "a literal `</parameter>` before the real one",
        "the tag </parameter> ends it",
        "<command>ls</command>",
        "<content>A</content>",
    ],
)
def test_a_value_that_its_own_tag_closes_may_hold_any_other(value: str) -> None:
    text = f"<function=bash>\n<parameter=command>\n{value}\n</parameter>\n</function>"
    assert read(text)[1] == [("bash", {"command": value})]


@pytest.mark.parametrize(
    "text",
    [
        '<invoke name="bash"></invoke>ls</parameter></invoke>',
        '<invoke name="bash">\n</invoke>\nls -la\n</invoke>',
        "<function=bash></function>ls</parameter></function>",
        '<|tool_call_begin|>functions.read:0<|tool_calls_section_end|>{"path": "a"}',
        '<|tool_call_begin|>read:0<|tool_call_argument_begin|>{}<|tool_call_end|>{"path": "a"}',
        '<tool_call>{"name": "read"}</tool_call>{"path": "a"}',
        "<|tool_call>call:read{}<tool_call|>a.txt",
        "[Calling tool: read({})] shows a file.",
    ],
)
def test_no_call_lacks_an_argument_that_may_stand_behind_it(text: str) -> None:
    assert read(text) == (text, [])


@pytest.mark.parametrize("after", ["", "\n", "<|tool_call_begin|>finish:1<|tool_call_end|>"])
def test_a_call_that_lacks_an_argument_is_one_where_no_text_follows(after: str) -> None:
    text = "<|tool_call_begin|>read:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert read(text + after)[1][0] == ("read", {})


@pytest.mark.parametrize("name", ["k2", "harmony"])
@pytest.mark.parametrize("times", [2, 2000])
def test_a_marker_before_arguments_that_comes_again_counts_once(name: str, times: int) -> None:
    marker = {"k2": "<|tool_call_argument_begin|>", "harmony": "<|message|>"}[name]
    text = JSON[name].replace("{}", '{"command": "ls"}').replace(marker, marker * times)
    calls = [(e.name, json.loads(e.arguments)) for e in events_of(text, 4096) if type(e) is Call]
    assert calls == [("bash", {"command": "ls"})]


def test_the_rule_is_said_by_which_a_call_is_damaged() -> None:
    text = TAGS["qwen"][0].replace("¦", "ls</param>")
    left = [each.what for each in events_of(text, 9) if isinstance(each, LeftAsText)]
    assert "damaged call of bash: a value ends with another closing tag" in left


WITHOUT_END = {
    "self-closing": '<invoke name="finish"/>',
    "dsml": '<｜DSML｜invoke name="finish"/>',
    "no arguments": "<tool_call>finish</tool_call>",
    "glm": "<tool_call>bash<arg_key>command</arg_key><arg_value>ls</arg_value>",
    "qwen": "<function=bash><parameter=command>ls</parameter>",
    "claude": '<invoke name="bash"><parameter name="command">ls</parameter>',
    "hermes": '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}',
    "mistral": '[TOOL_CALLS]bash[ARGS]{"command": "ls"}',
}
QUOTING = {
    "inline code": "It is `a {} there` in code.",
    "inline code, and more lines": "It is `a {} there` in code.\n\nMore <b>of</b> it (so).\n",
    "two backticks": "It is ``a {} there`` in code.",
    "indented code": "So:\n\n    {}\n    is one (of them).\n\nSo <i>it</i> is (again).",
    "indented code, words before": "So:\n\n    it has {}\n    in it.\n",
    "a quotation": "> it has {} there\n> so\n\nSo.",
    "a row of a table": "| a | {} there | b |\n\nSo.",
    "a comment": "<!-- it has {} there -->\n\nSo.",
    "an element": "<pre>it has {}\nthere</pre>\n\nSo.",
}


@pytest.mark.parametrize("quotes", QUOTING.values(), ids=list(QUOTING))
@pytest.mark.parametrize("call", WITHOUT_END.values(), ids=list(WITHOUT_END))
def test_a_quoted_call_without_its_end_is_text(call: str, quotes: str) -> None:
    text = quotes.format(call)
    assert read(text) == (text, [])
