"""The format of Hermes as a table, and turns written in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.events import Call, LeftAsText, Text
from dragoman.repair.formats.enclosed_json import HERMES
from dragoman.repair.formats.glm import GLM
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.formats.mistral import MISTRAL
from dragoman.repair.formats.qwen import QWEN
from tests.repair.formats.turns import (
    DECLARED,
    Turn,
    assert_reads_back,
    events_of,
    read_at_any_cut,
    repaired,
    turns,
)
from tests.repair.streams import scanner_of
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
    "no arguments": ('<tool_call>{"name": "finish"}</tool_call>', "[finish {}]"),
    "null": ('<tool_call>{"name": "finish", "arguments": null}</tool_call>', "[finish {}]"),
    "no closing tag": (f"<tool_call>\n{OBJECT}\n<tool_call>\n{OBJECT}", MEANT * 2),
    "no closing tag, text": (f"<tool_call>\n{OBJECT}\nDone.", f"{MEANT}\nDone."),
    "a brace too few, args": (
        f'<tool_call>{{"name": "bash", "args": {LS}\n</tool_call>.',
        f"{MEANT}.",
    ),
    "the end of a list that has not begun": (f"<tool_call>{OBJECT}]</tool_call>.", "="),
    "a comma outside of a list": (f"<tool_call>{OBJECT}, {OBJECT}</tool_call>.", "="),
    "cut off in args": (f'<tool_call>{{"name": "bash", "args": {LS}', "="),
    "cut off before arguments": ('<tool_call>{"name": "bash", "arguments": {', "="),
    "quoted tags": (
        f'<tool_call>{{"name": "bash", "arguments": {QUOTED}}}</tool_call>',
        f"[bash {QUOTED}]",
    ),
    "ended by its tag": (f"<tool_call>{OBJECT[:-4]}</tool_call>.", "="),
    "cut off": (f"<tool_call>{OBJECT[:-6]}", "="),
    "cut off after the name": ('<tool_call>{"name": "bash", "argu', "="),
    "cut off before it": ('<tool_call>{"name": "ba', "="),
    "in code": (f"`<tool_call>` and\n```\n<tool_call>{OBJECT}</tool_call>\n```\n", "="),
    "in prose": ("Between <tool_call> and </tool_call> stands an object {}.", "="),
    "undeclared": (f"<tool_call>{OBJECT.replace('bash', 'rm')}</tool_call> x", "="),
    "no call": ('<tool_call>{"command": "ls"}</tool_call> <tool_call>{x}</tool_call>', "="),
}
BODIES = {
    "args": ('{"name": "bash", "args": {"command": "ls"}}', MEANT),
    "input, in a string": (r'{"name": "bash", "input": "{\"command\": \"ls\"}"}', MEANT),
    "params before the name": ('{"params": {"command": "ls"}, "name": "bash"}', MEANT),
    "members of the object": (
        '{"name": "bash", "command": "a\nb", "timeout": 2}',
        r'[bash {"command":"a\nb","timeout":2}]',
    ),
    "before the name": ('{"command": "ls", "name": "bash", "id": "1"}', '[bash {"command":"ls"}]'),
    "beside empty arguments": (
        '{"name": "bash", "arguments": {}, "command": "ls"}',
        '[bash {"command":"ls"}]',
    ),
    "before the others": (
        '{"name": "bash", "timeout": 2, "arguments": {"command": "ls"}}',
        '[bash {"timeout":2,"command": "ls"}]',
    ),
    "as the API has it": (
        '{"type": "function", "function": {"name": "bash", "input": {"command": "ls"}}}',
        MEANT,
    ),
    "in doubled braces": ('{{"name": "bash", "args": {"command": "ls"}}}', MEANT),
    "nothing in it": ('{"name": "finish", "type": "function", "args": null}', "[finish {}]"),
    "an empty string": ('{"name": "finish", "arguments": ""}', "[finish {}]"),
    "an empty list": ('{"name": "finish", "arguments": []}', "[finish {}]"),
    "a name that is an argument": ('{"name": "note", "input": "x"}', '[note {"input":"x"}]'),
    "no such argument": ('{"name": "bash", "path": "/tmp"}', "="),
    "no such argument, beside one": ('{"name": "bash", "command": "ls", "path": "/tmp"}', "="),
    "no such argument, beside none": ('{"name": "finish", "arguments": {}, "path": "/tmp"}', "="),
    "no such argument in args": ('{"name": "bash", "args": {"path": "/tmp"}}', "="),
    "twice": ('{"name": "bash", "command": "a", "arguments": {"command": "b"}}', "="),
    "no JSON": ('{"name": "bash", "arguments": command=ls}', "="),
    "no JSON in braces": ('{"name": "bash", "arguments": {command: "ls"}}', "="),
    "no JSON in a string": ('{"name": "bash", "arguments": "ls"}', "="),
    "a list": ('{"name": "bash", "arguments": ["ls"]}', "="),
    "a number": ('{"name": "bash", "args": 5}', "="),
    "a key without quotes": ('{"name": "bash", command: "ls"}', "="),
    "a value without its end": ('{"name": "bash", "command": "ls}', "="),
}
"""What stands in a call's place, and what is meant."""


