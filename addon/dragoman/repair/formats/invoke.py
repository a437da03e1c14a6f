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
them that is one word, ``call``, ``count`` or ``court``; it belongs to the call.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from .held_calls import tagged
from .marker_set import MarkerPattern, so_far
from .protocol import LeakFormat, MarkerMatch
from .tags import Tag, TagKind, TagTable
from .value_types import OTHER, STRING

_VALUE = r"""(?:"[^"<>]{0,200}+"|'[^'<>]{0,200}+'|[^\s"'<>]{1,200}+)"""
_ATTRIBUTES = rf"(?:\s{{0,9}}+[a-z]{{1,20}}+\s{{0,9}}+=\s{{0,9}}+{_VALUE}){{0,4}}+"
_ATTRIBUTE = re.compile(r"""(?<![a-z])([a-z]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"']++))""")
_ATTRIBUTES_SO_FAR = r"\s*+(?:[a-z]*+\s*+(?:=[^<>]*+)?+|</?+[^<>a-z]{0,16}+)"
"""Or, after a section's word without its ``>``, the next tag."""
_TYPES = {"true": STRING, "false": OTHER}
_WORDS = {"invoke": TagKind.CALL, "parameter": TagKind.ARGUMENT}


def _read(match: re.Match[str]) -> Tag:
    kind = TagKind.SECTION if match["section"] else _WORDS[match["word"]]
    written = match["attributes"]
    found = {key: a or b or c for key, a, b, c in _ATTRIBUTE.findall(written)} if written else {}
    value_type = _TYPES.get(found.get("string", ""))
    return Tag.of(match, kind, found.get("name", ""), value_type, closes=match["end"])


_AFTER_LONE = (r"[ \t]{0,4}+", r"\n{1,4}+")
_BAR = "[｜|‖]"
_BARS = (_BAR, f" ?{_BAR}?", " ?")


def _format(
    name: str,
    beginnings: tuple[str, ...],
    sections: tuple[str, ...],
    *,
    head: tuple[str | tuple[str, ...], ...] = (),
    wrappers: tuple[str, ...] = (),
    prefix: str = "",
    lone: tuple[str, ...] = (),
    form: type[LeakFormat] = LeakFormat,
) -> LeakFormat:
    """`sections` are the words for a section; `head` is what precedes the word of a tag, as for
    `so_far`, and `prefix` what may.  `wrappers` are words for a section that a text may hold as
    well: outside of a section they count only right before an invocation.  `lone` are words that
    may stand alone in the line before a call."""
    before = "".join(part if isinstance(part, str) else part[0] for part in head)
    before += f"(?:{prefix})?+"
    words = (*sections, *wrappers, *_WORDS)
    spelled = (*words, *(prefix + word for word in words)) if prefix else words
    begun = "<" + so_far("/?", *head, spelled, _ATTRIBUTES_SO_FAR)
    if lone:
        begun += rf"|\n{so_far(lone, *_AFTER_LONE, begun)}"
    in_value, wrapper = "|".join(sections), "|".join(wrappers or ["(?!)"])
    in_text = rf"{in_value}|(?<!/)(?:{wrapper})(?=(?:\s*+>)?+\s{{0,64}}+<invoke\s)"
    half_wrapper = so_far(wrappers, r"\s{0,8}+", (">",), r"\s{0,64}+", ("<invoke",), r"\Z")

    def tags(section: str, begun: str = begun) -> MarkerPattern:
        return MarkerPattern(
            rf"<(?P<end>/?){before}(?:(?P<section>{section})(?:\s*+>|(?=\s*+</?{before}[a-z]))"
            rf"|(?P<word>invoke|parameter)(?P<attributes>{_ATTRIBUTES})\s*+>)",
            begun,
        )

    table = TagTable(
        in_text=tags(in_text, f"{begun}|<{half_wrapper}" if wrappers else begun),
        tags=tags(f"{in_value}|{wrapper}"),
        in_value=tags(in_value),
        read=_read,
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


class _WithLoneLine(LeakFormat):
    """A format before whose calls a line of one word may stand."""

    look_back = 16
    """More than such a line may have, so that the end of the line before it is seen."""

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return _LONE_SO_FAR.fullmatch(text) is not None

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        found = _LONE.search(text, max(0, len(text) - self.look_back))
        return found[0] if found and match.opens_call else ""


_LONE_WORDS = ("call", "count", "court")
_LONE = re.compile(rf"(?:\A|\n)(?:{'|'.join(_LONE_WORDS)}){''.join(_AFTER_LONE)}\Z")
_LONE_SO_FAR = re.compile(rf"\s{{0,64}}+{so_far(_LONE_WORDS, *_AFTER_LONE)}")
CLAUDE = _format(
    "claude",
    (
        *("<invoke", "<function_calls", "</function_calls", "<", "</"),
        *(f"\n{word}" for word in _LONE_WORDS),
    ),
    ("function_calls",),
    prefix="antml:",
    lone=_LONE_WORDS,
    form=_WithLoneLine,
)
