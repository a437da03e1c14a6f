"""A frame on its way through repair: its texts, and the result for each of them so far.

A frame is read into parts, one for each of its choices.  When every part is decided, the
frame is written (`chunk_writer`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..notes import Evidence
from ..wire.chat_end import is_whole
from ..wire.chat_text import ADDED_REASONING, CONTENT, Passage
from ..wire.frame_templates import Values
from ..wire.json_codec import Json, loads
from ..wire.sse import Frame
from .events import Dropped, LeftAsText, Text
from .formats import AUTO, FormatChoice

if TYPE_CHECKING:
    from .chunk_writer import Envelope
    from .text_channel import TextChannel


@dataclass(frozen=True, slots=True)
class Policy:
    """The user's choices (options ``dragoman_kimi_text``, ``dragoman_finish_reason`` and
    ``dragoman_formats``)."""

    text: Literal["content", "field"] = "content"
    finish: Literal["tool_calls", "keep"] = "tool_calls"
    formats: FormatChoice = AUTO

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


def fields_of(piece: Text, received: tuple[str, ...], policy: Policy) -> tuple[str, ...]:
    """The fields for a text that was `received` in others: those of its kind in its format, or
    else ``content`` for what follows a call."""
    if piece.kind == "reasoning":
        return ADDED_REASONING if received == CONTENT else received
    moves = piece.trailing and policy.moves
    return CONTENT if moves or piece.kind == "content" else received


def finish_after(finish: object, calls_made: bool, cut: bool, policy: Policy) -> object:
    """The finish reason the client sees: a half-written call is an honest ``length``, and a
    whole turn with calls made of text ends for them, whatever word its host has for its end."""
    if cut and finish != "content_filter":
        return "length"
    if calls_made and is_whole(finish) and policy.finish == "tool_calls":
        return "tool_calls"
    return finish


@dataclass(slots=True, eq=False)
class PendingPart:
    """The texts of one waiting frame in one channel, and the result so far."""

    position: int  # in the chunk's "choices"
    channel: TextChannel
    passages: list[Passage] = field(default_factory=list)
    size: int = 0  # characters of these
    deltas: list[Json] = field(default_factory=list)
    plain: int = 0  # characters that came out as text of their own field
    has_kinds: bool = False  # whether some text of it has a kind in its format
    natives: list[Json] | None = None
    finish: object = None
    open: bool = True  # while the end of its text is undecided
    changed: bool = False  # by more than its own text going where it came from
    settled: bool = False  # whether it was decided before the latest frame
    snapshot: list[Json] = field(default_factory=list)  # see `remember`

    def remember(self, decided: int) -> None:
        """Keep a copy of what became of it up to the offset `decided`, and the rest of its text
        as it came: after a fault in a later frame, this takes the place of its frame."""
        if not self.changed and self.plain == max(0, decided - self.passages[0].begin):
            return  # all of it is where it was
        self.snapshot = [_copied(delta) for delta in self.deltas]
        for passage in self.passages:
            if rest := passage.text[max(0, decided - passage.begin) :]:
                self.snapshot.append(dict.fromkeys(passage.fields, rest))

    @property
    def touched(self) -> bool:
        """Whether its frame has to be written anew."""
        return self.changed or self.plain != self.size

    def add(self, delta: Json) -> None:
        """Append a delta, joining text with text and arguments with arguments."""
        last = self.deltas[-1] if self.deltas else None
        if last is None or last.keys() != delta.keys():
            self.deltas.append(delta)
        elif "tool_calls" not in delta:
            for name, text in delta.items():
                last[name] += text
        elif _continues(last["tool_calls"], delta["tool_calls"]):
            function = delta["tool_calls"][0]["function"]
            last["tool_calls"][0]["function"]["arguments"] += function["arguments"]
        else:
            self.deltas.append(delta)

    def add_calls(self, deltas: list[Json]) -> None:
        for delta in deltas:
            self.add({"tool_calls": [delta]})
            self.changed = True


def _copied(delta: Json) -> Json:
    """A copy that `PendingPart.add` does not change."""
    if "tool_calls" not in delta:
        return dict(delta)
    return {"tool_calls": [{**c, "function": {**c["function"]}} for c in delta["tool_calls"]]}


def _continues(one: list[Json], other: list[Json]) -> bool:
    return "id" not in one[0] and "id" not in other[0] and one[0]["index"] == other[0]["index"]


@dataclass(slots=True, eq=False)
class PendingFrame:
    """A frame that waits while a part's text is undecided."""

    frame: Frame
    parts: list[PendingPart] = field(default_factory=list)
    parsed: Json | None = None
    """Its JSON, if that has been parsed."""
    envelope: Envelope | None = None
    """That of the frames that match its template; its text is in its part."""
    values: Values = field(default_factory=dict)
    """What else differs in them."""

    @property
    def chunk(self) -> Json:
        """Its JSON; only for one that has parts."""
        if self.parsed is None:
            self.parsed = loads(self.frame.data or b"")
        return self.parsed

    @property
    def decided(self) -> bool:
        for part in self.parts:  # noqa: SIM110 - a generator costs more
            if part.open:
                return False
        return True


def delta_of(choice: Json) -> Json:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {}
