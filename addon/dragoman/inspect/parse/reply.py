"""Parses a reply's body of any shape, even unfinished: chat, Responses and Messages, streamed and
not, and errors; the bytes show which, and the reader of the API reads it.

Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, cast

from ...bridge.reader_writer_pairs import SHOWN, reader_for
from ...reply.choice_turn import ChoiceTurn
from ...reply.facts import ReplyReader
from ...reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Failed,
    Finish,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Reader,
    Text,
)
from ...wire.errors import unlisted
from ...wire.reply_bounds import MAX_REPLY
from ...wire.sse import Document, Frame, is_event_stream
from .frames import NumberedFrame, head_and_tail
from .values import ParsedCall, ParsedChoice, ParsedReply, Prose, ProseKind


def parse_reply(body: bytes) -> ParsedReply:
    reading = _Reading()
    if not is_event_stream(body):
        if len(body) <= MAX_REPLY:
            reading.frame(Document(body))
        return reading.parsed("reply", unread=0)
    looked = head_and_tail(body)
    for frame in _frames([*looked.head, *looked.tail]):
        reading.frame(frame)
    return reading.parsed("stream", looked.total, reading.unread, looked.skipped_bytes)


def _frames(placed: Iterable[NumberedFrame]) -> Iterable[Frame]:
    """Values are not kept, as there are many."""
    return (Frame(each.frame.raw, each.frame.whole) for each in placed)


@dataclass(slots=True)
class _Shown:
    """A text, a call, or an item with texts."""

    part: Part
    texts: dict[Part, StringIO] = field(default_factory=dict)
    name: str = ""
    id: str = ""
    arguments: StringIO = field(default_factory=lambda: StringIO(newline=""))
    raw: Any = None

    def parts(self, reader: Reader) -> list[Prose | ParsedCall]:
        part, arguments = self.part, self.arguments.getvalue()
        if part.kind == "call":
            kind = part.type or "function"
            return [ParsedCall(self.name, self.id, arguments, kind, part.namespace)]
        if part.kind == "other":
            shown = reader.shown(part, self.raw)
            if part.type == "compaction":
                return [Prose("compaction", shown.text)]
            given = shown.text if shown.text else arguments
            return [ParsedCall(shown.name, shown.id, given, part.type)] if shown.name else []
        texts = [(each.kind, text.getvalue()) for each, text in self.texts.items()]
        # A summary may be the reasoning itself.
        return [Prose(cast(ProseKind, kind), text) for kind, text in dict.fromkeys(texts)]


class _Reading:
    """A reply as far as it has been read."""

    def __init__(self) -> None:
        self._facts = ReplyReader(reader_for)
        self._choices: dict[int, dict[Part, _Shown]] = {}
        self.unread = 0
        """Frames without a JSON object."""

    def frame(self, frame: Frame) -> None:
        value = unlisted(frame.json)
        if not isinstance(value, dict):
            self.unread += frame.data is not None and not frame.is_done
            return
        reader = self._facts.reader or self._facts.begin(frame)
        if reader is None:
            return
        if (more := reader.more(frame)) is not None:
            self._facts.more(reader, *more)
            self._say(reader.delta(*more))
            return
        words = reader.read(frame)
        self._facts.read(reader, words)
        for delta in words:
            self._say(delta)

    def _say(self, delta: Delta) -> None:
        match delta:
            case Text(part=part, text=text, repeats=False) if text:
                shown = self._of(part)
                place = part if part.item is not None else shown.part
                if place not in shown.texts:
                    shown.texts[place] = StringIO(newline="")
                shown.texts[place].write(text)
            case CallBegin(part=part, id=call_id, name=name, text=text):
                call = self._of(part)
                call.name, call.id = name, call_id
                call.arguments.write(text)
            case Arguments(part=part, text=text) | Other(part=Part() as part, text=text) if text:
                self._of(part).arguments.write(text)
            case PartBegin(part=part, raw=raw) | PartEnd(part=part, raw=raw):
                shown = self._of(part)
                shown.raw = shown.raw if raw is None else raw
            case Finish(choice=choice):
                self._choices.setdefault(choice, {})
            case Failed():
                self._choices.setdefault(0, {})
            case _:
                pass

    def _of(self, part: Part) -> _Shown:
        """Where a part is shown: with its item; in a reply that mixes fields, with the text of its
        kind before it."""
        known = self._choices.setdefault(part.choice, {})
        reader = self._facts.reader
        if reader is not None and reader.one_channel and part.kind != "call":
            last = next(reversed(known.values()), None)
            if last is not None and last.part.kind == part.kind:
                return last
            part = Part(part.kind, part.choice)
        part = part.item or part
        if part not in known:
            known[part] = _Shown(part)
        return known[part]

    def parsed(self, form: str, frames: int = 0, unread: int = 0, skipped: int = 0) -> ParsedReply:
        read, reader = self._facts, self._facts.reader
        if reader is None:
            shape = f"chat {form}" if read.error else ""
            found = read.usage, read.error, frames, unread, skipped
            return ParsedReply(shape, "", "", (), *found)
        turns = dict(read.choices)
        choices = [
            ParsedChoice(
                index,
                tuple(part for each in shown.values() for part in each.parts(reader)),
                _told(turns[index]) if index in turns else "",
            )
            for index, shown in sorted(self._choices.items())
        ]
        return ParsedReply(
            f"{SHOWN[type(reader)]} {form}",
            reader.model,
            reader.id,
            tuple(each for each in choices if reader.one_channel or each.parts or each.finish),
            read.usage,
            read.error,
            frames,
            unread,
            skipped,
        )


def _told(turn: ChoiceTurn) -> str:
    """How a choice has ended, for people."""
    status = turn.status
    if status is None:
        return turn.finish
    if status.waits:
        return f"{status.name}, waits for its calls"
    return f"{status.name}: {status.reason}" if status.reason else status.name
