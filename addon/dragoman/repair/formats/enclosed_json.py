"""Calls that are JSON objects (`json_calls`), between markers that are a row here::

    <TOOLCALL>[{"name": NAME, "arguments": {…}}]</TOOLCALL>
    <|python_tag|>{"name": NAME, "parameters": {…}}; {…}
    [Calling tool: NAME({…})]

The last one is how clients show a call; models repeat it from the conversation.
"""

from __future__ import annotations

import re

from ..events import Header
from .json_arguments import JsonArguments
from .json_calls import JsonCallsParser
from .marker_set import HeaderPattern, MarkerPattern, begun, marker_set
from .protocol import WORD, LeakFormat

_NEXT = re.compile(r"\s{0,64}+;\s{0,64}+(?=\{)")
_NEXT_SO_FAR = re.compile(r"\s{0,64}+;\s{0,64}+")


class EnclosedParser(JsonCallsParser):
    """Reads the objects after an opening marker."""

    def _read_between(self) -> bool:
        if found := _NEXT.match(self._buffer, self._at):
            self._at = found.end()
        elif not self._ended and _NEXT_SO_FAR.fullmatch(self._buffer, self._at):
            return False
        return super()._read_between()


class CallingToolParser(EnclosedParser):
    """Reads one call, whose name precedes its arguments."""

    markers = marker_set(("[Calling tool:",))
    closer = ")]"
    header = HeaderPattern(
        rf"\s*+(?P<name>{WORD})\s*+\(\s*+(?=\{{)", rf"\s*+(?:{WORD}\s*+(?:\(\s*+)?)?"
    )

    def _begin(self, found: re.Match[str]) -> bool:
        header = Header(found["name"], found["name"])
        return self._start_call(header, JsonArguments(self.markers), found.end())

    _read_after = EnclosedParser._read_closer


def _enclosed(name: str, begin: str, end: str, *, marked: bool = True) -> LeakFormat:
    """A format with these markers.  `marked`: whether hosts send the last of them."""

    class Parser(EnclosedParser):
        markers = marker_set((begin, end))
        closer = end
        end_is_marked = marked

    opened = rf"{re.escape(begin)}\s{{0,64}}"
    tags = (begin, end) if end.startswith("</") else (begin,)  # a lone one may be a stray
    half = "|".join(rf"{begun(tag)}|{re.escape(tag)}\s{{0,64}}" for tag in tags)
    in_text = MarkerPattern(
        rf"{opened}(?=(?:\[\s{{0,64}})?\{{\s{{0,64}}[{{\"])",
        rf"(?:{half}|{opened}(?:\[\s{{0,64}})?(?:\{{\s{{0,64}})?)\Z",
    )
    return LeakFormat(name, tags, in_text, Parser)


NEMOTRON = _enclosed("nemotron", "<TOOLCALL>", "</TOOLCALL>")
LLAMA = _enclosed("llama", "<|python_tag|>", "<|eom_id|>", marked=False)
GRANITE = _enclosed("granite", "<|tool_call|>", "<|/tool_call|>", marked=False)
DOUBAO = _enclosed("doubao", "<|FunctionCallBegin|>", "<|FunctionCallEnd|>")
GEMMA_JSON = _enclosed("gemma", "<|tool_call>", "<tool_call|>")
LFM2_JSON = _enclosed("lfm2", "<|tool_call_start|>", "<|tool_call_end|>")
SEED = _enclosed("doubao", "<seed:tool_call>", "</seed:tool_call>")
TOOLS = _enclosed("tools", "<tools>", "</tools>")
MINIMAX_TEXT = _enclosed("minimax_text", "[TOOL_CALL]", "[/TOOL_CALL]")
CALLING_TOOL = LeakFormat(
    "calling_tool", ("[Calling tool:",), CallingToolParser.markers, CallingToolParser
)
