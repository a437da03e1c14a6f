"""Formats whose tags are tokens between bars::

    <|tool_call:start|>NAME
    <|tool_arg:start|>KEY<|tool_arg:value|>value<|tool_arg:end|>
    <|tool_call:end|>

    <|plamo:begin_tool_requests:plamo|>
    <|plamo:begin_tool_request:plamo|>
    <|plamo:begin_tool_name:plamo|>NAME<|plamo:end_tool_name:plamo|>
    <|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{…}<|plamo:end_tool_arguments:plamo|>
    <|plamo:end_tool_request:plamo|>
    <|plamo:end_tool_requests:plamo|>

They are Solar Open 2's, and PLaMo's, whose line ends are only here.
"""

from __future__ import annotations

import re
from functools import partial

from .held_calls import HeldCalls, TaggedFormat
from .marker_set import HeaderPattern, named, opening, optional
from .protocol import WORD, LeakFormat
from .tags import Spelling, TagKind, TagPattern, TagTable

_BLANKS = r"\s{0,64}+"
_KEY = r"([^<>|\n]{1,128}+)"
_CALL, _CALL_END = "<|tool_call:start|>", "<|tool_call:end|>"
_ARGUMENT, _ARGUMENT_END = "<|tool_arg:start|>", "<|tool_arg:end|>"
_TAGS = TagPattern(
    Spelling(((_ARGUMENT,), _BLANKS, _KEY, _BLANKS, ("<|tool_arg:value|>",)), TagKind.ARGUMENT),
    Spelling(((_CALL,),), TagKind.CALL),
    Spelling(((_ARGUMENT_END,),), TagKind.ARGUMENT, closes=True),
    Spelling(((_CALL_END,),), TagKind.CALL, closes=True),
)
_FOLLOWS = named("follows", (_ARGUMENT, _CALL_END))
_SOLAR = TagTable(
    tags=_TAGS,
    in_value=_TAGS,
    header=HeaderPattern.of((r"\s*+", rf"(?P<name>{WORD}+)", r"\s*+", _FOLLOWS)),
    closing=re.compile(r"\s*+<\|tool_(?:call|arg):e"),
    closer=_ARGUMENT_END,
    mark="tool_arg:",
)
SOLAR = LeakFormat("solar", (_CALL,), opening((_CALL,), "[A-Za-z0-9_]"), partial(HeldCalls, _SOLAR))


def _plamo(word: str) -> str:
    return f"<|plamo:{word}:plamo|>"


_NAMED = (
    (_plamo("begin_tool_request"),),
    _BLANKS,
    (_plamo("begin_tool_name"),),
    _BLANKS,
    rf"({WORD}+)",
    _BLANKS,
    (_plamo("end_tool_name"),),
)
_ENDS = {"requests": TagKind.SECTION, "request": TagKind.CALL, "arguments": TagKind.JSON}
_MESSAGE = optional(_BLANKS, ("<|plamo:msg|>",))
_PLAMO_TAGS = (
    Spelling(((_plamo("begin_tool_requests"),),), TagKind.SECTION),
    Spelling(_NAMED, TagKind.CALL),
    Spelling(((_plamo("begin_tool_arguments"),), _MESSAGE), TagKind.JSON),
    *(
        Spelling(((_plamo(f"end_tool_{word}"),),), kind, closes=True)
        for word, kind in _ENDS.items()
    ),
)
PLAMO = TaggedFormat(
    "plamo",
    ("<|plamo:",),
    TagTable(
        tags=TagPattern(*_PLAMO_TAGS, Spelling((("<|plamo:tag|>",),), closes=True)),
        in_value=TagPattern(*_PLAMO_TAGS),
        closing=re.compile(r"\s*+<\|plamo:e"),
        closer=_plamo("end_tool_arguments"),
        mark="plamo:",
    ),
)
