"""Calls that are JSON objects (`json_calls`), between markers that are a row here::

    <tool_call>{"name": NAME, "arguments": {…}}</tool_call>
    <TOOLCALL>[{"name": NAME, "arguments": {…}}]</TOOLCALL>
    <|python_tag|>{"name": NAME, "parameters": {…}}; {…}
    [Calling tool: NAME({…})]

The first one is Hermes's, which Qwen2.5, Qwen3 and many others write.  The calls of Qwen and GLM
begin with the same tag, so each of these formats matches it only together with what follows.  The
last one is how clients show a call; models repeat it from the conversation.
"""

from __future__ import annotations

import re

from ..events import Header
from .json_arguments import CallEnds
from .json_calls import JsonCallsParser
from .marker_set import BLANKS, HeaderPattern, Part, marker_set, opening
from .protocol import WORD, LeakFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_CALLING = "[Calling tool:"


class CallingToolParser(JsonCallsParser):
    """Reads one call, whose name precedes its arguments."""

    closer = ")]"
    ends = CallEnds(marker_set((")]",)), frozenset((")]",)))
    header = HeaderPattern.of((r"\s*+", rf"(?P<name>{WORD})", r"\s*+", r"\(", r"\s*+", r"(?=\{)"))

    def _begin(self, found: re.Match[str]) -> bool:
        return self._start_json(Header(found["name"]), found.end())


def _enclosed(name: str, begin: str, end: str, *member: Part, marked: bool = True) -> LeakFormat:
    """A format with these markers.  In a text the first is one only before an object, whose
    beginning is a `member` of it.  `marked`: whether hosts send the last of them."""

    class Parser(JsonCallsParser):
        ends = CallEnds(marker_set((begin, end)), frozenset((end,)))
        closer = end
        end_is_marked = marked

    ends = (end,) if end.startswith("</") else ()  # a lone one may be a stray
    in_text = opening((begin,), rf"(?:\[{BLANKS})?+", r"\{", *member, ends=ends, first=begin[0])
    return LeakFormat(name, (begin, *ends), in_text, Parser)


_MEMBER = (BLANKS, '[{"]')
HERMES = _enclosed("hermes", OPEN, CLOSE)
NEMOTRON = _enclosed("nemotron", "<TOOLCALL>", "</TOOLCALL>", *_MEMBER)
LLAMA = _enclosed("llama", "<|python_tag|>", "<|eom_id|>", *_MEMBER, marked=False)
GRANITE = _enclosed("granite", "<|tool_call|>", "<|/tool_call|>", *_MEMBER, marked=False)
DOUBAO = _enclosed("doubao", "<|FunctionCallBegin|>", "<|FunctionCallEnd|>", *_MEMBER)
GEMMA_JSON = _enclosed("gemma", "<|tool_call>", "<tool_call|>", *_MEMBER)
LFM2_JSON = _enclosed("lfm2", "<|tool_call_start|>", "<|tool_call_end|>", *_MEMBER)
SEED = _enclosed("doubao", "<seed:tool_call>", "</seed:tool_call>", *_MEMBER)
TOOLS = _enclosed("tools", "<tools>", "</tools>", *_MEMBER)
MINIMAX_TEXT = _enclosed("minimax_text", "[TOOL_CALL]", "[/TOOL_CALL]", *_MEMBER)
CALLING_TOOL = LeakFormat("calling_tool", (_CALLING,), marker_set((_CALLING,)), CallingToolParser)
