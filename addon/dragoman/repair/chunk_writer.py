"""Writes frames: as they came if nothing in them changed, which is decided here alone.

Else one chunk is written for each text and call, each with the metadata of the original.
"""

from __future__ import annotations

from typing import Any

from ..wire.chat_text import CONTENT, without_text, written
from ..wire.json_codec import dumps
from ..wire.sse import Frame, encode
from .pending import PendingFrame, PendingPart, Policy, delta_of

_IN_ITS_FIELD = Policy(text="field")


def render(waiting: PendingFrame, policy: Policy) -> list[Frame]:
    """The frames that replace a decided one: itself, if nothing changed."""
    if not any(part.touched for part in waiting.parts):
        return [waiting.frame]
    if waiting.read is None and not waiting.parts[0].deltas:
        return []  # it has one text and nothing else, and all of that is held or dropped
    chunk = waiting.chunk
    chunks: list[dict[str, Any]] = []
    without_usage = {k: v for k, v in chunk.items() if k != "usage" or v is None}
    for part in waiting.parts:
        value = chunk["choices"][part.position]
        for delta in _deltas(part, value, policy):
            bare = {**value, "delta": delta, "finish_reason": None}
            bare.pop("usage", None)
            chunks.append({**without_usage, "choices": [_without_logprobs(bare)]})
    parts = {part.position: part for part in waiting.parts}
    rest = [_rest(value, parts.get(at)) for at, value in enumerate(chunk["choices"])]
    if any(worth for _, worth in rest) or chunk.get("usage"):
        chunks.append({**chunk, "choices": [value for value, _ in rest]})
    others = waiting.frame.other_lines
    return [encode(dumps(c), other_lines=b"" if n else others) for n, c in enumerate(chunks)]


def release(waiting: PendingFrame) -> list[Frame]:
    """The frames that replace one that is still undecided: itself, unless part of its result is
    nowhere else.  Its text stays in its field, as that of the frames after it does, which may be
    the rest of the same marker."""
    if not any(part.so_far or (part.touched and part.settled) for part in waiting.parts):
        return [waiting.frame]
    for part in waiting.parts:
        if part.so_far and not part.settled:
            part.deltas = part.so_far
        elif not part.settled:
            part.deltas = [dict.fromkeys(text.fields, text.text) for text in part.passages]
        part.changed = True
    return render(waiting, _IN_ITS_FIELD)


def _deltas(part: PendingPart, value: dict[str, Any], policy: Policy) -> list[dict[str, Any]]:
    """The deltas that replace the part's text.  In an event that also held markers
    of a call, text goes to `content` (the specification), unless it is blank, or its format says
    what it is."""
    mixed = policy.moves and part.plain != part.text_size and part.channel.calls.repaired > 0
    mixed = mixed and not part.has_kinds
    original = delta_of(value)
    deltas: list[dict[str, Any]] = []
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


def _rest(value: dict[str, Any], part: PendingPart | None) -> tuple[dict[str, Any], bool]:
    """The choice without its text, and whether that is worth a chunk."""
    if part is None:  # not scanned
        return value, True
    delta = delta_of(value)
    scanned = {name for span in part.spans for name in span.fields}
    kept = {k: v for k, v in delta.items() if k not in scanned and k != "role"}
    kept |= {k: left for k in scanned if (left := without_text(k, delta.get(k)))}
    if part.natives is not None:
        kept["tool_calls"] = part.natives
    worth = bool(part.finish) or not all(map(says_nothing, kept.values()))
    if "role" in delta and not part.channel.role_seen:
        kept = {"role": delta["role"], **kept}
        part.channel.role_seen = worth = True
    rest = {**value, "delta": kept, "finish_reason": part.finish}
    return _without_logprobs(rest), worth or bool(value.get("usage"))


def _without_logprobs(value: dict[str, Any]) -> dict[str, Any]:
    # They spell out the tokens, markers included.
    return {**value, "logprobs": None} if value.get("logprobs") else value


def chunk_like(like: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> Frame:
    """A chunk with the metadata of an earlier one."""
    value = {**like["choices"][0], "delta": delta, "finish_reason": finish}
    value.pop("usage", None)
    metadata = {k: v for k, v in like.items() if k != "usage" or v is None}
    return encode(dumps({**metadata, "choices": [_without_logprobs(value)]}))
