"""Calls that are invocations with parameters: DeepSeek's DSML, MiniMax M2's, and Claude's.

One shape in three spellings::

    <tool_calls>
    <invoke name="N">
    <parameter name="K" string="true">V</parameter>
    </invoke>
    </tool_calls>

DSML (V3.2 to V4.1) has its name between bars in every tag, and hosts change bars, blanks and
the section's name, or lose the ``>`` of its opener.  ``string`` gives the type of a value that the
tool does not declare; MiniMax has no types, and may leave out the quotes.  Hosts that take
DSML's tokens out leave plain tags; those of a section then count only around invocations.

Claude's tags may have ``antml:`` before their names.  Where they leak, often a line stands before
them that is one word, ``call``, ``count`` or ``court``: it belongs to the call.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from .held_calls import tagged
from .marker_set import Part, Run, so_far, spelled
from .protocol import LeakFormat, MarkerMatch
from .tags import Spelling, TagKind, TagPattern, TagTable

_VALUE = r"""(?:"[^"<>]{0,200}+"|'[^'<>]{0,200}+'|[^\s"'<>]{1,200}+)"""
_HALF = r"\s*+(?:[a-z]*+\s*+(?:=[^<>]*+)?+|</?+[^<>a-z]{0,16}+)"
"""Of attributes, or, after a section's word without its ``>``, of the next tag."""
_ATTRIBUTES = Run(
    rf"((?:\s{{0,9}}+[a-z]{{1,20}}+\s{{0,9}}+=\s{{0,9}}+{_VALUE}){{0,4}}+)",
    _HALF,
)
_PARTS = {"invoke": TagKind.CALL, "parameter": TagKind.ARGUMENT}
_AFTER_LONE = (r"[ \t]{0,4}+", r"\n{1,4}+")
_BARS = (r"[｜|‖]", r" ?[｜|‖]?", " ?")


def _format(
    name: str,
    beginnings: tuple[str, ...],
    sections: tuple[str, ...],
    head: tuple[Part, ...] = (),
    wrappers: tuple[str, ...] = (),
    *,
    prefixes: tuple[str, ...] = ("",),
    lone: tuple[str, ...] = (),
    form: type[LeakFormat] = LeakFormat,
) -> LeakFormat:
    """`sections` are the words for a section; `head` is what precedes the word of a tag, and one of
    the `prefixes`.  `wrappers` are words for a section that a text may hold as well: outside of a
    section they count only right before an invocation.  `lone` are words that may be the line
    before a call."""
    end = Run(rf"(?:\s*+>|(?=\s*+</?{spelled(*head)}[a-z]))", _HALF)
    parts, section, wrapper = (
        [
            Spelling(
                (tuple(start + prefix for prefix in prefixes), *head, words, *after),
                TagKind.SECTION,
                start == "</",
                "string",
            )
            for start in ("<", "</")
        ]
        for words, *after in (
            (_PARTS, _ATTRIBUTES, r"\s*+", (">",)),
            (sections, end),
            (wrappers, end),
        )
    )
    before_call = Run(
        r"(?:\s*+>)?+(?=\s{0,64}+<invoke\s)",
        so_far(r"\s{0,8}+", (">",), r"\s{0,64}+", ("<invoke",)),
    )
    opened = Spelling((("<",), *head, wrappers, before_call), TagKind.SECTION, typed_by="string")
    lines = [
        Spelling((("\n",), lone, *_AFTER_LONE, *each.parts), each.kind, typed_by=each.typed_by)
        for each in (section[0], parts[0])
        if lone
    ]
    wrapped = bool(wrappers)
    table = TagTable(
        in_text=TagPattern(*lines, *section, *[opened] * wrapped, *parts),
        tags=TagPattern(*section, *wrapper * wrapped, *parts),
        in_value=TagPattern(*section, *parts),
        strays=bool(head),
        pairs=bool(head),
        closer=f"</{'｜DSML｜' if head else ''}parameter>",
    )
    return tagged(name, beginnings, table, form)


DSML = _format(
    "dsml",
    (
        *("<|D", "<||", "<| ", "</|", "< |", "</ |"),
        *(before + bar for bar in "｜‖" for before in ("<", "</", "< ", "</ ")),
    ),
    ("tool_calls", "tool_call", "function_calls", "toolcalls", "toolcall", "tool_use", "calls"),
    head=(" ?", *_BARS, ("DSML",), " ?", *_BARS),
)
MINIMAX_M2 = _format(
    "minimax_m2",
    ("<minimax:", "</minimax:", "<invoke", "<function_calls", "<tool_calls", "<calls"),
    ("minimax:tool_call",),
    wrappers=("function_calls", "tool_calls", "calls"),
)


class _AfterLoneLine(LeakFormat):
    """A format of which a call may stand after a line of one word that begins a text; any other
    such line is part of the marker."""

    look_back = 64

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return _LONE_SO_FAR.fullmatch(text) is not None

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        return text if match.opens_call and _LONE.fullmatch(text) else ""


_LONE_WORDS = ("call", "count", "court")
_LONE = re.compile(r"\s{0,32}+" + spelled(_LONE_WORDS, *_AFTER_LONE))
_LONE_SO_FAR = re.compile(r"\s{0,32}+" + so_far(_LONE_WORDS, *_AFTER_LONE))
CLAUDE = _format(
    "claude",
    (
        *("<invoke", "<function_calls", "</function_calls", "<antml:", "</antml:"),
        *(f"\n{word}" for word in _LONE_WORDS),
    ),
    ("function_calls",),
    prefixes=("", "antml:"),
    lone=_LONE_WORDS,
    form=_AfterLoneLine,
)
