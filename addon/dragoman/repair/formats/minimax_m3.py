"""MiniMax M3's format: elements, each tag of which begins with ``]<]minimax[>[``.

With ``]`` in its place::

    ]<tool_call>
    ]<invoke name="N">]<K>V]</K>]<L>]<item>V]</item>]<item>V]</item>]</L>]</invoke>
    ]</tool_call>

An argument is an element that has its name; `elements` says what is in one.  Hosts lose the
beginning of the first tag.
"""

from __future__ import annotations

import re

from .held_calls import tagged
from .hermes import OPEN
from .marker_set import MarkerPattern, begun, so_far
from .tags import Tag, TagKind, TagTable

_BEGINNING = "]<]minimax[>["
_PREFIX = re.escape(_BEGINNING)
_PREFIXES = rf"(?:{_PREFIX}\s{{0,8}}+){{1,2}}+"
_EXPRESSION = (
    rf"{_PREFIXES}(?:<(?P<end>/?)(?:(?P<section>tool_call)|(?P<invoke>invoke)"
    r"(?:\s++name\s*+=\s*+[\"']?(?P<name>[^\"'<>]{0,200}+)[\"']?)?+"
    r"|(?P<element>[A-Za-z_][\w.:-]{0,200}+))\s*+>"
    r"|(?P<stray>(?=[^\s<\]]|\][^<])))"
)
_SO_FAR = r"\]" + so_far(
    (_BEGINNING[1:],),
    rf"\s{{0,8}}+(?:{_PREFIX}\s{{0,8}}+)?+",
    r"(?:<[^<>\]]*+|\](?:<\]?[a-z]*+\[?>?)?)?",
)
_TAGS = MarkerPattern(_EXPRESSION, _SO_FAR, first="]")
_HALF_OPENER = rf"{OPEN}\s{{0,64}}+(?={_PREFIX}\s{{0,8}}+<invoke)"
_HALF_OPENER_SO_FAR = so_far((_BEGINNING,), r"\s{0,8}+", ("<invoke",))


def _read(match: re.Match[str]) -> Tag:
    if match["section"] or match[0].startswith("<"):
        return Tag.of(match, TagKind.SECTION, closes=match["end"])
    if match["invoke"]:
        return Tag.of(match, TagKind.CALL, match["name"] or "", closes=match["end"])
    kind = TagKind.ARGUMENT if match["element"] else TagKind.OTHER
    return Tag.of(match, kind, match["element"], closes=match["end"])


MINIMAX_M3 = tagged(
    "minimax_m3",
    (_BEGINNING, OPEN),
    TagTable(
        in_text=MarkerPattern(
            f"{_EXPRESSION}|{_HALF_OPENER}",
            rf"{_SO_FAR}|{begun(OPEN)}\Z|{OPEN}\s{{0,64}}+{_HALF_OPENER_SO_FAR}",
        ),
        tags=_TAGS,
        in_value=_TAGS,
        read=_read,
        closing=re.compile(rf"\s*+{_PREFIXES}(?:</|\Z)"),
        strays=True,
        pairs=True,
        nested=True,
        closer=f"{_BEGINNING}</{{}}>",
    ),
)
