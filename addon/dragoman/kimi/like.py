"""Frames like one before them: what is known of them without reading.

Most frames of a stream say one text and differ in it alone (`pattern`).  What was learned
of such a frame when it was read the long way serves for those that fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..pattern import Pattern, of_our_own
from ..sse import Frame
from .fields import CONTENT, Passage, passages
from .parts import Choice, Part, Waiting, delta_of


@dataclass(frozen=True, slots=True)
class Like:
    """Of frames each of which says one text of one choice, and nothing else."""

    choice: Choice
    fields: tuple[str, ...]
    """Those that carry the text."""
    call: int = 0
    written: Pattern | None = None
    """What takes the place of a frame that only goes on with the arguments of `call` (see
    `Choice.open_call`), or if that is 0 with text that is moved to ``content``."""

    def now(self, part: Part, out: list[Frame]) -> Like:
        """What is known now that `part`, all of the latest frame, was made into `out`."""
        name, text = _only_delta(part) if len(out) == 1 else ("", "")
        if not text and self.written is None:
            return self
        written = of_our_own(out[0], name, text) if text else None
        return Like(self.choice, self.fields, self.choice.open_call, written)


def only_text(waiting: Waiting) -> Passage | None:
    """What a frame says that says nothing but one text of one choice; None for any other."""
    if len(waiting.parts) != 1 or len(waiting.chunk["choices"]) != 1 or waiting.chunk.get("usage"):
        return None
    (value,) = waiting.chunk["choices"]
    if any(value.get(name) for name in ("finish_reason", "logprobs", "usage")):
        return None
    delta = delta_of(value)
    said = passages(delta)
    if len(said) != 1 or ("role" in delta and not waiting.parts[0].choice.role_seen):
        return None
    others = delta.keys() - {"role", *said[0].fields}
    return None if any(delta[name] for name in others) else said[0]


def _only_delta(part: Part) -> tuple[str, str]:
    """What all of a part has become: ``arguments``, or ``content`` out of another field, and
    its text, which is empty if neither is the case."""
    if len(part.deltas) != 1 or len(part.spans) != 1:
        return "", ""
    (delta,), (span,) = part.deltas, part.spans
    (call, *others) = delta.get("tool_calls", [None])
    if call is None:
        name, text = "content", "" if span.fields == CONTENT else delta.get("content", "")
    else:
        goes_on = call.keys() == {"index", "function"} and not others
        name, text = "arguments", call["function"]["arguments"] if goes_on else ""
    return name, text if len(text) == span.end - span.begin else ""
