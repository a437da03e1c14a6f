"""Control characters in the strings of JSON that a model writes: JSON has them escaped only."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_TOKEN = re.compile(r'\\.|["\x00-\x1f]', re.DOTALL)
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


class ControlCharacters:
    """Escapes those of one JSON text, which comes in pieces."""

    def __init__(self) -> None:
        self._in_string = False
        self._escaped = False
        """Whether the text so far ends in half an escape."""

    def escaped(self, text: str) -> str:
        """The next piece, with control characters in strings escaped."""
        if self._escaped and text:
            self._escaped = False
            return text[0] + self.escaped(text[1:])
        if _CONTROL.search(text) is not None:
            in_string = self._in_string
            text = _TOKEN.sub(self._token, text)
            self._in_string = in_string
        bare = _ESCAPE.sub("", text) if "\\" in text else text
        self._in_string ^= bare.count('"') % 2 == 1
        self._escaped = bare.endswith("\\")
        return text

    def _token(self, match: re.Match[str]) -> str:
        token = match[0]
        if token == '"':
            self._in_string = not self._in_string
        elif self._in_string and token[0] != "\\":
            return _SHORT.get(token, f"\\u{ord(token):04x}")
        return token
