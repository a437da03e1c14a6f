"""Frames that differ from an earlier one in one text alone, as nearly all of a stream do.

Such a frame is known by the bytes around its text, and need not be parsed.  So is the frame that
replaces it, and need not be written as JSON.  The invariant: it gives exactly what JSON would; that
is tried with another text when a template is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]

from ..wire.json_codec import Json, quoted
from ..wire.sse import Frame

MAX_TEMPLATE = 4096
"""Bytes of a frame of which a template is made."""
MAX_LIKE_IT = 64 * 1024
"""Bytes of a frame that is compared with it, or whose metadata are those of added chunks."""
_ANOTHER_TEXT = "another text"


@dataclass(slots=True)
class SameFrames:
    """The bytes around the text of a chunk, which has it once, or twice with `middle` between."""

    chunk: Json
    head: bytes
    middle: bytes
    tail: bytes
    replaced: bool = False
    """Whether it is known what replaces such frames."""
    _around: tuple[bytes, bytes] = b"", b""
    """Around the text of the frame that replaces one."""

    @classmethod
    def of(cls, frame: Frame, chunk: Json, fields: tuple[str, ...], text: str) -> SameFrames | None:
        """None if the `text` of the chunk stands elsewhere in its frame, too.  `fields`: those of
        its delta that are the text; none if the arguments of its one call are."""
        if len(frame.raw) > MAX_TEMPLATE or len(fields) > 2:
            return None
        pieces = frame.raw.split(quoted(text))
        if len(pieces) != (len(fields) or 1) + 1:
            return None
        (choice,) = chunk["choices"]
        if fields:
            delta = choice["delta"] | dict.fromkeys(fields, _ANOTHER_TEXT)
        else:
            (call,) = choice["delta"]["tool_calls"]
            delta = choice["delta"] | {"tool_calls": [with_arguments(call, _ANOTHER_TEXT)]}
        tried = Frame(quoted(_ANOTHER_TEXT).join(pieces)).json
        if tried != {**chunk, "choices": [{**choice, "delta": delta}]}:
            return None
        middle = pieces[1] if len(pieces) == 3 else b""
        return cls(chunk, pieces[0], middle, pieces[-1])

    def text_in(self, raw: bytes) -> str:
        """The text of a frame that is the same but for it; empty for any other."""
        head, tail = self.head, self.tail
        if not (raw.startswith(head) and raw.endswith(tail)) or len(raw) > MAX_LIKE_IT:
            return ""
        literal = raw[len(head) : len(raw) - len(tail)]
        if self.middle:
            literal, _, again = literal.partition(self.middle)
            if again != literal:
                return ""
        if literal[:1] != b'"':
            return ""
        try:
            string = literal.decode()
            text, end = scanstring(string, 1)
        except ValueError:  # of either
            return ""
        return text if end == len(string) else ""

    def replace(self, new: Frame, text: str) -> None:
        """The frame `new`, with another `text`, replaces such frames."""
        pieces = new.raw.split(quoted(text))
        self.replaced = len(pieces) == 2
        self._around = pieces[0], pieces[-1]

    def replacement(self, text: str) -> Frame:
        """The frame that replaces one of which this is the text, or what becomes of it."""
        return Frame(quoted(text).join(self._around))


def with_arguments(call: Json, text: str) -> Json:
    """A delta of a call with other arguments."""
    return {**call, "function": {**call["function"], "arguments": text}}
