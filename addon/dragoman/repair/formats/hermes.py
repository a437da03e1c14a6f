"""The format of Hermes, which Qwen2.5, Qwen3 and many others write::

<tool_call>
{"name": NAME, "arguments": {…}}
</tool_call>
"""

from __future__ import annotations

from .json_calls import JsonCallsParser
from .protocol import LeakFormat
from .tool_call_tag import CLOSE, OPEN, OPENED, TAGS, TagFormat

HERMES: LeakFormat = TagFormat(
    "hermes",
    opening=rf"{OPENED}(?=(?:\[\s{{0,64}})?\{{)",
    unfinished=rf"{OPENED}(?:\[\s{{0,64}})?",
    beginnings=(OPEN,),
    parser=lambda start, tools: JsonCallsParser(start, TAGS, CLOSE),  # noqa: ARG005
)
