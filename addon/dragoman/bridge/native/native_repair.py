"""Repair of a stream in which a host speaks its client's API itself: frames in, frames out.

| until the first leaked call                | from then on                                       |
|--------------------------------------------|----------------------------------------------------|
| a frame leaves as it came, once the text   | no frame leaves: the `Client` of the API writes    |
| in it, and in those before it, is decided  | what they say, and what the scanner makes of texts |

A text is decided where its scanner knows that it is one.  At most one text is undecided at a time;
a frame that must not be read before that is decided is deferred.

Of an API this knows nothing: a reader says what its events mean, a client writes that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...notes import Evidence
from ...repair.call_rule import rules_for
from ...repair.declared_tools import DeclaredTools
from ...repair.events import LeftAsText, ScanEvent, SectionStart, Text
from ...repair.formats.active import ActiveFormats
from ...repair.formats.json_alone import JSON_ALONE
from ...repair.policy import Policy, note_piece
from ...repair.scan_state import ReplyCounts
from ...repair.scanner import Scanner
from ...repair.stage import RepairStage
from ...responses.host_reader import (
    HostReader,
    HostText,
    ItemAdded,
    ItemDone,
    Said,
    TextDelta,
    TextDone,
)
from ...wire.json_codec import Json, string
from ...wire.sse import Frame
from .client_message import ClientMessage
from .leaked_response import LeakedResponse
from .message_reader import MessageReader

MAX_WAITING = 16 * 1024
MAX_DEFERRED = 2 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that may wait: as many as what may be a call has characters, four to a
frame.  Those that are deferred are all read at once: 2,000 items with a text each take 100 ms.
A reply is repaired as far as it has so many bytes beside those around the texts of deltas."""
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
End = Callable[[Scanner], list[ScanEvent]]
Host = HostReader | MessageReader
"""Reads the host's events."""
Client = LeakedResponse | ClientMessage
"""Writes a reply from its first leaked call on."""


@dataclass(slots=True, eq=False)
class ScannedText:
    """A text that is scanned."""

    text: HostText
    scanner: Scanner


@dataclass(slots=True, eq=False)
class Waiting:
    """A frame that has not left."""

    frame: Frame
    event: Json | None
    """None if the API has no such event."""
    read: bool = False
    lasts: bool = False
    """Whether it leaves only with a later one."""
    said: list[Said] = field(default_factory=list)
    """What of it has been taken in."""
    end: int = 0
    """Where what is scanned ends with it, if some of that is its own."""


