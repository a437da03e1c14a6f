"""What leaks in a chat stream leaks in a native Responses stream as well: the same calls."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import repair_whole, tools_of
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import split
from fixtures.regenerate import chat_fixtures, expected, is_clean, request
from tests.bridge.hosts import HOSTS, OPENAI, Host
from tests.bridge.native_grammar import check_native
from tests.repair.formats import (
    test_deepseek,
    test_glm,
    test_harmony,
    test_hermes,
    test_mistral,
    test_qwen,
)
from tests.repair.formats.turns import REQUEST as WITH_BASH
from tests.repair.streams import read
from tests.responses.test_repair import cut, repaired

Json = dict[str, Any]
FORMATS = {
    "deepseek-r1": test_deepseek.TABLE["several"],
    "openai/gpt-oss-120b": test_harmony.TABLE["several"],
    "devstral-small": test_mistral.TABLE["a longer list"],
    "qwen2.5-coder": test_hermes.TABLE["several"],
    "accounts/fireworks/models/qwen3-coder": test_qwen.TABLE["several"],
    "z-ai/glm-5.2:free": test_glm.TABLE["several"],
    "my-model": test_glm.TABLE["several"],
}
"""By the name of a model, what it leaks and what that means."""
K2 = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>'
)
HERMES = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
EXAMPLES = [
    ("kimi-k2.5", K2, "> {}\n\nThat is one.", 0),
    ("kimi-k2.5", K2, "So:\n\n    {}\n\nThat is one.", 0),
    ("kimi-k2.5", K2, "<pre>\n{}\n</pre>", 0),
    ("kimi-k2.5", K2, 'It writes "{}".', 0),
    ("kimi-k2.5", K2, "So:\n\n    {}", 1),
    ("kimi-k2.5", K2, "I check the `foo function: {}", 1),
    ("qwen2.5-72b", HERMES, "I check the `foo function: {}", 1),
    ("qwen2.5-72b", HERMES, "It writes `{}`.", 0),
]
OBJECT = '{"name": "bash", "arguments": {"command": "ls"}}'
CALL = ("call", "")
ALONE: dict[str, tuple[list[tuple[str, str]], int]] = {
    "a message": ([("text", OBJECT)], 1),
    "after thoughts": ([("reasoning", "Hm."), ("text", OBJECT)], 1),
    "a fence": ([("text", f"I look.\n\n```json\n{OBJECT}\n```")], 1),
    "thoughts": ([("reasoning", OBJECT)], 0),
    "before a message": ([("text", OBJECT), ("text", "All is well.")], 0),
    "before a call": ([("text", OBJECT), CALL], 0),
    "a fence before a call": ([("text", f"I look.\n\n```json\n{OBJECT}\n```"), CALL], 0),
    "before thoughts": ([("text", OBJECT), ("reasoning", "Hm.")], 0),
    "after a message": ([("text", "I look."), ("text", OBJECT)], 0),
    "after a call": ([CALL, ("text", OBJECT)], 0),
}
"""Turns with JSON alone, and how many calls it is."""
ELSEWHERE = (
    "kimi_cut_off",
    "kimi_ends_inside_call",
    "kimi_two_choices",
    "kimi_in_reasoning_details",
)
"""Fixtures of what a Responses stream has not, or where a call is cut, which is another test."""


def said_in(stream: bytes) -> list[tuple[str, list[str]]]:
    """The texts of a chat stream; none if it has native calls."""
    said: list[tuple[str, list[str]]] = []
    for frame in split(stream):
        chunk = {} if frame.is_done else json.loads(frame.data or b"{}")
        for choice in chunk.get("choices") or ():
            delta = choice["delta"]
            if delta.get("tool_calls"):
                return []
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            for kind, text in (("reasoning", thought), ("text", delta.get("content"))):
                if text and said and said[-1][0] == kind:
                    said[-1][1].append(text)
                elif text:
                    said.append((kind, [text]))
    return said


def leaking() -> list[Path]:
    folders = [folder for folder in chat_fixtures() if (folder / "upstream.sse").exists()]
    return [
        folder
        for folder in folders
        if folder.name not in ELSEWHERE
        and not is_clean(folder)
        and said_in((folder / "upstream.sse").read_bytes())
    ]


@pytest.mark.parametrize("folder", leaking(), ids=lambda folder: folder.name)
def test_the_calls_are_those_that_chat_clients_get(folder: Path) -> None:
    asked: Json = dict(request(folder))
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in asked.get("tools", [])]
    said = said_in((folder / "upstream.sse").read_bytes())
    wanted = read(expected(folder))
    for host in HOSTS:
        events = check_native(repaired(host.stream(said, model=str(asked["model"])), asked))
        output = events[-1]["response"]["output"]
        calls = [item for item in output if item["type"] == "function_call"]
        assert [(item["name"], item["arguments"]) for item in calls] == [
            (call["name"], call["arguments"]) for call in wanted.calls
        ]
        parts = [
            part for item in output for part in item.get("content") or item.get("summary") or []
        ]
        shown = "".join(part["text"] for part in parts)
        assert "".join(shown.split()) == "".join(wanted.text.split())


@pytest.mark.parametrize("model", FORMATS)
def test_other_formats_give_what_they_mean(model: str) -> None:
    text, wanted = FORMATS[model]
    asked: Json = dict(WITH_BASH, model=model)
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in asked["tools"]]
    for size in (3, 500):
        said = [(kind, cut(text, size)) for kind in ("reasoning", "text")]
        events = check_native(repaired(OPENAI.stream(said, model=model), asked))
        gist = ""
        for item in events[-1]["response"]["output"]:
            parts = item.get("content") or item.get("summary") or []
            gist += "".join(part["text"] for part in parts)
            if item["type"] == "function_call":
                gist += f"[{item['name']} {item['arguments']}]"
        assert "".join(gist.split()) == "".join((wanted * 2).split())


@pytest.mark.parametrize("turn", ALONE)
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_json_alone_is_a_call_if_its_message_is_the_whole_answer(host: Host, turn: str) -> None:
    asked: Json = dict(WITH_BASH, model="qwen3")
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in asked["tools"]]
    for size in (3, 500):
        said = [
            (kind, ["bash", '{"command": "pwd"}'] if kind == "call" else cut(text, size))
            for kind, text in ALONE[turn][0]
        ]
        stream = host.stream(said, model="qwen3")
        out = repaired(stream, asked)
        output = check_native(out)[-1]["response"]["output"]
        natives = sum(kind == "call" for kind, _ in said)
        calls = [item["type"] for item in output].count("function_call") - natives
        assert calls == ALONE[turn][1]
        assert (out == stream) is (calls == 0)
        whole = json.dumps(host.events(said, model="qwen3")[-1]["response"]).encode()
        sent = repair_whole(whole, tools_of(asked, "responses"), RepairOptions(), Evidence(), 1)
        calls = [item["type"] for item in json.loads(sent)["output"]].count("function_call")
        assert calls - natives == ALONE[turn][1]
        assert (sent == whole) is (calls == natives)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_call_that_a_limit_cuts_in_its_closing_tags_is_text(host: Host) -> None:
    call = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n<" + "/parameter>\n</function>"
    asked: Json = dict(WITH_BASH, model="qwen3-coder")
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in asked["tools"]]
    for size, cut_at in itertools.product((3, 500), (call.index("\n</p"), len(call) - 3)):
        stream = host.stream([("text", cut(call[:cut_at], size))], model="qwen3-coder")
        limited = stream.replace(b"response.completed", b"response.incomplete")
        assert repaired(limited, asked) == limited


@pytest.mark.parametrize(("model", "call", "shape", "calls"), EXAMPLES)
def test_an_example_is_no_call_and_an_odd_backtick_quotes_none(
    model: str, call: str, shape: str, calls: int
) -> None:
    text = shape.replace("{}", call)
    asked: Json = {**WITH_BASH, "model": model}
    asked["tools"] = [{"type": "function", **tool["function"]} for tool in WITH_BASH["tools"]]
    for pieces in ([text], [text[at : at + 3] for at in range(0, len(text), 3)]):
        stream = OPENAI.stream([("text", pieces)], model=model)
        out = repaired(stream, asked)
        assert (out == stream) is (calls == 0)
        kinds = [item["type"] for item in check_native(out)[-1]["response"]["output"]]
        assert kinds == ["message", *["function_call"] * calls]
