"""Repair of a stream in which a host speaks the Responses API itself: frames in, frames out.

Until the first leak every frame leaves as it came, and nearly all of them unread: those in
whose bytes no marker of the active formats can stand (`ActiveFormats.may_hold_marker`).  Such
frames are kept until they have to be read, which tells what is open (`HostItems`).  A frame
that may hold a part of a marker waits until that is decided, and all after it.

From the first leak on `AdoptingWriter` writes.  The item in which it stands is adopted: what
came of it before is closed, the call is an item of its own, and what follows in it is a new one.
All other events pass, numbered anew, and the last one lists the items as they were sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...notes import Evidence
from ...repair.call_rule import rules_for
from ...repair.events import LeftAsText, ScanEvent
from ...repair.formats.active import ActiveFormats
from ...repair.pending import Policy, note_piece
from ...repair.scanner import Scanner
from ...wire.errors import failure
from ...wire.json_codec import Json
from ...wire.responses import DELTAS, DONES, TERMINALS
from ...wire.sse import Frame
from ...wire.usage import usage
from ..responses.event_writer import ItemStatus
from .adopting_writer import AdoptingWriter
from .host_items import HostItems, HostText, place_of
from .item_repair import ItemRepair
from .kept_frames import KeptFrames, event_of
from .request_tools import RequestTools
from .scanned_text import ScannedText
from .terminal import merged_output, text_of

MAX_WAITING = 16 * 1024
"""Frames that may wait: as many as what may be a call has characters, four to a frame."""
_TEXT_ITEMS = ("message", "reasoning")
End = Callable[[Scanner], list[ScanEvent]]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A frame that has not left."""

    frame: Frame
    event: Json | None
    """What it says, if that is an event of the API."""
    end: int = 0
    """Where the text ends that it continues; 0 for any other frame."""


