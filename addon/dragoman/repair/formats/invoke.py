"""Calls that are invocations with parameters: DeepSeek's DSML, MiniMax M2's, and Claude's.

One shape, here without the section and line ends::

    <invoke name="N"><parameter name="K" string="true">V</parameter></invoke>

DSML (V3.2 to V4.1) has its name between bars in every tag, and hosts change bars, blanks and the
section's name, or lose the ``>`` of its opener.  ``string`` gives the type of an undeclared value.
Hosts that take DSML's tokens out leave plain tags; those of a section count only around calls then.

The tags of Claude may have ``antml:`` before their names.  Where they leak, often a line stands
before them that is one word, ``call``, ``count`` or ``court``: it belongs to the call.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..declared_tools import DeclaredTools
from .held_calls import TaggedFormat
from .marker_set import Part, Run, Words, so_far, spelled
from .protocol import MarkerMatch
from .tags import Spelling, TagKind, TagPattern, TagTable, attributes

_VALUE = r"""(?:"[^"<>]{0,200}+"|'[^'<>]{0,200}+'|[^\s"'<>]{1,200}+)"""
_ATTRIBUTES = attributes(_VALUE, "[^<>]*+", 0)
_PARTS = {"invoke": TagKind.CALL, "parameter": TagKind.ARGUMENT}
_BEFORE = so_far(r"\s{0,8}+", (">",), r"\s{0,64}+", ("<invoke",))
_BEFORE_CALL = Run(r"(?:\s*+>)?+(?=\s{0,64}+<invoke\s)", _BEFORE)


def _tags(words: Words, *around: tuple[Part, ...], starts: Words = ("<", "</")) -> list[Spelling]:
    """Tags with one of these words, if there are any, between these parts."""
    before, after = around
    parts = [((start,), *before, words, *after) for start in starts if words]
    return [Spelling(each, TagKind.SECTION, each[0] == ("</",), "string") for each in parts]


def invocations(sections: Words, head: tuple[Part, ...] = (), wrappers: Words = ()) -> TagTable:
    """`head` precedes the words of tags, such as `sections`.  A text may hold the `wrappers`, too:
    outside of a section they count only right before an invocation."""
    end = Run(rf"(?:\s*+>|(?=\s*+</?{spelled(*head)}[a-z]))", r"\s*+(?:</?+[^<>a-z]{0,16}+)?+")
    in_call = _tags(sections, head, (end,)) + _tags(_PARTS, head, (_ATTRIBUTES, r"\s*+", (">",)))
    return TagTable(
        in_text=TagPattern(*in_call, *_tags(wrappers, head, (_BEFORE_CALL,), starts=("<",))),
        tags=TagPattern(*in_call, *_tags(wrappers, head, (end,))),
        in_value=TagPattern(*in_call),
        closer="</parameter>",
    )


_BARS = (r"[｜|‖]", r" ?[｜|‖]?", " ?")
_DSML = ("tool_calls", "tool_call", "function_calls", "toolcalls", "toolcall", "tool_use", "calls")
_DSML_BARS = tuple(before + bar for bar in "｜‖" for before in ("<", "</", "< ", "</ "))
_DSML_TAGS = invocations(_DSML, (" ?", *_BARS, ("DSML",), " ?", *_BARS))
DSML = TaggedFormat(
    "dsml",
    ("<|D", "<||", "<| ", "</|", "< |", "</ |", *_DSML_BARS),
    replace(_DSML_TAGS, strays=True, closer="</｜DSML｜parameter>", mark="DSML"),
)
MINIMAX_M2 = TaggedFormat(
    "minimax_m2",
    ("<minimax:", "</minimax:", "<invoke", "<function_calls", "<tool_calls", "<calls"),
    invocations(("minimax:tool_call",), wrappers=("function_calls", "tool_calls", "calls")),
)

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


_CLAUDE = invocations(("function_calls",), ((_PREFIX, ""),))
_CLAUDE_TAGS = _CLAUDE.in_value.spellings
_AFTER_LINE = [
    replace(each, parts=(("\n",), *_LINE, *each.parts)) for each in _CLAUDE_TAGS if not each.closes
]
CLAUDE = _AfterLoneLine(
    "claude",
    (
        *("<invoke", "<function_calls", "</function_calls", f"<{_PREFIX}", f"</{_PREFIX}"),
        *(f"\n{word}" for word in _WORDS),
    ),
    replace(_CLAUDE, in_text=TagPattern(*_AFTER_LINE, *_CLAUDE_TAGS)),
)
