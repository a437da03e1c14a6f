"""The special tokens of Kimi's tool-call format."""

from __future__ import annotations

import enum
import re

from ..marker_set import MarkerSet


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
MARKER_SET = MarkerSet(MARKERS)
NAMES = {marker.value: marker for marker in Marker}

_KEY = r'"(?:[^"\\]|\\.){0,256}'
_OBJECT = re.compile(rf'\s{{0,256}}\{{\s{{0,256}}(?:\}}|{_KEY}"\s{{0,256}}:)')
_OBJECT_SO_FAR = re.compile(
    rf'\s{{0,256}}(?:\{{\s{{0,256}}(?:{_KEY}(?:\\|"\s{{0,256}})?)?)?\Z', re.DOTALL
)


def begins_object(text: str, at: int) -> bool | None:
    """Whether a JSON object begins there, after blanks; None if that depends on text to come."""
    if _OBJECT.match(text, at):
        return True
    return None if _OBJECT_SO_FAR.match(text, at) else False


def section(header: str, arguments: str) -> str:
    """A section with one call, as the model writes it."""
    text = {marker: text for text, marker in reversed(MARKERS.items())}
    call = f"{text[Marker.CALL_BEGIN]}{header}{text[Marker.ARGUMENTS_BEGIN]}{arguments}"
    end = f"{text[Marker.CALL_END]}{text[Marker.SECTION_END]}"
    return text[Marker.SECTION_BEGIN] + call + end
