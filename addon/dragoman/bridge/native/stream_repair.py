"""Repair of a stream in which a host speaks the Responses API itself: frames in, frames out.

Until the first leak every frame leaves as it came, and nearly all of them unread: `HostItems`
keeps those in whose bytes no marker of the active formats can stand
(`ActiveFormats.may_hold_marker`).  A frame that may hold a part of a marker waits until that is
decided, and all frames after it.

From the first leak on `AdoptingWriter` writes.  The item in which it is found is adopted: what
was sent of it is closed, the call is an item of its own, and what follows in it is a new one.
All other events pass, numbered anew, and the last one lists the items as they were sent.

Items may overlap (llama.cpp ends all of them at the end).  At most one text is undecided at a
time: events about others meanwhile are deferred.  Text that no delta brought is read as if
deltas had, if a call leaked into it (`unstreamed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...notes import Evidence
from ...repair.call_rule import rules_for
from ...repair.events import LeftAsText, ScanEvent
from ...repair.policy import Policy, note_piece
from ...repair.scanner import Scanner
from ...wire.chat_end import error_frame
from ...wire.json_codec import Json, NotJson, dumps, loads, string
from ...wire.responses import DELTAS, DONES, TERMINALS
from ...wire.sse import HEARTBEAT, Frame, encode
from .changed_response import ChangedResponse
from .host_items import HostItems, HostText, PartKey, ScannedText, event_of
from .request_tools import RequestTools
from .unstreamed import events_of, leaks, unstreamed

MAX_WAITING = 16 * 1024
"""Frames that may wait: as many as what may be a call has characters, four to a frame."""
_TEXT_ITEMS = ("message", "reasoning")
End = Callable[[Scanner], list[ScanEvent]]


@dataclass(slots=True, eq=False)
class _WaitingFrame:
    """A frame that has not left."""

    frame: Frame
    event: Json | None
    """None if the API has no such event."""
    read: bool = False
    index: int | None = None
    """The host's output index of its item."""
    scanned: ScannedText | None = None
    """The text that it continues, if that is scanned."""
    end: int = 0
    """Where that text ends with it."""
    written: bool = False
    """Whether the writer has written its event."""


