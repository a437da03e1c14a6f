"""Finds the declared tool that a name in a call means, if it is spelled differently.

Models and hosts put a prefix before a name, glue its index to it, or swap ``-`` and ``_``.
Such a name counts only if it leads to exactly one declared tool.
"""

from __future__ import annotations

import re

from ..wire.chat_calls import ID_PREFIX
from .declared_tools import DeclaredTools

_PREFIX = re.compile(r"\Afunctions?[._:(]*", re.IGNORECASE)
_SUFFIX = re.compile(r"[):\s._-]*\d+(?:\.\d+)?\Z")
_MARKUP = re.compile(r"<[^<>]*(?:>|\Z)")
_CALL_ID = re.compile(r"(?:functions?[.:])?(?P<name>[^\s:]+)(?::\d{1,4})?")
_LONGEST = 256
"""Characters of a name; no host takes a longer one."""


def tool_of(name: str, tools: DeclaredTools) -> str | None:
    """The declared tool of this name, or the one with the longest name that it ends in after a dot,
    or the one that is `fitting`."""
    if len(name) > _LONGEST:
        return None
    return tools.longest_suffix(name) or fitting(name, tools)


def native_tool(name: str, tools: DeclaredTools) -> str | None:
    """The declared tool that a host means by the name of a call of its own: one with markup
    around it, or the id by which Kimi knows the call (``functions.bash:0``)."""
    if name in tools or tools.may_begin(name):
        return None
    if "<" in name:
        words = (word for part in _MARKUP.split(name) if (word := part.strip()))
        return tool_of(next(words, ""), tools)
    found = _CALL_ID.fullmatch(name.strip())
    return found["name"] if found and found["name"] in tools else None


def may_be_cut(name: str, tools: DeclaredTools) -> bool:
    """Whether the next delta may have the rest of this name of a host's own call."""
    bare = name.removeprefix(ID_PREFIX)
    if not name or name in tools or bare in tools:
        return False
    return ID_PREFIX.startswith(name) or tools.may_begin(bare)


def schema_for(name: str, tools: DeclaredTools) -> object:
    """The schema of the arguments of that tool; None if there is none."""
    return tools.schema_of(tool_of(name, tools) or name)


def fitting(name: str, tools: DeclaredTools) -> str | None:
    """The one declared tool that differs only in separators that were lost, doubled or swapped, in
    a prefix, or in an index."""
    without_prefix = _PREFIX.sub("", name, count=1)
    candidates: set[str] = set()
    for text in (name, without_prefix):
        candidates |= {text, _SUFFIX.sub("", text)}
        # Where the name ends and the index begins is lost: every split is possible.
        digits = len(text) - len(text.rstrip("0123456789"))
        candidates |= {text[:-size].rstrip("._-:()") for size in range(1, digits + 1)}
    names = {name.strip("()") for name in candidates}
    found = {name if name in tools else tools.alike(name) for name in names} - {None}
    return found.pop() if len(found) == 1 else None
