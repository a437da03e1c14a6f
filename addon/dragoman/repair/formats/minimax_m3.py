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

from .enclosed_json import OPEN
from .held_calls import TaggedFormat
from .marker_set import Run, ahead, optional, spelled
from .tags import Spelling, TagKind, TagPattern, TagTable

_BEGINNING = "]<]minimax[>["
_PREFIX = (_BEGINNING,), r"\s{0,8}+"
_PREFIXES = (*_PREFIX, optional(*_PREFIX))
_NAME = Run(
    r"(?:\s++name\s*+=\s*+[\"']?([^\"'<>]{0,200}+)[\"']?)?+", r"\s*+[a-z]*+\s*+(?:=[^<>\]]*+)?+"
)
_END = (r"\s*+", (">",))
_TAGS = (
    *(
        Spelling((*_PREFIXES, (start,), *parts, *_END), kind, closes=start == "</")
        for parts, kind in (
            ((("tool_call",),), TagKind.SECTION),
            ((("invoke",), _NAME), TagKind.CALL),
            ((r"([A-Za-z_-][\w.:-]{0,200}+)",), TagKind.ARGUMENT),
        )
        for start in ("<", "</")
    ),
    Spelling((*_PREFIXES, Run(r"(?=[^\s<\]]|\][^<])", r"\]?")), TagKind.KEY_END),
)
_CALL = ahead(*_PREFIX, ("<invoke",))
_HALF_OPENER = Spelling(((OPEN,), r"\s{0,64}+", _CALL), TagKind.SECTION)
_IN_CALL = TagPattern(*_TAGS, first="]")
MINIMAX_M3 = TaggedFormat(
    "minimax_m3",
    (_BEGINNING, OPEN),
    TagTable(
        in_text=TagPattern(*_TAGS, _HALF_OPENER, first="]"),
        tags=_IN_CALL,
        in_value=_IN_CALL,
        closing=re.compile(rf"\s*+{spelled(*_PREFIXES)}(?:</|\Z)"),
        strays=True,
        nested=True,
        closer=f"{_BEGINNING}</{{}}>",
        mark=_BEGINNING[:3],
    ),
)