@pytest.mark.parametrize(
    "shape", ["<tool_call>{}</tool_call>.", "[TOOL_CALLS]{}", "[TOOL_CALLS][{}]"]
)
@pytest.mark.parametrize(("body", "wanted"), BODIES.values(), ids=list(BODIES))
def test_no_argument_that_was_written_is_lost(shape: str, body: str, wanted: str) -> None:
    text = shape.replace("{}", body)
    wanted = text if wanted == "=" else wanted + "." * text.endswith(".")
    assert read_at_any_cut(text, GLM, HERMES, QWEN, MISTRAL) == wanted


def test_an_earlier_call_is_one_though_the_next_is_damaged() -> None:
    damaged = '{"name": "bash", "path": "/tmp"}]'
    text = f"<tool_call>[{OBJECT}, {damaged}</tool_call>"
    assert read_at_any_cut(text, HERMES) == f"{MEANT} {damaged}</tool_call>"


def test_a_damaged_call_is_recorded() -> None:
    text = '<tool_call>{"name": "bash", "path": "/tmp"}</tool_call>'
    events = events_of([text], MarkerSearch([HERMES]))
    assert any(isinstance(each, LeftAsText) and "damaged" in each.what for each in events)


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, GLM, HERMES, QWEN) == (text if wanted == "=" else wanted)


@pytest.mark.parametrize("size", [7, 1000, 10**6])
@pytest.mark.parametrize("count", [3, 6000])
def test_very_many_tags_in_a_value_are_the_value(size: int, count: int) -> None:
    value = 'say \\"</tool_call>\\" ' * count + "\\\\"
    call = f'<tool_call>{{"name": "bash", "arguments": {{"command": "{value}"}}}}</tool_call> Done.'
    scanner = scanner_of(DECLARED, "declared", MarkerSearch((HERMES,)))
    events = [e for at in range(0, len(call), size) for e in scanner.feed(call[at : at + size])]
    events += scanner.close()
    (call_,) = [event for event in events if isinstance(event, Call)]
    assert call_.arguments == f'{{"command": "{value}"}}'
    assert "".join(event.text for event in events if isinstance(event, Text)) == " Done."


def test_a_call_goes_on_where_its_field_changes() -> None:
    text = f"<tool_call>{OBJECT}</tool_call>"
    for at in range(len("<tool_call>{"), len(text)):
        out = repaired([{"reasoning_content": text[:at]}, {"content": text[at:]}], (HERMES,))
        assert [call["arguments"] for call in out.calls] == [LS]


KEYS = ["arguments", "parameters", "args", "input", "params", ""]
"""The member that holds the arguments; empty: they are members of the object."""


@given(st.data(), turns(), st.sampled_from(["", "{", "["]), st.booleans())
def test_a_turn_is_read_back(
    data: st.DataObject,
    turn: Turn,
    opened: str,
    as_string: bool,
) -> None:
    text = turn.before
    for name, value in turn.calls:
        key = data.draw(st.sampled_from([key for key in KEYS if key not in value]))
        given_as = json.dumps(value) if as_string else value
        members = {"name": name, **({key: given_as} if key else value)}
        if data.draw(st.booleans()):
            members = dict(reversed(members.items()))
        indent = data.draw(st.sampled_from([None, 1]))
        call = json.dumps(members, indent=indent, ensure_ascii=data.draw(st.booleans()))
        text += f"<tool_call>\n{opened}{call}{ {'[': ']', '{': '}', '': ''}[opened] }\n</tool_call>"
    assert_reads_back(turn, data.draw(cut(text + turn.after)), HERMES, QWEN, GLM)
