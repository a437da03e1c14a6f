"""Reads arguments in brackets, as Python, Gemma and others write them, and gives them as JSON::

    {path:<|"|>a.txt<|"|>,lines:[1,2]}    (path="a.txt", force=True)    { --path "a.txt" --lines 5 }

The brackets are followed to their end, as a string may quote a call.  Then each token becomes one
of JSON's; nothing is evaluated, and only a JSON parser decides whether the result is an object.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from ...wire.json_codec import dumps
from ..declared_tools import DeclaredTools
from ..events import Whole
from ..schema import properties
from .held_arguments import CallEnds, HeldArguments
from .json_alone import fits
from .literals import MAX_TOKENS, as_json
from .marker_set import HeaderPattern, Missing
from .value_types import json_string, property_of, read_json, type_of

_HALF = r"""(?P<half>(?:<(?:\|(?:"\|?)?|e(?:s(?:c(?:a(?:pe?)?)?)?)?)?|"{1,2}|'{1,2}|\\)\Z)"""
"""What may be half a mark, as the text ends."""
_MARK = re.compile(
    rf"""[^<"'\\(){{}}\[\]]*+(?:{_HALF}|(?P<quote><\|"\|>|<escape>|"{{3}}|'{{3}}|["'])"""
    r"""|(?P<opens>[({\[])|(?P<closes>[)}\]])|(?P<other>\\["'\\]|[<\\])|\Z)"""
)
"""Text up to where a string begins, or to a bracket."""
_STRINGS = {
    quote: re.compile(
        rf"""(?:[^<"'\\]++|(?!{end}|{_HALF.replace("?P<half>", "?:")})"""
        rf"""(?:<\|"\|>|<escape>|"{{3}}|'{{3}}|\\["'\\]|.))*+(?:{_HALF}|(?P<quote>{end})|\Z)""",
        re.DOTALL,
    )
    for quote, end in (
        *((each, f"{each}(?!{each * 2})") for each in "\"'"),
        *((each, re.escape(each)) for each in ('"' * 3, "'" * 3, '<|"|>', "<escape>")),
    )
}
"""The rest of a string, by the mark that ends it."""
_IN_STRING = re.compile(r"""[<"'\\]""")
"""With what a mark that counts in a string begins."""
_NEXT_KEY = re.compile(r"(?:\A|,)\s{0,9}+(?P<key>[\w.-]{1,64}+)\s{0,9}+[=:]\s{0,9}+")
"""What begins an argument."""
_MARKS = {mark: re.compile(rf"(?<!\\){mark}") for mark in "'\""}
_IN_PAIRS = {
    mark: re.compile(
        rf"(?:[^{mark}\\]++|\\.|(?<![^\s=(\[{{,:;|&]){mark}(?=\S)(?:[^{mark}\\]++|\\.)*+{mark}(?!\w))*+",
        re.DOTALL,
    )
    for mark in _MARKS
}
"""A string in which each mark that opens follows a blank or the like: that of an expression,
``"a" + "b"``, does not."""
_PAIR = {
    mark: re.compile(rf"(?<!\\){mark}((?:[^{mark}\\]++|\\.)*+){mark}", re.DOTALL) for mark in _MARKS
}
_JOINS = re.compile(
    r"(?:(?:[-+*/%@&|^<>=!.,(\[]|(?:if|or|and|in|is|not)\b)"
    r"(?:.*(?:[-+*/%@&|^<>=!.,(\[]|\b(?:else|or|and|in|is|not|[fFrRbBuU]{1,2})))?)?",
    re.DOTALL,
)
"""What makes one expression of the strings around it: ``"a "+b+" c"``."""


class BracketedArguments(HeldArguments):
    """The arguments of one call, from their opening bracket on."""

    def __init__(
        self,
        name: str,
        ends: CallEnds,
        tools: DeclaredTools,
        next_header: HeaderPattern,
        *,
        must_fit: bool = False,
    ) -> None:
        """`next_header`: what may follow one of several calls.  `must_fit`: as in the parser."""
        super().__init__(name, ends)
        self._tools, self._next_header, self._must_fit = tools, next_header, must_fit
        self._schema = tools.schema_of(name)
        self._quote = ""
        """The mark that ends the open string."""
        self._depth = self._marks = 0

    def take_more(self, text: str) -> bool:
        if not self._quote or self.unread or _IN_STRING.search(text):
            return False
        self._text.add(text)
        return True

    def _follow(self) -> None:
        text, at = self._buffer, self._at
        while at < len(text) and not self.too_long:
            found = (_STRINGS[self._quote] if self._quote else _MARK).match(text, at)
            assert found is not None
            kind, at = found.lastgroup, found.end()
            self._marks += kind not in (None, "half")
            self.too_long = self._marks > MAX_TOKENS
            if kind == "half":
                at = found.start(kind)
                break
            if kind == "quote":
                self._quote = "" if self._quote else found[kind]
            elif kind in ("opens", "closes"):
                self._depth += 1 if kind == "opens" else -1
                if not self._depth:
                    self._closed = True
                    break
        self._text.add(text[self._at : at])
        self._at = at

    def _is_whole(self, *, ended: bool) -> bool | None:
        """Whether this is a call; what reads as arguments of no declared tool may be part of a
        string whose first quotation mark is not escaped (``command="x"), rm(path="y"``)."""
        follows = self._next_header.header_at(self._buffer, self._at)
        if not isinstance(follows, Missing):
            if not self._tools or self._tools.find(tool_of(follows, self._tools)):
                return True
            brackets = self._buffer[follows.end() :][:2]
            return None if brackets == "(" and not ended else brackets in ("(", "()")
        if follows is Missing.YET and not ended:
            return None
        return super()._is_whole(ended=ended)

    def _read(self, text: str) -> Whole | None:
        """The JSON text of the object that this is, its values by the tool's schema; None if it is
        none, or a member comes twice."""
        must_fit = self._must_fit
        json, members = as_json(text)
        found = read_json(json)
        if found is None and (escaped := _with_escapes(text, properties(self._schema).keys())):
            json, members = as_json(escaped)
            found, must_fit = read_json(json), True
        if found is None or not isinstance(found[0], dict) or len(found[0]) < members:
            return None
        typed = [f"{json_string(key)}:{self._typed(key, value)}" for key, value in found[0].items()]
        arguments = "{" + ",".join(typed) + "}"
        if must_fit and not fits(self._tools, self._name, arguments):
            return None
        return Whole([arguments])

    def _typed(self, key: str, value: object) -> str:
        """The JSON text of a value: of one that is a string against its schema, or none against it,
        the schema decides."""
        kind = type_of(property_of(self._schema, key), self._schema)
        text = value if isinstance(value, str) else dumps(value).decode()
        if isinstance(value, str) != kind.is_string and isinstance(value, (str, int, float)):
            return kind.json_of(text) if kind.members else json_string(text)
        return json_string(text) if isinstance(value, str) else text


def tool_of(header: re.Match[str], tools: DeclaredTools) -> str:
    """The name of the tool in a header, before which Gemma may put that of its server."""
    name = header["name"]
    return name if tools.find(name) else name.rpartition(":")[2]


def _with_escapes(text: str, keys: AbstractSet[str]) -> str:
    """The text with an escape before each quotation mark in a string that ends at the next declared
    key, or at the last bracket (``command='sed -n '1p' a.py'``); empty unless that leaves one
    reading: each key is declared and comes once, and the marks in a string are in pairs."""
    inner = text[1:-1].strip()
    begins = [*_NEXT_KEY.finditer(inner)]
    named = {found["key"] for found in begins}
    if not begins or begins[0].start() or len(named) < len(begins) or not named <= keys:
        return ""
    ends = [found.start() for found in begins[1:]] + [len(inner)]
    parts: list[str] = []
    for found, end in zip(begins, ends, strict=True):
        value, mark = inner[found.end() : end].strip(), inner[found.end() : found.end() + 1]
        if mark in ("'", '"'):
            string = value[1:-1]
            if len(value) < 2 or value[-1] != mark or not _IN_PAIRS[mark].fullmatch(string):
                return ""
            if any(_JOINS.fullmatch(each.strip()) for each in _PAIR[mark].findall(string)):
                return ""
            value = f"{mark}{_MARKS[mark].sub(_escape_mark, string)}{mark}"
        parts += [found[0], value]
    return f"{text[0]}{''.join(parts)}{text[-1]}"


def _escape_mark(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
