"""Reasoning that an upstream leaves in the text: ``<think>…</think>`` at its start.

Only the very start of a turn's content is looked at; the tag anywhere else is text.
Held back is at most one tag and the blanks around it, which are no part of either
side.  If the closing tag never comes, all of it was reasoning.
"""

from __future__ import annotations

import enum
from typing import Literal

_OPEN = "<think>"
_CLOSE = "</think>"
_BLANK_LIMIT = 1000
"""Blanks at the start after which no tag is expected any more."""

SplitText = tuple[Literal["text", "reasoning"], str]


class _At(enum.Enum):
    START = enum.auto()
    THINKING_BLANK = enum.auto()
    THINKING = enum.auto()
    TEXT_BLANK = enum.auto()
    TEXT = enum.auto()


class ThinkSplitter:
    """Text in, pieces of text and reasoning out."""

    def __init__(self) -> None:
        self._at = _At.START
        self._held = ""

    @property
    def passive(self) -> bool:
        """Whether everything from now on is text."""
        return self._at is _At.TEXT

    @property
    def thinking(self) -> bool:
        """Whether the opening tag was found, and nothing yet of the text behind the closing."""
        return self._at not in (_At.START, _At.TEXT)

    def feed(self, text: str) -> list[SplitText]:
        """The pieces that are certain now."""
        if self._at is _At.TEXT:
            return [("text", text)]
        self._held += text
        pieces: list[SplitText] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def close(self) -> list[SplitText]:
        """What was held, at the end of the content or where it turned out to be text."""
        held, self._held = self._held, ""
        blank = self._at in (_At.THINKING_BLANK, _At.TEXT_BLANK)
        thinking = self._at in (_At.THINKING, _At.THINKING_BLANK)
        self._at = _At.TEXT
        if not held or (blank and not held.strip()):
            return []
        return [("reasoning" if thinking else "text", held)]

    def _step(self, pieces: list[SplitText]) -> bool:
        """Take what is certain off the held text; returns whether to look again."""
        match self._at:
            case _At.START:
                return self._start(pieces)
            case _At.THINKING:
                return self._thinking(pieces)
            case _At.THINKING_BLANK | _At.TEXT_BLANK:
                self._held = self._held.lstrip()
                if self._held:
                    thinking = self._at is _At.THINKING_BLANK
                    self._at = _At.THINKING if thinking else _At.TEXT
                return True
            case _At.TEXT:
                pieces.append(("text", self._held))
                self._held = ""
        return False

    def _start(self, pieces: list[SplitText]) -> bool:
        text = self._held.lstrip()
        if text.startswith(_OPEN):
            self._at = _At.THINKING_BLANK
            self._held = text[len(_OPEN) :]
            return True
        if not _OPEN.startswith(text) or len(self._held) > _BLANK_LIMIT:
            pieces += self.close()
        return False

    def _thinking(self, pieces: list[SplitText]) -> bool:
        thought, close, rest = self._held.partition(_CLOSE)
        if not close:
            keep = _begun(self._held)
            thought, rest = (
                self._held[: len(self._held) - keep],
                self._held[len(self._held) - keep :],
            )
        if thought:
            pieces.append(("reasoning", thought))
        self._held = rest
        if close:
            self._at = _At.TEXT_BLANK
        return bool(close)


def _begun(text: str) -> int:
    """How many characters at the end of `text` may be the start of the closing tag."""
    for size in range(min(len(text), len(_CLOSE) - 1), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return size
    return 0
