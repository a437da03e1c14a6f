"""Templates for chat chunks: recognise a frame without parsing its JSON.

Most frames of a stream have one text, and differ only in it (`frame_templates`).  What was
learned when one was parsed is used for those that fit its template.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.chat_delta import DeltaText, only_text, text_of
from ..wire.chat_text import CONTENT
from ..wire.frame_templates import FrameTemplate, KnownTemplate, TemplateCache, Values
from ..wire.json_codec import dumps, quoted
from ..wire.sse import Frame
from .chunk_writer import Envelope, says_nothing
from .pending import PendingFrame, PendingPart
from .text_channel import TextChannel


@dataclass(slots=True)
class ChunkTemplate:
    """A template for frames that have one text, of one choice, and nothing else."""

    channel: TextChannel
    fields: tuple[str, ...]
    """Those that carry the text."""
    envelope: Envelope | None = None
    """What surrounds that which replaces them."""
    call: int = 0
    written: FrameTemplate | None = None
    """What replaces a frame that only continues the arguments of `call` (see
    `TextChannel.open_call`), or if that is 0 with text that is moved to ``content``."""

    def learn(self, values: Values, text: str, part: PendingPart, sent: list[Frame]) -> None:
        """A frame that has these values and this `text` was replaced by those `sent`; `part` is all
        of it."""
        call, envelope = self.channel.open_call, self.envelope
        if self.written is not None and 0 < call == self.call:
            return
        self.written = None
        if envelope is None or len(sent) != 1 + len(envelope.after(values)):
            return
        member, value = _only_delta(part)
        # What a format makes of a text may be another text, but never one that was held.
        if member != ("arguments" if call else "content") or not (
            value and (call or value == text)
        ):
            return
        before, _, after = dumps(part.deltas[0]).rpartition(quoted(value))
        written = envelope.around.inner(sent[0].other_lines, before, after)
        if written.around(quoted(value), values) == sent[0].raw:
            self.written, self.call = written, call


def learn(templates: TemplateCache[ChunkTemplate], waiting: PendingFrame, found: DeltaText) -> None:
    """Make a template of a frame that was read, and has this text and nothing else."""
    (part,), frame, fields = waiting.parts, waiting.frame, found.fields
    template = ChunkTemplate(part.channel, fields)
    known = templates.learn(frame, found.text, len(fields), text_of, template)
    if known is not None:
        template.envelope = Envelope.of(waiting.chunk, part, known.pattern.values_in(frame.raw))


def rewritten(known: KnownTemplate[ChunkTemplate], raw: bytes, text: str) -> list[Frame]:
    """What replaces a frame that fits, with this text."""
    written, envelope = known.meaning.written, known.meaning.envelope
    assert written is not None
    assert envelope is not None
    values = known.pattern.values_in(raw) if known.pattern.varies else {}
    frame = Frame(written.around(quoted(text), values))
    return [frame] if envelope.rest is None else [frame, *envelope.after(values)]


def one_text(waiting: PendingFrame) -> DeltaText | None:
    """The text of a frame that has nothing else, if frames like it are written alike: the
    first frame that is written anew also has the role."""
    found = only_text(waiting.chunk) if len(waiting.parts) == 1 else None
    if found is None or not found.fields:
        return None
    (choice,), (part,) = waiting.chunk["choices"], waiting.parts
    others = [v for name, v in choice["delta"].items() if name not in ("role", *found.fields)]
    writes_role = "role" in choice["delta"] and not part.channel.role_seen
    return None if writes_role or not all(map(says_nothing, others)) else found


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
