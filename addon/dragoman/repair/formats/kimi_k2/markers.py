"""The special tokens of Kimi's tool-call format, and how to find them in text.

Every marker begins with ``<|tool_call``, so text without ``<`` holds none, and no
marker holds another ``<``: an unfinished one can only start at the last ``<``.
"""

from __future__ import annotations

import enum
import re


class Marker(enum.Enum):
    """What a marker means; some hosts write the section markers in the singular."""

    SECTION_BEGIN = "section_begin"
    SECTION_END = "section_end"
    CALL_BEGIN = "call_begin"
    ARGUMENTS_BEGIN = "arguments_begin"
    CALL_END = "call_end"


MARKERS = {
    "<|tool_calls_section_begin|>": Marker.SECTION_BEGIN,
    "<|tool_call_section_begin|>": Marker.SECTION_BEGIN,
    "<|tool_calls_section_end|>": Marker.SECTION_END,
    "<|tool_call_section_end|>": Marker.SECTION_END,
    "<|tool_call_begin|>": Marker.CALL_BEGIN,
    "<|tool_call_argument_begin|>": Marker.ARGUMENTS_BEGIN,
    "<|tool_call_end|>": Marker.CALL_END,
}
LONGEST = max(map(len, MARKERS))

_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
find_marker = _MARKER.search
match_marker = _MARKER.match


def unfinished_marker(text: str) -> int:
    """How many characters at the end of `text` may be the start of a marker."""
    start = text.rfind("<", -LONGEST)
    if start < 0:
        return 0
    tail = text[start:]
    return len(tail) if any(marker.startswith(tail) for marker in MARKERS) else 0


_OBJECT = re.compile(r'\s{0,256}\{\s{0,256}["}]')
_OBJECT_SO_FAR = re.compile(r"\s{0,256}(?:\{\s{0,256})?\Z")


def begins_object(text: str, at: int) -> bool | None:
    """Whether a JSON object begins there, after blanks; None if more has to come to tell."""
    if _OBJECT.match(text, at):
        return True
    return None if _OBJECT_SO_FAR.match(text, at) else False


def section(header: str, arguments: str) -> str:
    """A section with one call, as the model writes it."""
    begin, call, its_arguments, call_end, end = (
        next(text for text, marker in MARKERS.items() if marker is wanted)
        for wanted in (
            Marker.SECTION_BEGIN,
            Marker.CALL_BEGIN,
            Marker.ARGUMENTS_BEGIN,
            Marker.CALL_END,
            Marker.SECTION_END,
        )
    )
    return f"{begin}{call}{header}{its_arguments}{arguments}{call_end}{end}"
