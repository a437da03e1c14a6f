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
from .marker_set import MarkerPattern, so_far
from .tags import Tag, TagKind, TagTable
from .value_types import OTHER, STRING

_NAMED = {"call": TagKind.CALL, "argument": TagKind.ARGUMENT, "json": TagKind.JSON}
_CHANNELS = {
    "tools": TagKind.SECTION,
    **dict.fromkeys(("think", "response", "message"), TagKind.OTHER),
}
_KINDS = _NAMED | _CHANNELS
_WORDS = "|".join(_KINDS)
_ATTRIBUTE = re.compile(r'(?<![a-z])([a-z]++)\s*+=\s*+"([^"]*+)"')
_ATTRIBUTES = r'(?:\s{1,9}+[a-z]{1,20}+\s{0,9}+=\s{0,9}+"[^"]{0,200}+"){1,4}+(?!\s{10})'
_NEXT = r"(?=<\|(?:open|close)\|>)"
_SEP = rf"\s*+(?:<\|sep\|>|{_NEXT}|(?=call\s++[a-z]++\s*+=))"
"""The end of a channel's marker; it may be lost before another marker, or a call's name."""
_OPENS = rf"(?P<named>{'|'.join(_NAMED)})(?P<attributes>{_ATTRIBUTES})\s*+<\|sep\|>"
_CHANNEL = rf"<\|open\|>\s*+(?P<channel>{'|'.join(_CHANNELS)})(?:{_ATTRIBUTES})?{_SEP}"
_CLOSES = rf"(?P<closes>{_WORDS})(?:\s*+(?:{_WORDS})){{0,8}}+\s*+(?:<\|sep\|>|{_NEXT})"
_ATTRIBUTE_SO_FAR = r'[a-z]{1,20}+\s{0,9}+=\s{0,9}+"[^"]{0,200}+'
_BODY = (
    tuple(_KINDS),
    rf"(?:\s*+(?:{_WORDS})){{0,8}}+\s*+",
    rf"(?:{_ATTRIBUTE_SO_FAR}\"\s{{0,9}}+){{0,4}}+"
    rf"(?:{_ATTRIBUTE_SO_FAR}|[a-z]{{1,20}}+\s{{0,9}}+(?:=\s{{0,9}}+)?+)?",
    ("<|sep|>", "<|open|>", "<|close|>"),
)
_MARKER_SO_FAR = "<" + so_far(("|open|>", "|close|>"), r"\s*+", *_BODY)
_SO_FAR = f"{_MARKER_SO_FAR}|<{so_far(('|sep|>', '|end_of_msg|>'))}"


def _read(match: re.Match[str]) -> Tag:
    found = match.groupdict()
    opens = found.get("named") or found.get("channel")
    thinned = found.get("thinned")
    closes = found.get("closes") or thinned or ""
    kind = _KINDS.get(opens or closes, TagKind.OTHER)
    if kind is TagKind.OTHER:
        name = found.get("other") or f"{closes or opens}_{'begin' if opens else 'end'}"
        return Tag.of(match, kind, name, closes=not opens)
    attributes = dict(_ATTRIBUTE.findall(found["attributes"])) if found["attributes"] else {}
    name = attributes.get("tool") or attributes.get("key") or ""
    name = name.replace("&quot;", '"').replace("&amp;", "&")
    declared = attributes.get("type")
    value_type = (STRING if declared == "string" else OTHER) if declared else None
    return Tag.of(match, kind, name, value_type, closes=not opens, whole=not thinned)


KIMI_K3 = tagged(
    "kimi_k3",
    ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    TagTable(
        in_text=MarkerPattern(
            rf"<\|open\|>\s*+{_OPENS}|{_CHANNEL}|<\|close\|>\s*+{_CLOSES}"
            r"|<\|(?P<other>end_of_msg|sep)\|>",
            _SO_FAR,
        ),
        tags=MarkerPattern(
            rf"(?:<\|open\|>\s*+)?{_OPENS}|{_CHANNEL}|(?:<\|close\|>\s*+)?{_CLOSES}"
            r"|<\|end_of_msg\|>",
            f"{_SO_FAR}|{so_far(*_BODY)}",
        ),
        in_value=MarkerPattern(
            rf"<\|open\|>\s*+{_OPENS}|{_CHANNEL}|<\|close\|>\s*+{_CLOSES}"
            r"|(?P<thinned>argument)<\|sep\|>",
            f"{_MARKER_SO_FAR}|{so_far(('argument',), ('<|sep|>',))}",
            halves=tuple("argument"[:size] for size in range(1, 9)),
        ),
        read=_read,
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
