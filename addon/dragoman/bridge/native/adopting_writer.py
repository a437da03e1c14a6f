"""Writes the rest of a host's own stream.

From the first repaired call on it numbers all events and places all items.  The host's own events
pass with all their fields; an item of the host's that changes is adopted: from then on its events
are the writer's.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...wire.errors import UpstreamError
from ...wire.json_codec import Json, dumps
from ...wire.sse import encode
from ..responses.dialects import OPENAI
from ..responses.event_writer import Writer
from ..responses.output_items import TEXT, StreamedPart


class AdoptingWriter(Writer):
    """Continues a response that has `items`; `number` is that of its next event."""

    seals = False  # the host takes its own form of it only

    def __init__(self, response: Json, items: Sequence[Json], number: int, now: int) -> None:
        super().__init__({**response, "output": []}, OPENAI, clock=lambda: now, prior=items)
        self._id += "_repaired"  # so that no id of ours is one of the host's
        self.events.number = number
        self.started = True

    def fail(self, error: UpstreamError, usage: Json) -> None:
        """Without the output indexes for which the host has sent no item."""
        self._output[:] = [item for item in self._output if item]
        super().fail(error, usage)

    @property
    def items(self) -> list[Json]:
        """Those of the response as the client knows them, without what is open."""
        return self._output

    def adopt(self, item: Json, place: int, part: StreamedPart, index: int, text: str) -> None:
        """Take over the item at `place`, in which the last part is open: this much of its `text`
        was sent."""
        if place == len(self._output) - 1:
            del self._output[-1]
        where = {"item_id": item["id"], "output_index": place, part.index: index}
        opened = self._stream(item, part, where)
        opened.annotations = item[part.holder][-1].get("annotations") or []
        opened.text.write(text)
        self._prose["text" if part is TEXT else "reasoning"] = part

    def end_early(self, later: list[Json]) -> None:
        """End the item that was adopted, after which others have begun; `later` are its parts
        after the one that is open."""
        opened, self.open_part = self.open_part, None
        if opened is not None:
            self._close_part(opened)
            item, place = opened.item, opened.where["output_index"]
            item[opened.part.holder] += later
            item["status"] = "completed"
            self.events.add_final("response.output_item.done", output_index=place, item=item)
            self._output[place] = item

    def place(self, item: Json) -> int:
        """The output index of a new item of the host's."""
        self.close_item()
        self._output.append(item)
        return len(self._output) - 1

    def pass_on(self, event: Json, other_lines: bytes) -> None:
        """An event of the host's."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self.events.number}
            self.events.number += 1
        self.events.frames.append(encode(dumps(event), other_lines=other_lines))
