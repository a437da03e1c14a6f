"""A reply with placeholders for what differs from one run of the same turn to the next."""

from __future__ import annotations

import re

from dragoman.responses.names import ID_PREFIXES

_PREFIXES = "|".join(ID_PREFIXES.values()).encode()
_VOLATILE = (
    (rb"\b(resp|call|%s)_[0-9a-f]{32}" % _PREFIXES, rb"\1_<id>"),
    (rb'"(created_at|completed_at)": ?\d+', rb'"\1":"<time>"'),
)


def normal(body: bytes) -> bytes:
    for pattern, replacement in _VOLATILE:
        body = re.sub(pattern, replacement, body)
    return body
