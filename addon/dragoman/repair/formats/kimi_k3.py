"""Kimi K3's format, XTML, in which everything a model writes is in a channel::

    <|open|>think<|sep|>…<|close|>think<|sep|><|open|>response<|sep|>…<|close|>response<|sep|>
    <|open|>tools<|sep|>
    <|open|>call tool="N" index="1"<|sep|>
    <|open|>argument key="K" type="string"<|sep|>V<|close|>argument<|sep|>
    <|close|>call<|sep|>
    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>

In place of the arguments ``json type="object"`` may hold them all.  Line ends are only here.  Hosts
lose markers, mostly one of two adjacent ones, and put blanks around names.  Channel markers are
taken out wherever they leak; they decide the kind of the text after them.
"""

from __future__ import annotations

import re

from .held_calls import TaggedFormat
from .marker_set import Run, group, so_far
from .tags import Spelling, TagKind, TagPattern, TagTable, attributes

_NAMED = {"call": TagKind.CALL, "argument": TagKind.ARGUMENT, "json": TagKind.JSON}
_OTHERS = dict.fromkeys(("think", "response", "message"), TagKind.OTHER)
_CHANNELS = {"tools": TagKind.SECTION, **_OTHERS}
_WORDS = "|".join((*_NAMED, *_CHANNELS))
_ATTRIBUTES, _ANY = (attributes('"[^"]{0,200}+"', '"[^"]{0,200}+', least) for least in (1, 0))
_SEP = Run(
    r"(?:<\|sep\|>|(?=<\|(?:open|close)\|>|call\s++[a-z]++\s*+=))",
    so_far(("<|sep|", "<|open|", "<|close|")) + r"|[a-z]{1,20}+(?:\s++[a-z]*+\s*+)?+",
)
"""The end of a channel's marker; it may be lost before another marker, or a call's name."""
_OPENS = (_NAMED, _ATTRIBUTES, r"(?!\s{10})\s*+", ("<|sep|>",))
_CLOSES = (_NAMED | _CHANNELS, rf"(?:\s*+(?:{_WORDS})){{0,8}}+\s*+", _SEP)
_TAGS = (
    Spelling((("<|open|>",), r"\s*+", *_OPENS), typed_by="type"),
    Spelling((("<|open|>",), r"\s*+", _CHANNELS, _ANY, r"\s*+", _SEP), typed_by="type"),
    Spelling((("<|close|>",), r"\s*+", *_CLOSES), closes=True, typed_by="type"),
)
_HALF_LOST = Spelling(_OPENS, typed_by="type"), Spelling(_CLOSES, closes=True, typed_by="type")
_LONE = (("<|",), group(("end_of_msg", "sep")), ("|>",))
_THINNED = Spelling((("argument",), ("<|sep|>",)), TagKind.ARGUMENT, closes=True, whole=False)
KIMI_K3 = TaggedFormat(
    "kimi_k3",
    ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    TagTable(
        in_text=TagPattern(*_TAGS, Spelling(_LONE, closes=True)),
        tags=TagPattern(*_TAGS, *_HALF_LOST, Spelling((("<|end_of_msg|>",),), closes=True)),
        in_value=TagPattern(*_TAGS, _THINNED),
        channels={"think_begin": "reasoning", "think_end": "content", "response_begin": "content"},
        closing=re.compile(r"\s*+<\|?c"),
        strays=True,
        typed=True,
        closer="<|close|>argument<|sep|>",
        mark="<|",
    ),
)
