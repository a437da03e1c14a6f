"""The format of Hermes, which Qwen2.5, Qwen3 and many others write::

<tool_call>
{"name": NAME, "arguments": {…}}
</tool_call>

The calls of Qwen and GLM begin with ``<tool_call>`` as well, so each of the three formats matches
it only together with what follows.
"""

from __future__ import annotations

from .json_calls import JsonCallsParser
from .marker_set import MarkerPattern, begun, marker_set
from .protocol import LeakFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
TAGS = marker_set((OPEN, CLOSE))
OPENED = rf"{OPEN}\s{{0,64}}"
LONE_END = rf"{begun(CLOSE)}|{CLOSE}\s{{0,64}}"
"""A closing tag without a call, which is none of a text that ends with it, or the start of one."""


class HermesParser(JsonCallsParser):
    """Reads the objects after ``<tool_call>``."""

    markers = TAGS
    closer = CLOSE


HERMES = LeakFormat(
    "hermes",
    (OPEN, CLOSE),
    MarkerPattern(
        rf"{OPENED}(?=(?:\[\s{{0,64}})?\{{)",
        rf"(?:{begun(OPEN)}|{OPENED}(?:\[\s{{0,64}})?|{LONE_END})\Z",
    ),
    HermesParser,
)
