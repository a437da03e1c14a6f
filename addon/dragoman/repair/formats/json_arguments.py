"""Arguments that a format writes as JSON text: what stands between the markers is JSON, or no call.

What reads as a marker in a string of the JSON is part of the string.  Two spellings are read as
what they mean: line ends and other control characters in strings, which JSON has escaped, and an
object that is written as a JSON string.
"""

from __future__ import annotations

import re

from ...wire.json_progress import JsonProgress
from ..events import Whole
from .held_arguments import CallEnds, HeldArguments
from .value_types import read_json

_NOT_BLANK = re.compile(r"\S")


class JsonArguments(HeldArguments):
    """Arguments that are JSON text, or nothing at all."""

    def __init__(self, name: str, ends: CallEnds) -> None:
        super().__init__(name, ends)
        self._json = JsonProgress()

    def take_more(self, text: str) -> bool:
        json = self._json
        if self.unread or not json.in_string or json.escaped or '"' in text or "\\" in text:
            return False
        self._text.add(text)
        return True

    def finish(self, *, whole: bool = True) -> None:
        json = self._json
        if not json.broken:
            json.end()
            self._closed = json.complete
        super().finish(whole=whole)

    def _follow(self) -> None:
        json = self._json
        if self._text or self._begins():
            begin = self._at
            self._at = json.follow(self._buffer, begin, len(self._buffer))
            if self._at > begin:
                self._text.add(self._buffer[begin : self._at])
        self._closed, self._damaged = json.complete, json.broken

    def _begins(self) -> bool:
        """Step over the blanks before the JSON, to where it begins: where there are none, the call
        is whole."""
        markers = self._ends.markers
        while (begin := _NOT_BLANK.search(self._buffer, self._at)) is not None:
            self._at = begin.start()
            if begin[0] in '{["':
                return True
            marker = markers.match(self._buffer, self._at)
            if marker is None:
                return markers.unfinished(self._buffer, self._at) < len(self.unread)
            if marker[0] != self._ends.before:
                self._end(Whole(["{}"]))
                return False
            self._at = marker.end()
        self._at = len(self._buffer)
        return False

    def _read(self, text: str) -> Whole | None:
        found = read_json(text)
        if found is not None and isinstance(found[0], str):
            inner = read_json(found[0])
            found = inner if inner and isinstance(inner[0], dict) else found
        if found is None:
            return None
        value, json = found
        pieces = self._text.pieces(0, len(text)) if json == text else [json]
        return Whole(pieces, read=value)
