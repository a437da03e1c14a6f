"""Texts that look like calls, and are none: explanations, quotations, other JSON, and code."""

from __future__ import annotations

import json

import pytest

from tests.repair.formats.test_all_formats import BRACKETED, CALLS
from tests.repair.formats.turns import REQUEST, TOOLS
from tests.repair.test_call_finder import MODELS, at_sizes

NEW = (
    "nemotron",
    "llama",
    "granite",
    "doubao",
    "tools",
    "minimax_text",
    "calling_tool",
    *BRACKETED,
)
SHAPES = {
    "a fence": "It leaks:\n```\n{call}\n```\nand nothing runs.",
    "a fence of its own kind": "~~~text\n{call}\n~~~\n",
    "inline code": "It leaks as `{call}` there.",
    "a quoted line": "> {call}\n\nhe wrote.",
    "indented": "It leaks:\n\n    {call}\n\nand nothing runs.",
    "an element": "<pre>\n{call}\n</pre>\nis what I saw.",
    "quotation marks": "It prints “{call}” and stops.",
    "another tool": "I cannot do {other} here.",
    "markers alone": "A call begins with {begin} and ends with {end}, if at all.",
    "a marker and a name": "Write {begin} and then bash.",
    "a regular expression": "pattern = re.compile(r'{begin}(.*?){end}', re.DOTALL)",
    "Python": "body = text.split('{begin}')[1].split('{end}')[0]",
    "a table": "| begin | end |\n|---|---|\n| {begin} | {end} |\n",
    "an empty call": "{begin}{end} is empty.",
    "an ellipsis": "It has the form {begin}…{end}.",
    "a list of numbers": "{begin}[1, 2, 3]{end}",
    "a word": "{begin}bash{end}",
}
ANSWERS = [
    '{"answer": 42}',
    '{"name": "Ada Lovelace", "born": 1815}',
    '{"name": "bash"}',
    '{"name": "bash", "description": "runs commands", "parameters": {"type": "object"}}',
    '{"name": "finish", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "bash", "version": "5.2", "arguments": {"command": "ls"}}',
    '{"name": "bash", "arguments": "ls -la"}',
    '{"name": "bash", "arguments": ["-c", "ls"]}',
    '{"name": "bash", "arguments": null}',
    '{"name": "bash", "arguments": {"cmd": "ls"}}',
    '{"name": "bash", "arguments": {"command": ["ls"]}}',
    '{"name": "bash", "arguments": {"command": "ls"}, "result": "a.txt"}',
    '{"tool": "bash", "arguments": {"command": "ls"}}',
    '{"function": "bash", "arguments": {"command": "ls"}}',
    '{"action": "bash", "action_input": {"command": "ls"}}',
    '{"type": "tool_use", "name": "bash", "input": {"command": "ls"}}',
    '{"type": "object", "properties": {"name": {"type": "string"}}}',
    '{"arguments": {"command": "ls"}}',
    '{"arguments": {"command": "ls"}, "program": "bash"}',
    '{"parameters": [{"name": "id", "in": "path"}], "responses": {}}',
    '{"id": 7, "name": "bash", "stars": 12}',
    '{"id": "call_1", "status": "done"}',
    '{"bash": {"command": "ls"}}',
    '[{"name": "bash"}, {"name": "zsh"}]',
    '[{"name": "bash", "arguments": {"command": "ls"}}, {"name": "rm", "arguments": {}}]',
    '[{"name": "bash", "arguments": {"command": "ls"}}, "and so on"]',
    '[["bash", {"command": "ls"}]]',
    "[]",
    "{}",
    "[1, 2, 3]",
    '["bash", "finish"]',
    "{bash, finish}",
    "{'name': 'bash', 'arguments': {'command': 'ls'}}",
    '{name: "bash", arguments: {command: "ls"}}',
    '{"name": "bash", "arguments": {"command": "ls"}',
    '{"name": "bash", "arguments": {"command": "ls"}} is what I would call.',
    'I call {"name": "bash", "arguments": {"command": "ls"}}',
    '"{"name": "bash", "arguments": {"command": "ls"}}"',
    "{% for each in calls %}{{ each.name }}{% endfor %}",
    "{{ arguments }}",
    '{\n  // a comment\n  "name": "bash"\n}',
    json.dumps(REQUEST),
    json.dumps(REQUEST["tools"]),
    json.dumps([tool["function"] for tool in REQUEST["tools"]]),
    json.dumps(TOOLS, indent=2),
    json.dumps({"tool_calls": [{"function": {"name": "bash", "arguments": "{}"}}]}),
    "calls = [bash(command='ls'), finish()]",
    'call:bash{command:"ls"}',
    'bash({"command": "ls"})',
    '{tool => "bash", args => { --command "ls" }}',
    'Calling tool: bash {"command": "ls"}',
    "[Tool call: bash]",
    "[bash](https://www.gnu.org/software/bash/) runs commands.",
    '[1] {"name": "bash", "arguments": {"command": "ls"}}',
]
TEXTS = {
    # A bare name between GLM's tags, which Python's calls have as well, is a call of GLM's.
    **{
        f"{name}: {shape}": (name, shape)
        for name in NEW
        for shape in SHAPES
        if (name, shape) != ("python", "a word")
    },
    **{answer[:60]: ("", answer) for answer in ANSWERS},
    **{f"in a fence: {answer[:50]}": ("", f"```json\n{answer}\n```") for answer in ANSWERS[:24]},
}


def test_there_are_two_hundred() -> None:
    assert len(TEXTS) >= 200


@pytest.mark.parametrize(("name", "text"), TEXTS.values(), ids=list(TEXTS))
def test_it_stays_as_it_is(name: str, text: str) -> None:
    if name:
        begin, *_, end = CALLS[name].split("¦")
        call = CALLS[name].replace("¦", "")
        end = end if end[0] in "<[" else ")]"
        other = call.replace("bash", "shell").removesuffix("<|tool_call_end|>")
        text = SHAPES[text].format(call=call, other=other, begin=begin, end=end)
    for model in (MODELS.get(name, "qwen2.5:7b"), "my-model"):
        assert at_sizes(model, text).replace(": ", ":") == text.replace(": ", ":")
