"""Templates for chat chunks: recognise a frame without parsing its JSON.

Most frames of a stream have one text, and differ only in it (`frame_templates`).  What was
learned when one was parsed is used for those that fit its template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..wire.chat_text import CONTENT, Passage, passages, without_text
from ..wire.frame_templates import (
    FrameTemplate,
    KnownTemplate,
    LooseFrame,
    LooseTemplate,
    template_of_written,
)
from ..wire.json_codec import Json, quoted
from ..wire.sse import Frame
from .chunk_writer import Envelope, says_nothing
from .pending import PendingFrame, PendingPart, delta_of
from .text_channel import TextChannel


@dataclass(slots=True)
class ChunkTemplate:
    """A template for frames that have one text, of one choice, and nothing else."""

    channel: TextChannel
    fields: tuple[str, ...]
    """Those that carry the text."""
    envelope: Envelope
    """Of the first one."""
    call: int = 0
    written: FrameTemplate | LooseFrame | None = None
    """What replaces a frame that only continues the arguments of `call` (see
    `TextChannel.open_call`), or if that is 0 with text that is moved to ``content``."""

    def learn(
        self,
        pattern: FrameTemplate | LooseTemplate,
        text: str,
        part: PendingPart,
        sent: list[Frame],
    ) -> None:
        """A frame that fits `pattern` and has this `text` was replaced by those `sent`; `part` is
        all of it."""
        call = self.channel.open_call
        if self.written is not None and 0 < call == self.call:
            return
        self.written = None
        member, value = _only_delta(part) if len(sent) == 1 else ("", "")
        # What a format makes of a text may be another text, but never one that was held.
        if member != ("arguments" if call else "content") or not (
            value and (call or value == text)
        ):
            return
        written = template_of_written(sent[0], member, value)
        if written is not None and isinstance(pattern, LooseTemplate):
            self.written = LooseFrame.of(written, pattern.names)
        else:
            self.written = written
        self.call = call


def rewritten(known: KnownTemplate[ChunkTemplate], raw: bytes, text: str) -> bytes:
    """What replaces a frame that fits, with this text."""
    written, pattern = known.meaning.written, known.pattern
    if isinstance(written, FrameTemplate):
        return written.around(quoted(text))
    assert isinstance(pattern, LooseTemplate)
    assert written is not None
    return written.around(quoted(text), pattern.values_in(raw))


def one_text(waiting: PendingFrame) -> Passage | None:
    """The text of a frame that has nothing else, if frames like it are written alike: the
    first frame that is written anew also has the role."""
    if len(waiting.parts) != 1 or (passage := lone_passage(waiting.chunk)) is None:
        return None
    (choice,), (part,) = waiting.chunk["choices"], waiting.parts
    return None if "role" in choice["delta"] and not part.channel.role_seen else passage


def lone_text(chunk: Any) -> str:
    """The text of a chunk that has nothing else; empty for any other."""
    passage = lone_passage(chunk)
    return passage.text if passage else ""


def lone_passage(chunk: Json) -> Passage | None:
    if len(chunk["choices"]) != 1 or chunk.get("usage"):
        return None
    (choice,) = chunk["choices"]
    if any(choice.get(name) for name in ("finish_reason", "logprobs", "usage")):
        return None
    delta = delta_of(choice)
    found = passages(delta)
    if len(found) != 1:
        return None
    (passage,) = found
    others = (delta[name] for name in delta.keys() - {"role", *passage.fields})
    besides = (without_text(name, delta[name]) for name in passage.fields)
    return passage if all(map(says_nothing, others)) and not any(besides) else None


def _only_delta(part: PendingPart) -> tuple[str, str]:
    """The member of a delta and its text, if that is all of what a part has become, and not
    where it came from: ``arguments`` of the open call, or ``content``."""
    if len(part.deltas) != 1 or len(part.passages) != 1:
        return "", ""
    (delta,), (passage,) = part.deltas, part.passages
    if "tool_calls" not in delta:
        moved = passage.fields != CONTENT
        return ("content", delta.get("content", "")) if moved else ("", "")
    (call, *others) = delta["tool_calls"]
    continues = call.keys() == {"index", "function"} and not others
    return "arguments", call["function"]["arguments"] if continues else ""