class ResponsesStreamRepair:
    """Repairs one stream.  `now` (seconds) is the time of its last event, if that is ours."""

    def __init__(
        self,
        tools: RequestTools,
        policy: Policy,
        evidence: Evidence,
        now: int,
    ) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._now = now
        self._formats: ActiveFormats = policy.formats.active(tools.declared.model)
        self._host = HostItems()
        self._kept = KeptFrames()
        self._named = False
        """Whether the reply may have named its model."""
        self._begins = False
        """Whether a text begins: with the header of a call of which the host has stripped the
        beginning, it may be."""
        self._resting = False
        """Whether a frame in which no marker can stand needs no repair."""
        self._channel: ScannedText | None = None
        self._waiting: deque[_Waiting] = deque()
        self._number = 0
        """That of the first event that has not left."""
        self._out: list[Frame] = []
        self._writer: AdoptingWriter | None = None
        self._places: dict[int, int] = {}
        """The client's output index of each of the host's."""
        self._repaired: dict[int, slice] = {}
        """Where what took the place of an item stands in the output; by the host's index."""
        self._items: ItemRepair
        self._adopted: int | None = None
        """The item of these that is open."""
        self._changed = False
        """Whether anything has left that did not come so."""

    # What is asked

    def ignores(self, raw: bytes) -> bool:
        """Whether `raw`, one or more whole frames, needs no repair for certain."""
        if not self._resting or self._formats.may_hold_marker(raw):
            return False
        if self._formats.look_back and b'.added"' in raw:
            return False
        if self._kept.add(raw):
            self._read_kept()
        return True

    def has_taken_in(self, _frame: Frame, /) -> bool:
        """Never: a frame that has not left is among those that `release` gives."""
        return False

    # What comes

    def feed(self, frame: Frame, *, asked: bool = False) -> list[Frame]:
        """The frames that may leave now; `asked`: `ignores` was asked just now, in vain."""
        if not asked and self.ignores(frame.raw):
            return [frame]
        self._read_kept()
        event = event_of(frame)
        if event is None:
            self._waiting.append(_Waiting(frame, None))
        else:
            self._take_in(frame, event)
        self._let_out()
        if len(self._waiting) > MAX_WAITING:
            self._evidence.note("gave up repair", "too much to hold back")
            self._end_channel(Scanner.abandon)
        idle = self._channel is None or self._channel.scanner.idle
        writes = self._writer is not None or bool(self._waiting)
        self._resting = self._named and idle and not (self._begins or writes)
        return self._leaving()

    def close(self) -> list[Frame]:
        """The stream has ended."""
        self._read_kept()
        self._end_channel(Scanner.close)
        self._let_out()
        return self._leaving()

    def release(self) -> list[Frame]:
        """The stream broke off: what is held is text; after a fault, before anything has
        changed: all that has not left, as it came."""
        if self._changed:
            self._end_channel(Scanner.abandon)
            self._let_out()
            return self._leaving()
        self._writer = None
        out = [*self._out, *(waiting.frame for waiting in self._waiting)]
        self._out = []
        self._waiting.clear()
        return out

    def end_after_fault(self) -> list[Frame] | None:
        """If anything has changed, the one terminal event: what comes does not fit any more."""
        if not self._changed or self._writer is None:
            return None
        if not self._writer.ended:
            error = failure("server_error", "Dragoman could not repair the upstream's reply.")
            self._writer.fail(error, usage(None, 0, self._writer.characters)[0])
        return self._leaving()

    def rewritten(self, response: Json) -> Json:
        """The host's last snapshot, with the items as they were sent."""
        self._end_channel(Scanner.close)
        if self._writer is None:
            return response
        self._close_adopted("completed")
        sent = {place: self._writer.items[where] for place, where in self._repaired.items()}
        output = merged_output(response.get("output"), self._host.items, sent)
        response = {**response, "output": output}
        if isinstance(response.get("output_text"), str):  # other servers
            response["output_text"] = text_of(output)
        if self._items.cut and response.get("status") == "completed":
            cut: Json = {"incomplete_details": {"reason": "max_output_tokens"}}
            response |= cut | {"status": "incomplete", "completed_at": None}
        return response

    def _leaving(self) -> list[Frame]:
        out, self._out = self._out, []
        if self._writer is not None:
            out += self._writer.events.drain()
            self._changed = True
        return out

    # Taking a frame in

    def _read_kept(self) -> None:
        """Read the frames that have passed."""
        for text, said in self._kept.read(self._host):
            if self._channel is not None and text is self._channel.text:
                self._channel.scanner.passed(said)
            else:
                self._channel = None
        if not self._waiting and self._writer is None:
            self._number = self._host.number

    def _take_in(self, frame: Frame, event: Json) -> None:
        if (end := _end_in(event)) is not None:
            self._end_channel(end)
        text = self._host.read(event)
        if not self._named and self._host.response is not None:
            self._formats = self._policy.formats.active(self._tools.declared.model, self._model)
        self._named |= text is not None or self._host.response is not None
        self._begins = self._begins_text(event)
        channel = self._channel_of(text, event["delta"]) if text is not None else None
        place = place_of(event)
        if channel is not None:
            pieces = channel.scanner.feed(event["delta"])
            if place not in self._repaired:
                channel.end += len(event["delta"])
                self._waiting.append(_Waiting(frame, event, channel.end))
            self._take(channel, pieces)
        elif place in self._repaired:
            self._tell_adopted(event)
        else:
            self._waiting.append(_Waiting(frame, event))

    @property
    def _model(self) -> str:
        """What the reply calls its model."""
        model = (self._host.response or {}).get("model")
        return model if isinstance(model, str) else ""

    def _begins_text(self, event: Json) -> bool:
        if not (self._formats.look_back and self._tools.declared):
            return False
        kind, item = event["type"], event.get("item")
        if kind == "response.output_item.added":
            return isinstance(item, dict) and item.get("type") in _TEXT_ITEMS
        return kind.endswith("_part.added") or (self._begins and kind not in DELTAS)

    def _channel_of(self, text: HostText, delta: str) -> ScannedText | None:
        """The channel of a text that this delta continues; None if it is not scanned: a refusal,
        or one that is not the last."""
        if self._channel is not None and self._channel.text is text:
            return self._channel
        self._end_channel(Scanner.close)
        if text.kind == "refusal" or not self._host.is_last(text):
            return None
        declared = self._tools.declared
        scanner = Scanner(declared, rules_for(declared, self._model), self._formats)
        value = text.text.getvalue()
        if before := value[: len(value) - len(delta)]:
            scanner.passed(before)
        self._channel = ScannedText(text, scanner)
        return self._channel

    def _end_channel(self, end: End) -> None:
        """The text ends that is scanned."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._take(channel, end(channel.scanner))
            self._let_out()
            if self._writer is not None:
                self._items.end(channel.scanner)

    def _take(self, channel: ScannedText, pieces: list[ScanEvent]) -> None:
        """What came of a text."""
        if channel.text.key[0] in self._repaired:
            self._items.write(pieces, channel.text.kind)
            return
        for piece in pieces:
            if isinstance(piece, LeftAsText):
                note_piece(self._evidence, piece)
        pieces = [piece for piece in pieces if not isinstance(piece, LeftAsText)]
        if channel.take(pieces):
            self._adopt(channel)

    # What leaves

    def _let_out(self) -> None:
        """Let the frames go that are decided."""
        channel = self._channel
        while self._waiting and (channel is None or self._waiting[0].end <= channel.shown):
            waiting = self._waiting.popleft()
            if channel is not None and waiting.end:
                channel.sent = waiting.end
            self._send(waiting)
        if channel is not None and not self._waiting:
            channel.pieces.clear()

    def _send(self, waiting: _Waiting) -> None:
        event = waiting.event
        if self._writer is None:
            self._out.append(waiting.frame)
            number = event.get("sequence_number") if event else None
            self._number = number + 1 if type(number) is int else self._number
        elif event is None:
            self._writer.pass_frame(waiting.frame)
        else:
            self._pass_on(self._writer, event, waiting.frame.other_lines)

    def _pass_on(self, writer: AdoptingWriter, event: Json, other_lines: bytes) -> None:
        """An event of the host's, after something has changed."""
        kind, place, item = event["type"], place_of(event), event.get("item")
        if place is not None:
            if kind == "response.output_item.added" and isinstance(item, dict):
                self._close_adopted("completed")
                self._places[place] = writer.place(item)
            place = self._places.get(place, place)
            event = {**event, "output_index": place}
            ends = kind == "response.output_item.done" and place < len(writer.items)
            if ends and isinstance(item, dict):
                writer.items[place] = item
        response = event.get("response")
        if kind in TERMINALS and isinstance(response, dict):
            response = self.rewritten(response)
            event = {**event, "response": response}
            if kind == "response.completed" and self._items.cut:
                event["type"] = "response.incomplete"
                other_lines = other_lines.replace(kind.encode(), b"response.incomplete")
            writer.ended = True
        writer.pass_on(event, other_lines)

    # What has changed

    def _adopt(self, channel: ScannedText) -> None:
        """The first change in an item: from now on its events are the writer's."""
        text = channel.text
        place, _, index = text.key
        writer = self._writer
        if writer is None:
            response = {**(self._host.response or {})}
            response["id"] = str(response.get("id") or "resp_0")
            items = [self._host.items[place] for place in sorted(self._host.items)]
            writer = AdoptingWriter(response, items, self._number, self._now)
            self._items = ItemRepair(writer, self._tools.names, self._policy, self._evidence)
            self._writer = writer
        writer.adopt(self._host.item_up_to(text), text.kind, text.part, index, channel.sent_text)
        self._repaired[place] = slice(len(writer.items), None)
        self._adopted = place
        self._items.write(channel.unsent, text.kind)
        for waiting in self._waiting:
            if not waiting.end:
                self._send(waiting)
        self._waiting.clear()

    def _tell_adopted(self, event: Json) -> None:
        """Any other event of an item in which something has changed."""
        assert self._writer is not None
        kind, item, delta = event["type"], event.get("item"), event.get("delta")
        if kind == "response.output_item.done":
            cut = isinstance(item, dict) and item.get("status") == "incomplete"
            self._close_adopted("incomplete" if cut else "completed")
        elif kind == "response.refusal.delta" and isinstance(delta, str):
            self._writer.prose("refusal", delta)
        elif kind == "response.output_text.annotation.added" and self._writer.in_text:
            self._writer.annotate(event.get("annotation") or {})
        elif kind.endswith("_part.added"):
            self._end_channel(Scanner.close)
            self._writer.close_item()
        elif kind in DELTAS:  # its item has ended for the client when another one began
            self._evidence.note("dropped", "text of an item after the next one")

    def _close_adopted(self, status: ItemStatus) -> None:
        """The item ends in which something has changed."""
        if self._adopted is not None and self._writer is not None:
            self._writer.close_item(status)
            begin = self._repaired[self._adopted].start
            self._repaired[self._adopted] = slice(begin, len(self._writer.items))
            self._adopted = None


def _end_in(event: Json) -> End | None:
    """How the text that is scanned ends with this event; None if it does not."""
    kind = event["type"]
    if kind in ("error", "response.failed"):
        return Scanner.abandon
    return Scanner.close if kind in TERMINALS or kind in DONES or "item" in event else None
