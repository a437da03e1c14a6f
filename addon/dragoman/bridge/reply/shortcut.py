"""The short way of frames that only continue the open text, as nearly all do.

Such a frame is known by a template, and written as one event, without the stages in between.
These count the texts later, all at once: see `ReplyConverter`.
"""

from __future__ import annotations

from ...wire.frame_templates import FrameTemplate, LooseTemplate
from ..responses.open_part import OpenPart

LENGTH = 4096
"""Characters after which a frame takes the long way, so that the texts are counted."""


class Shortcut:
    """Frames to the open part."""

    __slots__ = ("_part", "_room", "_template", "counts", "latest", "may_hold_tags", "texts")

    def __init__(
        self,
        part: OpenPart,
        template: FrameTemplate | LooseTemplate,
        *,
        counts: bool,
        may_hold_tags: bool,
    ) -> None:
        """`counts`: the frames have a usage.  `may_hold_tags`: a ``<`` may begin a tag."""
        self._part = part
        self._template = template
        self.counts = counts
        self.may_hold_tags = may_hold_tags
        self.latest = b""
        """The last frame that was written."""
        self.texts: list[str] = []
        """What was written, and is to be counted."""
        self._room = LENGTH

    def text_of(self, raw: bytes) -> str | None:
        """The text of a frame that only continues the open text; None for any other."""
        text = self._template.text_in(raw)
        return text if text and self._may_take(text) else None

    def append(self, text: str, raw: bytes) -> None:
        """Write the text of such a frame."""
        self._room -= len(text)
        self.texts.append(text)
        self.latest = raw
        self._part.append(text)

    def append_frames(self, frames: bytes, begin: int) -> int:
        """Write whole frames, from `begin` on, while they only continue the open text; returns
        where these end."""
        texts, ends = self._template.texts_in(frames, begin)
        for number, text in enumerate(texts):
            if not (text and self._may_take(text)):
                return ends[number]
            self.append(text, frames[ends[number] : ends[number + 1]])
        return ends[len(texts)]

    def _may_take(self, text: str) -> bool:
        return len(text) <= self._room and not (self.may_hold_tags and "<" in text)
