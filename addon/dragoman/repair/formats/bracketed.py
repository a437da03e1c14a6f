"""Calls whose arguments stand in brackets, and are no JSON (`bracketed_values`)::

    <|tool_call>call:NAME{key:<|"|>text<|"|>,other:20}<tool_call|>
    <|tool_call_start|>[NAME(key="text", other=20), NAME()]<|tool_call_end|>
    [TOOL_CALL]{tool => "NAME", args => { --key "text" --other 20 }}[/TOOL_CALL]
    <tool_call>NAME(key="text", other=20)</tool_call>
    [NAME(key="text", other=20)]    ```tool_code NAME(key="text")```
    ```tool_code print(default_api.NAME(key="text"))```
    <start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>
    call:NAME{key:<|"|>text<|"|>}

They are Gemma's, LFM2's, and MiniMax's behind proxies.  Gemma also writes round brackets, other
quotation marks, JSON, and the token that begins a call in two ways.  Llama 4 writes LFM2's list
between other tokens, or between none, and Gemma a fence, each as the end of a text; a call of
Python's between tags of other formats is anybody's.  The last two are FunctionGemma's, and Gemma's
whose tokens are lost, in lines at the end of a text.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from .bracketed_call import BracketedParser
from .held_arguments import CallEnds
from .marker_set import (
    BLANKS,
    HeaderPattern,
    MarkerPattern,
    Part,
    Run,
    marker_set,
    opening,
    optional,
    so_far,
    spelled,
)
from .protocol import LeakFormat, MarkerMatch

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

    others = frozenset(after[2:]).difference(begins)
    markers = marker_set((*after[1:], *begins))
    parser = _parser((head, more or head), after, markers, others)
    return LeakFormat(name, begins, opening(begins, *first, first=begins[0][0]), parser)


def _parser(
    heads: tuple[tuple[Part, ...], tuple[Part, ...]],
    after: tuple[str, ...],
    markers: MarkerPattern,
    others: frozenset[str] = frozenset(),
    *,
    alone: bool = False,
) -> type[BracketedParser]:
    """`heads`: of the first call, and of a later one; `markers` may follow a call.  `others`: what
    `CallEnds` says; `alone`: what `MarkerMatch` says."""

    class Parser(BracketedParser):
        header, next_header = HeaderPattern.of(heads[0]), HeaderPattern.of(heads[1])
        closers = after
        end_is_marked = not alone
        must_fit = alone
        ends = CallEnds(markers, frozenset(after[1:]), bracket=after[0], others=others)

    return Parser


_BRACKET = Run(r"(?:\(\s*+(?=\{)|(?=\{|\(\s*+[^\s{]))", r"(?:\(\s*+)?")
_CALL = optional(("call",))
GEMMA = _bracketed(
    "gemma",
    ("<|tool_call>", "<|tool_call|>"),
    (_CALL, r"\s{0,9}", ":", Run(r"(?=\s{0,9}+[^\s{])", r"\s{0,9}+")),
    (_ANY, _CALL, _ANY, ":", _ANY, _NAME, _ANY, _BRACKET),
    *(
        ")",
        "<tool_call|>",
        "<|tool_call|>",
        "<|/tool_call|>",
        "</tool_call>",
        "<|tool_response>",
        "<turn|>",
    ),
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
_BEFORE_BRACKET = r"(?:\[\s{0,9}+)?", r"[A-Za-z_][\w.:/@-]{0,127}+", r"\s{0,9}+", r"\("
PYTHON_SO_FAR = re.compile(so_far(r"\s{0,64}+", *_BEFORE_BRACKET, whole=False))
"""What may become a call of Python's after a tag that it shares with another format."""
PYTHON, PYTHON_CALLS = (
    _bracketed(
        "python",
        (f"<{tag}>",),
        _BEFORE_BRACKET,
        _LIST[1],
        *("]", f"</{tag}>"),
        more=(r"\s*+,?", *_PYTHON),
    )
    for tag in ("tool_call", "function_calls")
)
_FENCE = "```"
_LIST_OR_CALL = (_LIST[1], (r"\s*+,?", *_PYTHON))
_ALONE = _parser(_LIST_OR_CALL, ("]", _FENCE), marker_set((_FENCE,)), alone=True)
_PRINTED = _parser(_LIST_OR_CALL, (")", _FENCE), marker_set((_FENCE,)), alone=True)
_AT_START = re.compile(rf"\s*+(?=\[{BLANKS}(?P<name>[\w.:/@-]{{1,128}}+)\s{{0,9}}+\()")
_MAY_START = re.compile(rf"\s*+\[{BLANKS}[\w.:/@-]{{0,128}}+\s{{0,9}}+")


