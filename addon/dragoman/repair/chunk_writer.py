"""Writes frames: as they came if nothing in them changed, which is decided here alone.

Else one chunk is written for each text and call, each with the metadata of the original.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.chat_text import CONTENT, without_text, written
from ..wire.frame_templates import FrameTemplate, Values
from ..wire.json_codec import Json, dumps
from ..wire.sse import Frame, encode
from .pending import PendingFrame, PendingPart, Policy, delta_of

_IN_ITS_FIELD = Policy(text="field")
_PROBE = {"\0": 0}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds the deltas that replace a frame with one text and perhaps a usage: the same
    for all frames that match the template of the first."""

    delta: Json
    """Of the first."""
    around: FrameTemplate
    rest: FrameTemplate | None
    """The frame of the usage."""

    @classmethod
    def of(cls, chunk: Json, part: PendingPart, values: Values) -> Envelope | None:
        """`values`: what may differ in the template.  None if the metadata are odd."""
        (choice,) = chunk["choices"]
        written, probe = encode(dumps(_with_delta(chunk, _PROBE))), dumps(_PROBE)
        around = FrameTemplate.of_written(written, values, ("delta", probe))
        rest = None
        if chunk.get("usage"):
            written = encode(dumps({**chunk, "choices": [_rest(choice, part)[0]]}))
            rest = FrameTemplate.of_written(written, values)
        if around is None or (rest is None and chunk.get("usage")):
            return None
        return cls(delta_of(choice), around, rest)

    def frames(self, deltas: list[Json], values: Values, other_lines: bytes) -> list[Frame]:
        """What replaces a frame with these `values`."""
        written = [Frame(self.around.around(dumps(delta), values)) for delta in deltas]
        written += self.after(values)
        if other_lines and written:
            written[0] = Frame(other_lines + written[0].raw)
        return written

    def after(self, values: Values) -> list[Frame]:
        """What follows them."""
        return [] if self.rest is None else [Frame(self.rest.around(b"", values))]


def render(waiting: PendingFrame, policy: Policy) -> list[Frame]:
    """The frames that replace a decided one: itself, if nothing changed."""
    parts = waiting.parts
    for part in parts:
        if part.touched:
            break
    else:
        return [waiting.frame]
    others = waiting.frame.other_lines
    if waiting.envelope is not None:
        deltas = _deltas(parts[0], waiting.envelope.delta, policy)
        return waiting.envelope.frames(deltas, waiting.values, others)
    chunk = waiting.chunk
    chunks = [
        _with_delta(chunk, delta, position=part.position)
        for part in parts
        for delta in _deltas(part, delta_of(chunk["choices"][part.position]), policy)
    ]
    by_position = {part.position: part for part in parts}
    rest = [_rest(value, by_position.get(at)) for at, value in enumerate(chunk["choices"])]
    if any(worth for _, worth in rest) or chunk.get("usage"):
        chunks.append({**chunk, "choices": [value for value, _ in rest]})
    return [encode(dumps(c), other_lines=b"" if n else others) for n, c in enumerate(chunks)]


def release(waiting: PendingFrame) -> list[Frame]:
    """The frames that replace one that is still undecided: itself, unless part of its result is
    nowhere else.  Its text stays in its field, as that of the frames after it does, which may be
    the rest of the same marker."""
    if not any(part.snapshot or (part.touched and part.settled) for part in waiting.parts):
        return [waiting.frame]
    for part in waiting.parts:
        if part.snapshot and not part.settled:
            part.deltas = part.snapshot
        elif not part.settled:
            part.deltas = [dict.fromkeys(text.fields, text.text) for text in part.passages]
        part.changed = True
    return render(waiting, _IN_ITS_FIELD)


def _deltas(part: PendingPart, original: Json, policy: Policy) -> list[Json]:
    """The deltas that replace the part's text.  In an event that also held markers
    of a call, text goes to `content` (the specification), unless it is blank, or its format says
    what it is."""
    repaired = part.plain != part.size and part.channel.calls.repaired > 0
    mixed = repaired and policy.moves and not part.has_kinds
    deltas: list[Json] = []
    for delta in part.deltas:
        if "tool_calls" in delta:
            deltas.append(delta)
            continue
        text = next(iter(delta.values()))
        names = CONTENT if mixed and text.strip() else delta.keys()
        deltas.append({name: written(name, text, original.get(name)) for name in names})
    if deltas and "role" in original and not part.channel.role_seen:
        deltas[0] = {"role": original["role"], **deltas[0]}
        part.channel.role_seen = True
    return deltas


def says_nothing(value: object) -> bool:
    """Whether a field of a delta might as well not be there."""
    return value in (None, "", [], {})


def _rest(value: Json, part: PendingPart | None) -> tuple[Json, bool]:
    """The choice without its text, and whether that is worth a chunk."""
    if part is None:  # not scanned
        return value, True
    delta = delta_of(value)
    scanned = {name for passage in part.passages for name in passage.fields}
    kept = {k: v for k, v in delta.items() if k not in scanned and k != "role"}
    kept |= {k: others for k in scanned if (others := without_text(k, delta.get(k)))}
    if part.natives is not None:
        kept["tool_calls"] = part.natives
    worth = bool(part.finish) or not all(map(says_nothing, kept.values()))
    if "role" in delta and not part.channel.role_seen:
        kept = {"role": delta["role"], **kept}
        part.channel.role_seen = worth = True
    rest = {**value, "delta": kept, "finish_reason": part.finish}
    return _without_logprobs(rest), worth or bool(value.get("usage"))


def _without_logprobs(value: Json) -> Json:
    # They spell out the tokens, markers included.
    return {**value, "logprobs": None} if value.get("logprobs") else value


def _with_delta(chunk: Json, delta: Json, finish: str | None = None, *, position: int = 0) -> Json:
    """A chunk with the metadata of another one, of one of its choices."""
    value = {**chunk["choices"][position], "delta": delta, "finish_reason": finish}
    value.pop("usage", None)
    metadata = {k: v for k, v in chunk.items() if k != "usage" or v is None}
    return {**metadata, "choices": [_without_logprobs(value)]}


def added_chunk(latest: Json, delta: Json, finish: str | None = None) -> Frame:
    """A chunk with the metadata of the latest one."""
    return encode(dumps(_with_delta(latest, delta, finish)))
