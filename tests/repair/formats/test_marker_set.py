"""Headers that are described once: what finds one, and what may become one, agree."""

from __future__ import annotations

import pytest

from dragoman.repair.formats import glm, qwen
from dragoman.repair.formats.marker_set import HeaderPattern, Missing

PATTERNS = {"qwen": qwen.TABLE.header, "glm": glm.TABLE.header}
HEADERS = {
    "qwen": [
        "=bash>\n<parameter",
        "=bash>{",
        "=bash></tool_call>",
        ' = "bash">\n</function>',
        "bash</parameter>\n<parameter",
        "bash</name> {",
    ],
    "glm": [
        "bash\n<arg_key>",
        "bash{",
        "bash>\n{",
        "bash</arg_value>",
        "bash</tool_call>",
        "bash<tool_sep>\n<arg_key>",
        "bash<tool_sep>{",
        "bash command</arg_key>",
        "bash\ncommand</arg_key>",
        "bash<tool_sep> command</arg_key>",
        "bash<tool_call>command</arg_key>",
        "bash</arg_key>",
    ],
}
CASES = [(name, header) for name, headers in HEADERS.items() for header in headers]


def _pattern(name: str) -> HeaderPattern:
    pattern = PATTERNS[name]
    assert pattern is not None
    return pattern


@pytest.mark.parametrize(("name", "header"), CASES)
def test_each_start_of_a_header_may_become_one(name: str, header: str) -> None:
    pattern = _pattern(name)
    found = pattern.header_at(header, 0)
    assert not isinstance(found, Missing)
    assert found["name"] == "bash"
    starts = [header[:at] for at in range(found.end())]
    assert {pattern.header_at(start, 0) for start in starts} == {Missing.YET}


@pytest.mark.parametrize(("name", "header"), CASES)
def test_what_cannot_become_one_is_none_at_once(name: str, header: str) -> None:
    pattern = _pattern(name)
    found = pattern.header_at(header, 0)
    assert not isinstance(found, Missing)
    texts = [f"{header[:at]}!" for at in range(found.end())]
    assert {pattern.header_at(text, 0) for text in texts} == {Missing.NONE}