class _ToolCode(LeakFormat):
    """Looks for fences."""

    alone = True

    def meaning(self, found: re.Match[str]) -> MarkerMatch:
        begin = found.start() if _FENCE in found[0] else found.end()
        return MarkerMatch(self, "python", begin, found.end(), True, alone=True)


class _PythonAlone(_ToolCode):
    """Has no marker: it is asked where a text begins."""

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        name = text.strip()[1:].strip()
        return _MAY_START.fullmatch(text) is not None and (not name or tools.may_begin(name))

    def at_start(self, text: str, tools: DeclaredTools) -> MarkerMatch | None:
        found = _AT_START.match(text)
        return self.meaning(found) if found and found["name"] in tools else None


def _tool_code(parser: type[BracketedParser], *before: Part) -> LeakFormat:
    """The format of a fence whose calls this precedes."""
    opens = (("```tool_code",), r"[ \t]{0,16}+", r"\r?+", r"\n", BLANKS, *before)
    begun = (
        so_far((_FENCE,), empty=False),
        so_far(*opens, *_BEFORE_BRACKET, empty=False, whole=False),
    )
    found = rf"(?<!`){spelled(*opens)}(?={spelled(*_BEFORE_BRACKET)})"
    return _ToolCode("python", (_FENCE,), MarkerPattern(found, "|".join(begun)), parser)


PYTHON_ALONE = _PythonAlone("python", (), marker_set((_FENCE,)), _ALONE)
PRINTED_CODE = _tool_code(_PRINTED, ("print(",))
TOOL_CODE = _tool_code(_ALONE, Run(r"(?!print\()", ""))
_BARE = (("call:",), r"[\w.:/@-]{1,128}+", r"\s{0,9}+", r"\{")
_AFTER_TEXT = ("\n", "<channel|>")
_BEFORE_STRING = (r"\s{0,9}+", r"[\w.-]{1,64}+", r"\s{0,9}+", ":", r"\s{0,9}+", ('<|"|>',))
"""What nobody writes by chance: after other text only this is a call's."""
_BARE_AT_START = re.compile(rf"\s*+(?={spelled(*_BARE)})")
_BARE_SO_FAR = re.compile(rf"\s*+{so_far(*_BARE)}")


class _GemmaAlone(_ToolCode):
    """Looks for lines that begin so, and is asked where a text begins."""

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return bool(text.strip()) and _BARE_SO_FAR.fullmatch(text) is not None

    def at_start(self, text: str, tools: DeclaredTools) -> MarkerMatch | None:  # noqa: ARG002
        found = _BARE_AT_START.match(text)
        return self.meaning(found) if found else None


_GEMMA_HEAD = (_ANY, ("call:",), _NAME, r"\s{0,9}+", r"(?=\{)")
GEMMA_ALONE = _GemmaAlone(
    "gemma",
    tuple(f"{each}call:" for each in _AFTER_TEXT),  # a line end alone would be like a marker
    MarkerPattern(
        rf"{spelled(_AFTER_TEXT)}(?={spelled(*_BARE, *_BEFORE_STRING)})",
        so_far(_AFTER_TEXT, *_BARE, *_BEFORE_STRING, empty=False, whole=False),
        first="\n",
    ),
    _parser(
        (_GEMMA_HEAD, _GEMMA_HEAD),
        ("<tool_call|>", "<turn|>"),
        marker_set(("<tool_call|>", "<turn|>")),
        alone=True,
    ),
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
