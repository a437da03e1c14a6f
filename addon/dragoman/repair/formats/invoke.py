"""Calls that are invocations with parameters: DeepSeek's DSML, and MiniMax M2's.

One shape in two spellings::

    <tool_calls>
    <invoke name="N">
    <parameter name="K" string="true">V</parameter>
    </invoke>
    </tool_calls>

DSML (V3.2 to V4.1) has its name between bars in every tag, and hosts change bars, blanks and
the section's name, or lose the ``>`` of its opener.  ``string`` gives the type of a value;
MiniMax leaves that to the schema of the tool, and may leave out the quotes.  Without bars, as
hosts write DSML that take its tokens out, a section counts only where an invocation follows.
"""

from __future__ import annotations

import re

from .protocol import LeakFormat
from .tagged_format import TaggedFormat, TagMatch
from .tags import Tag, TagKind, TagSyntax, so_far, unfinished
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


class _Invoke(TaggedFormat):
    """See `LeakFormat`."""

    def __init__(
        self,
        name: str,
        beginnings: tuple[str, ...],
        sections: tuple[str, ...],
        head: tuple[str | tuple[str, ...], ...] = (),
        wrappers: tuple[str, ...] = (),
    ) -> None:
        """`sections` are the words for a section; `head` is what stands before the word of a
        tag, as for `so_far`.  Without a head, tags are what a text may hold, and only those
        that begin something, or end a section, mean anything outside of one.  `wrappers` are words
        for a section that mean one only right before an invocation."""
        self.name = name
        self.beginnings = beginnings
        before = "".join(part if isinstance(part, str) else part[0] for part in head)
        section, wrapper = "|".join(sections), "|".join(wrappers) or "(?!)"

        def tags(section: str) -> re.Pattern[str]:
            return re.compile(
                rf"<(?P<end>/?){before}(?:(?P<section>{section})(?:\s*>|(?=\s*</?{before}[a-z]))"
                rf"|(?P<word>invoke|parameter)(?P<attributes>{_ATTRIBUTES})\s*>)"
            )

        self._tag = tags(rf"{section}|(?<!/)(?:{wrapper})(?=\s{{0,8}}>\s{{0,64}}<invoke\s)")
        in_value, in_section = tags(section), tags(f"{section}|{wrapper}")
        begun = "<" + so_far("/?", *head, (*sections, *_WORDS), _ATTRIBUTES_SO_FAR)
        in_section_so_far = begun
        if wrappers:
            wrapped = so_far(wrappers, r"\s{0,8}", (">",), r"\s{0,64}", ("<invoke",))
            in_section_so_far = f"{begun}|</?{so_far(wrappers, _ATTRIBUTES_SO_FAR)}"
            begun = f"{begun}|<{wrapped}"
        self._begun = re.compile(begun)
        self.markers = rf"</?{before}(?:{section}|(?:invoke|parameter){_ATTRIBUTES})\s*>?"
        self.syntax = TagSyntax(
            tag=in_section,
            so_far=re.compile(in_section_so_far),
            in_value=in_value,
            in_value_so_far=self._begun,
            closing=re.compile(r"\s*</"),
            read=_read,
            may_begin_in=lambda text: "<" in text,
            plain=not head,
        )

    def match(self, text: str, at: int) -> TagMatch | None:
        match = self._tag.match(text, at)
        if match is None:
            return None
        tag = _read(match)
        begins = tag.kind in (TagKind.SECTION, TagKind.CALL)
        if begins or not self.syntax.plain or tag.kind is TagKind.SECTION_END:
            return TagMatch(self, tag.kind.value, tag.start, tag.end, begins, tag)
        return None

    def unfinished(self, text: str) -> int:
        return unfinished(self._begun, text)


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
DSML: LeakFormat = _Invoke(
    "dsml",
    _BEGINNINGS,
    ("tool_calls", "tool_call", "function_calls", "toolcalls", "toolcall", "tool_use", "calls"),
    (" ?", *_BARS, ("DSML",), " ?", *_BARS),
)
_WRAPPERS = ("function_calls", "tool_calls", "calls")
MINIMAX_M2: LeakFormat = _Invoke(
    "minimax_m2",
    ("<minimax:", "</minimax:", "<invoke", *(f"<{word}" for word in _WRAPPERS)),
    ("minimax:tool_call",),
    wrappers=_WRAPPERS,
)
