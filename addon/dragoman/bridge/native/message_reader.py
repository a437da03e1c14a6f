"""What the events of a message say, block by block: a block is an item with one text, or none.

A host may number blocks as it likes, leave out where one ends, or where one of text begins; an
event of another block than the latest says nothing, as for the client that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...messages import names as api
from ...responses.host_reader import (
    HostText,
    ItemAdded,
    ItemDone,
    OtherEvent,
    Place,
    Said,
    TextDelta,
    TextDone,
)
from ...responses.output_items import REASONING, TEXT
from ...wire.json_codec import Json

_PARTS = {"text": TEXT, "thinking": REASONING}


class MessageReader:
    """Reads the events of one message.  An `index` is the host's of a block."""

    is_event = staticmethod(api.is_event)

    @staticmethod
    def begins(event: Json) -> bool:
        """Whether a block begins with an event."""
        return api.block_begun(event) is not None

    def __init__(self) -> None:
        self.message: Json | None = None
        """As it began."""
        self._index = -1
        """The latest block's."""
        self._text: HostText | None = None
        """The text of that block, or the one that came without a block's beginning."""

    def index_of(self, event: Json) -> int | None:
        """The block that an event is about, unless that begins with it."""
        is_in = event["type"] in (api.BLOCK_DELTA, api.BLOCK_STOP)
        return self._index if is_in else None

    def continued(self, event: Json) -> TextDelta | None:
        said = api.text_in(event) if event["type"] == api.BLOCK_DELTA else None
        text = self._text
        if said is None or text is None or text.part is not _PARTS[said[0]]:
            return None
        return TextDelta(text, said[1])

    def read(self, event: Json) -> Iterator[Said]:
        """What an event says."""
        kind, block, said = event["type"], api.block_begun(event), api.text_in(event)
        if block is not None:
            index = api.index_of(event)
            self._index = self._index + 1 if index is None else index
            self._text = None
            yield ItemAdded(self._index, block)
        if said is not None:
            part = _PARTS[said[0]]
            self._text = text = HostText(self._index, Place("content", 0), part, {})
            if said[1]:
                yield TextDelta(text, said[1])
        elif kind in (api.BLOCK_DELTA, api.BLOCK_STOP):
            if api.index_of(event) not in (None, self._index):
                return
            if kind == api.BLOCK_STOP:
                self._text = None
                yield ItemDone(self._index, event)
            else:
                if api.delta_of(event).get("type") == api.SIGNATURE:
                    yield TextDone(self._index)  # no text follows it
                yield OtherEvent(self._index, event)
        elif block is None:
            if kind == api.MESSAGE_START and isinstance(event.get("message"), dict):
                self.message = event["message"]
            yield OtherEvent(None, event)
