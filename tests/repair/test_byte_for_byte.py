"""Texts of all kinds that are no calls leave as they came: documentation of each format, prose,
code, pages, transcripts, logs, JSON of other kinds.  Where the end of a text may be a call, and
so is held, the text is the host's to the byte; else the whole stream is."""

from __future__ import annotations

import zlib

import pytest

from dragoman.notes import Evidence
from tests.repair.formats import test_looks_like_a_call, test_rare_formats, test_unknown_shape
from tests.repair.formats.test_all_formats import CALLS
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import chunk, read, repair, sse

A_CALL = ("a word", "an empty call")
"""What is one in some formats: a name between the tags, or nothing in the tag of a name."""
SHAPES = [shape for name, shape in test_looks_like_a_call.SHAPES.items() if name not in A_CALL]
ALONE = '```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```'
"""In a document it shows a call; as all of a text it is one."""
NEARLY = [
    # What clients and hosts print of calls
    "● Bash(ls -la)\n  ⎿  a.txt\n     b.txt",
    "⏺ Read(src/a.py)\n  ⎿ Read 12 lines",
    "• Ran `ls`\n└ a.txt",
    '[Tool Call: bash]\nArguments: {"command": "ls"}',
    "[Tool Result for ID call_1]\na.txt",
    'Tool call (bash, call call_1): {"command": "ls"}',
    "Tool call:bash",
    "tool: bash\nstatus: ok\noutput: a.txt",
    'assistant requested tool bash with {"command": "ls"}',
    "> bash command=ls\n\na.txt",
    'Assistant: [called bash with {"command": "ls"}]\nUser: thanks',
    'Calling bash with {"command": "ls"} …',
    '🔧 bash\n{"command": "ls"}\n✅ done',
    '(tool_use bash)\n{"command": "ls"}',
    # Logs
    '2026-11-02T10:00:00Z INFO tool=bash args={"command": "ls"} ms=12',
    '[12:00:01] [tool:bash] {"command": "ls"} took 3 ms',
    "common_chat_peg_parse: unparsed peg-native output: <tool_call>",
    "WARN parser: no end after <|tool_call_begin|>, 12 tokens dropped",
    "E srv  update_slots: <function=bash is not closed",
    'level=error msg="unknown tool" tool=bash',
    "bash: <parameter=command>: syntax error near unexpected token `newline'",
    '{"level": "info", "tool": "bash", "args": {"command": "ls"}}',
    # Code
    "const call = { name: 'bash', arguments: { command: 'ls' } };",
    'if text.startswith("<tool_call>"): name = text[11:].split("<")[0]',
    're.findall(r"<function=(\\w+)>(.*?)</function>", text, re.S)',
    'match tag { "<invoke" => parse_invoke(), _ => None }',
    'TOOLS = [bash, read]\nresult = bash(command="ls")',
    'assert parse(\'<tool_call>{"name": "bash"}</tool_call>\') == []',
    "<ToolCall name={call.name} args={call.args} />",
    "<script setup>\nconst bash = { command: 'ls' }\n</script>",
    "<Command bash={run} />",
    "tools:\n  - name: bash\n    command: ls",
    '[tool.bash]\ncommand = "ls"',
    "- uses: actions/bash@v1\n  with:\n    command: ls",
    # Documents and prose
    'The `bash` tool takes `command`: {"command": "ls"} lists files.',
    '1. bash {"command": "ls"}\n2. finish {}',
    '| tool | arguments |\n|---|---|\n| bash | {"command": "ls"} |',
    "Qwen writes <tool_call>, a line <function=NAME>, and <parameter=KEY> for each.",
    "Composer writes <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>KEY, a line end, and the value.",
    "Between <｜tool▁sep｜> and <｜tool▁call▁end｜> stand a key and its value.",
    "LM Studio ends it with [END_TOOL_REQUEST], some models with [TOOL_REQUEST_END].",
    "A message to=bash is one for the tool; to=self is a thought.",
    "A tag <name>bash</name> in <tool>…</tool> names it.",
    "Mistral's token is [TOOL_CALLS], others write [TOOL_CALL] or [ARGS].",
    "[bash]\nlists files\n[END]",
]
KINDS = {
    "documentation of each format": [
        shape.format(
            call=(call := CALLS[name].replace("¦", "")),
            other=call.replace("bash", "shell"),
            begin=CALLS[name].split("¦")[0],
            end=CALLS[name].split("¦")[-1],
        )
        for name in CALLS
        for shape in SHAPES
    ],
    "prose, code, pages and documents": [
        text for text in test_unknown_shape.corpus() if text != ALONE
    ],
    "JSON of other kinds": test_looks_like_a_call.ANSWERS,
    "what is nearly a call": NEARLY,
    "texts about rare formats": [*test_rare_formats.TEXTS.values()],
    "markup of other kinds": [*test_unknown_shape.TEXTS.values()],
}
HELD = ("what is nearly a call", "texts about rare formats", "markup of other kinds")
"""In these an event may be written anew, as part of it was held."""
REQUESTS = {
    "texts about rare formats": test_rare_formats.REQUEST,
    "markup of other kinds": test_unknown_shape.REQUEST,
    "prose, code, pages and documents": test_unknown_shape.REQUEST,
}


def stream(text: str) -> bytes:
    at = zlib.crc32(text.encode()) % (len(text) + 1)
    deltas = [{"content": piece} for piece in (text[:at], text[at:])]
    return sse([*(chunk(each, model="my-model") for each in deltas), chunk({}, "stop")])


def test_there_are_five_hundred_and_each_format_is_documented() -> None:
    assert sum(map(len, KINDS.values())) >= 2000
    assert len(KINDS["documentation of each format"]) == len(CALLS) * len(SHAPES) >= 500


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_is_no_call_leaves_byte_for_byte(kind: str) -> None:
    for text in KINDS[kind]:
        sent, evidence = stream(text), Evidence()
        got = repair(sent, REQUESTS.get(kind, REQUEST), evidence=evidence)
        if kind not in HELD:
            assert got == sent, text
        client = read(got)
        assert (client.content, client.calls) == (text, [])
        assert not evidence.calls
