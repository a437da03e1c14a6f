"""The comment in a body in place of bytes that were not kept."""

from __future__ import annotations

import re

_GAP = re.compile(rb"\n\n: \d+ bytes were not kept, see dragoman_keep\n\n")


def gap(missing: int) -> bytes:
    return b"\n\n: %d bytes were not kept, see dragoman_keep\n\n" % missing


def gap_in(body: bytes, missing: int) -> tuple[int, int]:
    """Where the gap in a body ends, and how much further all that follows stood in the whole. After
    the end if there is none: an earlier Dragoman kept only the first bytes."""
    found = _GAP.search(body) if missing else None
    return (found.end(), missing - len(found[0])) if found else (len(body) + 1, 0)
