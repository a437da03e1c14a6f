"""The last conversations, in memory, so that the store need not be read again to continue them.

They are kept as JSON: the parsed values would be a million objects, and each full garbage
collection would look at all of them while all flows wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from ..wire.json_codec import Json
from ..wire.json_slices import reading, writing
from ..wire.slices import Slices

MAX_BYTES = 32 * 1024 * 1024
"""Of all of them."""
ENTRY = 200


@dataclass(frozen=True, slots=True)
class Conversation:
    """The items of a chain of responses."""

    texts: Sequence[bytes] = ()
    """JSON arrays, with some of the items in each."""

    def items(self) -> Slices[list[Json]]:
        items: list[Json] = []
        for text in self.texts:
            items += yield from reading(text)
            yield
        return items

    def continued(self, items: Sequence[Json]) -> Slices[Conversation]:
        return Conversation((*self.texts, (yield from writing([*items]))))


class Conversations:
    """By owner, and by the ids of the responses, oldest first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._ready: OrderedDict[tuple[bytes, str], tuple[Sequence[str], Conversation]]
        self._ready = OrderedDict()  # least recently used first

    def find(self, asker: bytes, ids: Sequence[str]) -> Conversation | None:
        known, found = self._ready.get((asker, ids[-1]), ((), None))
        if list(known) != list(ids):
            return None
        self._ready.move_to_end((asker, ids[-1]))
        return found

    def add(self, asker: bytes, ids: Sequence[str], conversation: Conversation) -> None:
        key = (asker, ids[-1])
        if key in self._ready:
            self._remove(key)
        self._ready[key] = ids, conversation
        self._size += _size(ids, conversation)
        while self._size > self._max_bytes:
            self._remove(next(iter(self._ready)))

    def changed(self, asker: bytes, response_id: str) -> None:
        """This response was replaced or deleted."""
        for key, (ids, _) in list(self._ready.items()):
            if key[0] == asker and response_id in ids:
                self._remove(key)

    def clear(self) -> None:
        self._ready.clear()
        self._size = 0

    def _remove(self, key: tuple[bytes, str]) -> None:
        self._size -= _size(*self._ready.pop(key))


def _size(ids: Sequence[str], conversation: Conversation) -> int:
    entries = [*ids, *conversation.texts]
    return sum(map(len, entries)) + ENTRY * (1 + len(entries))
