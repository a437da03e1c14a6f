"""A frame on its way through repair: what it said, and how that is written again.

A frame is read into parts, one for each of its choices.  When every part is decided,
`render` gives the frame as it came if nothing in it changed, else one chunk for each
thing it said, each with the metadata of the original.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from ..notes import Evidence
from ..wire.chat_text import CONTENT, Passage, Span, without_text, written
from ..wire.json_codec import dumps, loads
from ..wire.sse import Frame, encode
from .call_builder import CallBuilder
from .events import Dropped, LeftAsText
from .scanner import Scanner


@dataclass(frozen=True, slots=True)
class Policy:
    """The user's choices (options ``dragoman_kimi_text`` and ``dragoman_finish_reason``)."""

    text: Literal["content", "field"] = "content"
    finish: Literal["tool_calls", "keep"] = "tool_calls"

    @property
    def moves(self) -> bool:
        """Whether text around a section goes to ``content``."""
        return self.text == "content"


def note_piece(evidence: Evidence, piece: Dropped | LeftAsText) -> None:
    """Record what was taken out of a text, and what was left in it that looks like markup."""
    if isinstance(piece, LeftAsText):
        evidence.note("left as text", f"a {piece.what} {piece.why}")
    else:
        evidence.note("dropped", piece.what)


def finish_after(finish: object, calls_made: bool, cut: bool, policy: Policy) -> object:
    """The finish reason the client sees: a half-written call is an honest ``length``."""
    if cut and finish != "content_filter":
        return "length"
    if calls_made and finish == "stop" and policy.finish == "tool_calls":
        return "tool_calls"
    return finish


@dataclass(slots=True, eq=False)
class ChoiceState:
    """What is remembered of one choice."""

    scanner: Scanner
    calls: CallBuilder
    fields: tuple[str, ...] = ()
    end: int = 0  # offset: how much text was fed
    open_parts: deque[PendingChoice] = field(default_factory=deque)
    last_chunk: dict[str, Any] = field(default_factory=dict)
    role_seen: bool = False
    finished: bool = False
    cut: bool = False
    held_call: tuple[str, list[str], int] = ("", [], 0)  # when the last frame was done with
    closed_parts: list[PendingChoice] = field(default_factory=list)  # since then

    def settle(self) -> None:
        """A frame is done with: remember what is held of it and those before.  What came of
        frames that have left may stand in the first that waits, or in the latest."""
        self.held_call = self.scanner.held_call
        for part in self.closed_parts:
            part.settled = True
        self.closed_parts.clear()
        if self.open_parts:
            decided = self.end - self.scanner.undecided
            self.open_parts[0].remember(decided)
            if len(self.open_parts) > 1 and self.open_parts[-1].deltas:
                self.open_parts[-1].remember(decided)

    @property
    def open_call(self) -> int:
        """Which call out of repair is open: the first is 1; 0 for none."""
        return self.calls.repaired if self.scanner.in_call else 0

    def decide(self) -> None:
        """Text was scanned: see which parts' ends are still undecided."""
        decided = self.end - self.scanner.undecided
        while self.open_parts:
            part = self.open_parts[0]
            part.open = bool(part.spans) and part.spans[-1].end > decided
            if part.open:
                break
            self.closed_parts.append(self.open_parts.popleft())
        if self.open_parts and not self.open_parts[-1].spans:
            self.open_parts[-1].open = False
            self.closed_parts.append(self.open_parts.pop())

    @property
    def quiet(self) -> bool:
        """Whether a frame without ``<`` needs no repair as far as this choice goes."""
        return self.scanner.idle and (self.finished or not self.calls.repaired)

    @property
    def resting(self) -> bool:
        """Whether a frame without any text needs no repair as far as this choice goes."""
        return self.scanner.between and (self.finished or not self.calls.repaired)


