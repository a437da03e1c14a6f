"""Calls that are invocations with parameters: DeepSeek's DSML, MiniMax M2's, Claude's, and others'.

One shape, here without the section and line ends::

    <invoke name="N"><parameter name="K" string="true">V</parameter></invoke>
    <function name="N"><param name="K">V</param></function>

The second is MiniCPM5's, Dots's, and that of models which mix it with Qwen's and Seed's sections;
their values may be CDATA.

DSML (V3.2 to V4.1) has its name between bars in every tag, GigaChat 3.5 the word GCML; hosts change
bars, blanks and the section's name, or lose the ``>`` of its opener.  ``string`` gives the type of
an undeclared value.  V4.1 sometimes writes a call's tag as that of a parameter.  Hosts that take
DSML's tokens out leave plain tags; those of a section count only around calls then.

The tags of Claude may have ``antml:`` before their names.  Where they leak, often a line stands
before them that is one word, ``call``, ``count`` or ``court``: it belongs to the call.

Muse writes ``atem:`` before all names, and a header like Harmony's before a call, a thought
(``to=self``) or an answer (``to=user``), of which hosts take out the role before a call.  Step
writes ``steptml:``, Grok ``<xai:function_call``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..declared_tools import DeclaredTools
from .bracketed import PYTHON_SO_FAR
from .held_calls import TaggedFormat
from .marker_set import TAG_LIMIT, Part, Run, Words, ahead, group, optional, so_far, spelled
from .protocol import WORD, MarkerMatch
from .tags import Spelling, TagKind, TagPattern, TagTable, attributes

_VALUE = r"""(?:"[^"<>]{0,200}+"|'[^'<>]{0,200}+'|[^\s"'<>]{1,200}+)"""
_ATTRIBUTES = attributes(_VALUE, "[^<>]*+", 0)
_SECTION = TagKind.SECTION
_PARTS = {"invoke": TagKind.CALL, "parameter": TagKind.ARGUMENT}
_FUNCTIONS = {
    "function": TagKind.CALL,
    **dict.fromkeys(("param", "parameter"), TagKind.ARGUMENT),
}


def _tags(words: Words, *around: tuple[Part, ...], starts: Words = ("<", "</")) -> list[Spelling]:
    """Tags with one of these words, if there are any, between these parts."""
    before, after = around
    parts = [((start,), *before, words, *after) for start in starts if words]
    return [Spelling(each, TagKind.SECTION, each[0] == ("</",), "string") for each in parts]


def invocations(
    sections: Words,
    head: tuple[Part, ...] = (),
    wrappers: Words = (),
    parts: Mapping[str, TagKind] = _PARTS,
) -> TagTable:
    """`head` precedes the words of tags, such as `sections`, and those of the `parts` of a call.  A
    text may hold the `wrappers`, too: outside of a section they count only right before a call."""
    call = next(iter(parts))
    before_call = optional(r"\s*+", (">",)), ahead(r"\s{0,64}+", (f"<{call}",), r"\s")
    end = Run(rf"(?:\s*+>|(?=\s*+</?{spelled(*head)}[a-z]))", r"\s*+(?:</?+[^<>a-z]{0,16}+)?+")
    in_call = _tags(sections, head, (end,)) + _tags(parts, head, (_ATTRIBUTES, r"\s*+", (">",)))
    empty = _tags(
        {call: TagKind.CALL}, head, (_ATTRIBUTES, r"\s*+", Run("(?=/>)", "/?")), starts=("<",)
    )
    in_call += empty
    closes_empty = Spelling((("/>",),), TagKind.CALL, closes=True)
    return TagTable(
        in_text=TagPattern(*in_call, *_tags(wrappers, head, before_call, starts=("<",))),
        tags=TagPattern(*in_call, *_tags(wrappers, head, (end,)), closes_empty),
        in_value=TagPattern(*in_call),
        closer=f"</{list(parts)[1]}>",
    )


_BARS = (r"[｜|‖]", r" ?[｜|‖]?", " ?")
_CALLS = ("tool_calls", "tool_call", "function_calls", "toolcalls", "toolcall", "tool_use", "calls")
_BARRED = tuple(before + bar for bar in "｜‖" for before in ("<", "</", "< ", "</ "))


