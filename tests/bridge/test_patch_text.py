"""What a model sends to `apply_patch`, in the forms of several schools, reaches it as the patch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman.reply.turn_context import Tool
from dragoman.responses.custom_input import CustomInputReader

from .replying import call, calls, ended, run, turn

PATCH = '*** Begin Patch\n*** Update File: a "b".py\n@@\n-x = "\\n"\n+<EOF>\n*** End Patch'
HEREDOC = f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"
FENCED = f"```diff\n{PATCH}\n```"


def read(arguments: str, size: int) -> str:
    reader = CustomInputReader(patch=True)
    pieces = [arguments[n : n + size] for n in range(0, len(arguments), size)]
    return "".join(map(reader.feed, pieces)) + reader.close()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "arguments",
    [
        {"input": PATCH},
        {"patch": PATCH},
        {"command": ["apply_patch", PATCH]},
        {"command": HEREDOC},
        {"cmd": ["bash", "-lc", HEREDOC]},
        {"input": ["apply_patch", PATCH]},
        {"input": {"command": ["apply_patch", PATCH]}},
        {"input": json.dumps({"command": ["apply_patch", PATCH]})},
        {"input": json.dumps({"command": HEREDOC})},
        {"arguments": json.dumps({"input": PATCH})},
        {"input": HEREDOC},
        {"input": f"cd /project && {HEREDOC}"},
        {"input": FENCED},
        {"input": f"Here it is:\n{PATCH}\n```"},
        {"input": f"```\n{PATCH.replace('+<EOF>', '+*** End Patch')}\n```"},
        {"input": f"```bash\n{HEREDOC}```"},
        {"workdir": "/", "input": PATCH},
        {"input": f"[the patch]\n{PATCH}"},
        {"input": f'apply_patch "{PATCH}"'},
        FENCED,
        HEREDOC,
        PATCH,
        json.dumps({"input": PATCH}).replace("\\n", "\n", 2),
        json.dumps({"command": ["apply_patch", PATCH]}).replace("\\n", "\n", 2),
    ],
)
def test_the_patch_is_what_is_run(arguments: Any, size: int) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    assert read(text, size).rstrip("\n").replace("+*** End Patch", "+<EOF>") == PATCH


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        PATCH + "\n",
        PATCH + "\n\nmore",
        f"\n {PATCH}",
        f"{PATCH}\n```",
        "no patch",
        "x" * 1000 + PATCH,
        "",
    ],
)
def test_what_is_not_wrapped_is_left_alone(text: str, size: int) -> None:
    assert read(json.dumps({"input": text}), size) == text


def test_a_patch_is_passed_on_as_it_comes() -> None:
    reader = CustomInputReader(patch=True)
    assert reader.feed('{"input": "*** Begin Patch') == "*** Begin Patch"
    assert reader.feed("\\n*** End") == "\n*** End"


def test_a_call_of_codexs_custom_tool_has_the_patch_alone() -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    arguments = json.dumps({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{patch}EOF\n"]})
    asked = replace(turn(), tools={"apply_patch": Tool("custom", "apply_patch")})
    got = run([calls(call(0, arguments, name="apply_patch")), *ended("tool_calls")], turn_=asked)
    (item,) = got.output
    assert (item["type"], item["input"]) == ("custom_tool_call", patch)
