"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments; under load it loses any one of these tags, or doubles one of a key.
GLM-4 writes a name, a line end and a JSON object, and nothing else (`GLM_4`), Functionary ``>>>``
before them.
Hunyuan writes ``<tool_calls>`` around calls and ``<tool_sep>`` after a name; all its tags may end
with a suffix, as in ``<tool_call:opensource>``.  IQuest has ``<iquest_tool_call>`` around a call.
"""

from __future__ import annotations

import re
from functools import partial

from ..declared_tools import DeclaredTools
from ..events import Header, Whole
from .bracketed import PYTHON_SO_FAR
from .enclosed_json import CLOSE, OPEN
from .held_arguments import CallEnds
from .held_calls import HeldCalls
from .json_alone import fits
from .json_arguments import JsonArguments
from .json_calls import JsonCallsParser
from .marker_set import (
    HEADER_LIMIT,
    HeaderPattern,
    ahead,
    either,
    marker_set,
    named,
    opening,
    optional,
    so_far,
)
from .protocol import WORD, LeakFormat, MarkerMatch
from .tags import Spelling, TagKind, TagPattern, TagTable

KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_BLANKS = r"\s{0,100}+"
_NAME = r"([^<>\n]{1,128}+)"
_ARGUMENT = TagKind.ARGUMENT


def _table(suffix: str = "", around: str = "tool_call") -> TagTable:
    """The tags, with a suffix to the name of each; that of those `around` a call."""
    plain = (f"<{around}>", f"</{around}>", KEY, KEY_END, VALUE, VALUE_END, "<tool_sep>")
    tags_of_all = [tag.replace(">", f"{suffix}>") for tag in plain]
    call, close, key, key_end, value, value_end, separates = tags_of_all
    follows = (key, close, value_end, key_end)
    separator = optional((separates,), r"\s*+")
    first_key = r"[\w.-]{1,64}+"
    instead = named("instead", (call,)), ahead(first_key, (key_end,))
    header = HeaderPattern.of(
        (
            r"\s*+",
            rf"(?P<name>{WORD}+)",
            r"\s*+",
            separator,
            optional(r"(?<=\s)", f"(?P<key>{first_key})", ahead((key_end,))),
            optional((">",), r"\s*+", ahead(("{",))),
            named("follows", either((("{", *follows),), instead)),
        )
    )
    value_lost = f"(?!{so_far(_BLANKS, (value, key_end))})"
    begin = ((key,), optional((key,)))
    end = ((key_end,), optional(_BLANKS, (key_end,)))
    tags = (
        Spelling((*begin, _NAME, _BLANKS, *end, _BLANKS, (value,)), _ARGUMENT),
        Spelling((*begin, _NAME, _BLANKS, *end, value_lost), _ARGUMENT, mended=True, whole=False),
        Spelling(((key,), _NAME, _BLANKS, (value,)), _ARGUMENT, mended=True),
        Spelling((("<",), {value[1:]: TagKind.VALUE, call[1:]: TagKind.CALL})),
        Spelling((("</",), {value_end[2:]: _ARGUMENT, close[2:]: TagKind.CALL}), closes=True),
    )
    key_lost = (
        Spelling((_NAME, _BLANKS, *end, _BLANKS, (value,)), _ARGUMENT, mended=True),
        Spelling((_NAME, _BLANKS, *end, value_lost), _ARGUMENT, mended=True, whole=False),
    )
    return TagTable(
        tags=TagPattern(*tags, Spelling(((key_end,),), TagKind.KEY_END), *key_lost),
        in_value=TagPattern(*tags),
        header=header,
        key_begin=key,
        key_end=key_end,
        closer=value_end,
        mark="arg_",
    )


class _Glm(LeakFormat):
    """Waits for the end of a name: a round bracket after it makes it a call of Python's."""

    def is_undecided(self, match: MarkerMatch, text: str) -> bool:
        return PYTHON_SO_FAR.fullmatch(text, match.end) is not None


TABLE = _table()
GLM = _Glm(
    "glm",
    (OPEN, CLOSE, KEY),
    opening((OPEN,), "[A-Za-z0-9_]", ends=(CLOSE,)),
    partial(HeldCalls, TABLE),
)


class _NamedArguments(JsonArguments):
    """Those of a call that no marker shows."""

    def __init__(self, name: str, ends: CallEnds, tools: DeclaredTools) -> None:
        super().__init__(name, ends)
        self._tools = tools

    def _read(self, text: str) -> Whole | None:
        whole = super()._read(text)
        if whole is None or not fits(self._tools, self._name, "".join(whole.pieces)):
            return None
        return whole


class _NamedParser(JsonCallsParser):
    """Reads one call, from where its JSON begins."""

    closer = "<|observation|>"
    end_is_marked = False
    ends = CallEnds(marker_set((closer,)))

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        name = match.tool or ""
        self._start_call(Header(name), _NamedArguments(name, self.ends, tools), 0)


class _NamedAlone(LeakFormat):
    """Has no marker: it is asked where a text begins."""

    alone = True

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        word = text.strip()
        begins = _PROMPT.startswith(word) or tools.may_begin(word.removeprefix(_PROMPT))
        return bool(word) and len(text.lstrip()) <= HEADER_LIMIT and begins

    def at_start(self, text: str, tools: DeclaredTools) -> MarkerMatch | None:
        found = _NAMED.match(text, len(text) - len(text.lstrip()))
        if found is None or found["name"] not in tools:
            return None
        begin, end = len(text) - len(text.lstrip()), found.end()
        return MarkerMatch(self, "name", begin, end, True, tool=found["name"], alone=True)


_PROMPT = ">>>"
"""What Functionary has before the name."""
_NAMED = re.compile(rf"(?:{_PROMPT})?+(?P<name>{WORD}+)[ \t]{{0,9}}+\r?\n\s{{0,9}}+(?=\{{)")
GLM_4 = _NamedAlone("glm", (), marker_set(("<|observation|>",)), _NamedParser)


_BEFORE_CALL = ("", "\n", "\n  ", "\n    ", "\n\t", "\n\n")


def _hunyuan(suffix: str) -> LeakFormat:
    """Hunyuan's format with this suffix."""
    opens = [f"<tool_calls{suffix}>{blank}<tool_call{suffix}>" for blank in _BEFORE_CALL]
    markers = opening(tuple(opens), "[A-Za-z0-9_]")
    return LeakFormat("hunyuan", tuple(opens), markers, partial(HeldCalls, _table(suffix)))


def _iquest(around: str) -> LeakFormat:
    """IQuest's format with this tag around a call."""
    begin, end = f"<{around}>", f"</{around}>"
    markers = opening((begin,), "[A-Za-z0-9_]", ends=(end,))
    return LeakFormat("iquest", (begin, end), markers, partial(HeldCalls, _table("", around)))


HUNYUAN, HUNYUAN_OPEN = _hunyuan(""), _hunyuan(":opensource")
IQUEST, IQUEST_CODER = _iquest("iquest_tool_call"), _iquest("iquestcoder_tool_call")
