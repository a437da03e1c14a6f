"""MiniMax M3's format: elements, each tag of which begins with ``]<]minimax[>[``.

With ``]`` in its place::

    ]<tool_call>
    ]<invoke name="N">]<K>V]</K>]<L>]<item>V]</item>]<item>V]</item>]</L>]</invoke>
    ]</tool_call>

An argument is an element that has its name; an object is one with elements in it, a list one
with elements of one name, ``item`` or its own.  The schema of the tool gives the types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..schema import MAX_DEPTH
from .marker_set import MarkerPattern, so_far
from .protocol import Held
from .tagged_calls import tagged
from .tags import Tag, TagKind, TagSyntax
from .typed_arguments import VALUE_LIMIT, TypedArguments
from .value_types import ValueType, json_string, property_of, type_of

_BEGINNING = "]<]minimax[>["
_PREFIX = re.escape(_BEGINNING)
_PREFIXES = rf"(?:{_PREFIX}\s{{0,8}}){{1,2}}"
_TAGS = MarkerPattern(
    rf"{_PREFIXES}(?:<(?P<end>/?)(?:(?P<section>tool_call)|(?P<invoke>invoke)"
    r"(?:\s+name\s*=\s*[\"']?(?P<name>[^\"'<>]{0,200})[\"']?)?|(?P<element>[A-Za-z_][\w.:-]{0,200}))\s*>"
    r"|(?P<stray>(?=[^\s<\]]|\][^<])))",
    r"\]"
    + so_far(
        (_BEGINNING[1:],),
        rf"\s{{0,8}}(?:{_PREFIX}\s{{0,8}})?",
        r"(?:<[^<>\]]*|\](?:<\]?[a-z]*\[?>?)?)?",
    ),
    first="]",
)


def _read(match: re.Match[str]) -> Tag:
    if match["section"]:
        return Tag.of(match, TagKind.SECTION, closes=match["end"])
    if match["invoke"]:
        return Tag.of(match, TagKind.CALL, match["name"] or "", closes=match["end"])
    kind = TagKind.ARGUMENT if match["element"] else TagKind.OTHER
    return Tag.of(match, kind, match["element"], closes=match["end"])


@dataclass(slots=True)
class _Element:
    """An element that is an argument, or part of its value."""

    name: str
    texts: list[str] = field(default_factory=list)
    has_text: bool = False
    """Whether any of that is more than white space."""
    children: list[_Element] = field(default_factory=list)

    def json(self, schema: object, root: object) -> str:
        """The JSON text of its value."""
        kind = type_of(schema, root)
        if not self.children:
            return _json_of_text("".join(self.texts), kind, root)
        members = dict(kind.members)
        by_name: dict[str, list[_Element]] = {}
        for child in self.children:
            by_name.setdefault(child.name, []).append(child)
        if by_name.keys() == {"item"} and "object" not in members:
            return _list(self.children, schema, root)
        declared = members.get("object", schema)
        fields = (
            f"{json_string(name)}:{_value(children, property_of(declared, name), root)}"
            for name, children in by_name.items()
        )
        return "{" + ",".join(fields) + "}"


def _value(elements: list[_Element], schema: object, root: object) -> str:
    """The value of the elements of one name: a list if there are several."""
    return elements[0].json(schema, root) if len(elements) == 1 else _list(elements, schema, root)


def _list(elements: list[_Element], schema: object, root: object) -> str:
    array = dict(type_of(schema, root).members).get("array", {})
    return "[" + ",".join(each.json(array.get("items"), root) for each in elements) + "]"


def _json_of_text(text: str, kind: ValueType, root: object) -> str:
    """A value that is text: the text of a list is all of it as JSON, or its one member."""
    json = kind.json_of(text)
    first, schema = kind.members[0] if kind.members else ("", {})
    if first == "array" and not json.startswith("[") and not (kind.takes_null and json == "null"):
        return f"[{type_of(schema.get('items'), root).json_of(text)}]" if text.strip() else "[]"
    return "{}" if first == "object" and not text.strip() else json


_ELEMENT_SIZE = 64
"""Characters for which an element counts in what is held."""


class _Elements(TypedArguments):
    """Arguments that may be elements of elements.  A string leaves as it comes; any other
    value when the next argument begins, as until then it may be a list."""

    def __init__(self, schema: object) -> None:
        super().__init__(schema)
        self._last: list[_Element] = []
        """The elements of the last argument, which has not left."""
        self._open: list[_Element] = []
        self._texts: list[str] = []
        """Their texts."""
        self._size = 0

    @property
    def held(self) -> Held:
        return Held("", self._texts, len(self._texts)) if self._last else super().held

    @property
    def nests(self) -> bool:
        """Whether an element may begin in the open one: not after text."""
        return 0 < len(self._open) < MAX_DEPTH and not self._open[-1].has_text

    def begin(self, key: str, kind: ValueType | None = None, *, trim: bool = False) -> None:
        element, last = _Element(key), self._last
        if self._open:
            self._size += _ELEMENT_SIZE
            if self._size > VALUE_LIMIT:
                self.drop("an element of a value that is too long to be held")
            else:
                self._open[-1].children.append(element)
        else:
            if last and (last[0].name != key or len(last) > VALUE_LIMIT // _ELEMENT_SIZE):
                self._release()
            kind = type_of(property_of(self._schema, key), self._schema)
            if self.has(key) or (kind.is_string and not kind.takes_null):
                super().begin(key, kind, trim=trim)
                return
            self._last.append(element)
        self._open.append(element)
        self.in_value = True

    def text(self, text: str) -> None:
        if not self._open:
            super().text(text)
            return
        self._size += len(text)
        element = self._open[-1]
        if self._size > VALUE_LIMIT:
            self.drop("text of a value that is too long to be held")
        elif element.children and text.strip():
            self.drop("text between elements")
        else:
            element.texts.append(text)
            self._texts.append(text)
            element.has_text = element.has_text or bool(text.strip())

    def end_value(self, *, implied: bool = False, name: str = "") -> None:
        if not self._open:
            super().end_value(implied=implied)
            return
        names = [element.name for element in self._open]
        if implied:
            self._open.clear()
        elif name in names:
            del self._open[len(names) - 1 - names[::-1].index(name) :]
        self.in_value = bool(self._open)

    def end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        half = bool(self._open)
        self._release()
        self.in_value = self.in_value or half
        super().end(cut=cut, unclosed=unclosed)

    def _release(self) -> None:
        """The last argument is whole, or nothing more of it comes."""
        last, self._last, self._size, self._texts = self._last, [], 0, []
        self._open.clear()
        if last:
            schema = property_of(self._schema, last[0].name)
            self.whole_value(last[0].name, _value(last, schema, self._schema))


MINIMAX_M3 = tagged(
    "minimax_m3",
    (_BEGINNING,),
    rf"{_PREFIXES}(?:<[^<>]*>)?",
    TagSyntax(
        tags=_TAGS,
        in_value=_TAGS,
        read=_read,
        closing=re.compile(rf"\s*{_PREFIXES}(?:</|\Z)"),
        arguments=_Elements,
    ),
)
