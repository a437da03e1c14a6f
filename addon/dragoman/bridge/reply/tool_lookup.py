"""Which tool a model means by a name.

A model is sent one name for each tool, and may answer without the namespace or with another joint
(``.``, ``/``, ``_``), with ``functions.`` before it, in another case, with ``-`` for ``_``.  A
name is understood if it can mean exactly one declared tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from ..turn_context import Tool

_JOINTS = re.compile(r"[\W_]+")
_COUNTER = re.compile(r":\d+$")
"""Kimi's models count their calls in the name, too: ``functions.bash:0``."""
_PREFIXES = ("functions", "function", "tools")
"""These may precede a name like a namespace."""


class ToolLookup:
    def __init__(self, tools: Mapping[str, Tool]) -> None:
        """`tools` by the name they have upstream."""
        self.tools = tools

    def find(self, name: str) -> Tool | None:
        """The tool that was sent under this name, else the one tool that the name can mean."""
        if name in self.tools:
            return self.tools[name]
        bare = [tool for tool in self.tools.values() if tool.name == name]
        if len(bare) == 1:
            return bare[0]
        words = _words(_COUNTER.sub("", name))
        for spelled in (words, words[1:] if words[:1] and words[0] in _PREFIXES else ()):
            found = self._spellings.get(spelled, set())
            if spelled and found:
                return self.tools[next(iter(found))] if len(found) == 1 else None
        return None

    @cached_property
    def _spellings(self) -> dict[tuple[str, ...], set[str]]:
        """The names upstream, by the words that may mean them."""
        index: dict[tuple[str, ...], set[str]] = {}
        for upstream, tool in self.tools.items():
            for spelling in _spellings(upstream, tool):
                index.setdefault(spelling, set()).add(upstream)
        return index


def _spellings(upstream: str, tool: Tool) -> Iterator[tuple[str, ...]]:
    """The words of its name: as it was sent, alone, and after the namespace or the end of it."""
    yield _words(upstream)
    name, namespace = _words(tool.name), _words(tool.namespace or "")
    for start in range(len(namespace) + 1):
        yield namespace[start:] + name


def _words(name: str) -> tuple[str, ...]:
    return tuple(word for word in _JOINTS.split(name.lower()) if word)
