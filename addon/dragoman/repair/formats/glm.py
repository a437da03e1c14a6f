"""The format of GLM-4.5 to 5; line ends between the tags are optional::

    <tool_call>NAME
    <arg_key>KEY</arg_key>
    <arg_value>value</arg_value>
    </tool_call>

GLM-5.3 also writes ``<tool_call>NAME>{…}</tool_call>``, and GLM-5.2 ``<tool_call>NAME</arg_value>``
for a call without arguments; under load it loses any one of these tags, or doubles one of a key.
Hunyuan writes ``<tool_calls>`` around calls and ``<tool_sep>`` after a name; all its tags may end
with a suffix, as in ``<tool_call:opensource>``.
"""

from __future__ import annotations

from functools import partial

from .bracketed import PYTHON_SO_FAR
from .enclosed_json import CLOSE, OPEN
from .held_calls import HeldCalls
from .marker_set import HeaderPattern, opening, optional, so_far
from .protocol import WORD, LeakFormat, MarkerMatch
from .tags import Spelling, TagKind, TagPattern, TagTable

KEY, KEY_END, VALUE, VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_BLANKS = r"\s{0,100}+"
_NAME = r"([^<>\n]{1,128}+)"
_ARGUMENT = TagKind.ARGUMENT


def _table(suffix: str = "") -> TagTable:
    """The tags, with a suffix to the name of each."""
    plain = (OPEN, CLOSE, KEY, KEY_END, VALUE, VALUE_END, "<tool_sep>")
    tags_of_all = [tag.replace(">", f"{suffix}>") for tag in plain]
    call, close, key, key_end, value, value_end, separates = tags_of_all
    follows = (key, close, value_end, key_end)
    separator = optional((separates,), r"\s*+")
    instead = rf"(?P<instead>{call})(?=[\w.-]{{1,64}}+{key_end})"
    header = HeaderPattern(
        rf"\s*+(?P<name>{WORD}+)\s*+{separator.whole}(?P<key>(?<=\s)[\w.-]{{1,64}}+(?={key_end}))?+"
        rf"(?:>\s*+(?=\{{))?+(?P<follows>\{{|{'|'.join(follows)}|{instead})",
        rf"\s*+(?:(?P<word>{WORD}+)(?:\s*+>\s*+|\s*+(?:{separator.begun})\Z"
        rf"|\s*+{separator.whole}{so_far(follows)}"
        rf"|\s*+(?:(?<=\s)|{call})[\w.-]{{1,64}}+{so_far((key_end,))}|{so_far((call,))}))?",
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


def _hunyuan(suffix: str) -> LeakFormat:
    """Hunyuan's format with this suffix."""
    opens = [f"<tool_calls{suffix}>{blank}<tool_call{suffix}>" for blank in ("", "\n")]
    markers = opening(tuple(opens), "[A-Za-z0-9_]")
    return LeakFormat("hunyuan", tuple(opens), markers, partial(HeldCalls, _table(suffix)))


HUNYUAN, HUNYUAN_OPEN = _hunyuan(""), _hunyuan(":opensource")
