"""The tokens of markup of any kind, of which `unknown_shape` makes calls: tags, JSON, brackets.

Each reader gives a token at a place in a text, or raises `NoCallError` if none is there, and
`MoreError` if more text may make one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...wire.json_codec import MAX_NESTING, Json, nesting_exceeds
from ..declared_tools import DeclaredTools
from ..schema import properties
from .literals import as_json, decode_once, mended
from .marker_set import TAG_LIMIT
from .markup_words import is_of_other, may_name
from .value_types import read_json

_WORD = r"[A-Za-z_▁][\w.▁-]{0,127}+(?::[\w.▁-]{1,127}+)*+"
_VALUE = r"""(?:"[^"\\]*+"|'[^'\\]*+'|[^\s"'<>\[\]=/|｜\\]++)"""
_VALUE_BEGUN = r"""(?:"[^"\\]*+"?|'[^'\\]*+'?|[^\s"'<>\[\]=/|｜\\]*+)"""
_HEAD = rf"({_WORD}(?:\s?+[=:]\s?+{_VALUE}|\s++{_VALUE}(?!\s?+=))?+)"
_ATTRIBUTES = rf"((?:\s++{_WORD}\s?+=\s?+{_VALUE})*+)"
_TAG = re.compile(
    rf"<([|｜]?)(/?+){_HEAD}{_ATTRIBUTES}\s*+(/?+)\1>"
    rf"|\[(\[)?(/|END_|end_|){_HEAD}{_ATTRIBUTES}\s*+(/?+)\](?(6)\])"
)
_TAG_BEGUN = re.compile(
    rf"(?:<[|｜]?|\[{{1,2}})/?+(?:{_WORD}:?+(?:\s?+[=:]\s?+{_VALUE_BEGUN}|\s++{_VALUE_BEGUN}(?!\s?+=))?+"
    rf"(?:\s++{_WORD}\s?+=\s?+{_VALUE})*+(?:\s++(?:{_WORD}(?:\s?+=\s?+{_VALUE_BEGUN})?+)?+)?+)?+"
    r"/?+[|｜\]]?+\Z"
)
_ATTRIBUTE = re.compile(rf"(?<=\s)({_WORD})\s?=\s?({_VALUE})")
_JOINT = re.compile(r"\s*[=:\s]\s*")
_SIDES = re.compile(rf"({_WORD})(\s*+[=:]?+\s*+)(.*)", re.DOTALL)
_IN_BRACKETS = r"""\((?:[^"'()]++|"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')*+"""
_BRACKETS = re.compile(rf"{_IN_BRACKETS}\)", re.DOTALL)
_BRACKETS_BEGUN = re.compile(rf"""{_IN_BRACKETS}(?:["'].*)?\Z""", re.DOTALL)
_JSON_BEGINS = re.compile(r"""(?:\[\s*+)?(?:\{\s*+(?:["'}]|\Z)|["\d\[-]|\Z)""")
_IN_JSON = re.compile(r"""[^"'{}\[\]]*+(["'{}\[\]]|\Z)""")
_IN_STRING = {
    mark: re.compile(rf"(?:[^{mark}\\]++|\\.)*+({mark}|\\?\Z)", re.DOTALL) for mark in "'\""
}
_CDATA = re.compile(r"\s*+<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
NOTES = frozenset({"id", "call_id", "tool_call_id", "index", "type", "string"})
"""Attributes and members that say of a call its number and its kind."""


class NoCallError(Exception):
    """What has come is no call."""


class MoreError(Exception):
    """More text is needed."""


class Tag(NamedTuple):
    """One tag."""

    opens: str
    """With which characters it begins, but for a slash."""
    closes: bool
    words: list[str]
    """All before its attributes, and the two sides of that: ``function=NAME``."""
    attributes: list[tuple[str, str]]
    empty: bool
    """Whether it is an element without text: ``<NAME/>``."""

    @classmethod
    def of(cls, found: re.Match[str]) -> Tag:
        square = found[0].startswith("[")
        opens = "[" * (1 + bool(found[6])) if square else f"<{found[1]}"
        groups = (7, 8, 9, 10) if square else (2, 3, 4, 5)
        end, head, attributes, empty = found.group(*groups)
        if square and head.endswith(("_END", "_end")):
            end, head = end or head[-4:], head[:-4]
        words = [head, *map(_bare, _JOINT.split(head, 1))]
        pairs = [(key, _bare(each)) for key, each in _ATTRIBUTE.findall(attributes)]
        return cls(opens, bool(end), list(dict.fromkeys(words)), pairs, bool(empty))


def tag_at(text: str, at: int, *, ended: bool) -> re.Match[str] | None:
    """The tag at this place; None if it is none, and may be JSON."""
    if (found := _TAG.match(text, at)) is not None:
        return found if found.end() - at <= TAG_LIMIT else None
    if not ended and len(text) - at <= TAG_LIMIT and _TAG_BEGUN.match(text, at):
        raise MoreError
    if text[at] == "<":
        raise NoCallError
    return None


class JsonFollower:
    """Follows the brackets of one object or list, with JSON's strings or Python's, to their end."""

    def __init__(self) -> None:
        self._seen = 0
        self._depth = 0
        self._quote = ""
        """The mark that ends the open string."""

    def end_in(self, text: str, begin: int) -> int:
        """Where they end that begin here."""
        if not _JSON_BEGINS.match(text, begin):
            raise NoCallError
        at = max(begin, self._seen)
        while at < len(text):
            found = (_IN_STRING[self._quote] if self._quote else _IN_JSON).match(text, at)
            assert found is not None
            mark, at = found[1], found.end()
            if mark in _IN_STRING:
                self._quote = "" if self._quote else mark
            elif mark in ("", "\\"):
                at = found.start(1)
                break
            else:
                self._depth += 1 if mark in "[{" else -1
                if self._depth <= 0:
                    return at
        self._seen = at
        raise MoreError


def read_brackets(text: str, at: int) -> tuple[Any, int]:
    """The arguments in the round brackets that begin here, as Python writes them, or an object;
    and where they end."""
    found = _BRACKETS.match(text, at)
    if found is None:
        if len(text) - at > TAG_LIMIT or not _BRACKETS_BEGUN.match(text, at):
            raise NoCallError
        raise MoreError
    inner = found[0][1:-1].strip()
    return read_once(inner if inner[:1] == "{" else as_json(found[0])[0]), found.end()


def end_of(opens: str) -> str:
    """The characters that end a tag that begins so."""
    return "]" * len(opens) if opens[0] == "[" else f"{opens[1:]}>"


def _bare(value: str) -> str:
    """A value without its quotation marks."""
    return value[1:-1] if value[:1] in ('"', "'") else value


def sides_of(head: str) -> tuple[str, str, str]:
    """The word with which a tag's head begins, and what may follow: ``=``, and a value."""
    found = _SIDES.match(head)
    assert found is not None
    return found[1], found[2], _bare(found[3])


def unwrapped(text: str) -> str:
    """A value between tags without the white space that is formatting."""
    if (data := _CDATA.fullmatch(text)) is not None:
        return data[1]
    bare = text.strip()
    if "\n" not in bare:
        indented = "\n" not in text and bare and (text[:2].isspace() or text[-2:].isspace())
        return text if indented else bare
    return re.sub(r"\r?\n[ \t]*\Z", "", re.sub(r"\A[ \t]*\r?\n", "", text))


def read_once(text: str) -> Any:
    """The value of a text in JSON, or with tokens of Python, in which no member comes twice."""
    try:
        try:
            value = decode_once(text)
        except json.JSONDecodeError:
            value = decode_once(mended(text))
    except (ValueError, RecursionError) as error:
        raise NoCallError from error
    if nesting_exceeds(value, MAX_NESTING):
        raise NoCallError
    return value


def objects_in(value: object) -> Iterator[Json]:
    """An object, and the one that is its only member."""
    if isinstance(value, dict):
        yield value
        if len(value) == 1:
            yield from objects_in(_loaded(next(iter(value.values()))))


def _loaded(value: object) -> object:
    """Arguments, which may be JSON in a string."""
    if isinstance(value, str) and value.lstrip()[:1] == "{" and (found := read_json(value)):
        return found[0]
    return value


def calls_in(value: object, tools: DeclaredTools) -> Iterator[tuple[str, Json]]:
    """The names and arguments that an object with both may mean."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    of_other = isinstance(kind, str) and is_of_other(kind)
    members = {
        k: v for k, v in value.items() if k not in NOTES or (isinstance(v, str) and v in tools)
    }
    for key, each in members.items():
        inner = _loaded(each)
        if len(members) == 1 and isinstance(inner, dict):
            if key in tools:
                yield key, inner
            elif not of_other and not is_of_other(key):
                yield from calls_in(inner, tools)
        if isinstance(each, str) and each in tools and may_name(key):
            declared = properties(tools.schema_of(each))
            if of_other and "type" not in declared:
                continue
            others = {k: v for k, v in members.items() if k != key}
            notes = {k: v for k, v in value.items() if k not in members and k in declared}
            yield each, notes | others
            only = _loaded(next(iter(others.values()))) if len(others) == 1 else None
            if isinstance(only, dict):
                yield each, only
