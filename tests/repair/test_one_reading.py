"""Texts in which a call is in doubt have one reading, however they are cut: a table of those that
had two, or the wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repair.streams import chunk, read, repair, sse

Json = dict[str, Any]


def _tool(name: str, *required: str, **properties: str) -> Json:
    types = {key: {"type": each} for key, each in properties.items()}
    schema = {"type": "object", "properties": types, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("bash", "command", command="string", timeout="integer"),
    _tool("read", "path", path="string"),
]
LS = '{"command": "ls"}'
BASH, READ = ("bash", LS), ("read", '{"path": "a"}')
PYTHON = '[bash(command="ls")]'
LFM = "<|tool_call_start|>[bash(command=#)]<|tool_call_end|>"
INVOKE = '    <invoke name="bash"><parameter name="command">ls</parameter></invoke>\n'
READS = INVOKE.replace("bash", "read").replace("command", "path").replace(">ls<", ">a<")
NOTED = '<invoke name="bash"><parameter name="command" note="a=b">ls</parameter></invoke>'
ECHO = '{"command": "echo "#" >> b"}'
# The model, the text, its calls, and what of it stays text: all of it, if that is None.
READINGS: dict[str, tuple[str, str, list[tuple[str, str]], str | None]] = {
    "a list in Python, of a model that writes none": ("qwen3-coder", PYTHON, [], None),
    "of one that does": ("llama-3", PYTHON, [BASH], ""),
    "after blank lines": ("llama-3", "\n" * 70 + PYTHON, [BASH], "\n" * 70),
    "of another case": ("llama-3", PYTHON.replace("bash", "Bash"), [], None),
    "of another namespace": ("llama-3", PYTHON.replace("bash", "functions.bash"), [], None),
    "a name and JSON after blank lines": ("glm-4", "\n" * 65 + f"bash\n{LS}", [BASH], "\n" * 65),
    "a sum of strings": ("lfm2", LFM.replace("#", "'rm -rf '+'/tmp/x'"), [], None),
    "with a variable": ("lfm2", LFM.replace("#", '"cat "+path+" -n"'), [], None),
    "with a condition": ("lfm2", LFM.replace("#", '"a "if x else" b"'), [], None),
    "a quotation mark that nobody escaped": (
        "qwen2.5",
        '<tool_call>{"function=bash", "arguments": '
        + ECHO.replace("#", "}</tool_call>")
        + "}</tool_call> x",
        [],
        None,
    ),
    "in a tag of the tool's name": (
        "qwen2.5",
        f"<toolcall><bash>{ECHO.replace('#', '}</bash></toolcall>')}</bash></toolcall>",
        [],
        None,
    ),
    "a tag of the tool's name that another closes": (
        "qwen2.5",
        f"<toolcall><bash>{LS}</read></toolcall> after",
        [],
        None,
    ),
    "that blanks precede": (
        "qwen2.5",
        f"<toolcall><bash>{LS}{' ' * 20}</bash></toolcall>",
        [BASH],
        "",
    ),
    "calls that are indented alike": (
        "minimax-m2",
        f"Steps:\n{INVOKE}\n{READS}",
        [BASH, READ],
        "Steps:\n    ",
    ),
    "a call that is indented by less, and begins a block of code": (
        "minimax-m2",
        f"Steps:\n    {INVOKE}\n{READS}",
        [BASH],
        f"Steps:\n        \n\n{READS}",
    ),
    "an attribute with a sign in it": ("minimax-m2", NOTED, [BASH], ""),
    "a section with text that an indent might quote, and a marker without a header": (
        "kimi-k2.5",
        "    <|tool_calls_section_begin|>> \n<|tool_call_begin|>x y",
        [],
        "    > \n<|tool_call_begin|>x y",
    ),
    "a header that a line names": (
        "gpt-oss-20b",
        "It is <|channel|>final<|message|>, and then the answer.",
        [],
        None,
    ),
    "a header that a word precedes": (
        "gpt-oss-20b",
        "ok <|channel|>final<|message|>It is 42.",
        [],
        "ok It is 42.",
    ),
    "a call in a line, and another": (
        "glm-5",
        f'<tool_call>bash{LS}</tool_call>, <tool_call>read{{"path": "a"}}</tool_call>',
        [READ],
        f"<tool_call>bash{LS}</tool_call>, ",
    ),
}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("name", READINGS)
def test_a_text_has_one_reading(name: str, size: int) -> None:
    model, text, calls, content = READINGS[name]
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    stream = sse([*[chunk({"content": each}, model=model) for each in pieces], chunk({}, "stop")])
    out = read(repair(stream, {"model": model, "tools": TOOLS}))
    got = [(call["name"], call["arguments"]) for call in out.calls]
    assert [(each, args.replace('":"', '": "')) for each, args in got] == calls
    assert out.content == (text if content is None else content)
    assert out.finish == ["tool_calls" if calls else "stop"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"path</arg_key>": "a"}', '{"path": "a"}'),
        ('{"path</arg_key>": "a", "path</arg_key>": "b"}', None),
    ],
)
def test_a_key_with_a_tag_is_the_declared_one_if_it_comes_once(
    arguments: str, told: str | None
) -> None:
    function = {"name": "read", "arguments": arguments}
    native = {"index": 0, "id": "a", "type": "function", "function": function}
    stream = sse([chunk({"tool_calls": [native]}), chunk({}, "tool_calls")])
    (call,) = read(repair(stream, {"model": "glm-5", "tools": TOOLS})).calls
    assert call["arguments"] == (told or arguments)
