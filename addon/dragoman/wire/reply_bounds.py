"""The bounds of a reply, and the `Budget` of which it spends.

Other streams wait while plain code reads, converts and writes a whole reply, or one event: some
45 µs for each call, and up to 1 µs for each other JSON value.  The bridge fails a turn beyond a
bound; repair passes it on unread, or gives up.  A bound is one of the whole reply, however many
choices, items or texts it has.  What one format may hold is with its reader.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .json_codec import Json, objects

MAX_REPLY = 8 * 1024 * 1024
"""Bytes of a reply that is read as a whole: no model writes half as much.  Of a bridged stream,
characters, and the bytes that log probabilities and annotations take, sent or waiting: its end
repeats them three times.  Also characters of calls that are kept to be compared, of thoughts and
calls that are kept for the log and the stores."""
MAX_EMPTY = 1024 * 1024
"""Bytes without any text or call, after which a bridged turn fails: a comment every second fills
them in ten hours, and frames without content cost more than others for their size."""
MAX_EVENT = 32 * 1024 * 1024
"""Bytes of one event that are held; a larger one is passed on in pieces as it arrives, each marked
``whole=False``."""
MAX_HELD = 16 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that may wait in all: four characters to a frame of what may be a call
(`call_reader.CANDIDATE_LIMIT`).  More is no LLM's reply, and is not repaired any further.  Of a
reply whose end repeats all of it, as many bytes are kept for that; of a delta only its text
counts."""
MAX_UNREAD = 2 * 1024
"""Frames that wait unread: they are all read at once, so many items with a text each in 100 ms."""
MAX_AFTER_OPEN = 256
"""Frames that wait for an open one of another choice."""
MAX_CHOICES = 128
"""Choices of one reply that are read."""
MAX_OUTPUT = 2**14
"""An output index of the Responses API beyond this is not valid; so many calls take some 30 MB."""
MAX_VALUES = 200_000
"""JSON values: the log probabilities of 20,000 tokens."""
MAX_PARTS = 1_000
"""Choices, and what a list in a message of one holds: calls, parts, sources; items or blocks of
other APIs, and their parts.  No client runs as many calls."""
MAX_REMEMBERED = 3 * MAX_PARTS
"""Calls, ids and indexes of one chat reply that are known, those of so many calls."""
MAX_BLANK = 4096
"""Characters of white space that may be formatting around a call, a tag or a text, and are held."""
STEP = 8 * 1024
"""Characters of a long text, or bytes of a whole stream, after which other flows may run."""
MAX_CHECKED = 64 * 1024
"""Characters of arguments that are read as JSON once more, in a millisecond, to be compared with a
schema or with those of another turn: longer ones are texts to be written to a file."""
MAX_CALLS = 256
"""Leaked calls, after which all markers are text: no client could run more at once."""
MAX_IN_VAIN = 256
"""Markers of one format without a call, after which its markers are text: each costs as much as ten
thousand characters of text.  Of all formats together, and lines that may be a call in no known
format, twice as many."""
OF_A_CALL = 16
"""Markers for which a call makes up."""
OF_A_QUOTATION = 3
"""Markers more that a whole call counts which is text: it costs as much as four."""
LIKENESSES = 16
"""Beginnings of markers that are those of none (``<| ``), of which so many cost as much as one."""
MAX_COST = LIKENESSES * MAX_IN_VAIN
MAX_READ_AGAIN = 256 * 1024
"""Characters that are read twice, as they are no call: after so many, markers in code, and of calls
that must end their text, are text at once, and no line is asked whether it is a call in no known
format."""
_HOLDERS = ("response", "message", "delta", "item", "part")
_LISTS = (
    *("choices", "content", "tool_calls", "reasoning_details", "thinking", "annotations"),
    *("citations", "search_results", "output", "summary"),
)
"""The members of a reply, or of an event, that hold parts, and the lists of these."""


@dataclass(slots=True)
class Budget:
    """What one reply has spent, of all its choices and texts.  Repair has one, the bridge, and the
    reader of facts of each side."""

    size: int = 0
    """Bytes, about, that a bridged turn takes: see `MAX_REPLY`."""
    kept: int = 0
    """Characters of calls that are kept to be compared: see `MAX_REPLY`."""
    calls: int = 0
    """Leaked calls."""
    in_vain: defaultdict[object, int] = field(default_factory=lambda: defaultdict(int))
    """What markers without a call have cost, by their format, in `LIKENESSES`."""
    all_in_vain: int = 0
    """Markers of all formats without a call."""
    given_up: list[object] = field(default_factory=list)
    """The formats of which there were too many."""
    lines: int = 0
    """Lines that may be a call in no known format."""
    read_again: int = 0
    """See `MAX_READ_AGAIN`."""
    fence_lines: int = 0
    """See `markdown.MAX_FENCE_LINES`."""

    @property
    def reads_again(self) -> bool:
        return self.read_again < MAX_READ_AGAIN

    @property
    def asks_lines(self) -> bool:
        """Whether a line may be asked whether it is a call in no known format."""
        return self.lines < 2 * MAX_IN_VAIN and self.reads_again


def parts_in(value: Json) -> int:
    """How many parts a reply or an event has in its lists, up to one more than `MAX_PARTS`."""
    count, holders = 0, [value]
    for holder in holders:  # more are found in each
        for name, member in holder.items():
            if name in _HOLDERS and isinstance(member, dict):
                holders.append(member)
            elif name in _LISTS and isinstance(member, list):
                count += len(member)
                if count > MAX_PARTS:
                    return count
                holders += objects(member)
    return count
