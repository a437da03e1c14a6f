"""Calls between tags, each of which is held until its text is whole (`call_text`).

The text comes in many pieces.  A piece in which no tag begins costs no more than to be kept; the
others are searched for tags, and a tag with which the call may end has all of it read.  A value may
quote many such tags: where reading has cost `_FREE`, it waits until there is twice as much to read,
so that the whole costs what its length costs.  More text never changes the answer.
"""

from __future__ import annotations

from ..declared_tools import DeclaredTools
from ..events import Damaged, Whole
from .call_text import MAX_TAGS, CallHead, CallText
from .held_arguments import ends_call
from .protocol import CallArguments
from .tags import Tag, TagKind, TagTable

_PIECE = 128
"""Characters that are searched for tags first, and then as many as there were: most calls are
short."""
_FREE = 16 * 1024
"""Tags, of which each costs as much as `_AS_A_TAG` characters of text."""
_AS_A_TAG = 8 * 1024
_WITHIN = (TagKind.ARGUMENT, TagKind.VALUE, TagKind.ARGUMENT_END, TagKind.KEY_END, TagKind.JSON)
"""Tags with which no call ends."""


def read_call(text: str, name: str, table: TagTable, tools: DeclaredTools) -> str | None:
    """The arguments of a call of this tool, as JSON, from the text after its head; None if it is
    damaged, or does not end with the text."""
    head, tags = CallHead(table, name, tools), list(table.in_value.tags_in(text))
    return CallText(text, tags, head, ended=True, whole=True).whole()


class TaggedCall(CallArguments):
    """One call, from after its head.  Nothing of it is given before its end."""

    def __init__(self, head: CallHead) -> None:
        super().__init__()
        self._head = head
        self._settled: list[str] = []
        """The text before the buffer, which is what may be the start of a tag."""
        self._size = 0
        """Characters of that."""
        self._tags: list[Tag] = []
        self._unread = ""
        """What has come after the buffer."""
        self._may_end = False
        """Whether a tag with which the call may end has come since it was read."""
        self._after: str | None = None
        """What follows the call, if it waits for the rest of that line alone."""
        self._spent = 0
        """What reading has cost."""

    @property
    def complete(self) -> bool:
        return self._so_far(ended=True).whole() is not None

    @property
    def unread(self) -> str:
        return super().unread + self._unread

    def push(self, text: str) -> None:
        self._unread += text

    def take_more(self, text: str) -> bool:
        waits = self._buffer or self._may_end or self._after is not None
        if waits or self._head.table.in_value.may_begin_in(text):
            return False
        self._settled.append(text)
        self._size += len(text)
        return True

    def step(self) -> bool:
        size = max(_PIECE, self._size)
        piece, self._unread = self._unread[:size], self._unread[size:]
        super().push(piece)
        self._settle()
        if self._after is not None:
            self._after += piece
            self._may_end = ends_call(self._after, 0, ended=False) is not None
        cost = len(self._tags) + self._size // _AS_A_TAG
        if self._may_end and self._spent <= cost + _FREE:
            self._spent += cost
            if self._read():
                return True
        return bool(self._unread)

    def _settle(self) -> None:
        """Find the tags in what has come."""
        in_value, end = self._head.table.in_value, 0
        for tag in in_value.tags_in(self._buffer, self._size):
            self._tags.append(tag)
            self._may_end = self._may_end or tag.kind not in _WITHIN
            end = tag.end - self._size
        self.too_long = len(self._tags) > MAX_TAGS
        end = len(self._buffer) - in_value.unfinished(self._buffer[end:])
        self._settled.append(self._buffer[:end])
        self._size += end
        self._buffer = self._buffer[end:]

    def finish(self, *, whole: bool = True) -> None:
        self._read(ended=True, whole=whole)

    def _so_far(self, *, ended: bool, whole: bool = True) -> CallText:
        """What has come."""
        self._settled = ["".join(self._settled)]
        text = self._settled[0] + self._buffer
        return CallText(text, self._tags, self._head, ended=ended, whole=whole)

    def _read(self, *, ended: bool = False, whole: bool = True) -> bool:
        """Read all of it; False if it has no end yet."""
        call = self._so_far(ended=ended, whole=whole)
        call.may_lack_end = ended and whole and self._head.table.may_lack_end
        reading = call.read()
        self._may_end = call.waits
        self._after = None if call.after is None else call.text[call.after :]
        if reading is None:
            return False
        self._events += reading.dropped
        if reading.json is None:
            self._events.append(Damaged(self._head.name, reading.cut, reading.why))
        else:
            self._events.append(Whole([reading.json]))
        self.over = True
        self._buffer, self._at = call.text, reading.end
        return True
