"""The writer of a bridged reply: words leave for `ReplyConverter`, and no frame as it came.

A frame whose words are not all as they were read has no log probabilities: they spell out the
tokens, those of a call included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Done,
    Finish,
    Part,
    Reader,
    Said,
    Slot,
    Text,
)
from ...wire.sse import Frame
from .converter import ReplyConverter


class TurnWriter:
    """Events wait in the queue of the client's writer, so nothing is returned.  `reader`: that of
    the upstream's frames."""

    held: Sequence[Said] = ()

    def __init__(self, reply: ReplyConverter, reader: Reader) -> None:
        self._reply = reply
        self._reader = reader

    def passed(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        if not self._reply.writer.ended:
            self._reply.more(frame, part, text, self._reader.counted)
        return []

    def replaced(self, frame: Frame, part: Part) -> list[Frame]:  # noqa: ARG002
        self._reply.count(self._reader.counted)
        return []

    def write(self, said: Said) -> list[Frame]:
        reply = self._reply
        if reply.writer.ended:
            return []
        same = said.same
        words = [word for slot in said.slots for word in _left(slot, same=same)]
        reply.take(said, words)
        for word in words:
            if isinstance(word, Finish | Done) and (repeated := self._reader.take_repeated()):
                reply.skipped_heads(repeated)
        return []

    def end(self, last: Said) -> list[Frame]:
        return self.write(last) if last.slots else []

    def changes(self, said: Said, sent: list[Frame]) -> bool:  # noqa: ARG002
        return True


def _left(slot: Slot, *, same: bool) -> Sequence[Delta]:
    """What leaves in the place of a word; `same`: all words of its frame are."""
    delta = slot.delta
    if slot.same:
        if same or not (isinstance(delta, Text) and delta.logprobs):
            return slot.out
        return [replace(delta, logprobs=())]
    if isinstance(delta, Text) and delta.repeats:
        return [word for word in slot.out if getattr(word, "part", None) is not delta.part]
    if isinstance(delta, CallBegin) and delta.id:
        # Of a call that has begun, arguments leave: its id may have come only now.
        return [
            CallBegin(word.part, delta.id, "", word.text)
            if isinstance(word, Arguments) and word.part is delta.part
            else word
            for word in slot.out
        ]
    return slot.out
