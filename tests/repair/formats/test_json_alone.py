"""A call that is JSON and nothing else: what is one, what is an answer, and what waits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.formats_by_family import ALL, AUTO
from dragoman.repair.formats.json_alone import JSON_ALONE
from dragoman.repair.repair_options import RepairOptions
from tests.repair.formats.turns import DECLARED, Turn, cuts_of, gist, turns
from tests.repair.streams import chunk, read, repair, repair_whole, scanner_of, sse
from tests.repair.turns import cut

BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TAGS = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "additionalProperties": {"type": "string"},
}
REQUEST: dict[str, Any] = {
    "model": "qwen2.5-coder:14b",
    "tools": [
        {"type": "function", "function": {"name": "bash", "parameters": BASH}},
        {"type": "function", "function": {"name": "finish", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "tag", "parameters": TAGS}},
        {"type": "function", "function": {"name": "done"}},
    ],
}
LS = '{"command": "ls"}'
OBJECT = f'{{"name": "bash", "arguments": {LS}}}'
MEANT = f"[bash {LS}]"
CALLS = {
    "an object": (OBJECT, MEANT),
    "over lines": (f'\n{{\n  "name": "bash",\n  "arguments": {LS}\n}}\n', MEANT),
    "parameters": (OBJECT.replace("arguments", "parameters"), MEANT),
    "the name last": (f'{{"arguments": {LS}, "name": "bash"}}', MEANT),
    "as the API has it": (f'{{"type": "function", "function": {OBJECT}}}', MEANT),
    "arguments in a string": (json.dumps({"name": "bash", "arguments": LS}), MEANT),
    "doubled braces": (f"{{{OBJECT}}}", MEANT),
    "a name in another case": (OBJECT.replace('"bash"', '"Bash"'), MEANT),
    "a list": (f"[{OBJECT}, {OBJECT}]", MEANT * 2),
    "several": (f"{OBJECT}\n{OBJECT}", MEANT * 2),
    "several, as Llama writes them": (f"{OBJECT}; {OBJECT}", MEANT * 2),
    "no arguments": ('{"name": "finish", "arguments": {}}', "[finish {}]"),
    "arguments that its schema does not list": (
        '{"name": "finish", "arguments": {"reason": "done", "type": "final"}}',
        '[finish {"reason": "done", "type": "final"}]',
    ),
    "other arguments of a type": (
        '{"name": "tag", "arguments": {"owner": "me"}}',
        '[tag {"owner": "me"}]',
    ),
    "a fence": (f"```json\n{OBJECT}\n```", MEANT),
    "a fence without a word": (f"```\n{OBJECT}\n```\n", MEANT),
    "a fence after text": (f"I list them.\n\n```json\n{OBJECT}\n```", f"I list them.\n\n{MEANT}"),
    "a fence that stays open": (f"```tool_call\n[{OBJECT}]\n", MEANT),
    "after a thought": (
        f"<think>\nHm.\n</think>\n\n{OBJECT}",
        f"<think>\nHm.\n</think>\n\n{MEANT}",
    ),
    "after a thought that the prompt began": (f"Hm.</think>[{OBJECT}]", f"Hm.</think>{MEANT}"),
    "a fence after another": (f"```\nls\n```\nSo:\n```json\n{OBJECT}\n```", None),
}
CALLS["a fence after another"] = (CALLS["a fence after another"][0], f"```\nls\n```\nSo:\n{MEANT}")
ANSWERS = {
    "text follows": f"{OBJECT}\nThat is the call.",
    "text precedes": f"The call: {OBJECT}",
    "text follows a fence": f"```json\n{OBJECT}\n```\nRun it yourself.",
    "text follows a thought": f"<think>Hm.</think>\nSo: {OBJECT}",
    "text follows, after a thought": f"<think>Hm.</think>\n{OBJECT} Done.",
    "an answer after a thought": '<think>Hm.</think>\n{"name": "Ada", "born": 1815}',
    "a quoted thought": f"So:\n```\n<think>Hm.</think>\n{OBJECT}\n```",
    "undeclared": OBJECT.replace("bash", "rm"),
    "a longer name": OBJECT.replace("bash", "bash2"),
    "arguments against the schema": OBJECT.replace('"ls"', "5"),
    "a required argument is missing": '{"name": "bash", "arguments": {}}',
    "no arguments": '{"name": "finish"}',
    "no object": '{"name": "bash", "arguments": ["ls"]}',
    "other words": '{"name": "bash", "args": {"command": "ls"}}',
    "a member of its own": '{"name": "bash", "arguments": {"command": "ls"}, "note": 1}',
    "a person": '{"name": "Ada", "born": 1815}',
    "a schema": '{"type": "object", "properties": {"command": {"type": "string"}}}',
    "a list of numbers": "[1, 2, 3]",
    "a list that ends badly": f"[{OBJECT}, 5]",
    "other arguments of another type": '{"name": "tag", "arguments": {"owner": 5}}',
    "arguments of a tool that has none": '{"name": "done", "arguments": {"owner": 5}}',
    "a list of tools": '[{"name": "finish", "parameters": {"type": "object", "properties": {}}}]',
    "a tool without a type": '{"name": "finish", "parameters": {"properties": {"a": {}}}}',
    "a tool and its properties": '{"name": "finish", "parameters": {"a": {"type": "string"}}}',
    "half an object": OBJECT[:-1],
    "half a value": OBJECT[:-5],
    "a fence in a fence": f"````\n```json\n{OBJECT}\n```\n````",
    "a fence in a quotation": f"> ```json\n> {OBJECT}\n> ```\n",
    "a fence in a quoted line": f"> ```\n\n{OBJECT}",
    "an indented fence": f"So:\n\n    ```json\n    {OBJECT}\n    ```",
    "inline code": f"`{OBJECT}`",
    "a fence of Python": "```python\n{'name': 'bash'}\n```",
    "JSON of a document": '```json\n{"title": "bash", "arguments": {"command": "ls"}}\n```',
    "a link": "[bash](https://example.org) is a shell",
    "a reference": "[1] The first source.\n{x}",
}


def scanned(pieces: list[str], *, whole: bool = True) -> str:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ALL)
    events = [event for piece in pieces for event in scanner.feed(piece)]
    return gist(events + scanner.close(whole=whole))


@pytest.mark.parametrize(("text", "wanted"), CALLS.values(), ids=list(CALLS))
def test_what_is_a_call_however_it_is_cut(text: str, wanted: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert scanned(pieces).strip() == wanted, pieces


@pytest.mark.parametrize("text", ANSWERS.values(), ids=list(ANSWERS))
def test_what_is_an_answer_however_it_is_cut(text: str) -> None:
    for pieces in ([text], *cuts_of(text)):
        assert scanned(pieces) == text, pieces


@pytest.mark.parametrize("after", ["", " Done."])
def test_a_call_between_markers_is_one_whatever_json_is_before_it(after: str) -> None:
    text = f"```json\n{OBJECT}\n```\n<tool_call>{OBJECT}</tool_call>{after}"
    for pieces in ([text], *cuts_of(text)):
        assert scanned(pieces) == f"```json\n{OBJECT}\n```\n{MEANT}{after}"


@pytest.mark.parametrize("text", [pair[0] for pair in CALLS.values()], ids=list(CALLS))
def test_what_a_limit_has_cut_is_no_call(text: str) -> None:
    assert scanned([text], whole=False) == text


def stream(text: str, model: str) -> bytes:
    deltas = [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
    chunks = [*(chunk(delta, model=model) for delta in deltas), chunk({}, "stop", model=model)]
    return sse(chunks)


@pytest.mark.parametrize(
    ("more", "called"),
    [
        ({}, 1),
        ({"model": "llama3.1:8b"}, 1),
        ({"model": "my-model"}, 1),
        ({"model": "deepseek-v4"}, 0),
        ({"model": "kimi-k2.5"}, 0),
        ({"model": "gpt-5.5"}, 0),
        ({"model": "claude-opus-5"}, 0),
        ({"tool_choice": "none"}, 0),
        ({"tools": []}, 0),
        ({"response_format": {"type": "json_object"}}, 0),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, 0),
        ({"response_format": {"type": "text"}}, 1),
    ],
    ids=str,
)
def test_the_request_and_the_model_decide(more: dict[str, Any], called: int) -> None:
    request = REQUEST | more
    for text in (OBJECT, f"So:\n\n```json\n{OBJECT}\n```"):
        sent = stream(text, request["model"])
        evidence = Evidence()
        got = repair(sent, request, evidence=evidence)
        assert len(read(got).calls) == called
        assert (got == sent) == (not called)
        assert called or not evidence.notes
        message = {"role": "assistant", "content": text}
        body = json.dumps({"model": request["model"], "choices": [{"message": message}]}).encode()
        tools = DeclaredTools.of_request(request)
        assert (
            b'"tool_calls"' in repair_whole(body, tools, RepairOptions(), Evidence(), 1)
        ) == called


@pytest.mark.parametrize(
    "text", [*ANSWERS.values(), '{"title": "x", "items": [1, 2]}'], ids=[*ANSWERS, "other JSON"]
)
def test_an_answer_is_forwarded_byte_for_byte(text: str) -> None:
    sent = stream(text, "qwen2.5")
    assert repair(sent, REQUEST) == sent


@pytest.mark.parametrize(
    "text",
    [
        *('{"title": 1', "[1", '{"name": "bash2"', '{"name": "Ada"', '{"type": "object", "a": {'),
        *('```json\n{"title": 1', "```py\ndef", '[{"id": 5, "x": 1'),
    ],
)
def test_an_answer_waits_only_while_it_may_be_a_call(text: str) -> None:
    scanner = scanner_of(DeclaredTools.of_request(REQUEST), "declared", ALL)
    for character in text:
        scanner.feed(character)
    assert scanner.undecided == 0


@pytest.mark.parametrize("form", ["text", "json_object", "json_schema"])
def test_a_request_of_the_responses_api_may_ask_for_json_as_well(form: str) -> None:
    tools = ResponsesTools.of_request({"text": {"format": {"type": form}}})
    assert tools.declared.wants_json == (form != "text")


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        (["content", "reasoning_content"], 0),
        (["reasoning_content", "content"], 0),
        (["reasoning_content"], 1),
    ],
)
def test_it_is_no_call_if_the_turn_says_more(fields: list[str], called: int) -> None:
    deltas = [{fields[0]: OBJECT}, *({field: "Hm."} for field in fields[1:])]
    sent = sse([*(chunk(delta, model="qwen3") for delta in deltas), chunk({}, "stop")])
    got = repair(sent, REQUEST)
    assert len(read(got).calls) == called
    assert called or got == sent
    deltas.reverse()
    sent = sse([*(chunk(delta, model="qwen3") for delta in deltas), chunk({}, "stop")])
    assert len(read(repair(sent, REQUEST)).calls) == 1, "it ends the turn"


@pytest.mark.parametrize("text", [OBJECT, f"So:\n\n```json\n{OBJECT}\n```"])
@pytest.mark.parametrize("first", ["text", "call", "both"])
def test_it_is_no_call_beside_a_native_one(text: str, first: str) -> None:
    function = {"name": "bash", "arguments": '{"command": "pwd"}'}
    called = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    said = [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
    deltas = {
        "text": [*said, called],
        "call": [called, *said],
        "both": [{"content": text} | called],
    }
    sent = sse([*(chunk(delta, model="qwen3") for delta in deltas[first]), chunk({}, "stop")])
    assert read(repair(sent, REQUEST)).calls == read(sent).calls
    assert read(repair(sent, REQUEST)).content == text
    message = {"role": "assistant", "content": text, **called}
    body = json.dumps({"model": "qwen3", "choices": [{"message": message}]}).encode()
    tools = DeclaredTools.of_request(REQUEST)
    assert json.loads(repair_whole(body, tools, RepairOptions(), Evidence(), 1)) == json.loads(body)


@pytest.mark.slow
def test_a_call_that_is_no_longer_one_is_recorded() -> None:
    for text in (f"{OBJECT}\nThat is it.", OBJECT.replace("ls", "x" * 70_000)):
        evidence = Evidence()
        sent = stream(text, "qwen2.5")
        assert repair(sent, REQUEST, evidence=evidence) == sent
        assert "JSON call" in "; ".join(evidence.lines())


def test_of_two_formats_the_other_one_counts() -> None:
    assert JSON_ALONE in AUTO.looked_for("qwen3")
    text = f"[TOOL_CALLS][{OBJECT}]"
    assert scanned(list(text)) == MEANT


@given(st.data(), turns())
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn) -> None:
    objects = [{"name": name, "parameters": value} for name, value in turn.calls]
    body = data.draw(st.sampled_from([json.dumps(objects), "\n".join(map(json.dumps, objects))]))
    text = data.draw(st.sampled_from([body, f"Look.\n\n```json\n{body}\n```"]))
    scanner = scanner_of(DECLARED, "declared", ALL)
    events = [event for piece in data.draw(cut(text)) for event in scanner.feed(piece)]
    said = gist(events + scanner.close())
    wanted = "".join(f"[{name} {json.dumps(value)}]" for name, value in turn.calls)
    assert said.removeprefix("Look.").strip() == wanted
