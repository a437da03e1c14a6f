"""Arguments that are a JSON text in a JSON string, as some models write them."""

from __future__ import annotations

import re

from ...wire.json_progress import JsonProgress
from ..events import Arguments, CallEnd
from .control_characters import ControlCharacters
from .protocol import NOTHING_HELD

_RUN = re.compile(r'(?:[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u])*', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u((?![dD][89a-fA-F])[0-9a-fA-F]{4})|([^u]))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


class StringArguments:
    """Reads on from right after the opening quote.  See `CallArguments`.  An escaped surrogate
    stays as it is: it means the same in the inner text."""

    held = NOTHING_HELD

    def __init__(self) -> None:
        self.rest = ""
        self.over = False
        self._events: list[Arguments | CallEnd] = []
        self._json = JsonProgress()
        self._controls = ControlCharacters()
        self._seen = False

    @property
    def complete(self) -> bool:
        return self._json.complete

    def takes(self, text: str) -> str | None:
        if self.rest or self._events or (run := _RUN.match(text)) is None or run.end() < len(text):
            return None
        return self._read(text)

    def push(self, text: str) -> None:
        self.rest += text

    def take(self) -> list[Arguments | CallEnd]:
        events, self._events = self._events, []
        return events

    def step(self) -> bool:
        run = _RUN.match(self.rest)
        end = run.end() if run else 0
        if end == 0 and self.rest and self.rest[0] == "\\" and not _UNFINISHED.match(self.rest):
            end = 1  # no escape
        if end:
            self._events.append(Arguments(self._read(self.rest[:end])))
            self.rest = self.rest[end:]
            return True
        if self.rest[:1] == '"':
            self.rest = self.rest[1:]
            self._end(cut=False)
            return True
        return False

    def finish(self) -> None:
        self.rest = ""
        self._end(cut=True)

    def _read(self, written: str) -> str:
        text = _ESCAPE.sub(_meaning, written) if "\\" in written else written
        self._json.follow(text, 0, len(text))
        self._seen = True
        return self._controls.escaped(text)

    def _end(self, *, cut: bool) -> None:
        self._json.end()
        valid = self._json.complete or not (self._seen or cut)
        self._events.append(CallEnd(valid=valid, cut=cut))
        self.over = True


def _meaning(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, character)
