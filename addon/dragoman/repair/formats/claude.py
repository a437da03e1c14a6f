"""Claude's calls, which are invocations (`invoke`), in ``<function_calls>`` or bare.

Their tags may have ``antml:`` before their names.  Where they leak, often a line stands before them
that is one word, ``call``, ``count`` or ``court``: it belongs to the call.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..declared_tools import DeclaredTools
from .held_calls import TaggedFormat
from .invoke import invocations
from .marker_set import so_far, spelled
from .protocol import MarkerMatch
from .tags import TagPattern

_PREFIX = "antml:"
_WORDS = ("call", "count", "court")
_LINE = (_WORDS, r"[ \t]{0,4}+", r"\n{1,4}+")
_LONE = re.compile(r"\s{0,32}+" + spelled(*_LINE))
_LONE_SO_FAR = re.compile(r"\s{0,32}+" + so_far(*_LINE))


class _AfterLoneLine(TaggedFormat):
    """A format of which a call may stand after a line of one word that begins a text; any other
    such line is part of the marker."""

    look_back = 64

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return _LONE_SO_FAR.fullmatch(text) is not None

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        return text if match.opens_call and _LONE.fullmatch(text) else ""


_TABLE = invocations(("function_calls",), ((_PREFIX, ""),))
_TAGS = _TABLE.in_value.spellings
_AFTER_LINE = [
    replace(each, parts=(("\n",), *_LINE, *each.parts)) for each in _TAGS if not each.closes
]
CLAUDE = _AfterLoneLine(
    "claude",
    (
        *("<invoke", "<function_calls", "</function_calls", f"<{_PREFIX}", f"</{_PREFIX}"),
        *(f"\n{word}" for word in _WORDS),
    ),
    replace(_TABLE, in_text=TagPattern(*_AFTER_LINE, *_TAGS)),
)
