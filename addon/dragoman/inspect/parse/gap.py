"""What stands in a body in place of bytes that were not kept: a comment, for an event stream."""

from __future__ import annotations

import re

_GAP = re.compile(rb"\n\n: \d+ bytes were not kept, see dragoman_keep\n\n")


def gap(missing: int) -> bytes:
    """In place of so many bytes."""
    return b"\n\n: %d bytes were not kept, see dragoman_keep\n\n" % missing


def gap_in(body: bytes, missing: int) -> tuple[int, int]:
    """Where the gap in a body ends, and how much further all that follows stood in the whole.
    Behind the end of one that has none: an earlier Dragoman kept the first bytes alone."""
    found = _GAP.search(body) if missing else None
    return (found.end(), missing - len(found[0])) if found else (len(body) + 1, 0)
