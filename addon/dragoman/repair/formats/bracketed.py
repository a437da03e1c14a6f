"""Calls whose arguments stand in brackets, and are no JSON (`bracketed_values`)::

    <|tool_call>call:NAME{key:<|"|>text<|"|>,other:20}<tool_call|>
    <|tool_call_start|>[NAME(key="text", other=20), NAME()]<|tool_call_end|>
    [TOOL_CALL]{tool => "NAME", args => { --key "text" --other 20 }}[/TOOL_CALL]
    <tool_call>NAME(key="text", other=20)</tool_call>
    <start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>

They are Gemma's, LFM2's, and MiniMax's behind proxies.  Gemma also writes round brackets, other
quotation marks, JSON, and the token that begins a call in two ways.  Llama 4 writes LFM2's list
between other tokens; a call of Python's between tags of other formats is anybody's.  The last is
FunctionGemma's.
"""

from __future__ import annotations

import re

from .bracketed_call import BracketedParser
from .held_arguments import CallEnds
from .marker_set import BLANKS, HeaderPattern, Part, Run, marker_set, opening, optional
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
            marker_set((*after[1:], *begins)),
            frozenset(after[1:]),
            bracket=after[0],
            others=frozenset(after[2:]).difference(begins),
        )

    return LeakFormat(name, begins, opening(begins, *first, first=begins[0][0]), Parser)


_BRACKET = Run(r"(?:\(\s*+(?=\{)|(?=\{|\(\s*+[^\s{]))", r"(?:\(\s*+)?")
_CALL = optional(("call",))
GEMMA = _bracketed(
    "gemma",
    ("<|tool_call>", "<|tool_call|>"),
    (_CALL, r"\s{0,9}", ":"),
    (_ANY, _CALL, _ANY, ":", _ANY, _NAME, _ANY, _BRACKET),
    *(")", "<tool_call|>", "<|tool_call|>", "<|/tool_call|>", "</tool_call>", "<|tool_response>"),
)
FUNCTION_GEMMA = _bracketed(
    "gemma",
    ("<start_function_call>",),
    (("call",), r"\s{0,9}", ":"),
    (_ANY, ("call",), ":", _NAME, r"(?=\{)"),
    *(")", "<end_function_call>", "<start_function_response>"),
)
_PYTHON = (_ANY, _NAME, _ANY, r"(?=\()")
_LIST = (r"\[?", BLANKS, "[A-Za-z_]"), (r"\[?", *_PYTHON)
_NEXT = (_ANY, ",", *_PYTHON)
LFM2 = _bracketed("lfm2", ("<|tool_call_start|>",), *_LIST, *("]", "<|tool_call_end|>"), more=_NEXT)
LLAMA_4 = _bracketed("llama", ("<|python_start|>",), *_LIST, *("]", "<|python_end|>"), more=_NEXT)
_BEFORE_BRACKET = Run(
    r"(?:\[\s{0,9}+)?[A-Za-z_][\w.:/@-]{0,127}+\s{0,9}+\(",
    r"(?:\[\s{0,9}+)?(?:[A-Za-z_][\w.:/@-]{0,127}+)?\s{0,9}+",
)
PYTHON_SO_FAR = re.compile(r"\s{0,64}+(?:\[\s{0,9}+)?[\w.:/@-]{0,128}+\s{0,9}+")
"""What may become a call of Python's after a tag that it shares with another format."""
PYTHON, PYTHON_CALLS = (
    _bracketed(
        "python",
        (f"<{tag}>",),
        (_BEFORE_BRACKET,),
        _LIST[1],
        *("]", f"</{tag}>"),
        more=(r"\s*+,?", *_PYTHON),
    )
    for tag in ("tool_call", "function_calls")
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
