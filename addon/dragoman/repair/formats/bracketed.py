"""Calls whose arguments stand in brackets, and are no JSON (`bracketed_values`)::

    <|tool_call>call:NAME{key:<|"|>text<|"|>,other:20}<tool_call|>
    <|tool_call_start|>[NAME(key="text", other=20), NAME()]<|tool_call_end|>
    [TOOL_CALL]{tool => "NAME", args => { --key "text" --other 20 }}[/TOOL_CALL]

They are Gemma's, LFM2's, and MiniMax's behind proxies.  Gemma also writes round brackets, other
quotation marks, JSON, and the token that begins a call in two ways.
"""

from __future__ import annotations

from .bracketed_call import BracketedParser
from .held_arguments import CallEnds
from .marker_set import BLANKS, HeaderPattern, Part, Run, marker_set, opening
from .protocol import LeakFormat

_ANY = r"\s*+"
_NAME = r"(?P<name>[\w.:/@-]{1,128}+)"


def _bracketed(
    name: str,
    begins: tuple[str, ...],
    first: tuple[Part, ...],
    head: tuple[Part, ...],
    *after: str,
    more: tuple[Part, ...] = (),
) -> LeakFormat:
    """`first` is what follows an opening marker, and shows that it is this format's; `head` comes
    before the brackets of a call, or `more` before those of a later one; what is `after` a call may
    follow it in this order."""

    class Parser(BracketedParser):
        header, next_header = HeaderPattern.of(head), HeaderPattern.of(more or head)
        closers = after
        ends = CallEnds(
            marker_set((*after[1:], *begins)), frozenset(after[1:]), after[0], next_header
        )

    return LeakFormat(name, begins, opening(begins, *first, first=begins[0][0]), Parser)


_BRACKET = Run(r"(?:\(\s*+(?=\{)|(?=\{|\(\s*+[^\s{]))", r"(?:\(\s*+)?")
GEMMA = _bracketed(
    "gemma",
    ("<|tool_call>", "<|tool_call|>"),
    (("call",), r"\s{0,9}", ":"),
    (_ANY, ("call",), _ANY, ":", _ANY, _NAME, _ANY, _BRACKET),
    *(")", "<tool_call|>", "<|tool_call|>", "<|/tool_call|>", "</tool_call>", "<|tool_response>"),
)
LFM2 = _bracketed(
    "lfm2",
    ("<|tool_call_start|>",),
    (r"\[?", BLANKS, "[A-Za-z_]"),
    (r"\[?", _ANY, _NAME, _ANY, r"(?=\()"),
    *("]", "<|tool_call_end|>"),
    more=(_ANY, ",", _ANY, _NAME, _ANY, r"(?=\()"),
)
_TOOL = (("tool", "name"), _ANY, ("=>",), _ANY, "[\"']", _NAME, "[\"']", r"\s*+,?\s*+")
_ARGUMENTS = (("arguments", "args", "parameters"), _ANY, ("=>",), _ANY, r"(?=\{)")
MINIMAX_ARROWS = _bracketed(
    "minimax_text",
    ("[TOOL_CALL]",),
    (r"\{", BLANKS, "[tn]"),
    (_ANY, r"\{", _ANY, *_TOOL, *_ARGUMENTS),
    *("}", "[/TOOL_CALL]"),
)
