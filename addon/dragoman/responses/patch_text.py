"""Finds the patch in what a model sends to `apply_patch`.

The tool takes only the patch, from ``*** Begin Patch`` to ``*** End Patch``.  Models wrap it as
other tools want it: in a command with arguments, a heredoc, a code fence, after a word.  A wrapper
at the start is removed; a patch that begins at once passes as it comes.
"""

from __future__ import annotations

from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from ..wire.json_codec import NotJson, loads

BEGIN, END = "*** Begin Patch", "\n*** End Patch"
_WRAPPER_LIMIT = 300
"""Characters in which a patch must begin."""


class PatchText:
    """Text of the input in, text of the patch out."""

    def __init__(self, *, quoted: bool = True) -> None:
        """`quoted`: the patch may be in a string of JSON."""
        self._may_be_quoted = quoted
        self._held = ""
        self._begun = False
        self._quoted: list[str] | None = None
        """The pieces of an input that is JSON with the patch in it."""
        self.wrapped = False
        self._ended = False

    def feed(self, text: str) -> str:
        if self._quoted is not None:
            self._quoted.append(text)
            return ""
        if self._begun:
            return self._patch(text)
        self._held += text
        at = self._held.find(BEGIN)
        if at < 0 and len(self._held) <= _WRAPPER_LIMIT:
            return ""
        return self._begin(at)

    def close(self) -> str:
        if self._quoted is not None:
            return _unquoted("".join(self._quoted))
        held, self._held = self._held, ""
        return held

    def _begin(self, at: int) -> str:
        held, self._held = self._held, ""
        self._begun = True
        wrapper = held[: max(at, 0)]
        if wrapper.strip() and at <= _WRAPPER_LIMIT:
            self.wrapped = True
            if self._may_be_quoted and wrapper.lstrip()[0] in '{["':
                self._quoted = [held]
                return ""
            held = held[at:]
        return self._patch(held)

    def _patch(self, text: str) -> str:
        """After a wrapped patch the rest is dropped."""
        if not self.wrapped:
            return text
        if self._ended:
            return ""
        text = self._held + text
        at = text.find(END)
        if at >= 0:
            self._ended = True
            self._held = ""
            return text[: at + len(END)] + "\n"
        kept = max(n for n in range(len(END)) if n == 0 or text.endswith(END[:n]))
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _unquoted(text: str) -> str:
    """The patch in an input that is JSON, or was to be."""
    found = patch_in(text) or text
    patch = PatchText(quoted=found != text)
    return patch.feed(found) + patch.close()


def patch_in(arguments: str) -> str | None:
    """The text that holds the patch, in arguments of any form; None if there is none."""
    at = arguments.find(BEGIN)
    if at < 0:
        return None
    try:
        return _string_with_patch(loads(arguments))
    except NotJson:
        pass
    if arguments[at - 1 : at] != '"':
        return arguments
    try:
        # JSON but for line ends that were not escaped, or for what follows.
        text: str = scanstring(arguments, at, False)[0]
    except ValueError:
        return arguments
    return text


def _string_with_patch(value: Any) -> str | None:
    """The first string with a patch in it."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str) and BEGIN in found:
            return found
        if isinstance(found, (dict, list)):
            inner = list(found.values()) if isinstance(found, dict) else found
            waiting += reversed(inner)
    return None
