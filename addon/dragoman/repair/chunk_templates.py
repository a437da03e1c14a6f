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
    of_our_own,
)
from ..wire.json_codec import quoted
from ..wire.sse import Frame
from .chunk_writer import says_nothing
from .pending import PendingFrame, PendingPart, delta_of
from .text_channel import TextChannel


@dataclass(slots=True)  # not frozen: one is made for each frame that is read by a template
class ChunkTemplate:
    """A template for frames that have one text, of one choice, and nothing else."""

    channel: TextChannel
    fields: tuple[str, ...]
    """Those that carry the text."""
    chunk: dict[str, Any]
    """The JSON of the one that was read first."""
    call: int = 0
    written: FrameTemplate | LooseFrame | None = None
    """What replaces a frame that only continues the arguments of `call` (see
    `TextChannel.open_call`), or if that is 0 with text that is moved to ``content``."""

    def now(
        self,
        pattern: FrameTemplate | LooseTemplate,
        text: str,
        before: int,
        part: PendingPart,
        out: list[Frame],
    ) -> ChunkTemplate:
        """The template after a frame that fits `pattern` and has this `text` was replaced by
        `out`; `part` is all of it, and `before` the call that was open before it."""
        member, given = _only_delta(part) if len(out) == 1 else ("", "")
        call = self.channel.open_call
        # What a format makes of a text may be another text, but never one that was held.
        if call == before and given and (call or given == text):
            written = of_our_own(out[0], member, given)
            if written is not None and isinstance(pattern, LooseTemplate):
                loose = LooseFrame.of(written, pattern.names)
                return ChunkTemplate(self.channel, self.fields, self.chunk, call, loose)
            return ChunkTemplate(self.channel, self.fields, self.chunk, call, written)
        return ChunkTemplate(self.channel, self.fields, self.chunk, self.call)


def rewritten(
    known: KnownTemplate[ChunkTemplate], frames: bytes, ends: list[int], texts: list[str]
) -> bytes:
    """What replaces frames in a row that fit, with these texts; `ends`: where the first begins, and
    where each ends."""
    written, pattern = known.meaning.written, known.pattern
    if isinstance(written, FrameTemplate):
        return written.around_each(map(quoted, texts))
    assert isinstance(pattern, LooseTemplate)
    assert written is not None
    places = zip(texts, ends, ends[1:], strict=False)
    return b"".join(
        written.around(quoted(text), pattern.values_in(frames[begin:end]))
        for text, begin, end in places
    )


def one_text(waiting: PendingFrame) -> Passage | None:
    """The text of a frame that has nothing else, if frames like it are written alike: the
    first frame that is written anew also has the role."""
    if len(waiting.parts) != 1 or (said := only_text(waiting.chunk)) is None:
        return None
    (choice,), (part,) = waiting.chunk["choices"], waiting.parts
    return None if "role" in choice["delta"] and not part.channel.role_seen else said


def text_of(chunk: Any) -> str:
    """The text of a chunk that has nothing else; empty for any other."""
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
    where it came from: ``arguments`` of the open call, or ``content``."""
    if len(part.deltas) != 1 or len(part.spans) != 1:
        return "", ""
    (delta,), (span,) = part.deltas, part.spans
    if "tool_calls" not in delta:
        return "content", "" if span.fields == CONTENT else delta.get("content", "")
    (call, *others) = delta["tool_calls"]
    continues = call.keys() == {"index", "function"} and not others
    return "arguments", call["function"]["arguments"] if continues else ""