class ResponsesStreamRepair:
    """Repairs one stream.  `now` (seconds) is the time of its last event, if that is ours."""

    heartbeat = HEARTBEAT
    error = staticmethod(error_frame)

    def __init__(self, tools: RequestTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._now = now
        self._formats = policy.formats.active(tools.declared.model)
        self._host = HostItems()
        self._model = ""
        """What the reply calls its model."""
        self._model_known = False
        """Whether the reply would have named it by now."""
        self._text_begins = False
        """Whether a text begins, maybe with the header of a call of which the host has stripped the
        beginning."""
        self._idle = False
        """Whether a frame in which no marker can stand needs no repair."""
        self._texts: dict[PartKey, ScannedText] = {}
        self._undecided: ScannedText | None = None
        """The one of these of which something is undecided."""
        self._waiting: deque[_WaitingFrame] = deque()
        self._deferred: deque[_WaitingFrame] = deque()
        """Those that are not read before the undecided text is decided."""
        self._number = 0
        """The number of the first event that has not left."""
        self._out: list[Frame] = []
        self._changed: ChangedResponse | None = None
        """From the first repaired call on."""
        self._change_sent = False
        self._ended = False
        """Whether the host has sent a terminal event, or an error."""
        self._unsent_original: list[Frame] = []
        """Until then: the frames that had not been sent when the first call was found."""

    # The interface of `StreamRepair`

    def feed(self, frame: Frame) -> list[Frame]:
        if self._may_pass(frame.raw):
            if self._host.keep(frame.raw):
                self._read_kept()
            return [frame]
        self._read_kept()
        waiting = _WaitingFrame(frame, event_of(frame))
        self._waiting.append(waiting)
        if self._must_defer(waiting):
            self._deferred.append(waiting)
        else:
            self._read(waiting)
            self._read_deferred()
        self._send_decided()
        if len(self._waiting) > MAX_WAITING:
            self._evidence.note("gave up repair", "too much to hold back")
            self._end_all(Scanner.abandon)
        self._idle = (
            self._changed is None
            and self._model_known
            and not (self._text_begins or self._waiting)
            and all(text.scanner.idle for text in self._texts.values())
        )
        return self._drain()

    def _may_pass(self, raw: bytes) -> bool:
        """Whether a frame needs no repair for certain, by its bytes alone."""
        if not self._idle or self._formats.may_hold_marker(raw):
            return False
        return not (self._formats.look_back and b'.added"' in raw)

    @property
    def unfinished(self) -> bool:
        """Whether a call was found, or may begin, and the host has not ended its response: some
        clients run the call of a stream that ends without a terminal event."""
        open_text = any(not text.scanner.between for text in self._texts.values())
        return not self._ended and (self._changed is not None or open_text)

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""
        self._read_kept()
        self._end_all(Scanner.close)
        return self._drain()

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what is held is text."""
        if not self._change_sent:
            return self._unsent_original if self._changed is not None else self._unsent()
        self._end_all(Scanner.abandon)
        return self._drain()

    def unsent(self) -> list[Frame] | None:
        if self._change_sent:
            return None
        return self._unsent_original if self._changed is not None else self._unsent()

    def document(self, body: bytes) -> bytes:
        """A response that came whole, repaired: it is read as the events by which it would have
        been streamed."""
        try:
            response = loads(body)
        except NotJson:
            return body
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            return body
        for event in events_of(response):
            self.feed(encode(dumps(event)))
        self._end_all(Scanner.close)
        return body if self._changed is None else dumps(self._changed.rewritten(response))

    # Reading a frame

    def _read_kept(self) -> None:
        for text, delta in self._host.read_kept():
            if (scanned := self._texts.get(text.key)) is not None:
                scanned.scanner.passed(delta)
        if not self._waiting and self._changed is None:
            self._number = self._host.number

    def _must_defer(self, waiting: _WaitingFrame) -> bool:
        """Whether this is about another text or item than the undecided one.  Where only white
        space after a call is undecided, the next item ends it."""
        undecided, event = self._undecided, waiting.event
        if undecided is None or event is None:
            return False
        key, index = undecided.host_text.key, self._host.index_of(event)
        if index is None:
            return False
        if index == key.output_index:
            found = self._host.text_of(event) if event["type"] in DELTAS else None
            return found is not None and found[0] != key
        return not (event["type"] == "response.output_item.added" and undecided.is_blank)

    def _read_deferred(self) -> None:
        while self._deferred and not self._must_defer(self._deferred[0]):
            self._read(self._deferred.popleft())

    def _read(self, waiting: _WaitingFrame) -> None:
        if waiting.event is not None:
            self._read_event(waiting, waiting.event)
        waiting.read = True

    def _read_event(self, waiting: _WaitingFrame, event: Json) -> None:
        kind = event["type"]
        if kind in TERMINALS or kind == "error":
            self._ended = True
            abandon = kind in ("error", "response.failed")
            self._end_all(Scanner.abandon if abandon else Scanner.close)
        if kind not in DELTAS:
            if self._formats.may_hold_marker(waiting.frame.raw):
                self._add_unstreamed(waiting, event)
            self._end_texts(event)
        text = self._host.read(event)
        self._learn_model(is_text=text is not None)
        self._text_begins = self._begins_text(event)
        scanned = None
        if text is not None and text.part.type != "refusal":
            scanned = self._scanned(text, event["delta"])
        index = text.key.output_index if text is not None else self._host.index_of(event)
        adopter = self._adopter(index)
        waiting.index, waiting.written = index, adopter is not None
        if scanned is not None:
            pieces = scanned.scanner.feed(event["delta"])
            if adopter is None:
                scanned.end += len(event["delta"])
                waiting.scanned, waiting.end = scanned, scanned.end
            self._add_pieces(scanned, pieces)
            self._undecided = None if scanned.scanner.between else scanned
        elif index is not None and adopter is not None:
            adopter.replace(index, event)

    def _add_unstreamed(self, waiting: _WaitingFrame, event: Json) -> None:
        """Read text that no delta brought before this event, if a call leaked into it."""
        missing = list(unstreamed(event, self._host))
        if leaks(missing, self._scanner):
            self._change()
        elif self._undecided is None:
            return
        number = {"sequence_number": 0} if "sequence_number" in event else {}
        for each in missing:
            frame = encode(dumps(each | number), event=each["type"])
            before = _WaitingFrame(frame, each | number)
            self._waiting.insert(self._waiting.index(waiting), before)
            self._read(before)
            before.written |= self._changed is None  # this event brings it to the client
            self._send_decided()

    def _learn_model(self, *, is_text: bool) -> None:
        """Look for the formats of the model that the reply names, if it does before its text."""
        response = self._host.response
        if response is not None and not self._model_known:
            self._model = string(response.get("model"))
            if not self._tools.requested:
                self._tools = RequestTools.of_request(response)
            self._formats = self._policy.formats.active(self._tools.declared.model, self._model)
        self._model_known |= is_text or response is not None

    def _begins_text(self, event: Json) -> bool:
        if not (self._formats.look_back and self._tools.declared):
            return False
        kind, item = event["type"], event.get("item")
        if kind == "response.output_item.added":
            return isinstance(item, dict) and item.get("type") in _TEXT_ITEMS
        return kind.endswith("_part.added") or (self._text_begins and kind not in DELTAS)

    # The texts that are scanned

    def _scanner(self) -> Scanner:
        declared = self._tools.declared
        return Scanner(declared, rules_for(declared, self._model), self._formats)

    def _scanned(self, text: HostText, delta: str) -> ScannedText:
        """The text that ends with this delta."""
        if text.key not in self._texts:
            scanner = self._scanner()
            if before := text.text[: -len(delta) or None]:
                scanner.passed(before)
            self._texts[text.key] = ScannedText(text, scanner)
        return self._texts[text.key]

    def _end_texts(self, event: Json) -> None:
        """End the texts that end with this event of their item, or with the next item."""
        kind = event["type"]
        ended: list[PartKey] = []
        if kind in DONES:
            found = self._host.text_of(event)
            ended = [] if found is None else [found[0]]
        elif kind == "response.output_item.added":
            ended = list(self._texts)
        elif "item" in event or kind.endswith("_part.added"):
            index = self._host.index_of(event)
            ended = [key for key in self._texts if key.output_index == index]
        for key in ended:
            self._end_text(key, Scanner.close)

    def _end_all(self, end: End) -> None:
        """End all texts, and read what was deferred."""
        while self._texts or self._deferred:
            for key in list(self._texts):
                self._end_text(key, end)
            self._read_deferred()
        self._send_decided()

    def _end_text(self, key: PartKey, end: End) -> None:
        scanned = self._texts.pop(key, None)
        if scanned is not None:
            self._add_pieces(scanned, end(scanned.scanner))
            if self._undecided is scanned:
                self._undecided = None
            self._send_decided()
            if self._changed is not None:
                self._changed.end_text(in_header=scanned.scanner.cut_in_header)

    def _add_pieces(self, scanned: ScannedText, pieces: list[ScanEvent]) -> None:
        """What the scanner made of a text."""
        for piece in pieces:
            if isinstance(piece, LeftAsText):
                note_piece(self._evidence, piece)
        pieces = [piece for piece in pieces if not isinstance(piece, LeftAsText)]
        adopter = self._adopter(scanned.host_text.key.output_index)
        if adopter is not None:
            if pieces:
                adopter.write(pieces, scanned.host_text)
        elif scanned.add(pieces):
            self._adopt(scanned)

    # Sending

    def _send_decided(self) -> None:
        scanned = self._undecided
        while self._waiting and (waiting := self._waiting[0]).read:
            if waiting.scanned is not None and not waiting.written:
                scanned = waiting.scanned
                if scanned is self._undecided and waiting.end > scanned.certain:
                    break
                scanned.sent = waiting.end
            if not waiting.written:
                self._send(waiting)
            self._waiting.popleft()
        if scanned is not None and not self._waiting:
            scanned.pieces.clear()

    def _send(self, waiting: _WaitingFrame) -> None:
        event = waiting.event
        if self._changed is None:
            self._out.append(waiting.frame)
            number = event.get("sequence_number") if event else None
            self._number = number + 1 if type(number) is int else self._number
        else:
            self._changed.pass_on(waiting.frame, event, waiting.index)

    def _drain(self) -> list[Frame]:
        """The frames that leave now."""
        out, self._out = self._out, []
        if self._changed is not None:
            out += self._changed.drain()
            self._change_sent = True
            self._unsent_original = []
        return out

    def _unsent(self) -> list[Frame]:
        return [*self._out, *(waiting.frame for waiting in self._waiting)]

    # The change

    def _change(self) -> ChangedResponse:
        """From now on all events are the writer's."""
        if self._changed is None:
            self._unsent_original = self._unsent()
            self._changed = ChangedResponse(
                self._host,
                self._tools.names,
                self._evidence,
                number=self._number,
                now=self._now,
                called=self._tools.declared.called,
            )
        return self._changed

    def _adopter(self, index: int | None) -> ChangedResponse | None:
        """What writes the events of an item, if something in it has changed."""
        changed = self._changed
        return changed if changed is not None and changed.has_adopted(index) else None

    def _adopt(self, scanned: ScannedText) -> None:
        self._change().adopt(scanned)
        for waiting in self._waiting:
            waiting.written |= waiting.scanned is scanned
