"""The format of Hermes as a table, and turns written in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.repair.formats.glm import GLM
from dragoman.repair.formats.hermes import HERMES
from dragoman.repair.formats.qwen import QWEN
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, repaired, turns
from tests.repair.turns import cut

LS = '{"command": "ls"}'
MEANT = f"[bash {LS}]"
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
QUOTED = '{"command": "echo </tool_call> <tool_call>{"}'
TABLE = {
    "a call": (f"Look.\n<tool_call>\n{OBJECT}\n</tool_call>", f"Look.\n{MEANT}"),
    "several": (f"<tool_call>{OBJECT}</tool_call>\n" * 2 + "Done.", f"{MEANT * 2}\nDone."),
    "several in one": (f"<tool_call>\n{OBJECT}\n{OBJECT}\n</tool_call>.", f"{MEANT * 2}."),
    "a list": (f"<tool_call>[{OBJECT}, {OBJECT}]</tool_call>", MEANT * 2),
    "doubled braces": (f"<tool_call>\n{{{OBJECT}}}\n</tool_call>", MEANT),
    "a brace too many": (f"<tool_call>\n{OBJECT}}}\n</tool_call>", MEANT),
    "a brace too few": (f"<tool_call>\n{OBJECT[:-1]}\n</tool_call>.", f"{MEANT}."),
    "as the API has it": (
        f'<tool_call>[{{"type": "function", "function": {OBJECT}}}, '
        f'{{"function": {OBJECT}, "id": "x"}}]</tool_call>.',
        f"{MEANT * 2}.",
    ),
    "the name last": (f'<tool_call>{{"arguments": {LS}, "name":"bash"}}</tool_call>', MEANT),
    "more members": (
        f'<tool_call>{{"id": [1, "}}"], "name":"bash", "parameters": {LS}, "n": 1}}</tool_call>.',
        f"{MEANT}.",
    ),
    "arguments in a string": (
        r'<tool_call>{"name": "bash", "arguments": "{\"command\": \"\ud83d\u00e9\\n\"}"}',
        r'[bash {"command": "\ud83dé\n"}]',
    ),
    "arguments in a string, escaped once": (
        r'<tool_call>{"name": "bash", "arguments": "{\"command\": \"a\nb\"}"}',
        r'[bash {"command": "a\nb"}]',
    ),
    "no arguments": ('<tool_call>{"name": "finish"}</tool_call>', "[finish ]"),
    "null": ('<tool_call>{"name": "finish", "arguments": null}</tool_call>', "[finish ]"),
    "no closing tag": (f"<tool_call>\n{OBJECT}\n<tool_call>\n{OBJECT}", MEANT * 2),
    "no closing tag, text": (f"<tool_call>\n{OBJECT}\nDone.", f"{MEANT}\nDone."),
    "quoted tags": (
        f'<tool_call>{{"name": "bash", "arguments": {QUOTED}}}</tool_call>',
        f"[bash {QUOTED}]",
    ),
    "ended by its tag": (f"<tool_call>{OBJECT[:-4]}</tool_call>.", '[bash {"command": "l?].'),
    "cut off": (f"<tool_call>{OBJECT[:-6]}", '[bash {"command": …]'),
    "cut off after the name": ('<tool_call>{"name": "bash", "argu', "[bash …]"),
    "cut off before it": ('<tool_call>{"name": "ba', "="),
    "in code": (f"`<tool_call>` and\n```\n<tool_call>{OBJECT}</tool_call>\n```\n", "="),
    "in prose": ("Between <tool_call> and </tool_call> stands an object {}.", "="),
    "undeclared": (f"<tool_call>{OBJECT.replace('bash', 'rm')}</tool_call> x", "="),
    "no call": ('<tool_call>{"command": "ls"}</tool_call> <tool_call>{x}</tool_call>', "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, GLM, HERMES, QWEN) == (text if wanted == "=" else wanted)


def test_a_call_goes_on_where_its_field_changes() -> None:
    text = f"<tool_call>{OBJECT}</tool_call>"
    for at in range(len("<tool_call>{"), len(text)):
        out = repaired([{"reasoning_content": text[:at]}, {"content": text[at:]}], (HERMES,))
        assert [call["arguments"] for call in out.calls] == [LS]


@given(st.data(), turns(), st.sampled_from(["", "{", "["]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_turn_is_read_back(
    data: st.DataObject,
    turn: Turn,
    opened: str,
    as_string: bool,
) -> None:
    text = turn.before
    for name, value in turn.calls:
        arguments = json.dumps(value) if as_string else value
        call = json.dumps(
            {"name": name, "arguments": arguments}, indent=data.draw(st.sampled_from([None, 1]))
        )
        text += f"<tool_call>\n{opened}{call}{ {'[': ']', '{': '}', '': ''}[opened] }\n</tool_call>"
    assert_reads_back(turn, data.draw(cut(text + turn.after)), HERMES, QWEN, GLM)
