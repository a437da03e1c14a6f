"""Calls that are invocations with parameters: DeepSeek's DSML, and MiniMax M2's.

One shape in two spellings::

    <tool_calls>
    <invoke name="N">
    <parameter name="K" string="true">V</parameter>
    </invoke>
    </tool_calls>

DSML (V3.2 to V4.1) has its name between bars in every tag, and hosts change bars, blanks and
the section's name, or lose the ``>`` of its opener.  ``string`` gives the type of a value that the
tool does not declare; MiniMax has no types, and may leave out the quotes.  Hosts that take
DSML's tokens out leave plain tags; those of a section then count only around invocations.
"""

from __future__ import annotations

from .held_calls import tagged
from .marker_set import Part, Run, so_far, spelled
from .protocol import LeakFormat
from .tags import Spelling, TagKind, TagPattern, TagTable

_VALUE = r"""(?:"[^"<>]{0,200}+"|'[^'<>]{0,200}+'|[^\s"'<>]{1,200}+)"""
_HALF = r"\s*+(?:[a-z]*+\s*+(?:=[^<>]*+)?+|</?+[^<>a-z]{0,16}+)"
"""Of attributes, or, after a section's word without its ``>``, of the next tag."""
_ATTRIBUTES = Run(
    rf"((?:\s{{0,9}}+[a-z]{{1,20}}+\s{{0,9}}+=\s{{0,9}}+{_VALUE}){{0,4}}+)",
    _HALF,
)
_PARTS = {"invoke": TagKind.CALL, "parameter": TagKind.ARGUMENT}
_BARS = (r"[｜|‖]", r" ?[｜|‖]?", " ?")


def _format(
    name: str,
    beginnings: tuple[str, ...],
    sections: tuple[str, ...],
    head: tuple[Part, ...] = (),
    wrappers: tuple[str, ...] = (),
) -> LeakFormat:
    """`sections` are the words for a section; `head` is what precedes the word of a tag.
    `wrappers` are words for a section that a text may hold as well: outside of a section they
    count only right before an invocation."""
    end = Run(rf"(?:\s*+>|(?=\s*+</?{spelled(*head)}[a-z]))", _HALF)
    parts, section, wrapper = (
        [
            Spelling(((start,), *head, words, *after), TagKind.SECTION, start == "</", "string")
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
    wrapped = bool(wrappers)
    table = TagTable(
        in_text=TagPattern(*section, *[opened] * wrapped, *parts),
        tags=TagPattern(*section, *wrapper * wrapped, *parts),
        in_value=TagPattern(*section, *parts),
        strays=bool(head),
        pairs=bool(head),
        closer=f"</{'｜DSML｜' if head else ''}parameter>",
    )
    return tagged(name, beginnings, table)


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
