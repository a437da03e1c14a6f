"""Call headers: from what Kimi wrote before the arguments to the name of a tool.

The model should write ``functions.<name>:<index>``.  It also writes whatever it saw
in its history, and hosts mangle that further.  `resolve` reads every form seen in the
wild.  A mangled form counts only if it leads to exactly one declared tool; a header
with no name in it is left to the arguments (`DeclaredTools.meant_by`).  Such a call keeps
its literal header as its name, where it can be seen, if they do not decide it either.
A header that is a name is never read as another one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..declared_tools import DeclaredTools
from ..events import Header
from ..tool_fit import fitting
from .marker_set import HEADER_LIMIT

_FUNCTIONS = "functions."
_NATIVE = re.compile(r"functions\.(?P<name>[\w.\-]+)\s*:\s*\d+\Z")
_K3 = re.compile(r"(?P<name>[\w.\-]+)\s*:\s*\d+\Z")
_NAMELESS = re.compile(
    r"(?:functions?[._:]?)?"
    r"(?:\d+|(?:call|chatcmpl|toolu|fc)[-_]?(?:tool[-_])?[0-9A-Za-z]*\d[-0-9A-Za-z_]*|call[-_]\w+"
    r"|[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12})?:?\d*\Z"
)
_NO_NAMES = frozenset((_FUNCTIONS[:-1], "function"))
_COLON = re.compile(r"\s*:\s*")
_BLANK = re.compile(r"\s")
_LETTER = re.compile(r"[A-Za-z0-9]")
_AT_END = re.compile(r"[\w.\-()]+:\d+\s*\Z")
_ID = re.compile(r"[A-Za-z0-9_.:\-]{2,128}\Z")
_WORD = r"[A-Za-z0-9_.:/()@-]"
_SO_FAR = re.compile(rf"\s*{_WORD}*(?:\s*:\s*{_WORD}*)*\s*\Z")
WORD_LIMIT = 128
"""Characters of the word itself: ids of hosts and clients have some forty at the most."""


class Resolution(NamedTuple):
    """The name in a header (None: there is none) and the form it was in."""

    name: str | None
    form: str
    certain: bool = True
    """Whether a call was meant even if no arguments follow: the tool is declared, or the
    header has the index that Kimi writes."""


def word_of(text: str) -> str | None:
    """`text` without blanks, if it is, or could grow into, what may precede a call's arguments:
    one word, with blanks around it and around its ``:``."""
    if len(text) > HEADER_LIMIT or _SO_FAR.match(text) is None:
        return None
    word = text.strip()
    if ":" in word and _BLANK.search(word):
        word = _COLON.sub(":", word)
    return word if len(word) <= WORD_LIMIT else None


def header_of(word: str, tools: DeclaredTools, *, arguments: bool) -> Header:
    """The header of a call that consists of this word, which may be empty; `arguments`: whether
    they follow."""
    found = resolve(word, tools)
    bare = not arguments and not found.certain
    call_id = word if _is_call_id(word) else ""
    return Header(found.name, word, call_id, found.form, bare, resolved=True)


def header_at_end(text: str, tools: DeclaredTools) -> str:
    """The header in which `text` ends, with the blanks after it: that of a call whose begin
    markers the host has stripped; else empty."""
    found = _AT_END.search(text, max(0, len(text) - HEADER_LIMIT))
    if found is None or (tools and resolve(found[0].strip(), tools).name not in tools):
        return ""
    return found[0]


def may_be_header(text: str, tools: DeclaredTools) -> bool:
    """Whether `text` is, or could grow into, ``name:index`` of a declared tool."""
    text = text.lstrip()
    if not text:
        return False
    head, colon, index = text.rstrip().partition(":")
    if colon:
        name = head if head in tools else head.removeprefix(_FUNCTIONS)
        return name in tools and (index.isdigit() or not index)
    if _FUNCTIONS.startswith(text):
        return bool(tools)
    name = text.removeprefix(_FUNCTIONS)
    return tools.may_begin(text) or (name != text and tools.may_begin(name))


def _is_call_id(word: str) -> bool:
    """Whether a header can serve as the call's id; a bare counter cannot."""
    return _ID.match(word) is not None and not word.isdigit()


def resolve(header: str, tools: DeclaredTools) -> Resolution:
    """Read a call header, see `word_of`, against the declared tools."""
    if header in tools:
        return Resolution(header, "plain name")
    if called := tools.called_by(header):
        return Resolution(called, "id of an earlier call")
    native = _NATIVE.match(header)
    named = native or _K3.match(header)
    form = "native id" if native else "name:index"
    if named:
        suffix = tools.longest_suffix(named["name"])
        if suffix:
            return Resolution(suffix, form if suffix == named["name"] else "dotted name")
    mangled = fitting(header, tools)
    if mangled:
        return Resolution(mangled, "mangled header")
    name = (named["name"] if named else header).removeprefix("functions.").strip(".:")
    if not _LETTER.search(name) or name in _NO_NAMES or _NAMELESS.match(header):
        return Resolution(None, "header without a name")
    form = form if named else "plain name"
    return Resolution(name, f"{form}, tool not declared" if tools else form, bool(named))
