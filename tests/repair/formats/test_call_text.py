"""The text of one call between tags: more text never changes where it ends, or what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats import glm, qwen
from dragoman.repair.formats.call_text import CallHead, CallText, Reading
from dragoman.repair.formats.tags import TagTable

from .test_tagged_call import REQUEST, WRITERS, text_of

TOOLS = DeclaredTools.of_request(REQUEST)
TABLES = {"glm": glm.TABLE, "qwen": qwen.TABLE}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("bash", {"command": "ls -la", "timeout": 15}),
    ("write_file", {"path": "a.html", "content": "<b>a</b>\n</p> `</div>`"}),
    ("search", {"query": "how does </tool_call> end"}),
    ("search", {"query": "<parameter=x>a</parameter>, as here"}),
    ("count", {"lines": ["a", "</arg_value>", "</parameter>"]}),
]
"""With values that hold tags of others, and of their own format."""


def reading(text: str, table: TagTable, name: str, *, ended: bool = False) -> Reading | None:
    tags = list(table.in_value.tags_in(text))
    return CallText(text, tags, CallHead(table, name, TOOLS), ended=ended, whole=True).read()


def after_head(name: str, call: tuple[str, dict[str, Any]]) -> str:
    """As the format writes it, from after what names the tool."""
    head = {"glm": f"<tool_call>{call[0]}\n", "qwen": f"<tool_call>\n<function={call[0]}>\n"}[name]
    return text_of(WRITERS[name](*call, "\n")).removeprefix(head)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("call", CALLS, ids=["plain", "markup", "an end", "arguments", "a list"])
@pytest.mark.parametrize("after", ["\nDone.", "\n\nNow <b>this</b>.", "\n<tool_call>"])
def test_what_was_read_once_stays(name: str, call: tuple[str, dict[str, Any]], after: str) -> None:
    text = after_head(name, call) + after
    ended = reading(text, TABLES[name], call[0], ended=True)
    assert ended is not None
    assert ended.json is not None
    assert json.loads(ended.json) == call[1]
    for end in range(len(text)):
        early = reading(text[:end], TABLES[name], call[0])
        assert early in (None, ended), text[:end]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("call", CALLS[:2], ids=[call[0] for call in CALLS[:2]])
@pytest.mark.parametrize("after", ["", "\n<tool_call>", "\n<tool_call>\n"])
def test_half_a_call_is_none(name: str, call: tuple[str, dict[str, Any]], after: str) -> None:
    """One that ends within a value, wherever that is, and if another begins there."""
    text = after_head(name, call)
    opener = {"glm": "<arg_value>", "qwen": "<parameter="}[name]
    value = text.index(opener) + len(opener)
    closer = text.index({"glm": "</arg_value>", "qwen": "</parameter>"}[name], value)
    for end in range(value, closer):
        read = reading(text[:end] + after, TABLES[name], call[0], ended=True)
        assert read is None or read.json is None
