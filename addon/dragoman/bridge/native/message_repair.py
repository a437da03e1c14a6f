"""Repair of a stream in which a host speaks the Messages API itself: frames in, frames out.

Until the first change every frame leaves as it came; one whose text may be a part of a call waits
until that is decided, and all frames after it.  A block that has begun waits for the first word of
its text: where a call comes first, there is no such block for the client.  From the first change
on `ClientMessage` writes: the texts as the scanner gives them, and the host's other events, each
once all text before it is decided.

The blocks of a reply are one text to the scanner, in the order of the stream, each a field of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...repair.call_rule import rules_for
from ...repair.declared_tools import DeclaredTools, is_json_form
from ...repair.events import LeftAsText, ScanEvent, Text
from ...repair.model_family import families_of
from ...repair.policy import Policy, note_piece
from ...repair.scanner import Scanner
from ...wire import messages as api
from ...wire.chat_end import is_whole
from ...wire.json_codec import Json, dumps, objects, string
from ...wire.messages import Blocks, TextKind
from ...wire.sse import Document, Frame
from .client_message import ClientMessage

MAX_WAITING = 16 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that wait to leave as they came.  With more the writer writes; with
still more, what is undecided is text."""
MAX_WORDLESS = 64
"""Frames in a row that wait for the first word of a block."""
MAX_BLOCKS = 4096
"""Blocks whose texts are each a field of their own; all that come are one."""


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """The tools of a Messages request."""

    declared: DeclaredTools

    @classmethod
    def of_request(cls, request: object) -> MessagesTools:
        """From a request's body; anything unreadable declares nothing.  A tool without a schema is
        Anthropic's own.  Hosts map names of Claude's models to others, so such a name says
        nothing of the model."""
        body: Json = request if isinstance(request, dict) else {}
        choice, output = body.get("tool_choice"), body.get("output_config")
        tools = [tool for tool in objects(body.get("tools")) if "input_schema" in tool]
        calls = api.calls_in(body.get("messages"))
        declared = DeclaredTools(
            {name: tool["input_schema"] for tool in tools if (name := string(tool.get("name")))},
            model=_known(body.get("model")),
            forbidden=isinstance(choice, dict) and choice.get("type") == "none",
            wants_json=is_json_form(output.get("format") if isinstance(output, dict) else None),
            called={string(call.get("id")): string(call.get("name")) for call in calls},
        )
        return cls(declared)


def _known(model: object) -> str:
    """The name of a model, if that says whose it is."""
    name = string(model)
    return "" if "anthropic" in families_of(name) else name


@dataclass(slots=True, eq=False)
class _WaitingFrame:
    """A frame that has not left."""

    frame: Frame
    event: Json
    """Empty if the API has no such event."""
    begin: int
    end: int
    """Where the text ends before it, and with it."""
    is_text: bool
    """Whether it has nothing but a part of it."""
    lasts: bool
    """Whether it leaves only with a later one: no word of its block has come."""
    changes: int
    """`_changes` before its block."""


