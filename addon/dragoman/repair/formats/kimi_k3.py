"""Kimi K3's format, XTML, in which everything a model writes is in a channel::

    <|open|>think<|sep|>…<|close|>think<|sep|><|open|>response<|sep|>…<|close|>response<|sep|>
    <|open|>tools<|sep|>
    <|open|>call tool="N" index="1"<|sep|>
    <|open|>argument key="K" type="string"<|sep|>V<|close|>argument<|sep|>
    <|close|>call<|sep|>
    <|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>

without the line ends.  In the place of the arguments ``json type="object"`` may hold them all.
Hosts lose markers, mostly one of two adjacent ones, and put blanks around names.
Channel markers are taken out wherever they leak; they decide the kind of the text after them.
"""

from __future__ import annotations

import re

from .held_calls import tagged
from .marker_set import Run, so_far
from .tags import Spelling, TagKind, TagPattern, TagTable

_NAMED = {"call": TagKind.CALL, "argument": TagKind.ARGUMENT, "json": TagKind.JSON}
_CHANNELS = {
    "tools": TagKind.SECTION,
    **dict.fromkeys(("think", "response", "message"), TagKind.OTHER),
}
_WORDS = "|".join((*_NAMED, *_CHANNELS))
_BLANKS = r"\s*+"
_ATTRIBUTE = r'\s{1,9}+[a-z]{1,20}+\s{0,9}+=\s{0,9}+"[^"]{0,200}+'
_HALF = (
    rf'(?:{_ATTRIBUTE}"){{0,4}}+'
    rf"(?:{_ATTRIBUTE}|\s*+(?:[a-z]{{1,20}}+\s{{0,9}}+(?:=\s{{0,9}}+)?+)?+)"
)
_ATTRIBUTES = Run(rf'((?:{_ATTRIBUTE}"){{1,4}}+)(?!\s{{10}})', _HALF)
_ANY_ATTRIBUTES = Run(f"(?:{_ATTRIBUTES.whole})?", _HALF)
_NEXT = r"(?=<\|(?:open|close)\|>)"
_SEP = Run(
    rf"(?:<\|sep\|>|{_NEXT}|(?=call\s++[a-z]++\s*+=))",
    so_far(("<|sep|", "<|open|", "<|close|")) + r"|[a-z]{1,20}+(?:\s++[a-z]*+\s*+)?+",
)
"""The end of a channel's marker; it may be lost before another marker, or a call's name."""
_OPENS = (_NAMED, _ATTRIBUTES, _BLANKS, ("<|sep|>",))
_CLOSES = (_NAMED | _CHANNELS, rf"(?:\s*+(?:{_WORDS})){{0,8}}+\s*+", _SEP)
_OPENED, _CLOSED = (("<|open|>",), _BLANKS), (("<|close|>",), _BLANKS)
_TAGS = (
    Spelling((*_OPENED, *_OPENS), typed_by="type"),
    Spelling((*_OPENED, _CHANNELS, _ANY_ATTRIBUTES, _BLANKS, _SEP), typed_by="type"),
    Spelling((*_CLOSED, *_CLOSES), closes=True, typed_by="type"),
)
_LONE = (("<|",), Run("(end_of_msg|sep)", so_far(("end_of_msg", "sep"))), ("|>",))


KIMI_K3 = tagged(
    "kimi_k3",
    ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    TagTable(
        in_text=TagPattern(*_TAGS, Spelling(_LONE, closes=True)),
        tags=TagPattern(
            *_TAGS,
            Spelling(_OPENS, typed_by="type"),  # the marker before it is lost
            Spelling(_CLOSES, closes=True, typed_by="type"),
            Spelling((("<|end_of_msg|>",),), closes=True),
        ),
        in_value=TagPattern(
            *_TAGS,
            Spelling(
                (("argument",), ("<|sep|>",)),
                TagKind.ARGUMENT,
                closes=True,
                typed_by="",
                whole=False,
            ),
        ),
        text_kinds={
            "think_begin": "reasoning",
            "think_end": "content",
            "response_begin": "content",
        },
        closing=re.compile(r"\s*+<\|?c"),
        strays=True,
        pairs=True,
        typed=True,
        closer="<|close|>argument<|sep|>",
    ),
)
