"""Whether a marker may begin a call, by the request and the model's names."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.repair.call_rule import rules_for
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2 import KIMI_K2
from tests.repair.streams import chunk, read, repair, sse

SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
NAMED = f'{SB}{CB}functions.bash:0{AB}{{"command": "ls"}}{CE}{SE}'
NAMELESS = f'{SB}{CB}call_1a2{AB}{{"command": "ls"}}{CE}{SE}'
UNDECLARED = f'{SB}{CB}functions.rm:0{AB}{{"path": "x"}}{CE}{SE}'
NAMELESS_UNDECLARED = f'{SB}{CB}7{AB}{{"path": "x"}}{CE}{SE}'
TEXTS = {
    "named": NAMED,
    "nameless": NAMELESS,
    "undeclared": UNDECLARED,
    "nameless, undeclared": NAMELESS_UNDECLARED,
}


@pytest.mark.parametrize(
    ("request_body", "reply_model", "calls"),
    [
        ({"tools": [BASH], "model": "kimi-k2.5"}, "", "any"),
        ({"tools": [BASH], "model": "auto"}, "kimi-k2.5", "any"),
        ({"tools": [BASH], "model": "gpt-5.5"}, "kimi-k2.5", "any"),
        ({"tools": [BASH], "model": "auto"}, "", "declared"),
        ({"tools": [BASH], "model": "deepseek-v4"}, "", "declared"),
        ({"tools": [BASH], "model": "gpt-oss-20b"}, "", "declared"),
        ({"tools": [BASH], "model": "gpt-5.5"}, "", "none"),
        ({"tools": [BASH], "model": "auto"}, "claude-opus-5", "none"),
        ({"tools": [BASH], "model": "kimi-k2.5", "tool_choice": "none"}, "", "none"),
        ({"model": "kimi-k2.5"}, "", "any"),
        ({"model": "my-model"}, "", "any"),
        (None, "", "any"),
        (None, "gpt-5.5", "none"),
        ({"model": "deepseek-v4"}, "", "none"),
        ({"model": "gpt-5.5"}, "", "none"),
    ],
)
def test_the_rule(request_body: Any, reply_model: str, calls: str) -> None:
    assert rules_for(DeclaredTools.of_request(request_body), reply_model)(KIMI_K2).calls == calls


WANTED = {
    "any": {"named": "bash", "nameless": "bash", "undeclared": "rm", "nameless, undeclared": "7"},
    "declared": {"named": "bash", "nameless": "bash"},
    "none": {},
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("model", "rule"), [("kimi-k2.5", "any"), ("my-model", "declared"), ("gpt-5.5", "none")]
)
def test_what_is_no_call_stays_byte_for_byte(text: str, size: int, model: str, rule: str) -> None:
    leaked = f"Look. {TEXTS[text]} Done."
    deltas = [chunk({"content": leaked[i : i + size]}) for i in range(0, len(leaked), size)]
    stream = sse([{**value, "model": model} for value in [*deltas, chunk({}, "stop")]])
    repaired = repair(stream, {"tools": [BASH], "model": model})
    out = read(repaired)
    wanted = WANTED[rule].get(text)
    if wanted is None:
        assert repaired == stream
    else:
        assert [call["name"] for call in out.calls] == [wanted]
        assert out.content == "Look.  Done."


@pytest.mark.parametrize("end", [" Done.", ""])
@pytest.mark.parametrize(
    "marker",
    ["<|end|>", "<|message|>", "<|return|>", "</minimax:tool_call>", "</｜DSML｜tool_calls>"],
)
def test_a_marker_alone_is_text_unless_the_model_writes_such(marker: str, end: str) -> None:
    asked = {"tools": [BASH], "model": "my-model"}
    stream = sse([chunk({"content": f"It ends with {marker}{end}"}), chunk({}, "stop")])
    assert repair(stream, asked) == stream
    section = '<minimax:tool_call><invoke name="bash"></invoke></minimax:tool_call>'
    called = sse([chunk({"content": f"{section}</minimax:tool_call>"}), chunk({}, "stop")])
    assert read(repair(called, asked)).content == ""