class NativeRepair(RepairStage, ABC):
    """Repairs one stream.  `now` (seconds) is the time of its last event, if
    that is ours, and is used for ids."""

    def __init__(self, host: Host, policy: Policy, evidence: Evidence, now: int) -> None:
        self._host = host
        self._policy = policy
        self._evidence = evidence
        self._now = now
        self._counts = ReplyCounts()
        self._texts: dict[int, ScannedText] = {}
        """The open text of each item."""
        self._undecided: ScannedText | None = None
        """The one of these of which something is undecided."""
        self._scanned = self._certain = 0
        """Characters of all texts, and how many of them are text for certain."""
        self._waiting: deque[Waiting] = deque()
        """The frames that have not left, as they came; with a client, those that are not read."""
        self._bytes = 0
        """Of these."""
        self._deferred: deque[Waiting] = deque()
        """Those that are not read before the undecided text is decided."""
        self._client: Client | None = None
        """From the first leaked call on."""
        self._changed = False
        """Whether something of that has left."""
        self._answers = self._follows = False
        """Whether there is an item that is no thought, and one before the latest."""
        self._close: End = Scanner.end_before_more
        """How a text ends: otherwise after the event that says why the reply has."""
        self._ended = self._gave_up = False
        """Whether the host has ended its reply, or sent an error; whether the rest is not read."""
        self._kept = 0
        """Bytes of the reply, without those around the texts of deltas: no more are ever kept."""

    # What an API decides

    @abstractmethod
    def _end_with(self, waiting: Waiting) -> End | None:
        """How this ends all texts; None if it does not."""

    @abstractmethod
    def _must_defer(self, event: Json, undecided: ScannedText) -> bool:
        """Whether an event is not read before this text is decided: its own end is not, as the next
        item, or why the reply ends, decides what is a call."""

    @abstractmethod
    def _reading(self, text: HostText) -> tuple[DeclaredTools, str, ActiveFormats]:
        """The tools that a text may call, the model that wrote it, and the formats to look for."""

    @abstractmethod
    def _begin_client(self, text: HostText, unsent: list[Said]) -> Client:
        """What writes from now on: the first call is in `text`, and the client has not received
        what is `unsent`."""

    def _pass(self, waiting: Waiting) -> Frame:
        """What leaves for a frame that is not changed by repair."""
        return waiting.frame

    # The interface of `RepairStage`

    def feed(self, frame: Frame) -> list[Frame]:
        if self._gave_up:
            return [] if self._changed else [frame]
        value = frame.readable(self._evidence)
        is_event = isinstance(value, dict) and self._host.is_event(value)
        self._take(Waiting(frame, value if is_event else None))
        many = len(self._waiting) > MAX_WAITING or len(self._deferred) > MAX_DEFERRED
        if many or self._bytes > MAX_WAITING_BYTES:
            held = self._undecided
            if self._client is None and held is not None and held.scanner.held_call:
                self._take_over(held.text, [])
            else:
                self._evidence.note("gave up repair", "too much to hold back")
                self._end_all(Scanner.release)
                self._close = Scanner.end_before_more
        return self._give_up() if self._kept > MAX_WAITING_BYTES else self._leave()

    def _give_up(self) -> list[Frame]:
        """The rest passes as it comes, or after a change the reply ends with an error."""
        self._evidence.note("gave up repair", "a reply that is too long")
        self._end_all(Scanner.release)
        out = self._leave(last=True)
        self._gave_up, self._client = True, None
        return [*out, self.error("The reply is too long.")] if self._changed else out

    @property
    def unfinished(self) -> bool:
        """Whether a call was found, or may begin, and the host has not ended its reply: clients
        run the call of a stream that ends without its end."""
        open_text = any(not text.scanner.between for text in self._texts.values())
        return not self._ended and (self._client is not None or open_text)

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""
        self._end_all(Scanner.close)
        return self._leave(last=True)

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what is certain."""
        self._end_all(Scanner.abandon)
        return self._leave(last=True)

    def unsent(self) -> list[Frame] | None:
        return None if self._changed else [waiting.frame for waiting in self._waiting]

    # Reading a frame

    def _take(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._bytes += len(waiting.frame.raw)
        event = waiting.event
        if self._is_deferred(event):
            self._deferred.append(waiting)
            return
        if event is not None and self._host.begins(event):
            self._end_undecided()
            self._read_deferred()
        self._read(waiting)
        self._read_deferred()

    def _is_deferred(self, event: Json | None) -> bool:
        undecided = self._undecided
        return undecided is not None and event is not None and self._must_defer(event, undecided)

    def _read_deferred(self) -> None:
        while self._deferred and not self._is_deferred(self._deferred[0].event):
            self._read(self._deferred.popleft())

    def _end_undecided(self) -> None:
        """End this text, after what was deferred of it: its end may have more of it."""
        while (undecided := self._undecided) is not None:
            event = self._deferred[0].event if self._deferred else None
            if event is not None and self._host.index_of(event) == undecided.text.index:
                self._read(self._deferred.popleft())
            else:
                self._end_text(undecided.text.index, self._close)

    def _read(self, waiting: Waiting) -> None:
        event = waiting.event
        if event is not None and (delta := self._host.continued(event)) is not None:
            self._kept += len(waiting.frame.raw) if delta.logprobs else len(delta.delta)
            self._hear(delta, waiting, alone=True)
        else:
            self._kept += len(waiting.frame.raw)
            if (end := self._end_with(waiting)) is not None:
                self._end_all(end)
            if event is not None:
                for said in self._host.read(event):
                    self._hear(said, waiting)
            elif self._client is not None:
                self._client.pass_on(waiting.frame)
        waiting.read = True

    def _hear(self, said: Said, waiting: Waiting, *, alone: bool = False) -> None:
        """`alone`: the frame says nothing else."""
        if isinstance(said, TextDelta) and said.text.part.type != "refusal":
            if alone:
                thinks = said.text.part.item == "reasoning"
                waiting.frame.only = "reasoning" if thinks else "text", said.delta
            self._scan(said, waiting, alone=alone)
            return
        if isinstance(said, ItemAdded):
            for index in list(self._texts):
                self._end_text(index, self._close)
            self._follows |= self._answers
            self._answers |= string(said.item.get("type")) not in _THOUGHTS
        elif isinstance(said, TextDone | ItemDone):
            self._end_text(said.index, self._close)
        waiting.said.append(said)
        if self._client is not None:
            self._client.say(said)

    # The texts that are scanned

    def _scan(self, said: TextDelta, waiting: Waiting, *, alone: bool) -> None:
        text, delta = said.text, said.delta
        scanned = self._texts.get(text.index)
        if scanned is None or scanned.text is not text:
            self._end_text(text.index, self._close)
            declared, model, formats = self._reading(text)
            formats = formats.without(JSON_ALONE) if self._follows else formats
            scanner = Scanner(declared, rules_for(declared, model), formats, self._counts)
            scanned = self._texts[text.index] = ScannedText(text, scanner)
            scanner.passed(text.text[: text.size - len(delta)])
        scanner = scanned.scanner
        self._scanned += len(delta)
        taken = scanner.take_more(delta)
        if self._client is None:
            if taken and alone and len(self._waiting) == 1:  # it is text, and leaves now
                self._certain = self._scanned
                return
            waiting.said.append(said)
            waiting.end = self._scanned
        if taken is None:
            pieces = scanner.feed(delta)
        else:
            start = scanner.fed - len(taken)
            pieces = [Text(taken, start)] if taken else []
        self._undecided = None if scanner.between else scanned
        self._add_pieces(scanned, pieces, () if taken is None else said.logprobs)

    def _add_pieces(
        self, scanned: ScannedText, pieces: list[ScanEvent], logprobs: Sequence[Json] = ()
    ) -> None:
        """What the scanner made of a text; `logprobs` if that is the text alone."""
        for piece in pieces:
            if isinstance(piece, LeftAsText):
                note_piece(self._evidence, piece)
        pieces = [piece for piece in pieces if not isinstance(piece, LeftAsText | SectionStart)]
        if self._client is not None:
            self._client.write(scanned.text, pieces, logprobs)
            return
        start = certain = scanned.scanner.fed - (self._scanned - self._certain)
        for piece in pieces:
            if not isinstance(piece, Text) or piece.kind is not None or piece.start != certain:
                self._take_over(scanned.text, pieces)
                return
            certain += len(piece.text)
        self._certain = self._certain + certain - start if self._undecided else self._scanned

    def _end_text(self, index: int, end: End) -> None:
        scanned = self._texts.pop(index, None)
        if scanned is not None:
            self._undecided = None if self._undecided is scanned else self._undecided
            held = bool(scanned.scanner.held_call)
            pieces = end(scanned.scanner)
            if held and scanned.scanner.cut and self._client is None:  # so why it ends changes
                self._take_over(scanned.text, [])
            self._add_pieces(scanned, pieces)
            if self._client is not None:
                self._client.end_text(cut=scanned.scanner.cut)

    def _end_all(self, end: End) -> None:
        """End all texts, and read what was deferred."""
        self._close = end
        while self._texts or self._deferred:
            self._end_undecided()
            for index in list(self._texts):
                self._end_text(index, end)
            self._read_deferred()

    # What leaves

    def _leave(self, *, last: bool = False) -> list[Frame]:
        """The frames that leave now; `last`: all that still wait for a later one."""
        if self._client is not None:
            self._changed = True
            while self._waiting and self._waiting[0].read:
                self._bytes -= len(self._waiting.popleft().frame.raw)
            return self._client.drain()
        count = 0
        for number, waiting in enumerate(self._waiting, start=1):
            if waiting.end > self._certain or not waiting.read:
                break
            if last or not waiting.lasts:
                count = number
        leaving = [self._waiting.popleft() for _ in range(count)]
        self._bytes -= sum(len(waiting.frame.raw) for waiting in leaving)
        return [self._pass(waiting) for waiting in leaving]

    def _take_over(self, text: HostText, pieces: list[ScanEvent]) -> None:
        """The first call has leaked: from now on the client's writer writes; of this `text` these
        `pieces`, after what was certain before them and has not left."""
        unsent = [said for waiting in self._waiting for said in waiting.said]
        client = self._begin_client(text, unsent)
        self._write_by(client, besides=text)
        own = (said.delta for said in unsent if isinstance(said, TextDelta) and said.text is text)
        waits = "".join(own)
        before = waits[: len(waits) - (self._scanned - self._certain)]
        client.write(text, [*([Text(before)] if before else []), *pieces])

    def _write_by(self, client: Client, *, besides: HostText | None = None) -> None:
        """From now on this writes; first what waits, but for this text."""
        self._client = client
        for waiting in self._waiting:
            if waiting.read and waiting.event is None:
                client.pass_on(waiting.frame)
            for said in waiting.said:
                if not (isinstance(said, TextDelta) and said.text is besides):
                    client.say(said)
