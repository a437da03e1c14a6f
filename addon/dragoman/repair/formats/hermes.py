"""The format of Hermes, which Qwen2.5, Qwen3 and many others write::

<tool_call>
{"name": NAME, "arguments": {…}}
</tool_call>
"""

from __future__ import annotations

from .json_calls import JsonCallsParser
from .tool_call_tag import CLOSE, OPEN, OPENED, TAGS, ToolCallFormat


class HermesParser(JsonCallsParser):
    """Reads the objects after ``<tool_call>``."""

    markers = TAGS
    closer = CLOSE


HERMES = ToolCallFormat(
    "hermes",
    opening=rf"{OPENED}(?=(?:\[\s{{0,64}})?\{{)",
    unfinished=rf"{OPENED}(?:\[\s{{0,64}})?",
    beginnings=(OPEN,),
    parser=HermesParser,
)
