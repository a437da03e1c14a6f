"""A host's response from its first repaired call on, as the client gets it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from ...notes import Evidence
from ...repair.events import ScanEvent, Text
from ...repair.pending import Policy
from ...wire.errors import failure
from ...wire.json_codec import Json
from ...wire.responses import DELTAS, TERMINALS
from ...wire.sse import Frame
from ...wire.usage import usage
from ..reply.tool_lookup import ToolLookup
from ..responses.event_writer import ItemStatus, ProseKind
from .adopting_writer import AdoptingWriter
from .host_items import HostItems
from .item_repair import ItemRepair
from .scanned_text import ScannedText
from .terminal import merged_output, text_of


class ChangedResponse:
    """Continues the response of `host`.  Places are the host's output indexes."""

    def __init__(
        self,
        host: HostItems,
        names: ToolLookup,
        policy: Policy,
        evidence: Evidence,
        *,
        number: int,
        now: int,
    ) -> None:
        """`number`: of the next event."""
        response = {**(host.response or {})}
        response["id"] = str(response.get("id") or "resp_0")
        items = [host.items.get(place, {}) for place in range(max(host.items, default=-1) + 1)]
        self._host = host
        self._evidence = evidence
        self._writer = AdoptingWriter(response, items, number, now)
        self._items = ItemRepair(self._writer, names, policy, evidence)
        self._places = {place: place for place in host.items}
        """The client's output index of each item that it knows."""
        self._made: dict[int, list[int]] = {}
        """The client's output indexes of what replaced an item."""
        self._open: int | None = None
        """The item for which items of the writer's are made now."""
        self._first = 0
        """The client's output index of the first of these."""

    def has_adopted(self, place: int | None) -> bool:
        """Whether the events of an item are the writer's."""
        return place in self._made

    def drain(self) -> list[Frame]:
        """The frames that may leave now."""
        return self._writer.events.drain()

    # Texts that are scanned

    def adopt(self, text: ScannedText) -> None:
        """The first change in an item: from now on its events are the writer's."""
        of_host, pieces = text.text, text.unsent
        self._close("completed")
        place = self._places.setdefault(of_host.key[0], len(self._writer.items))
        item, later = self._host.item_up_to(of_host)
        is_last = place >= len(self._writer.items) - 1 and not later
        self._made[of_host.key[0]] = [] if is_last else [place]
        self._writer.adopt(item, place, of_host.part, of_host.key[2], text.sent_text)
        if not is_last:
            before = list(takewhile(lambda piece: isinstance(piece, Text), pieces))
            self._items.write(before, of_host.kind)
            self._writer.end_early(later)
            pieces = pieces[len(before) :]
        self._turn_to(of_host.key[0])
        self._items.write(pieces, of_host.kind)

    def write(self, place: int, pieces: Iterable[ScanEvent], kind: ProseKind) -> None:
        """What the scanner made of a text of this kind, in an item that was adopted."""
        self._turn_to(place)
        self._items.write(pieces, kind)

    def end_text(self, *, in_header: bool) -> None:
        """A text has ended, maybe in the header of a call."""
        self._items.end(in_header=in_header)

    # The host's events

    def take_event(self, place: int, event: Json) -> None:
        """An event about an item that was adopted; text that is scanned comes by `write`."""
        kind, item, delta = event["type"], event.get("item"), event.get("delta")
        if kind == "response.refusal.delta" and isinstance(delta, str):
            self._turn_to(place)
            self._writer.prose("refusal", delta)
        elif kind in DELTAS:
            self._evidence.note("dropped", f"{kind} of a repaired item")
        elif kind == "response.output_text.annotation.added":
            if self._open == place and self._writer.in_text:
                self._writer.annotate(event.get("annotation") or {})
            else:
                self._evidence.note("dropped", f"{kind} of a repaired item")
        elif self._open != place:
            pass  # it has ended for the client when another one began
        elif kind == "response.output_item.done":
            cut = isinstance(item, dict) and item.get("status") == "incomplete"
            self._close("incomplete" if cut else "completed")
        elif kind.endswith("_part.added"):
            self._writer.close_item()

    def pass_on(self, frame: Frame, event: Json | None, place: int | None) -> None:
        """Any other frame of the host's, and its event, if it is one of the API."""
        if event is None:
            self._writer.events.frames.append(frame)
            return
        kind, item, other_lines = event["type"], event.get("item"), frame.other_lines
        if place is not None:
            if kind == "response.output_item.added" or place not in self._places:
                self._close("completed")
                begun = item if isinstance(item, dict) else self._host.items.get(place, {})
                self._places[place] = self._writer.place(begun)
            place = self._places[place]
            if "output_index" in event:
                event = {**event, "output_index": place}
            if kind == "response.output_item.done" and isinstance(item, dict):
                self._writer.items[place] = item
        response = event.get("response")
        if kind in TERMINALS and isinstance(response, dict):
            event = {**event, "response": self.rewritten(response)}
            if kind == "response.completed" and self._items.cut:
                event["type"] = "response.incomplete"
                other_lines = other_lines.replace(kind.encode(), b"response.incomplete")
        self._writer.pass_on(event, other_lines)
        self._writer.ended |= kind in TERMINALS

    def rewritten(self, response: Json) -> Json:
        """The host's last snapshot, with the items as they were sent."""
        self._close("completed")
        items = self._writer.items
        sent = {place: [(at, items[at]) for at in ats] for place, ats in self._made.items()}
        output = merged_output(response.get("output"), self._host.items, self._places, sent)
        response = {**response, "output": output}
        if isinstance(response.get("output_text"), str):  # other servers
            response["output_text"] = text_of(output)
        if self._items.cut and response.get("status") == "completed":
            cut: Json = {"incomplete_details": {"reason": "max_output_tokens"}}
            response |= cut | {"status": "incomplete", "completed_at": None}
        return response

    def fail(self) -> None:
        """After a fault: the one terminal event, unless it was written."""
        if not self._writer.ended:
            error = failure("server_error", "Dragoman could not repair the upstream's reply.")
            self._writer.fail(error, usage(None, 0, self._writer.characters)[0])

    # What is open

    def _turn_to(self, place: int) -> None:
        """What is written from now on takes the place of this item."""
        if self._open != place:
            self._close("completed")
            self._open, self._first = place, len(self._writer.items)

    def _close(self, status: ItemStatus) -> None:
        if self._open is not None:
            self._writer.close_item(status)
            self._made[self._open] += range(self._first, len(self._writer.items))
            self._open = None
