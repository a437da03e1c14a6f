"""Call headers: from what Kimi wrote before the arguments to the name of a tool.

The model should write ``functions.<name>:<index>``.  It also writes whatever it saw in its history,
and hosts mangle that further.  `header_of` reads every form seen in the wild; which tool it means,
`DeclaredTools.of_header` says.  A header with no name in it is left to the arguments
(`DeclaredTools.meant_by`).  Such a call keeps its literal header as its name, where it can be seen,
if they do not decide it either.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header
from .marker_set import HEADER_LIMIT

_FUNCTIONS = "functions."
_INDEXED = re.compile(r"(?P<functions>functions\.)?(?P<name>[\w.\-]+)\s*:\s*\d+\Z")
_NAMELESS = re.compile(
    r"(?:functions?[._:]?)?"
    r"(?:\d++|(?:call|chatcmpl|toolu|fc)[-_]?(?:tool[-_])?[A-Za-z]*\d[-0-9A-Za-z_]*+|call[-_]\w++"
    r"|[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12})?:?\d*\Z"
)
_NO_NAMES = frozenset((_FUNCTIONS[:-1], "function"))
_LETTER = re.compile(r"[A-Za-z0-9]")
_AT_END = re.compile(r"(?<![\w.\-()])(?:functions\.[ \t]{1,8})?[\w.\-()]+:\d+\s*+\Z")
_ID = re.compile(r"(?!functions?[.:]*+\d*\Z)(?=[_.:\-]*+[A-Za-z0-9])[A-Za-z0-9_.:\-]{2,128}\Z")
_BLANK_AFTER = re.compile(r"\Afunctions\.[ \t]{1,8}")
_WORD = r"[A-Za-z0-9_.:/()@-]"
_SO_FAR = re.compile(rf"\s*+(?:{_WORD}++(?:\s++(?=:|\Z)|(?<=[:.])\s++)?)*+\Z")
_ODD = re.compile(r"\s{0,64}[^\s<>|`]{1,128}\s{0,64}\Z")
_ODD_IN_SECTION = re.compile(
    r"\s{0,64}(?:[^\s|`]{1,128}\s{0,64}"
    r"|(?:functions\.[^\s|`]{0,118}|[^\s|`]{1,118}:\d{1,9})[ \t][^\n|`]{0,64}\s{0,64})\Z"
)
WORD_LIMIT = 128
"""Characters of the word itself: ids of hosts and clients have some forty at the most."""


def word_of(text: str) -> str | None:
    """`text` without blanks, if it is, or could grow into, what may precede a call's arguments:
    one word, with blanks around it, around its ``:`` and after its dots."""
    if len(text) > HEADER_LIMIT or _SO_FAR.match(text) is None:
        return None
    word = "".join(text.split())
    return word if len(word) <= WORD_LIMIT else None


def is_odd(text: str, *, in_section: bool) -> bool:
    """Whether `text` is, or could grow into, one word of other characters than a header has:
    ``bash!``; `in_section` also a tag, or a header and more: ``functions.bash:0 extra``."""
    return (_ODD_IN_SECTION if in_section else _ODD).match(text) is not None


def header_of(word: str, tools: DeclaredTools, *, arguments: bool) -> Header:
    """The header of a call that consists of this word, see `word_of`, which may be empty;
    `arguments`: whether they follow.  Without them a call was meant if the tool is declared, or the
    header has the index that Kimi writes."""
    found = _INDEXED.match(word)
    written = found["name"] if found else ""
    form = "plain name" if not found else "native id" if found["functions"] else "name:index"
    name: str | None = (written or word).removeprefix(_FUNCTIONS).strip(".:")
    meant = tools.of_header(word, written)
    if meant:
        name, form = meant[0], meant[1] or form
    elif not _LETTER.search(name or "") or name in _NO_NAMES or _NAMELESS.match(word):
        name, form = None, "header without a name"
    elif tools:
        form += ", tool not declared"
    # A bare counter is no id, nor is what has neither a name nor a number.
    literal = word if name or _ID.match(word) or word.isdigit() else ""
    call_id = word if _ID.match(word) and not word.isdigit() else ""
    bare = not (arguments or meant or found or name is None)
    return Header(name, literal, call_id, form, bare, resolved=True)


def header_at_end(text: str, tools: DeclaredTools) -> str:
    """The header in which `text` ends, with the blanks after it: that of a call whose begin
    markers the host has stripped; else empty."""
    found = _AT_END.search(text, max(0, len(text) - HEADER_LIMIT))
    if found is None:
        return ""
    meant = header_of("".join(found[0].split()), tools, arguments=True).name
    return found[0] if meant in tools or not tools else ""


def may_be_header(text: str, tools: DeclaredTools) -> bool:
    """Whether `text` is, or could grow into, ``name:index`` of a declared tool."""
    text = _BLANK_AFTER.sub(_FUNCTIONS, text.lstrip())
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
