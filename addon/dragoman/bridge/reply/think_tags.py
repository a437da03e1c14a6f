"""Splits off reasoning that an upstream leaves in the text: ``<think>…</think>`` at its start.

The opening tag counts only at the very start of a turn's content.  At most one tag is held back,
and the blanks around it, which belong to neither side.  Without a closing tag, all of it was
reasoning.  Where the model's template has written the opening tag, only the closing one is seen:
the first tag of the text, at its start or at the end of a line.  It is taken out.  The text
before it was reasoning, if that was asked for; in a stream it has been sent as text by then.
"""

from __future__ import annotations

import re
from typing import Literal

from ...wire.reply_bounds import MAX_BLANK

_OPEN = "<think>"
_CLOSE = "</think>"
_CLOSES = (_CLOSE, "</thinking>")
_TAGS = (_OPEN, "<thinking>", *_CLOSES)
_AT_START = (_OPEN, *_CLOSES)
_TAG = re.compile("|".join(_TAGS))
_STRAY = re.compile(r"(?<!`)</think(?:ing)?>(?=[ \t\r]*(?:\n|\Z))")

SplitText = tuple[Literal["text", "reasoning"], str]


class ThinkSplitter:
    """Text in, pieces of text and reasoning out: what is held, with what comes, is read anew."""

    def __init__(self) -> None:
        self._within: Literal["start", "reasoning", "text"] = "start"
        self._held = ""
        """Blanks, a tag that may come, or one after which text has not begun."""
        self._before = ""
        """The character of the text before what is held."""
        self.passive = False
        """Whether no tag is looked for any more."""
        self.stray = False
        """Whether a closing tag without an opening one was taken out."""

    def whole(self, text: str, *, asked_for: bool) -> list[SplitText]:
        """The pieces of a whole text; `asked_for`: reasoning was."""
        first = _first_tag(text) if asked_for and self._within == "start" else None
        if first is None or not (stray := _STRAY.match(text, first.start())):
            return self.feed(text)
        self.passive = self.stray = True
        before, after = text[: first.start()].strip(), text[stray.end() :].lstrip()
        pieces: list[SplitText] = [("reasoning", before), ("text", after)]
        return [piece for piece in pieces if piece[1]]

    def feed(self, text: str) -> list[SplitText]:
        """The pieces that are certain now."""
        if self.passive or (self._within == "text" and not self._held and "<" not in text):
            self._before = text[-1:] or self._before
            return [("text", text)]
        return self._read(self._held + text, ended=False)

    def close(self) -> list[SplitText]:
        """What was held, at the end of the content."""
        pieces = self._read(self._held, ended=True)
        self.passive = True
        return pieces

    def _read(self, text: str, *, ended: bool) -> list[SplitText]:
        """The pieces of this text, as far as they are certain; the rest is held."""
        thought, self._held = "", ""
        if self._within == "start":
            bare = text.lstrip()
            tag = next((each for each in _AT_START if bare.startswith(each)), "")
            text = bare[len(tag) :].lstrip() if tag else text
            begins = len(text) <= MAX_BLANK and any(each.startswith(bare) for each in _AT_START)
            if not ended and (not text if tag else begins):
                self._held = tag or text
                return []
            self._within = "reasoning" if tag == _OPEN else "text"
            self.passive = self.stray = tag in _CLOSES
        if self._within == "reasoning":
            thought, close, text = text.partition(_CLOSE)
            text = text.lstrip()
            if not close and not ended:
                thought, self._held = _cut(thought, _CLOSE)
            elif close and not text:
                self._held = close
            self.passive = bool(text)
        elif not self.passive:
            text = self._text(text, ended=ended)
        pieces: list[SplitText] = [("reasoning", thought), ("text", text)]
        return [piece for piece in pieces if piece[1]]

    def _text(self, text: str, *, ended: bool) -> str:
        """What is certain of a text up to its first tag, or all of it."""
        tag = _first_tag(text)
        if tag is None:
            if not ended:
                text, self._held = _cut(text, *_TAGS)
        elif not ended and tag[0] in _CLOSES and _may_end_line(text[tag.end() :]):
            text, self._held = text[: tag.start()], text[tag.start() :]
        else:
            self.passive = True
            before = text[tag.start() - 1] if tag.start() else self._before
            if before != "`" and _STRAY.match(text, tag.start()):
                self.stray = True
                text = text[: tag.start()] + text[tag.end() :]
        self._before = text[-1:] or self._before
        return text


def _first_tag(text: str) -> re.Match[str] | None:
    # The word is found much faster than one of several tags in a long text of what may begin one.
    return _TAG.search(text) if "think" in text else None


def _may_end_line(text: str) -> bool:
    """Whether a line with this after its tag may still end."""
    return not text.strip(" \t\r") and len(text) <= MAX_BLANK


def _cut(text: str, *tags: str) -> tuple[str, str]:
    """A text before what may begin one of the tags at its end, and that."""
    at = text.rfind("<")
    if at < 0 or not any(tag.startswith(text[at:]) for tag in tags):
        at = len(text)
    return text[:at], text[at:]
