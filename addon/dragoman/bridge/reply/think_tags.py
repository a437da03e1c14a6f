"""Splits off reasoning that an upstream leaves in the text: ``<think>…</think>`` at its start.

The opening tag counts only at the very start of a turn's content.  At most one tag is held back,
and the blanks around it, which belong to neither side.  Without a closing tag, all of it was
reasoning.  Where the model's template has written the opening tag, only the closing one is seen:
the first tag of the text, at its start or at the end of a line.  It is taken out.  The text
before it was reasoning, if that was asked for; in a stream it has been sent as text by then.
"""

from __future__ import annotations

import enum
import re
from typing import Literal

_OPEN = "<think>"
_CLOSE = "</think>"
_CLOSES = (_CLOSE, "</thinking>")
_TAGS = (_OPEN, "<thinking>", *_CLOSES)
_TAG = re.compile("|".join(_TAGS))
_STRAY = re.compile(r"(?<!`)</think(?:ing)?>(?=[ \t\r]*(?:\n|\Z))")
_BLANK_LIMIT = 1000
"""Blanks at the start after which no tag is expected."""

SplitText = tuple[Literal["text", "reasoning"], str]


class _At(enum.Enum):
    START = enum.auto()
    THINKING_BLANK = enum.auto()
    THINKING = enum.auto()
    TEXT_BLANK = enum.auto()
    TEXT = enum.auto()
    TEXT_ALONE = enum.auto()
    """No tag is looked for any more."""


class ThinkSplitter:
    """Text in, pieces of text and reasoning out."""

    def __init__(self) -> None:
        self._at = _At.START
        self._held = ""
        self._before = ""
        """The character before what is held."""
        self.stray = False
        """Whether a closing tag without an opening one was taken out."""

    @property
    def passive(self) -> bool:
        return self._at is _At.TEXT_ALONE

    @property
    def thinking(self) -> bool:
        """Whether a tag was found, and no text after the closing one yet."""
        return self._at in (_At.THINKING, _At.THINKING_BLANK, _At.TEXT_BLANK)

    def whole(self, text: str, *, asked_for: bool) -> list[SplitText]:
        """The pieces of a whole text; `asked_for`: reasoning was."""
        first = _TAG.search(text) if asked_for and self._at is _At.START else None
        if first is None or not (stray := _STRAY.match(text, first.start())):
            return self.feed(text)
        self._at, self.stray = _At.TEXT_ALONE, True
        before, after = text[: first.start()].strip(), text[stray.end() :].lstrip()
        pieces: list[SplitText] = [("reasoning", before), ("text", after)]
        return [piece for piece in pieces if piece[1]]

    def feed(self, text: str) -> list[SplitText]:
        """The pieces that are certain now."""
        if self._at is _At.TEXT_ALONE or self._skips(text):
            return [("text", text)]
        self._held += text
        pieces: list[SplitText] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def _skips(self, text: str) -> bool:
        """Take in more text, if no tag can be in it; returns whether none can."""
        if self._at is not _At.TEXT or self._held or "<" in text:
            return False
        self._before = text[-1:] or self._before
        return True

    def close(self) -> list[SplitText]:
        """What was held, at the end of the content."""
        at, held = self._at, self._held
        self._at, self._held = _At.TEXT_ALONE, ""
        if at is _At.TEXT and self._before != "`" and held.strip(" \t\r") in _CLOSES:
            self.stray = True
            held = held[held.index(">") + 1 :]
        if not held or (at in (_At.THINKING_BLANK, _At.TEXT_BLANK) and not held.strip()):
            return []
        return [("reasoning" if at in (_At.THINKING, _At.THINKING_BLANK) else "text", held)]

    def _step(self, pieces: list[SplitText]) -> bool:
        """Take what is certain from the held text; returns whether to look again."""
        match self._at:
            case _At.START:
                return self._start()
            case _At.THINKING_BLANK | _At.TEXT_BLANK:
                self._held = self._held.lstrip()
                if self._held:
                    thinking = self._at is _At.THINKING_BLANK
                    self._at = _At.THINKING if thinking else _At.TEXT_ALONE
                return True
            case _At.THINKING:
                return self._thinking(pieces)
            case _At.TEXT:
                self._text(pieces)
            case _At.TEXT_ALONE:
                pieces.append(("text", self._held))
                self._held = ""
        return False

    def _start(self) -> bool:
        text = self._held.lstrip()
        for tag in (_OPEN, *_CLOSES):
            if text.startswith(tag):
                self._at = _At.THINKING_BLANK if tag == _OPEN else _At.TEXT_BLANK
                self.stray = tag != _OPEN
                self._held = text[len(tag) :]
                return True
        may_begin = any(tag.startswith(text) for tag in (_OPEN, *_CLOSES))
        if may_begin and len(self._held) <= _BLANK_LIMIT:
            return False
        self._at = _At.TEXT
        return True

    def _thinking(self, pieces: list[SplitText]) -> bool:
        text, close, rest = self._held.partition(_CLOSE)
        if not close:
            end = len(text) - _begun(text, _CLOSE)
            text, rest = text[:end], text[end:]
        if text:
            pieces.append(("reasoning", text))
        self._held = rest
        self._at = _At.TEXT_BLANK if close else self._at
        return bool(close)

    def _text(self, pieces: list[SplitText]) -> None:
        """Text before the first tag."""
        text = self._held
        tag = _TAG.search(text)
        if tag is None:
            end = len(text) - _begun(text, *_TAGS)
        elif tag[0] in _CLOSES and _may_end_line(text[tag.end() :]):
            end = tag.start()
        else:
            self._at = _At.TEXT_ALONE
            before = text[tag.start() - 1] if tag.start() else self._before
            if before != "`" and _STRAY.match(text, tag.start()):
                self.stray = True
                text = text[: tag.start()] + text[tag.end() :]
            end = len(text)
        self._held = text[end:]
        if end:
            pieces.append(("text", text[:end]))
            self._before = text[end - 1]


def _may_end_line(text: str) -> bool:
    """Whether a line with this after its tag may still end."""
    return not text.strip(" \t\r") and len(text) <= _BLANK_LIMIT


def _begun(text: str, *tags: str) -> int:
    """How many characters at the end of `text` may begin one of the tags."""
    at = text.rfind("<")
    return len(text) - at if at >= 0 and any(tag.startswith(text[at:]) for tag in tags) else 0
