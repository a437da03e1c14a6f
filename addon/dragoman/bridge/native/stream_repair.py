"""Repair of a stream in which a host speaks the Responses API itself: frames in, frames out.

Until the first leak every frame leaves as it came, and nearly all of them unread: those in
whose bytes no marker of the active formats can stand (`ActiveFormats.may_hold_marker`).  Such
frames are kept until they have to be read, to know what is open (`HostItems`).  A frame
that may hold a part of a marker waits until that is decided, and all after it.

From the first leak on `AdoptingWriter` writes.  The item in which it is found is adopted: what
was sent of it is closed, the call is an item of its own, and what follows in it is a new one.
All other events pass, numbered anew, and the last one lists the items as they were sent.

Items may overlap (llama.cpp ends all of them at the end).  At most one text is undecided at a
time: events about others meanwhile are taken in later.  Text that no delta brought is read as if
deltas had, if a call leaked into it (`unstreamed`).
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
from ...wire.json_codec import Json, dumps, string
from ...wire.responses import DELTAS, DONES, TERMINALS
from ...wire.slices import drained
from ...wire.sse import Frame, encode
from .changed_response import ChangedResponse
from .host_items import HostItems, HostText, Key
from .kept_frames import KeptFrames, event_of
from .request_tools import RequestTools
from .scanned_text import ScannedText
from .unstreamed import leaks, unstreamed

MAX_WAITING = 16 * 1024
"""Frames that may wait: as many as what may be a call has characters, four to a frame."""
_TEXT_ITEMS = ("message", "reasoning")
End = Callable[[Scanner], list[ScanEvent]]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A frame that has not left."""

    frame: Frame
    event: Json | None
    """None if it is no event of the API."""
    taken: bool = False
    """Whether that has been taken in."""
    place: int | None = None
    """The host's index of its item."""
    channel: ScannedText | None = None
    """The text that it continues, if that is scanned."""
    end: int = 0
    """Where the text ends then."""
    written: bool = False
    """Whether the writer has written its event."""


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
        """Whether a text begins, maybe with the header of a call of which the host has stripped the
        beginning."""
        self._resting = False
        """Whether a frame in which no marker can stand needs no repair."""
        self._channels: dict[Key, ScannedText] = {}
        self._held: ScannedText | None = None
        """The one of these of which something is undecided."""
        self._waiting: deque[_Waiting] = deque()
        self._later: deque[_Waiting] = deque()
        """Those that are about others than the text that is undecided."""
        self._number = 0
        """That of the first event that has not left."""
        self._out: list[Frame] = []
        self._repaired: ChangedResponse | None = None
        """From the first repaired call on."""
        self._changed = False
        """Whether anything was sent that differs from what came."""
        self._as_it_came: list[Frame] = []
        """Before that: the frames that had not been sent when the first call was found."""

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

    def continues(self, _frames: bytes, begin: int, /) -> tuple[bytes, int]:
        """None does: what an event says is in others, too."""
        return b"", begin

    def has_taken_in(self, _frame: Frame, /) -> bool:
        """Never: a frame that has not left is among those that `release` gives."""
        return False

    # What comes

    def feed(self, frame: Frame, *, asked: bool = False) -> list[Frame]:
        """The frames that may leave now; `asked`: `ignores` was just False."""
        if not asked and self.ignores(frame.raw):
            return [frame]
        self._read_kept()
        waiting = _Waiting(frame, event_of(frame))
        self._waiting.append(waiting)
        if self._has_to_wait(waiting):
            self._later.append(waiting)
        else:
            self._take_in(waiting)
            self._take_in_later()
        self._let_out()
        if len(self._waiting) > MAX_WAITING:
            self._evidence.note("gave up repair", "too much to hold back")
            self._end_all(Scanner.abandon)
        self._resting = (
            self._repaired is None
            and self._named
            and not (self._begins or self._waiting)
            and all(channel.scanner.idle for channel in self._channels.values())
        )
        return self._leaving()

    def close(self) -> list[Frame]:
        self._read_kept()
        self._end_all(Scanner.close)
        self._let_out()
        return self._leaving()

    def release(self) -> list[Frame]:
        """The stream broke off: what is held is text; after a fault, before anything has
        changed: all that has not left, as it came."""
        if self._changed:
            self._end_all(Scanner.abandon)
            self._let_out()
            return self._leaving()
        came = [*self._out, *(waiting.frame for waiting in self._waiting)]
        came = came if self._repaired is None else self._as_it_came
        self._repaired = None
        self._out = []
        self._waiting.clear()
        return came

    def end_after_fault(self) -> list[Frame] | None:
        """If anything has changed, the one terminal event: what comes does not fit any more."""
        if not self._changed or self._repaired is None:
            return None
        self._repaired.fail()
        return self._leaving()

    def rewritten(self, response: Json) -> Json:
        """The host's last snapshot, with the items as they were sent."""
        self._end_all(Scanner.close)
        return self._repaired.rewritten(response) if self._repaired is not None else response

    def _leaving(self) -> list[Frame]:
        out, self._out = self._out, []
        if self._repaired is not None:
            out += self._repaired.drain()
            self._changed = True
            self._as_it_came = []
        return out

    # Taking a frame in

    def _read_kept(self) -> None:
        """Read the frames that have passed."""
        for text, passed in self._kept.read(self._host):
            if (channel := self._channels.get(text.key)) is not None:
                channel.scanner.passed(passed)
        if not self._waiting and self._repaired is None:
            self._number = self._host.number

    def _has_to_wait(self, waiting: _Waiting) -> bool:
        """Whether this is about another text or item than the one that is undecided.  Where that
        is only for white space after a call, the next item ends it."""
        held, event = self._held, waiting.event
        place = self._host.place_of(event) if event is not None and held is not None else None
        if held is None or event is None or place is None:
            return False
        if place == held.text.key[0]:
            found = self._host.key_of(event) if event["type"] in DELTAS else None
            return found is not None and found[0] != held.text.key
        return not (event["type"] == "response.output_item.added" and held.is_blank)

    def _take_in_later(self) -> None:
        while self._later and not self._has_to_wait(self._later[0]):
            self._take_in(self._later.popleft())

    def _take_in(self, waiting: _Waiting) -> None:
        if waiting.event is not None:
            self._read(waiting, waiting.event)
        waiting.taken = True

    def _read(self, waiting: _Waiting, event: Json) -> None:
        kind = event["type"]
        if kind in TERMINALS or kind == "error":
            abandon = kind in ("error", "response.failed")
            self._end_all(Scanner.abandon if abandon else Scanner.close)
        if kind not in DELTAS:
            if self._formats.may_hold_marker(waiting.frame.raw):
                self._add_unstreamed(waiting, event)
            self._end_texts(event)
        text = self._host.read(event)
        if not self._named and self._host.response is not None:
            if not self._tools.asked:
                self._tools = drained(RequestTools.reading(self._host.response))
            self._formats = self._policy.formats.active(self._tools.declared.model, self._model)
        self._named |= text is not None or self._host.response is not None
        self._begins = self._begins_text(event)
        channel = self._channel_of(text, event["delta"]) if text is not None else None
        place = waiting.place = text.key[0] if text is not None else self._host.place_of(event)
        adopter = self._adopter(place)
        waiting.written = adopter is not None
        if channel is not None:
            pieces = channel.scanner.feed(event["delta"])
            if adopter is None:
                channel.end += len(event["delta"])
                waiting.channel, waiting.end = channel, channel.end
            self._take(channel, pieces)
            self._held = None if channel.scanner.between else channel
        elif place is not None and adopter is not None:
            adopter.take_event(place, event)

    def _add_unstreamed(self, waiting: _Waiting, event: Json) -> None:
        """Read text that no delta brought before this event, if a call leaked into it."""
        missing = list(unstreamed(event, self._host))
        if leaks(missing, self._scanner):
            self._change()
        elif self._held is None:
            return
        number = {"sequence_number": 0} if "sequence_number" in event else {}
        for each in missing:
            frame = encode(dumps(each | number), event=each["type"])
            before = _Waiting(frame, each | number)
            self._waiting.insert(self._waiting.index(waiting), before)
            self._take_in(before)
            before.written |= self._repaired is None  # this event brings it to the client
            self._let_out()

    @property
    def _model(self) -> str:
        """What the reply calls its model."""
        return string((self._host.response or {}).get("model"))

    def _begins_text(self, event: Json) -> bool:
        if not (self._formats.look_back and self._tools.declared):
            return False
        kind, item = event["type"], event.get("item")
        if kind == "response.output_item.added":
            return isinstance(item, dict) and item.get("type") in _TEXT_ITEMS
        return kind.endswith("_part.added") or (self._begins and kind not in DELTAS)

    # The texts that are scanned

    def _scanner(self) -> Scanner:
        declared = self._tools.declared
        return Scanner(declared, rules_for(declared, self._model), self._formats)

    def _channel_of(self, text: HostText, delta: str) -> ScannedText | None:
        """The channel of a text that this delta continues; None for a refusal, which is not
        scanned."""
        channel = self._channels.get(text.key)
        if channel is None and text.kind != "refusal":
            scanner = self._scanner()
            value = text.text.getvalue()
            if before := value[: len(value) - len(delta)]:
                scanner.passed(before)
            channel = self._channels[text.key] = ScannedText(text, scanner)
        return channel

    def _end_texts(self, event: Json) -> None:
        """End the texts that end with this event of their item, or with the next item."""
        kind = event["type"]
        if kind in DONES:
            found = self._host.key_of(event)
            ended = [] if found is None else [found[0]]
        elif kind == "response.output_item.added":
            ended = list(self._channels)
        elif "item" in event or kind.endswith("_part.added"):
            ended = [key for key in self._channels if key[0] == self._host.place_of(event)]
        else:
            ended = []
        for key in ended:
            self._end_channel(key, Scanner.close)

    def _end_all(self, end: End) -> None:
        """End all texts, and take in all that waits for one."""
        while self._channels or self._later:
            for key in list(self._channels):
                self._end_channel(key, end)
            self._take_in_later()

    def _end_channel(self, key: Key, end: End) -> None:
        channel = self._channels.pop(key, None)
        if channel is not None:
            self._take(channel, end(channel.scanner))
            self._held = None if self._held is channel else self._held
            self._let_out()
            if self._repaired is not None:
                self._repaired.end_text(in_header=channel.scanner.cut_in_header)

    def _take(self, channel: ScannedText, pieces: list[ScanEvent]) -> None:
        """What the scanner made of a text."""
        place = channel.text.key[0]
        adopter = self._adopter(place)
        if adopter is not None:
            if pieces:
                adopter.write(place, pieces, channel.text.kind)
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
        held = channel = self._held
        while self._waiting and (waiting := self._waiting[0]).taken:
            if waiting.channel is not None and not waiting.written:
                channel = waiting.channel
                if channel is held and waiting.end > held.shown:
                    break
                channel.sent = waiting.end
            if not waiting.written:
                self._send(waiting)
            self._waiting.popleft()
        if channel is not None and not self._waiting:
            channel.pieces.clear()

    def _send(self, waiting: _Waiting) -> None:
        event = waiting.event
        if self._repaired is None:
            self._out.append(waiting.frame)
            number = event.get("sequence_number") if event else None
            self._number = number + 1 if type(number) is int else self._number
        else:
            self._repaired.pass_on(waiting.frame, event, waiting.place)

    # What has changed

    def _change(self) -> ChangedResponse:
        """All events are the writer's from now on."""
        if self._repaired is None:
            self._as_it_came = [*self._out, *(waiting.frame for waiting in self._waiting)]
            self._repaired = ChangedResponse(
                self._host,
                self._tools.names,
                self._policy,
                self._evidence,
                number=self._number,
                now=self._now,
            )
        return self._repaired

    def _adopter(self, place: int | None) -> ChangedResponse | None:
        """What writes the events of an item, if something in it has changed."""
        repaired = self._repaired
        return repaired if repaired is not None and repaired.has_adopted(place) else None

    def _adopt(self, channel: ScannedText) -> None:
        self._change().adopt(channel)
        for waiting in self._waiting:
            waiting.written |= waiting.channel is channel
