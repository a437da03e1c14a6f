"""A message as its client gets it: the host's events, and from the first change on the writer's.

Of a call that may have come twice, as text and as a block, all is held until that is decided
(`RepeatedCalls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import count

from ...messages import names as api
from ...messages.event_writer import MessageWriter
from ...messages.names import TextKind
from ...notes import Evidence
from ...repair.call_builder import note_call
from ...repair.declared_tools import DeclaredTools
from ...repair.events import Call, Dropped, ScanEvent, Text
from ...repair.policy import Policy, note_piece
from ...repair.repeated_calls import ComparedCall, RepeatedCalls
from ...responses.host_reader import HostText, ItemAdded, ItemDone, OtherEvent, Said, TextDelta
from ...wire.chat_end import is_whole
from ...wire.json_codec import Json, dumps, string
from ...wire.sse import Frame

MAX_BLANK = 4096
"""Characters of white space that wait for a text."""
OfHost = ItemAdded | OtherEvent | ItemDone
_NO_CALL = ComparedCall("", leaked=False, arguments=StringIO(), ended=True)


class ClientMessage:
    """`now` (seconds) is only used for ids of calls."""

    def __init__(self, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._writer = MessageWriter()
        self._block: Json = {}
        """The host's latest block, as it began."""
        self._at = -1
        """Its index at the client, if that has it."""
        self._same = True
        """Whether nothing in it was changed."""
        self._blank = ""
        """White space that is sent if a text follows."""
        self._ended = False
        """Whether there was a stop reason."""
        self._cut = False
        """Whether a call was cut off, be it in its header."""
        self._calls = RepeatedCalls[OfHost](evidence)
        self._native = _NO_CALL
        """That of the host's latest block."""
        self._ids = (f"toolu_{now}_{number}" for number in count(1))
        """For calls, as far as the conversation has none of them."""

    def drain(self) -> list[Frame]:
        frames, self._writer.frames = self._writer.frames, []
        return frames

    # The host's events

    def passed(self, said: Said) -> None:
        """The client has got this as it came."""
        if isinstance(said, ItemAdded):
            self._begin(said.item)
            self._at = said.index
            self._writer.adopt(self._at, string(said.item.get("type")))
        elif isinstance(said, ItemDone):
            self._writer.kind = ""
        self._follow(said)

    def say(self, said: Said) -> None:
        """Write anything but text that is scanned."""
        if isinstance(said, TextDelta):
            self.write(said.text, [Text(said.delta)])
        elif isinstance(said, OtherEvent) and said.index is None:
            self._say_of_message(said.event)
        elif isinstance(said, OfHost):
            if isinstance(said, ItemAdded):
                self._begin(said.item)
                if said.item.get("type") in api.TEXTS:
                    return  # it begins with its text
            elif isinstance(said, OtherEvent) and not self._same and _is_signature(said.event):
                self._evidence.note("dropped", "the signature of thoughts that were repaired")
                return
            if self._native.ended:
                self._write_block(said)
            else:
                self._let_out(self._calls.add(self._native, said))
            self._let_out(self._follow(said))

    def pass_on(self, frame: Frame) -> None:
        """Send a frame that is no event of the API."""
        self._writer.frames.append(frame)

    def _begin(self, block: Json) -> None:
        self._block, self._at, self._same = block, -1, True
        self._blank, self._native = "", _NO_CALL
        if block.get("type") == api.CALL:
            self._native = self._calls.begin(string(block.get("name")), leaked=False)

    def _follow(self, said: Said) -> Sequence[Call | OfHost]:
        """Keep what a block of a call says; what of calls leaves now."""
        native, is_end = self._native, isinstance(said, ItemDone)
        if native.ended:
            return []
        arguments, given = "", self._block.get("input")
        if isinstance(said, OtherEvent):
            arguments = api.arguments_in(said.event)
        elif is_end and given and native.empty:
            arguments = dumps(given).decode()  # it came with the beginning
        if arguments:
            self._calls.keep(native, arguments)
        return self._calls.end(native) if is_end else []

    def _say_of_message(self, event: Json) -> None:
        reason, is_stop = api.stop_reason_in(event), event["type"] == api.MESSAGE_STOP
        if reason or is_stop:
            self._let_out(self._calls.close(cut=not is_whole(reason)))
        if reason:
            self._end(event, reason)
            return
        if is_stop and self._writer.called and not self._ended:
            self._evidence.note("added stop_reason", api.TOOL_USE)
            ends = {"stop_reason": None, "stop_sequence": None}
            added = {"type": api.MESSAGE_DELTA, "delta": ends, "usage": {"output_tokens": 0}}
            self._end(added, api.TOOL_USE)
        elif is_stop:
            self._writer.stop()
        self._writer.frames.append(api.encoded(event))

    def _end(self, event: Json, reason: str) -> None:
        self._ended = True
        if self._cut and reason != "refusal":
            reason = api.CUT
        elif self._writer.called and self._policy.ends_for_calls(reason):
            reason = api.TOOL_USE
        self._writer.end(event, reason)

    # Blocks out

    def _write_block(self, said: OfHost) -> None:
        """What is said of a block that is no text."""
        writer = self._writer
        if isinstance(said, ItemAdded):
            self._open()
        elif isinstance(said, OtherEvent):
            if self._at < 0 and self._block.get("type") in api.TEXTS:
                self._open()  # a signature alone
            if writer.kind and self._at == writer.index:
                writer.delta(api.delta_of(said.event))
            else:
                self._evidence.note("dropped", "a delta of a repaired block")
        elif writer.kind in api.TEXTS or (writer.kind and self._at == writer.index):
            writer.stop()

    def _open(self) -> None:
        """The host's latest block begins for the client."""
        self._writer.begin(self._block)
        self._at = self._writer.index

    def _let_out(self, pieces: Sequence[Call | OfHost]) -> None:
        for piece in pieces:
            if isinstance(piece, Call):
                self._write_call(piece)
            else:
                self._write_block(piece)

    # What the scanner has made of a text

    def write(self, text: HostText, pieces: Iterable[ScanEvent], _: Sequence[Json] = ()) -> None:
        """Write what the scanner made of a text."""
        own: TextKind = "text" if text.part.item == "message" else "thinking"
        for piece in pieces:
            if isinstance(piece, Text):
                kinds: dict[str | None, TextKind] = {"content": "text", "reasoning": "thinking"}
                self._write_text(kinds.get(piece.kind, own), piece.text)
                continue
            self._same = False
            if isinstance(piece, Call):
                self._let_out(self._calls.leaked(piece))
            elif isinstance(piece, Dropped):
                note_piece(self._evidence, piece)

    def end_text(self, *, cut: bool) -> None:
        """A text has ended; `cut`: within a call."""
        self._cut = self._cut or cut

    def _write_text(self, kind: TextKind, text: str) -> None:
        if self._writer.kind != kind:
            text = self._blank + text
            self._blank = text if text.isspace() and len(text) < MAX_BLANK else ""
            if self._blank:
                return
            if self._at < 0 and self._block.get("type") == kind:
                self._block = {**self._block, kind: ""}
                self._open()
        self._writer.text(kind, text)

    def _write_call(self, call: Call) -> None:
        note_call(self._evidence, self._tools, call)
        call_id = next(made for made in self._ids if made not in self._tools.called)
        self._writer.begin({"type": api.CALL, "id": call_id, "name": call.name})
        for piece in call.pieces:
            self._writer.arguments(piece)
        self._writer.stop()
        self._blank = ""


def _is_signature(event: Json) -> bool:
    return api.delta_of(event).get("type") == api.SIGNATURE
