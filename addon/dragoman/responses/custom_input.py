"""The input of a custom tool, read from the call's arguments.

A chat upstream calls a custom tool as a function with one string: ``{"input": "…"}``.  The string
is unescaped live.  At most one escape sequence is held back, or a quote and what shows whether it
ends the string: models leave quotes in a text unescaped.  Arguments of another form are held to
the end, and then read as what they most likely are.
"""

from __future__ import annotations

import re

from ..wire.json_codec import NotJson, loads
from .patch_text import PatchText, patch_in

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_TAIL = re.compile(r"\s*\}\s*")
_END = re.compile(r'"(?:\s{65}|\s{0,64}(?:\}|,\s{0,64}(?:\}|"[^"\\]{0,64}"\s{0,64}:)))')
"""The end of a string: a brace or a member follows, or a comma alone, or blanks without end; models
write both."""
_END_SO_FAR = re.compile(r'"\s{0,64}(?:,\s{0,64}(?:"[^"\\]{0,64}(?:"\s{0,64})?)?)?\Z')
_LAST = re.compile(r'"\s{0,64}(?:\}\s{0,64})?\Z')
"""The end of a string in which quotes were not escaped."""
_RUN = re.compile(r'[^"\\]+')
_PLAIN = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(
    r"\\(?:[^u]|u(?![dD][89abAB])HHHH|u[dD][89abAB]HH\\u[dD][c-fC-F]HH"
    r"|u[dD][89abAB]HH(?!(?:\\(?:u.{0,3})?)?\Z)|u(?=.{4})(?!HHHH))".replace("H", "[0-9a-fA-F]"),
    re.DOTALL,
)
"""A complete escape sequence.  Half a surrogate pair waits for its other half: neither can be sent
alone."""
_HEAD_LIMIT = 200
"""Characters in which the head must be found; beyond, the arguments have another form."""


class CustomInputReader:
    """Argument fragments in, text of the input out."""

    def __init__(self, *, patch: bool = False) -> None:
        self._patch = PatchText() if patch else None
        self._unread: list[str] = []
        self._size = 0
        """Characters of these."""
        self._held = ""
        self._live = False
        self._ended = False
        self._quotes = False
        """Whether there are quotes in the string that are not escaped."""
        self.anomaly = ""
        """What is unusual about the form; empty if nothing is."""

    @property
    def half(self) -> bool:
        """Whether the string has begun and not ended so far."""
        return self._live and not self._ended and _LAST.match(self._held) is None

    def feed(self, fragment: str) -> str:
        """The text that `fragment` completes."""
        text = self._read(fragment)
        return self._patch.feed(text) if self._patch and text else text

    def close(self) -> str:
        rest = self._end()
        if self._patch is None:
            return rest
        rest = self._patch.feed(rest) + self._patch.close()
        if self._patch.wrapped and not self.anomaly:
            self.anomaly = "wrapped patch"
        return rest

    def _read(self, fragment: str) -> str:
        if self._live and not self._ended:
            return self._string(self._held + fragment)
        may_begin = not self._ended and self._size <= _HEAD_LIMIT
        self._unread.append(fragment)
        self._size += len(fragment)
        joined = "".join(self._unread) if may_begin else ""
        if (head := _HEAD.match(joined)) is None:
            return ""
        self._live = True
        self._unread.clear()
        return self._string(joined[head.end() :])

    def _end(self) -> str:
        if not self._live:
            return self._other_form("".join(self._unread))
        if _LAST.match(self._held):
            self.anomaly = "quotes that are not escaped" if self._quotes else "more than an input"
            return ""
        if not self._ended:
            self.anomaly = "input without an end"
            return _decoded(self._held) if _UNICODE.fullmatch(self._held) else self._held
        if not _TAIL.fullmatch("".join(self._unread)):
            self.anomaly = "more than an input"
        return ""

    def _other_form(self, arguments: str) -> str:
        if self._patch and (patch := patch_in(arguments)) is not None:
            self.anomaly = "patch in another form"
            return patch
        try:
            value = loads(arguments.strip() or "{}")
        except NotJson:
            self.anomaly = "input that is not JSON"
            return arguments
        if isinstance(value, dict) and "input" in value:
            value = value["input"]
        elif isinstance(value, dict) and len(value) < 2:
            value = next(iter(value.values()), "")
        if isinstance(value, str):
            return value
        self.anomaly = "input that is no string"
        return arguments

    def _string(self, text: str) -> str:
        """Unescape as far as possible; what may be half an escape is held."""
        out: list[str] = []
        at = 0
        while at < len(text):
            if run := _RUN.match(text, at):
                out.append(run.group())
                at = run.end()
            elif text[at] == '"':
                if (_LAST if self._quotes else _END_SO_FAR).match(text, at):
                    break
                if not self._quotes and _END.match(text, at):
                    self._ended, self._held = True, ""
                    self._unread.append(text[at + 1 :])
                    return "".join(out)
                self._quotes = True
                out.append('"')
                at += 1
            elif escape := _ESCAPE.match(text, at):
                out.append(_unescaped(escape[0]))
                at = escape.end()
            else:
                break
        self._held = text[at:]
        return "".join(out)


def _unescaped(escape: str) -> str:
    if escape[1] == "u" and len(escape) >= 6:
        return _decoded(escape)
    return _PLAIN.get(escape[1], escape)


def _decoded(units: str) -> str:
    """The characters of one or two ``\\uXXXX``; a lone surrogate stays one."""
    text = "".join(chr(int(unit, 16)) for unit in _UNICODE.findall(units))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