class _Barred(TaggedFormat):
    """The format whose tags have a word between bars; a tag of a parameter that another follows,
    and nothing else, has the name of the tool, be it the first of a section or not."""

    def __init__(self, name: str, word: str) -> None:
        head = (" ?", *_BARS, (word,), " ?", *_BARS)
        tags = invocations((*_CALLS, "tool_ccalls"), head)
        parameter = (("<",), *head, ("parameter",))
        another = (r"\s{0,64}+", *parameter, r"\s")
        named = (*parameter, _ATTRIBUTES, r"\s*+", (">",), ahead(*another))
        in_text = tags.in_text.spellings if tags.in_text else ()
        section = (*in_text[0].parts, r"\s{0,64}+")
        calls = [
            Spelling(each, TagKind.CALL, typed_by="string") for each in ((*section, *named), named)
        ]
        super().__init__(
            name,
            (f"<|{word[0]}", "<||", "<| ", "</|", "< |", "</ |", *_BARRED),
            replace(
                tags,
                in_text=TagPattern(*calls, *in_text),
                strays=True,
                closer=f"</｜{word}｜parameter>",
                mark=word,
            ),
        )
        self._another_so_far = re.compile(so_far(*another))
        self._named_so_far = re.compile(so_far(r"\s{0,64}+", *named))

    def is_undecided(self, match: MarkerMatch, text: str) -> bool:
        is_section = match.name == TagKind.SECTION.value
        if len(text) - match.end > TAG_LIMIT or not (is_section or match.within_call):
            return False
        begun = self._named_so_far if is_section else self._another_so_far
        return begun.fullmatch(text, match.end) is not None


DSML = _Barred("dsml", "DSML")
GIGACHAT_TAGS = _Barred("gigachat", "GCML")
MINIMAX_M2 = TaggedFormat(
    "minimax_m2",
    ("<minimax:", "</minimax:", "<invoke", "<function_calls", "<tool_calls", "<calls"),
    invocations(
        ("minimax:tool_call", "minimax:tool_calls", "minimax:toolcall"),
        wrappers=("function_calls", "tool_calls", "tool_call", "calls"),
    ),
)
_WRAPPERS = ("tool_call", "tool_calls", "function_calls", "dots_function_call", "seed:tool_call")
FUNCTION = TaggedFormat(
    "function",
    ("<function", *(f"<{word}" for word in _WRAPPERS)),
    replace(invocations((), wrappers=_WRAPPERS, parts=_FUNCTIONS), cdata=True),
)
XAI = TaggedFormat(
    "xai",
    ("<xai:",),
    invocations((), parts={"xai:function_call": TagKind.CALL, "parameter": TagKind.ARGUMENT}),
)
STEP = TaggedFormat(
    "step",
    ("<steptml:", "</steptml:"),
    invocations(("toolcall", "tool_call", "tool_calls", "function_calls"), (("steptml:",),)),
)

_ATEM = invocations(("function_calls",), (("atem:",),))
_BEFORE_ATEM = ahead(r"\s{0,64}+", ("<atem:",))
_TO = ("<|start|>assistant to=",)
_HEADERS = (
    Spelling((_TO, group(("self", "user")), ("<|message|>",))),
    Spelling((_TO, f"(?:{WORD})?", ("<|message|>",), _BEFORE_ATEM), _SECTION),
    Spelling((("<|message|>",), _BEFORE_ATEM), _SECTION),
    Spelling((("<|eom|>",),), _SECTION, closes=True),
)
HEADER_SO_FAR = "|".join(so_far(*each.parts, empty=False, whole=False) for each in _HEADERS[:3])
"""The start of Muse's header, of which more must come."""
_NO_ROLE = (r"\s{0,8}+", ("to=",), f"{WORD}+")
_RECIPIENT, _RECIPIENT_SO_FAR = map(re.compile, (spelled(*_NO_ROLE), so_far(*_NO_ROLE)))


class _Muse(TaggedFormat):
    """A format before whose call a recipient may begin a text."""

    look_back = 136

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return bool(text.strip()) and _RECIPIENT_SO_FAR.fullmatch(text) is not None

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        return text.lstrip() if match.opens_call and _RECIPIENT.fullmatch(text) else ""


ATEM = _Muse(
    "atem",
    ("<atem:", "</atem:", "<|start|>assistant to=", "<|message|>", "<|eom|>"),
    replace(
        _ATEM,
        in_text=TagPattern(*_HEADERS, *_ATEM.in_value.spellings),
        tags=TagPattern(*_HEADERS, *_ATEM.tags.spellings),
        channels={"self": "reasoning", "user": "content"},
        strays=True,
        closer="</atem:parameter>",
        mark="atem:",
    ),
)

_PREFIX = "antml:"
_WORDS = ("call", "count", "course", "court")
_LINE = (_WORDS, r"[ \t]{0,4}+", r"\n{1,4}+")
_LONE = re.compile(r"\s{0,32}+" + spelled(*_LINE))
_LONE_SO_FAR = re.compile(r"\s{0,32}+" + so_far(*_LINE))


class _AfterLoneLine(TaggedFormat):
    """A format of which a call may stand after a line of one word that begins a text; any other
    such line is part of the marker."""

    look_back = 64

    def is_undecided(self, match: MarkerMatch, text: str) -> bool:
        is_section = match.name == TagKind.SECTION.value
        return is_section and PYTHON_SO_FAR.fullmatch(text, match.end) is not None

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
