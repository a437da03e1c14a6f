"""Frames like one before them: what is known of them without reading.

Most frames of a stream say one text and differ in it alone (`frame_templates`).  What was learned
of such a frame when it was read the long way serves for those that fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..wire.chat_text import CONTENT, Passage, passages, without_text
from ..wire.frame_templates import (
    FrameTemplate,
    KnownTemplate,
    LooseFrame,
    LooseTemplate,
    of_our_own,
)
from ..wire.sse import Frame
from .chunk_writer import says_nothing
from .pending import PendingFrame, PendingPart, delta_of
from .text_channel import TextChannel


@dataclass(frozen=True, slots=True)
class ChunkTemplate:
    """Of frames each of which says one text of one choice, and nothing else."""

    channel: TextChannel
    fields: tuple[str, ...]
    """Those that carry the text."""
    call: int = 0
    written: FrameTemplate | LooseFrame | None = None
    """What takes the place of a frame that only goes on with the arguments of `call` (see
    `TextChannel.open_call`), or if that is 0 with text that is moved to ``content``."""

    def now(
        self,
        pattern: FrameTemplate | LooseTemplate,
        text: str,
        before: int,
        part: PendingPart,
        out: list[Frame],
    ) -> ChunkTemplate:
        """What is known now that a frame that fits `pattern` and said `text` was made into
        `out`; `part` is all of it, and `before` the call that was open before it."""
        member, told = _only_delta(part) if len(out) == 1 else ("", "")
        call = self.channel.open_call
        # What a format makes of a text may be another text, but never one that was held.
        if call == before and told and (call or told == text):
            written = of_our_own(out[0], member, told)
            if written is not None and isinstance(pattern, LooseTemplate):
                return replace(self, call=call, written=LooseFrame.of(written, pattern.names))
            return replace(self, call=call, written=written)
        return self if self.written is None else replace(self, written=None)


def written_as(known: KnownTemplate[ChunkTemplate], frame: Frame, literal: bytes) -> Frame:
    """What takes the place of a frame that fits, with this JSON string as its text."""
    written, pattern = known.meaning.written, known.pattern
    if isinstance(written, LooseFrame):
        assert isinstance(pattern, LooseTemplate)
        return Frame(written.around(literal, pattern.values_in(frame.raw)))
    assert written is not None
    return Frame(written.around(literal))


def one_text(waiting: PendingFrame) -> Passage | None:
    """What a frame says that says one text and nothing else, if those like it are written
    alike: the first frame that is written anew tells the role."""
    if len(waiting.parts) != 1 or (said := only_text(waiting.chunk)) is None:
        return None
    (choice,), (part,) = waiting.chunk["choices"], waiting.parts
    return None if "role" in choice["delta"] and not part.channel.role_seen else said


def text_of(chunk: Any) -> str:
    """The text of a chunk that says nothing else; empty for any other."""
    said = only_text(chunk)
    return said.text if said else ""


def only_text(chunk: dict[str, Any]) -> Passage | None:
    if len(chunk["choices"]) != 1 or chunk.get("usage"):
        return None
    (choice,) = chunk["choices"]
    if any(choice.get(name) for name in ("finish_reason", "logprobs", "usage")):
        return None
    delta = delta_of(choice)
    said = passages(delta)
    if len(said) != 1:
        return None
    others = (delta[name] for name in delta.keys() - {"role", *said[0].fields})
    besides = (without_text(name, delta[name]) for name in said[0].fields)
    return said[0] if all(map(says_nothing, others)) and not any(besides) else None


def _only_delta(part: PendingPart) -> tuple[str, str]:
    """The member of a delta and its text, if that is all of what a part has become, and not
    where it came from: ``arguments`` of a call that goes on, or ``content``."""
    if len(part.deltas) != 1 or len(part.spans) != 1:
        return "", ""
    (delta,), (span,) = part.deltas, part.spans
    if "tool_calls" not in delta:
        return "content", "" if span.fields == CONTENT else delta.get("content", "")
    (call, *others) = delta["tool_calls"]
    goes_on = call.keys() == {"index", "function"} and not others
    return "arguments", call["function"]["arguments"] if goes_on else ""
