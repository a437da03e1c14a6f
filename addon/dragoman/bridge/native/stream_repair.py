"""Repair of a stream in which a host speaks the Responses API itself: frames in, frames out.

| until the first leaked call                | from then on                                       |
|--------------------------------------------|----------------------------------------------------|
| a frame leaves as it came, once the text   | no frame leaves: `LeakedResponse` writes what they |
| in it, and in those before it, is decided  | say, and what the scanner makes of their texts     |

A text is decided where its scanner knows that it is one.  Items may overlap (llama.cpp ends all of
them at the end), but at most one text is undecided at a time: meanwhile, the frames of other items
are deferred, that is, not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...notes import Evidence
from ...repair.call_rule import rules_for
from ...repair.events import Arguments, LeftAsText, ScanEvent, Text
from ...repair.formats.json_alone import JSON_ALONE
from ...repair.policy import Policy, note_piece
from ...repair.scan_state import ReplyCounts
from ...repair.scanner import Scanner
from ...wire.chat_end import error_frame
from ...wire.json_codec import Json, dumps, string
from ...wire.responses import TERMINALS
from ...wire.sse import HEARTBEAT, Document, Frame
from .host_reader import (
    HostReader,
    HostText,
    ItemAdded,
    ItemDone,
    Said,
    TextDelta,
    TextDone,
    event_of,
)
from .leaked_response import LeakedResponse
from .request_tools import RequestTools

MAX_WAITING = 16 * 1024
"""Frames that may wait: as many as what may be a call has characters, four to a frame."""
End = Callable[[Scanner], list[ScanEvent]]


@dataclass(slots=True, eq=False)
class _ScannedText:
    """A text that is scanned."""

    text: HostText
    scanner: Scanner
    decided: int
    """How many of its characters are text for certain."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A frame that has not left."""

    frame: Frame
    event: Json | None
    """None if the API has no such event."""
    read: bool = False
    said: list[Said] = field(default_factory=list)
    """What of it has been taken in."""
    text: _ScannedText | None = None
    """The text that it continues, if that is scanned."""
    end: int = 0
    """How long that text is with it."""


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
        self._counts = ReplyCounts()
        self._model: str | None = None
        """What the reply calls its model; None while no text has come."""
        self._host = HostReader()
        self._texts: dict[int, _ScannedText] = {}
        """The open text of each item."""
        self._undecided: _ScannedText | None = None
        """The one of these of which something is undecided."""
        self._waiting: deque[_Waiting] = deque()
        """The frames that have not left, as they came."""
        self._deferred: deque[_Waiting] = deque()
        """Those that are not read before the undecided text is decided."""
        self._leaked: LeakedResponse | None = None
        """From the first leaked call on."""
        self._changed = False
        """Whether something of that has left."""
        self._ended = False
        """Whether the host has sent a terminal event, or an error."""

    # The interface of `StreamRepair`

    def feed(self, frame: Frame) -> list[Frame]:
        self._take(_Waiting(frame, event_of(frame.readable(self._evidence))))
        if max(len(self._waiting), len(self._deferred)) > MAX_WAITING:
            self._evidence.note("gave up repair", "too much to hold back")
            self._end_all(Scanner.abandon)
        return self._leave()

    @property
    def unfinished(self) -> bool:
        """Whether a call was found, or may begin, and the host has not ended its response: some
        clients run the call of a stream that ends without a terminal event."""
        open_text = any(not text.scanner.between for text in self._texts.values())
        return not self._ended and (self._leaked is not None or open_text)

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""
        self._end_all(Scanner.close)
        return self._leave()

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what is held is text."""
        if (unsent := self.unsent()) is not None:
            return unsent
        self._end_all(Scanner.abandon)
        return self._leave()

    def unsent(self) -> list[Frame] | None:
        return None if self._changed else [waiting.frame for waiting in self._waiting]

    def document(self, body: bytes) -> bytes:
        """A response that came whole, repaired: it is read as the event that ends its stream."""
        response = Document(body).readable(self._evidence)
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            return body
        kind = f"response.{response.get('status')}"
        event = {"type": kind if kind in TERMINALS else "response.completed", "response": response}
        self._take(_Waiting(Frame(body), event))
        return body if self._leaked is None else dumps(self._leaked.response)

    # Reading a frame

    def _take(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        if self._must_defer(waiting.event):
            self._deferred.append(waiting)
        else:
            self._read(waiting)
            self._read_deferred()

    def _must_defer(self, event: Json | None) -> bool:
        """Whether this is about another item than the undecided text.  A native call ends a text
        in which no call is open; where only white space after a call is undecided, any item."""
        undecided = self._undecided
        if undecided is None or event is None:
            return False
        text, index = undecided.text, self._host.index_of(event)
        if index is None or index == text.index:
            return False
        if event["type"] != "response.output_item.added":
            return True
        item = event.get("item")
        is_call = isinstance(item, dict) and string(item.get("type")).endswith("_call")
        rest = text.after(text.size - undecided.scanner.undecided)
        return not (rest.isspace() or (is_call and not undecided.scanner.in_call))

    def _read_deferred(self) -> None:
        while self._deferred and not self._must_defer(self._deferred[0].event):
            self._read(self._deferred.popleft())

    def _read(self, waiting: _Waiting) -> None:
        event = waiting.event
        if event is None:
            if self._leaked is not None:
                self._leaked.pass_on(waiting.frame)
        elif (delta := self._host.continued(event)) is not None:
            self._hear(delta, waiting)
        else:
            kind = event["type"]
            if kind in TERMINALS or kind == "error":
                self._ended = True
                failed = kind in ("error", "response.failed")
                self._end_all(Scanner.abandon if failed else Scanner.close)
            for said in self._host.read(event):
                self._hear(said, waiting)
        waiting.read = True

    def _hear(self, said: Said, waiting: _Waiting) -> None:
        if isinstance(said, TextDelta) and said.text.part.type != "refusal":
            self._scan(said, waiting)
            return
        self._end_texts(said)
        waiting.said.append(said)
        if self._leaked is not None:
            self._leaked.say(said)

    # The texts that are scanned

    def _scan(self, said: TextDelta, waiting: _Waiting) -> None:
        text, delta = said.text, said.delta
        scanned = self._texts.get(text.index)
        if scanned is None or scanned.text is not text:
            self._end_text(text.index, Scanner.close)
            before = text.size - len(delta)
            scanned = self._texts[text.index] = _ScannedText(text, self._scanner(text), before)
            scanned.scanner.passed(text.text[:before])
        scanner = scanned.scanner
        in_call, taken = scanner.in_call, scanner.takes(delta)
        if self._leaked is None:
            is_all = waiting.event is not None and waiting.event["type"] == text.part.text.delta
            if taken and is_all and len(self._waiting) == 1:  # it is text, and leaves now
                scanned.decided = text.size
                return
            waiting.said.append(said)
            waiting.text, waiting.end = scanned, text.size
        if taken is None:
            pieces = scanner.feed(delta)
        else:
            pieces = [Arguments(taken) if in_call else Text(0, taken)] if taken else []
        self._undecided = None if scanner.between else scanned
        self._add_pieces(scanned, pieces, () if taken is None else said.logprobs)

    def _scanner(self, text: HostText) -> Scanner:
        """For the formats of the model that the reply names, if it does before its text.  A thought
        is never JSON alone: whether a message follows shows only once its item has left."""
        if self._model is None:
            response = self._host.response or {}
            self._model = string(response.get("model"))
            if response and not self._tools.requested:
                self._tools = RequestTools.of_request(response)
            self._formats = self._policy.formats.active(self._tools.declared.model, self._model)
        declared = self._tools.declared
        thinks = text.part.item == "reasoning"
        formats = self._formats.without(JSON_ALONE) if thinks else self._formats
        return Scanner(declared, rules_for(declared, self._model), formats, self._counts)

    def _add_pieces(
        self, scanned: _ScannedText, pieces: list[ScanEvent], logprobs: Sequence[Json] = ()
    ) -> None:
        """What the scanner made of a text; `logprobs` if that is the text alone."""
        for piece in pieces:
            if isinstance(piece, LeftAsText):
                note_piece(self._evidence, piece)
        pieces = [piece for piece in pieces if not isinstance(piece, LeftAsText)]
        if self._leaked is not None:
            self._leaked.write(scanned.text, pieces, logprobs)
            return
        before, scanned.decided = scanned.decided, scanned.text.size - scanned.scanner.undecided
        plain = [piece.text for piece in pieces if isinstance(piece, Text) and piece.kind is None]
        if len(plain) < len(pieces) or sum(map(len, plain)) < scanned.decided - before:
            self._take_over(scanned.text, before, pieces)

    def _end_texts(self, said: Said) -> None:
        """End the texts that end with this."""
        if isinstance(said, ItemAdded):
            for index in list(self._texts):
                self._end_text(index, Scanner.close)
        elif isinstance(said, TextDone | ItemDone):
            self._end_text(said.index, Scanner.close)

    def _end_text(self, index: int, end: End) -> None:
        scanned = self._texts.pop(index, None)
        if scanned is not None:
            self._add_pieces(scanned, end(scanned.scanner))
            if self._undecided is scanned:
                self._undecided = None
            if self._leaked is not None:
                self._leaked.end_text(in_header=scanned.scanner.cut_in_header)

    def _end_all(self, end: End) -> None:
        """End all texts, and read what was deferred."""
        while self._texts or self._deferred:
            for index in list(self._texts):
                self._end_text(index, end)
            self._read_deferred()

    # What leaves

    def _leave(self) -> list[Frame]:
        """The frames that leave now."""
        out: list[Frame] = []
        if self._leaked is not None:
            out = self._leaked.drain()
            self._changed = True
            self._waiting.clear()
        while self._waiting and (first := self._waiting[0]).read:
            text = first.text
            if text is not None and text is self._undecided and first.end > text.decided:
                break
            out.append(first.frame)
            self._waiting.popleft()
        return out

    def _take_over(self, text: HostText, decided: int, pieces: list[ScanEvent]) -> None:
        """The first call has leaked: from now on the writer writes.  So much of its `text` was
        decided before these `pieces`."""
        unsent = [said for waiting in self._waiting for said in waiting.said]
        numbers = [(waiting.event or {}).get("sequence_number") for waiting in self._waiting]
        self._leaked = LeakedResponse(
            self._host,
            text,
            unsent,
            self._tools,
            self._evidence,
            number=next((number for number in numbers if type(number) is int), 0),
            now=self._now,
        )
        for waiting in self._waiting:
            if waiting.read and waiting.event is None:
                self._leaked.pass_on(waiting.frame)
            for said in waiting.said:
                if not (isinstance(said, TextDelta) and said.text is text):
                    self._leaked.say(said)
        of_text = [said for said in unsent if isinstance(said, TextDelta) and said.text is text]
        sent = text.size - sum(len(said.delta) for said in of_text)
        self._leaked.write(text, [Text(0, text.after(sent)[: decided - sent]), *pieces])