class MessagesStreamRepair:
    """Repairs one stream.  `now` (seconds) is only used for ids of calls."""

    def __init__(self, tools: MessagesTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._tools = tools.declared
        self._policy = policy
        self._evidence = evidence
        self._scanner = self._scanner_for("")
        self._client = ClientMessage(tools.declared, policy, evidence, now)
        self._waiting: deque[_WaitingFrame] = deque()
        self._bytes = 0
        """Of those that wait."""
        self._length = self._certain = 0
        """Characters of the text, and up to where it is certain that they are text."""
        self._pieces: deque[ScanEvent] = deque()
        """What the scanner has made of the text that has not left."""
        self._begins: list[int] = []
        self._kinds: list[TextKind] = []
        """Where the blocks of the text begin, and of which kind they are."""
        self._blocks = 0
        self._wordless = 0
        """Frames in a row that came since the latest block began, while no word of it has."""
        self._changes = self._changes_before = 0
        """Events of the scanner other than text: so far, and before the latest block."""
        self._begun = self._ended = False
        """Whether the message has begun, and ended."""
        self._unchanged: list[Frame] | None = []
        """While a change is written for the first time, the frames in whose place it will be; None
        once it was."""

    def _scanner_for(self, model: str) -> Scanner:
        """`model`: as the reply names it."""
        formats = self._policy.formats.active(self._tools.model, model, claude=True)
        return Scanner(self._tools, rules_for(self._tools, model), formats)

    # The interface of `StreamRepair`

    def feed(self, frame: Frame) -> list[Frame]:
        event = _event_of(frame.readable(self._evidence))
        said = api.text_in(event)
        if said is not None and event["type"] == api.BLOCK_DELTA:
            if said[1]:
                frame.only = "text" if said[0] == "text" else "reasoning", said[1]
            if self._takes(*said):
                return [frame]
        self._read(frame, event, said)
        return self._leave()

    def _takes(self, kind: TextKind, text: str) -> bool:
        """Take a text, if it only continues one that leaves as it comes."""
        waits = self._waiting or self._wordless or self._client.changed
        if waits or self._kinds[-1:] != [kind] or self._scanner.takes(text) is None:
            return False
        self._length = self._certain = self._length + len(text)
        return True

    @property
    def unfinished(self) -> bool:
        """Whether a call was found, or may begin, and the message has not ended: clients run the
        call of a stream that ends without its end."""
        return not self._ended and (self._client.changed or not self._scanner.between)

    @property
    def heartbeat(self) -> Frame:
        return api.PING if self._begun and not self._ended else Frame(b"")

    def error(self, message: str) -> Frame:
        return api.encoded(api.error_body(message))

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""
        self._end_text(whole=False)
        return self._leave(last=True)

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what is held is text."""
        if (unsent := self.unsent()) is not None:
            return unsent
        self._abandon()
        return self._leave(last=True)

    def unsent(self) -> list[Frame] | None:
        if self._unchanged is None:
            return None
        return self._unchanged or [waiting.frame for waiting in self._waiting]

    def document(self, body: bytes) -> bytes:
        """A message that came whole, repaired: it is read as the events by which it would have
        been streamed."""
        message = Document(body).readable(self._evidence)
        if not isinstance(message, dict) or not api.is_message(message):
            return body
        blocks, ends = Blocks(), message
        frames = [sent for each in api.events_of(message) for sent in self.feed(api.encoded(each))]
        for frame in frames:
            blocks.feed(frame.value)
            if frame.value["type"] == api.MESSAGE_DELTA:
                ends = frame.value["delta"]
        if not self._client.changed:
            return body
        return dumps({**message, "content": blocks.whole, "stop_reason": ends["stop_reason"]})

    # Reading a frame

    def _read(self, frame: Frame, event: Json, said: tuple[TextKind, str] | None) -> None:
        kind, begin = string(event.get("type")), self._length
        self._wordless += self._wordless > 0
        if kind == api.MESSAGE_START:
            message = event.get("message")
            if isinstance(message, dict) and not self._kinds:
                self._scanner = self._scanner_for(_known(message.get("model")))
            self._begun = True
        elif (block := api.block_begun(event)) is not None:
            self._begin_block(api.TEXTS.get(string(block.get("type"))))
        elif kind == api.MESSAGE_DELTA and (reason := api.stop_reason_in(event)):
            self._end_text(whole=is_whole(reason))
        elif kind == api.BLOCK_STOP:
            self._wordless = 0
        elif kind == api.MESSAGE_STOP:
            self._end_text(whole=True)
            self._ended = True
        elif kind == "error" or frame.is_error:
            self._abandon()
            self._ended = True
        if said is not None:
            self._read_text(*said)
        is_text = said is not None and kind == api.BLOCK_DELTA
        where, lasts = (begin, self._length), 0 < self._wordless <= MAX_WORDLESS
        waiting = _WaitingFrame(frame, event, *where, is_text, lasts, self._changes_before)
        self._waiting.append(waiting)
        self._bytes += len(frame.raw)

    def _begin_block(self, kind: TextKind | None) -> None:
        if kind is None:
            self._end_text(whole=True)
            return
        self._wordless = self._wordless or 1
        if not (self._waiting or self._pieces) and self._scanner.between:
            self._begins.clear()
            self._kinds.clear()
        self._begins.append(self._length)
        self._kinds.append(kind)
        self._blocks = min(self._blocks + 1, MAX_BLOCKS)
        self._add(self._scanner.enter(str(self._blocks)))
        self._changes_before = self._changes

    def _read_text(self, kind: TextKind, text: str) -> None:
        if self._kinds[-1:] != [kind]:
            self._begin_block(kind)  # a host that leaves its beginning out
        self._wordless = 0 if text.strip() else self._wordless
        self._length += len(text)
        self._add(self._scanner.feed(text))

    def _end_text(self, *, whole: bool) -> None:
        """`whole`: not by a limit."""
        self._wordless = 0
        self._add(self._scanner.close(whole=whole))
        self._client.cut = self._client.cut or self._scanner.cut_in_header

    def _abandon(self) -> None:
        events = self._scanner.abandon()
        if self._client.changed:
            self._add(events)
        else:
            self._certain = self._length
            self._pieces.clear()

    def _add(self, events: list[ScanEvent]) -> None:
        """What the scanner has made of the text."""
        for event in events:
            if isinstance(event, LeftAsText):
                note_piece(self._evidence, event)
                continue
            self._pieces.append(event)
            if isinstance(event, Text) and event.kind is None:
                self._certain += len(event.text)
            else:
                self._changes += 1
                self._client.changed = True

    # Sending

    def _leave(self, *, last: bool = False) -> list[Frame]:
        if len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            if self._client.changed:
                self._abandon()
            self._client.changed = True
        if not self._client.changed:
            return self._leave_unchanged(last=last)
        if self._unchanged is not None:
            self._unchanged = [waiting.frame for waiting in self._waiting]
        self._write_decided()
        self._unchanged = None
        return self._client.drain()

    def _leave_unchanged(self, *, last: bool) -> list[Frame]:
        count = 0
        for number, waiting in enumerate(self._waiting):
            if waiting.end > self._certain:
                break
            if last or not waiting.lasts:
                count = number + 1
        sent = [self._taken() for _ in range(count)]
        for waiting in sent:
            self._client.passed(waiting.event)
            for _ in self._pieces_before(waiting.end):
                pass
        return [waiting.frame for waiting in sent]

    def _taken(self) -> _WaitingFrame:
        waiting = self._waiting.popleft()
        self._bytes -= len(waiting.frame.raw)
        return waiting

    def _write_decided(self) -> None:
        """Write all that is decided, by the writer."""
        decided = self._length - self._scanner.undecided
        while self._waiting:
            waiting = self._waiting[0]
            if not waiting.is_text:
                self._write_pieces(waiting.begin)
                if waiting.begin > decided:
                    return
                same = waiting.changes == self._changes and not self._scanner.held_call.size
                self._client.pass_on(waiting.frame, waiting.event, signed=same)
            self._taken()
        self._write_pieces(self._length)

    def _write_pieces(self, end: int) -> None:
        for piece, kind in self._pieces_before(end):
            self._client.write(piece, kind)

    def _pieces_before(self, end: int) -> Iterator[tuple[ScanEvent, TextKind]]:
        """Take what is known of the text up to there, and calls that came with it; with the kind
        of its block."""
        while self._pieces:
            piece = self._pieces[0]
            if not isinstance(piece, Text):
                yield self._pieces.popleft(), self._kinds[-1]
                continue
            if piece.start >= end:
                return
            block = bisect_right(self._begins, max(0, piece.start)) - 1
            until = min(end, *self._begins[block + 1 : block + 2], piece.start + len(piece.text))
            self._pieces.popleft()
            first, rest = piece.text[: until - piece.start], piece.text[until - piece.start :]
            if rest:
                self._pieces.appendleft(Text(until, rest, kind=piece.kind))
            yield Text(piece.start, first, kind=piece.kind), self._kinds[block]


def _event_of(value: Any) -> Json:
    """Empty if the API has no such event."""
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else {}
