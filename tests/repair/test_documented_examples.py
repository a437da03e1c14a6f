"""The examples of docs/repair.md: what comes of them is what the page says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman.bridge.convert_recorded import convert_recorded
from dragoman.notes import Evidence
from dragoman.repair.formats.formats_by_family import NAMES
from tests.live.mitmdump import ROOT
from tests.repair.streams import NOW, Read, chunk, read, sse

PAGE = (ROOT / "docs" / "repair.md").read_text()
EXAMPLES = re.findall(r"^```\n(model .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TEXTS = re.findall(r"^\| (`.*?`) \| .*\|$", PAGE.split("## The rules")[0], re.MULTILINE)
RULES = re.findall(
    r"^\| [^`|]*(?:`\w+`[^`|]*)?\| (`.*`) \| (`.*`|–) \| (`.*`|–) \|$", PAGE, re.MULTILINE
)
"""The table of rules by example."""
PARAMETERS = {"type": "object", "properties": {"command": {}}, "required": ["command"]}
FUNCTION = {"name": "bash", "parameters": PARAMETERS}


def repaired(model: str, text: str, finish: str) -> Read:
    """What a client reads of a stream of this text, in pieces of five characters."""
    request: Any = {"model": model, "tools": [{"type": "function", "function": FUNCTION}]}
    pieces = [chunk({"content": text[at : at + 5]}, model=model) for at in range(0, len(text), 5)]
    stream = sse([*pieces, chunk({}, finish, model=model)])
    return read(convert_recorded(stream, request, None, Evidence(), NOW))


def test_the_page_has_a_row_for_each_format() -> None:
    table = PAGE.split("## Formats")[1].split("###")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows[1:]))) == sorted(NAMES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_true(example: str) -> None:
    said: dict[str, list[str]] = {}
    for line in example.splitlines():
        said.setdefault(line[:8].rstrip(), []).append(line[8:])
    # The lines of a section of Kimi's are one.
    joint = "" if "kimi" in said["model"][0] else "\n"
    finish = "length" if "limit" in said else "stop"
    out = repaired(said["model"][0], joint.join(said["host"]), finish)
    assert out.content.strip() == "\n".join(said.get("client", []))
    assert [f"{call['name']} {call['arguments']}" for call in out.calls] == said.get("call", [])
    assert out.finish == said["finish"]


@pytest.mark.parametrize("cell", TEXTS)
def test_what_is_said_to_stay_text_stays_text(cell: str) -> None:
    text = cell[3:-3] if cell.startswith("`` ") else cell[1:-1]
    out = repaired("qwen3-coder", text, "stop")
    assert (out.content, out.calls, out.finish) == (text, [], ["stop"])


def in_code(cell: str) -> list[str]:
    """The pieces of code of a cell."""
    return [text.replace("\\|", "|") for text in re.findall(r"`(.*?)`", cell)]


@pytest.mark.parametrize(("written", "text", "arguments"), RULES)
def test_a_rule_is_as_its_example_says(written: str, text: str, arguments: str) -> None:
    out = repaired("qwen3-coder", *in_code(written), "stop")
    assert [out.content] == (in_code(text) or [""])
    assert [(call["name"], call["arguments"]) for call in out.calls] == [
        ("bash", each) for each in in_code(arguments)
    ]
    assert out.finish == ["tool_calls" if out.calls else "stop"]


def test_all_examples_were_found() -> None:
    assert (len(EXAMPLES), len(TEXTS), len(RULES)) == (6, 7, 17)
