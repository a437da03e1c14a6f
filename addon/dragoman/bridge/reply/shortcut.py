"""The short way of frames that only continue the open text, as nearly all do.

A template finds the text of such a frame, and it is written as one event, without the stages in
between.  These count the texts later, all at once: see `ReplyConverter`.
"""

from __future__ import annotations

from ...wire.frame_templates import KnownTemplate
from ..responses.event_writer import ProseKind
from ..responses.open_part import OpenPart

Target = ProseKind | int
"""What a text continues: prose of a kind, or the arguments of the call with this index."""
Meaning = tuple[Target, bool]
"""Of a template: what the texts of its frames continue, and whether these have a usage."""
LENGTH = 4096
"""Characters after which a frame takes the long way, so that the texts are counted."""


class Shortcut:
    __slots__ = ("_counting", "_may_hold_tags", "_part", "_room", "_template", "counted", "texts")

    def __init__(
        self, part: OpenPart, template: KnownTemplate[Meaning], *, may_hold_tags: bool
    ) -> None:
        """`may_hold_tags`: a ``<`` may begin a tag."""
        self._part = part
        self._template = template.pattern
        _, self._counting = template.meaning
        self._may_hold_tags = may_hold_tags
        self._room = LENGTH
        self.texts: list[str] = []
        """What was written, and is to be counted."""
        self.counted = b""
        """The last frame with a usage, which has not been read."""

    def text_of(self, raw: bytes) -> str | None:
        """The text of a frame that only continues the open text; None for any other."""
        text = self._template.text_in(raw)
        return text if text and self._may_append(text) else None

    def append(self, text: str, raw: bytes) -> None:
        """Write the text of such a frame."""
        self._room -= len(text)
        self.texts.append(text)
        if self._counting:
            self.counted = raw
        self._part.append(text)

    def take(self, raw: bytes) -> bool:
        """Write a frame that only continues the open text; returns whether this does."""
        text = self.text_of(raw)
        if text:
            self.append(text, raw)
        return bool(text)

    def _may_append(self, text: str) -> bool:
        return len(text) <= self._room and not (self._may_hold_tags and "<" in text)
