"""Calls that are JSON objects (`json_calls`), between markers that are a row here::

    <tool_call>{"name": NAME, "arguments": {…}}</tool_call>
    <TOOLCALL>[{"name": NAME, "arguments": {…}}]</TOOLCALL>
    <|python_tag|>{"name": NAME, "parameters": {…}}; {…}
    <tool_call name="NAME">{…}</tool_call>
    [Calling tool: NAME({…})]

The first one is Hermes's, which Qwen2.5, Qwen3 and many others write.  The calls of Qwen and GLM
begin with the same tag, so each of these formats matches it only together with what follows.  In
the last two the name precedes the arguments.  The very last is how clients show a call; models
repeat it from the conversation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..events import Header
from .held_arguments import CallEnds
from .json_calls import WITH_FUNCTION, JsonCallsParser
from .marker_set import BLANKS, HeaderPattern, Part, Run, marker_set, opening
from .protocol import WORD, LeakFormat

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_ANY = r"\s*+"
_NAME = rf"(?P<name>{WORD})"


def _ends_with(*closers: str) -> tuple[str, ...]:
    """Those of the markers that a text may name alone: there they may be strays."""
    return tuple(closer for closer in closers if closer.startswith("</"))


def _enclosed(
    name: str,
    begins: str | tuple[str, ...],
    end: str,
    *member: Part,
    marked: bool = True,
    around: str = "",
) -> LeakFormat:
    """A format with these markers.  In a text the first is one only before an object, whose
    beginning is a `member` of it.  `marked`: whether hosts send the last of them.  `around`: what
    may follow that."""
    openers = (begins,) if isinstance(begins, str) else begins

    class Parser(JsonCallsParser):
        header = HeaderPattern.of(*WITH_FUNCTION)
        ends = CallEnds(marker_set((*openers, end)), frozenset((end,)), "}")
        closer, outer = end, around
        end_is_marked = marked

    ends = _ends_with(end)
    first = openers[0][0]
    in_text = opening(openers, rf"(?:\[{BLANKS})?+", r"\{", *member, ends=ends, first=first)
    return LeakFormat(name, (*openers, *ends), in_text, Parser)


def _named(
    name: str,
    begin: str,
    head: tuple[Part, ...],
    end: str,
    call_ends: type[CallEnds] = CallEnds,
) -> LeakFormat:
    """A format with a name in the `head` of a call, before its arguments.  Where a line ends the
    call, nothing but that may follow them."""

    class Parser(JsonCallsParser):
        """Reads one call."""

        closer = end.strip()
        ends = call_ends(marker_set((end,)), frozenset((end,)), others=frozenset(_ends_with(end)))
        header = HeaderPattern.of((*head, r"\s*+", r"(?=\{)"))

        def _begin(self, found: re.Match[str]) -> bool:
            return self._start_json(Header(found["name"]), found.end())

    return LeakFormat(name, (begin,), marker_set((begin,)), Parser)


_MEMBER = (BLANKS, '[{"]')
HERMES = _enclosed("hermes", (OPEN, "<tool_call|>"), CLOSE)
NEMOTRON = _enclosed("nemotron", "<TOOLCALL>", "</TOOLCALL>", *_MEMBER)
LLAMA = _enclosed("llama", "<|python_tag|>", "<|eom_id|>", *_MEMBER, marked=False)
GRANITE = _enclosed("granite", "<|tool_call|>", "<|/tool_call|>", *_MEMBER, marked=False)
DOUBAO = _enclosed("doubao", "<|FunctionCallBegin|>", "<|FunctionCallEnd|>", *_MEMBER)
GEMMA_JSON = _enclosed("gemma", ("<|tool_call>", "<|tool_call>call:"), "<tool_call|>", *_MEMBER)
LFM2_JSON = _enclosed("lfm2", "<|tool_call_start|>", "<|tool_call_end|>", *_MEMBER)
SEED = _enclosed("doubao", "<seed:tool_call>", "</seed:tool_call>", *_MEMBER)
TOOLS = _enclosed("tools", "<tools>", "</tools>", *_MEMBER)
MINIMAX_TEXT = _enclosed("minimax_text", "[TOOL_CALL]", "[/TOOL_CALL]", *_MEMBER)
LONGCAT = _enclosed("longcat", "<longcat_tool_call>", "</longcat_tool_call>", *_MEMBER)
FUNCTION_CALL = _enclosed(
    "function_call", "<function_call>", "</function_call>", *_MEMBER, marked=False
)
TOOL_CALLS = _enclosed("tool_calls", "<tool_calls>", "</tool_calls>", *_MEMBER)
_BLANKS = ("", " ", "\n", "\r\n", "\n\n", "\n  ", "\n    ")
ANSWER = _enclosed(
    "tool_calls",
    tuple(f"<answer>{blanks}<tool_calls>" for blanks in _BLANKS),
    "</tool_calls>",
    *_MEMBER,
    around="</answer>",
)
TOOLCALL = _enclosed("hermes", "<toolcall>", "</toolcall>", *_MEMBER)
TOOL_DASH_CALL = _enclosed("hermes", "<tool-call>", "</tool-call>", *_MEMBER)
FUNCTIONCALL = _enclosed(
    "function_call", "<functioncall>", "</functioncall>", *_MEMBER, marked=False
)
TOOL_REQUEST = _enclosed("tool_request", "[TOOL_REQUEST]", "[END_TOOL_REQUEST]", *_MEMBER)
TOOL_CALL_ANGLES = _enclosed("tool_request", "<<<TOOL_CALL>>>", "<<<END_TOOL_CALL>>>", *_MEMBER)
GIGACHAT = _enclosed(
    "gigachat",
    ("<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>"),
    "</s>",
    *_MEMBER,
    marked=False,
)
COHERE = _enclosed("cohere", "<|START_ACTION|>", "<|END_ACTION|>", *_MEMBER)
INTERNLM = _enclosed("internlm", "<|action_start|><|plugin|>", "<|action_end|>", *_MEMBER)
APERTUS = _enclosed("apertus", "<|tools_prefix|>", "<|tools_suffix|>", *_MEMBER)
IQUEST = _enclosed("iquest", "<iquest_tool_call>", "</iquest_tool_call>", *_MEMBER)
HORIZON = _enclosed("k2_horizon", "<ifm|tool_call>", "</ifm|tool_call>", *_MEMBER)
INVOKED = _enclosed(
    "content_invoke", "<|content_invoke_tool_json|>", "<|end_message|>", *_MEMBER, marked=False
)

_VALUE = "[\"'][^\"'<>]{0,128}+[\"']"
_ATTRIBUTES = Run(
    rf"(?:\s*+(?!name\b)[a-z_]{{1,20}}+={_VALUE}){{0,3}}+\s*+name=[\"']{_NAME}[\"']"
    rf"(?:\s*+[a-z_]{{1,20}}+={_VALUE}){{0,3}}+\s*+",
    r"[^<>{}]*+",
)


class _NamedElementParser(JsonCallsParser):
    """Reads a call whose JSON stands in an element with the name of the tool."""

    ends = CallEnds(
        marker_set(("</toolcall>",)),
        frozenset(("</toolcall>",)),
        others=frozenset(("</toolcall>",)),
    )
    header = HeaderPattern.of((_ANY, "<", _NAME, ">", _ANY, r"(?=\{)"))

    def _begin(self, found: re.Match[str]) -> bool:
        self.closer, self.outer = f"</{found['name']}>", "</toolcall>"
        self.ends = replace(self.ends, bracket=self.closer)
        return self._start_json(Header(found["name"]), found.end())


TOOLCALL_NAMED = LeakFormat(
    "hermes",
    ("<toolcall>",),
    opening(("<toolcall>",), "<", "[A-Za-z_]"),
    _NamedElementParser,
)
ATTRIBUTES = _named("hermes", "<tool_call ", (_ATTRIBUTES, ">"), CLOSE)
CALLING_TOOL = _named("calling_tool", "[Calling tool:", (_ANY, _NAME, _ANY, r"\("), ")]")
TOOL_USE = _named("calling_tool", "[Tool Use:", (_ANY, _NAME, _ANY, r"\("), ")]")
CALLING = _named("calling_tool", "Calling tool:", (_ANY, _NAME, _ANY, r"\("), ")")
_LABEL = "[tool:"


@dataclass(frozen=True)
class _LineEnds(CallEnds):
    """A call that its line ends, after which there are only others: between ``I ran this:`` and
    ``It worked.`` it is told."""

    def is_whole(self, text: str, at: int, *, ended: bool) -> bool | None:
        whole = super().is_whole(text, at, ended=ended)
        if not whole:
            return whole
        rest = text[at:].lstrip()[: len(_LABEL)]
        if rest != _LABEL and _LABEL.startswith(rest) and not ended:
            return None
        return rest in ("", _LABEL)


TOOL_LABEL = _named("calling_tool", _LABEL, (_ANY, _NAME, _ANY, r"\]"), "\n", _LineEnds)
