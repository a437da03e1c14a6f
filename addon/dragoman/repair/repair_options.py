"""What the user's options say of a repaired reply: fields, finish reasons, formats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..notes import Evidence
from ..wire.finish_reasons import is_whole, meaning
from .events import Drop, Dropped, LeftAsText, Refusal
from .formats.formats_by_family import AUTO, FormatChoice


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The user's choices (options ``dragoman_kimi_text``, ``dragoman_finish_reason`` and
    ``dragoman_formats``)."""

    text: Literal["content", "field"] = "content"
    finish: Literal["tool_calls", "keep"] = "tool_calls"
    formats: FormatChoice = AUTO

    @property
    def bridged(self) -> RepairOptions:
        """That of a reply to be bridged, in which thoughts stay thoughts."""
        return replace(self, text="field")

    @property
    def moves(self) -> bool:
        """Whether text around a section goes to ``content``."""
        return self.text == "content"

    def finish_after(self, finish: object, *, called: bool, cut: bool) -> object:
        """The finish reason the client sees: a half-written call is an honest ``length``, unless
        its host says that the turn failed or was filtered, and a whole turn with calls made of
        text ends for them, whatever word its host has for its end."""
        if cut and meaning(finish) in ("completed", "max_output_tokens"):
            return "length"
        return "tool_calls" if called and self.ends_for_calls(finish) else finish

    def ends_for_calls(self, finish: object) -> bool:
        """Whether a turn with calls made of text that ended so ends for these."""
        return is_whole(finish) and self.finish == "tool_calls"


def note_piece(evidence: Evidence, piece: Dropped | LeftAsText) -> None:
    """Record what was taken out of a text, and what was left in it that looks like markup."""
    if isinstance(piece, LeftAsText):
        evidence.leave(
            piece.what, piece.why.value, quoted=piece.why in (Refusal.QUOTED, Refusal.NAMED)
        )
    elif piece.kind is Drop.SHAPE:
        evidence.note(piece.kind.value, piece.what)
    else:
        evidence.change("dropped", f"{piece.kind.value} {piece.what}".rstrip())
