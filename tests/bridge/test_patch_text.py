"""What a model sends to `apply_patch`, in the forms of several schools, reaches it as the patch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reply.custom_input import CustomInputReader

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
