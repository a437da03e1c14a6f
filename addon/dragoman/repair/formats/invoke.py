"""Calls that are invocations with parameters: DeepSeek's DSML, and MiniMax M2's.

One shape in two spellings::

    <tool_calls>
    <invoke name="N">
    <parameter name="K" string="true">V</parameter>
    </invoke>
    </tool_calls>

DSML (V3.2 to V4.1) has its name between bars in every tag, and hosts change bars, blanks and
the section's name, or lose the ``>`` of its opener.  ``string`` gives the type of a value;
MiniMax leaves that to the schema of the tool, and may leave out the quotes.
"""

from __future__ import annotations

import re

from .tagged_calls import TaggedFormat
from .tags import Tag, TagKind, TagSyntax, so_far
from .value_types import JSON, STRING

_VALUE = r"""(?:"[^"<>]{0,200}"|'[^'<>]{0,200}'|[^\s"'<>]{1,200})"""
_ATTRIBUTES = rf"(?:\s{{0,9}}[a-z]{{1,20}}\s{{0,9}}=\s{{0,9}}{_VALUE}){{0,4}}"
_ATTRIBUTE = re.compile(r"""([a-z]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+))""")
_ATTRIBUTES_SO_FAR = r"\s*(?:[a-z]*\s*|[a-z]+\s*=[^<>]*|</?[^<>a-z]{0,16})"
"""Or, after a section's word without its ``>``, the next tag."""
_TYPES = {"true": STRING, "false": JSON}
_WORDS = {
    "invoke": (TagKind.CALL, TagKind.CALL_END),
    "parameter": (TagKind.ARGUMENT, TagKind.ARGUMENT_END),
}
_SECTION = (TagKind.SECTION, TagKind.SECTION_END)


def _format(
    name: str,
    beginnings: tuple[str, ...],
    sections: tuple[str, ...],
    head: tuple[str | tuple[str, ...], ...] = (),
) -> TaggedFormat:
    """`sections` are the words for a section; `head` is what precedes the word of a tag, as for
    `so_far`.  Without a head, values may quote such tags, and outside of a section only those
    count that begin something, or end a section."""
    before = "".join(part if isinstance(part, str) else part[0] for part in head)
    section = "|".join(sections)
    tag = re.compile(
        rf"<(?P<end>/?){before}(?:(?P<section>{section})(?:\s*>|(?=\s*</?{before}[a-z]))"
        rf"|(?P<word>invoke|parameter)(?P<attributes>{_ATTRIBUTES})\s*>)"
    )
    begun = re.compile("<" + so_far("/?", *head, (*sections, *_WORDS), _ATTRIBUTES_SO_FAR))
    markers = rf"</?{before}(?:{section}|(?:invoke|parameter){_ATTRIBUTES})\s*>?"
    syntax = TagSyntax(
        tag=tag,
        so_far=begun,
        in_value=tag,
        in_value_so_far=begun,
        closing=re.compile(r"\s*</"),
        read=_read,
        may_begin_in=lambda text: "<" in text,
        plain=not head,
    )
    return TaggedFormat(name, beginnings, markers, syntax)


def _read(match: re.Match[str]) -> Tag:
    kinds = _SECTION if match["section"] else _WORDS[match["word"]]
    found = _ATTRIBUTE.findall(match["attributes"] or "")
    attributes = {key: "".join(values) for key, *values in found}
    return Tag(
        kinds[bool(match["end"])],
        match.start(),
        match.end(),
        attributes.get("name", ""),
        _TYPES.get(attributes.get("string", "")),
    )


_BAR = "[｜|‖]"
_BARS = (_BAR, f" ?{_BAR}?", " ?")
_BEGINNINGS = (
    *("<|D", "<||", "<| ", "</|", "< |", "</ |"),
    *(before + bar for bar in "｜‖" for before in ("<", "</", "< ", "</ ")),
)
DSML = _format(
    "dsml",
    _BEGINNINGS,
    ("tool_calls", "tool_call", "function_calls", "toolcalls", "toolcall", "tool_use", "calls"),
    (" ?", *_BARS, ("DSML",), " ?", *_BARS),
)
MINIMAX_M2 = _format("minimax_m2", ("<minimax:", "</minimax:", "<invoke"), ("minimax:tool_call",))