@dataclass(slots=True, eq=False)
class PendingChoice:
    """One choice of one waiting frame, and what became of it so far."""

    position: int  # in the chunk's "choices"
    choice: ChoiceState
    spans: list[Span]
    deltas: list[dict[str, Any]] = field(default_factory=list)
    plain: int = 0  # characters that came out as text of their own field
    natives: list[dict[str, Any]] | None = None
    finish: object = None
    open: bool = True  # while the end of its text is undecided
    changed: bool = False  # by more than its own text going where it came from
    settled: bool = False  # whether it was decided before the latest frame
    passages: list[Passage] = field(default_factory=list)  # the texts of the spans
    so_far: list[dict[str, Any]] = field(default_factory=list)  # see `remember`

    def remember(self, decided: int) -> None:
        """Keep a copy of what became of it up to the offset `decided`, and the rest of its
        text as it came: if a fault comes between, this takes the place of its frame."""
        if not self.changed and self.plain == max(0, decided - self.spans[0].begin):
            return  # all of it is where it was
        self.so_far = deepcopy(self.deltas)
        for span, passage in zip(self.spans, self.passages, strict=True):
            if rest := passage.text[max(0, decided - span.begin) :]:
                self.so_far.append(dict.fromkeys(span.fields, rest))

    @property
    def text_size(self) -> int:
        return sum(span.end - span.begin for span in self.spans)

    @property
    def touched(self) -> bool:
        """Whether its frame has to be written anew."""
        return self.changed or self.plain != self.text_size

    def add(self, delta: dict[str, Any]) -> None:
        """Append a delta, joining text with text and arguments with arguments."""
        last = self.deltas[-1] if self.deltas else {}
        if last.keys() == delta.keys() and "tool_calls" not in delta:
            for name, text in delta.items():
                last[name] += text
        elif last.keys() == delta.keys() and _continues(last["tool_calls"], delta["tool_calls"]):
            function = delta["tool_calls"][0]["function"]
            last["tool_calls"][0]["function"]["arguments"] += function["arguments"]
        else:
            self.deltas.append(delta)


def _continues(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return "id" not in one[0] and "id" not in other[0] and one[0]["index"] == other[0]["index"]


@dataclass(slots=True, eq=False)
class PendingFrame:
    """A frame whose fate is open while a part's text is undecided."""

    frame: Frame
    parts: list[PendingChoice]
    read: dict[str, Any] | None = None
    """What it says, if that has been read."""

    @property
    def chunk(self) -> dict[str, Any]:
        """What it says; only for one that has parts."""
        if self.read is None:
            self.read = loads(self.frame.data or b"")
        return self.read

    @property
    def decided(self) -> bool:
        return not any(part.open for part in self.parts)


def delta_of(choice: dict[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {}


def render(waiting: PendingFrame, policy: Policy) -> list[Frame]:
    """The frames that take the place of a decided one: itself, if nothing changed."""
    if not any(part.touched for part in waiting.parts):
        return [waiting.frame]
    if waiting.read is None and not waiting.parts[0].deltas:
        return []  # it said one text and nothing else, and all of that is held or dropped
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


def release(waiting: PendingFrame, policy: Policy) -> list[Frame]:
    """The frames that take the place of one that is still undecided: itself, unless something
    came of it that is nowhere else."""
    if not any(part.so_far or (part.touched and part.settled) for part in waiting.parts):
        return [waiting.frame]
    for part in waiting.parts:
        if part.so_far and not part.settled:
            part.deltas = part.so_far
        elif not part.settled:
            part.deltas = [dict.fromkeys(text.fields, text.text) for text in part.passages]
        part.changed = True
    return render(waiting, policy)


def _deltas(part: PendingChoice, value: dict[str, Any], policy: Policy) -> list[dict[str, Any]]:
    """The deltas that take the place of the part's text.  In an event that also held markers
    of a call, text goes to `content` (the specification), unless it is blank."""
    mixed = policy.moves and part.plain != part.text_size and part.choice.calls.repaired > 0
    original = delta_of(value)
    deltas: list[dict[str, Any]] = []
    for delta in part.deltas:
        if "tool_calls" in delta:
            deltas.append(delta)
            continue
        text = next(iter(delta.values()))
        names = CONTENT if mixed and text.strip() else delta.keys()
        deltas.append({name: written(name, text, original.get(name)) for name in names})
    if deltas and "role" in original and not part.choice.role_seen:
        deltas[0] = {"role": original["role"], **deltas[0]}
        part.choice.role_seen = True
    return deltas


def says_nothing(value: object) -> bool:
    """Whether a field of a delta might as well not be there."""
    return value in (None, "", [], {})


def _rest(value: dict[str, Any], part: PendingChoice | None) -> tuple[dict[str, Any], bool]:
    """What the choice said besides text, and whether that is worth a chunk."""
    if part is None:  # not scanned
        return value, True
    delta = delta_of(value)
    scanned = {name for span in part.spans for name in span.fields}
    kept = {k: v for k, v in delta.items() if k not in scanned and k != "role"}
    kept |= {k: left for k in scanned if (left := without_text(k, delta.get(k)))}
    if part.natives is not None:
        kept["tool_calls"] = part.natives
    worth = bool(part.finish) or not all(map(says_nothing, kept.values()))
    if "role" in delta and not part.choice.role_seen:
        kept = {"role": delta["role"], **kept}
        part.choice.role_seen = worth = True
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
