"""The frames of a kept body with their numbers, places and times.

A stream may have any size, so only the frames at the start up to a limit are read, and those at
the end, where a stream says how it ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...reply.facts import MAX_FRAMES, TAIL
from ...wire.reply_bounds import MAX_REPLY
from ...wire.sse import Frame, FrameSplitter

_SLICE = 256 * 1024
_GAP = re.compile(rb"\n\n: \d+ bytes were not kept, see dragoman_keep\n\n")


@dataclass(frozen=True, slots=True)
class NumberedFrame:
    number: int
    """From 1."""
    end: int
    """The offset after its last byte."""
    frame: Frame

    @property
    def value(self) -> Any:
        """Its JSON value; None if it has none.  Not kept: a page is made of many frames."""
        return Frame(self.frame.raw, self.frame.whole).json


@dataclass(frozen=True, slots=True)
class Frames:
    head: list[NumberedFrame]
    tail: list[NumberedFrame]
    """Empty if the head is all."""
    skipped: int = 0
    """Frames between the two; some may lie under CR line ends and not be counted."""
    skipped_bytes: int = 0

    @property
    def total(self) -> int:
        return len(self.head) + self.skipped + len(self.tail)


def frames(body: bytes, start: int = 0, number: int = 1) -> Iterator[NumberedFrame]:
    """The frames of a stream; the last may be unfinished."""
    splitter = FrameSplitter()
    end = at = start
    while at < len(body):
        edge = at + _SLICE
        # A CRLF that is cut would count as two line ends.
        edge += body[edge - 1 : edge + 1] == b"\r\n"
        found = splitter.feed(body[at:edge])
        at = edge
        if at >= len(body):
            found += splitter.close()
        for frame in found:
            end += len(frame.raw)
            yield NumberedFrame(number, end, frame)
            number += 1


def head_and_tail(body: bytes, limit: int = MAX_FRAMES, max_bytes: int = MAX_REPLY) -> Frames:
    """The frames at the start, within the limits, and those at the end."""
    head = []
    for placed in islice(frames(body), limit):
        head.append(placed)
        if placed.end > max_bytes:
            break
    reached = head[-1].end if head else 0
    if reached >= len(body):
        return Frames(head, [])
    start = body.find(b"\n\n", max(reached - 2, len(body) - TAIL)) + 2
    if start < 2:
        return Frames(head, [], 1, len(body) - reached)
    between = body.count(b"\n\n", reached, start)
    tail = list(islice(frames(body, start, len(head) + between + 1), limit))
    return Frames(head, tail, between, start - reached)


def gap(missing: int) -> bytes:
    """The comment in a body in place of bytes that were not kept."""
    return b"\n\n: %d bytes were not kept, see dragoman_keep\n\n" % missing


def gap_in(body: bytes, missing: int) -> tuple[int, int]:
    """Where the gap in a body ends, and how many bytes more precede what follows in the whole.
    After the end if there is none: an earlier Dragoman kept only the first bytes."""
    found = _GAP.search(body) if missing else None
    return (found.end(), missing - len(found[0])) if found else (len(body) + 1, 0)
