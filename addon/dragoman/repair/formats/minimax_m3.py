"""MiniMax M3's format: elements, each tag of which begins with ``]<]minimax[>[``.

With `]` for that::

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
from .marker_set import so_far
from .protocol import Held
from .tagged_calls import TaggedFormat
from .tags import Tag, TagKind, TagSyntax
from .typed_arguments import VALUE_LIMIT, TypedArguments
from .value_types import ValueType, json_string, property_of, type_of

_BEGINNING = "]<]minimax[>["
_PREFIX = re.escape(_BEGINNING)
_PREFIXES = rf"(?:{_PREFIX}\s{{0,8}}){{1,2}}"
_TAG = re.compile(
    rf"{_PREFIXES}(?:<(?P<end>/?)(?:(?P<section>tool_call)|(?P<invoke>invoke)"
    r"(?:\s+name\s*=\s*[\"']?(?P<name>[^\"'<>]{0,200})[\"']?)?|(?P<element>[A-Za-z_][\w.:-]{0,200}))\s*>"
    r"|(?P<stray>(?=[^\s<\]]|\][^<])))"
)
_SO_FAR = re.compile(
    r"\]"
    + so_far(
        (_BEGINNING[1:],),
        rf"\s{{0,8}}(?:{_PREFIX}\s{{0,8}})?",
        r"(?:<[^<>\]]*|\](?:<\]?[a-z]*\[?>?)?)?",
    )
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
    """An element that is open, or part of one."""

    name: str
    texts: list[str] = field(default_factory=list)
    said: bool = False
    """Whether any of that is more than white space."""
    children: list[_Element] = field(default_factory=list)

    def json(self, schema: object, root: object) -> str:
        """The JSON text of its value."""
        kind = type_of(schema, root)
        text = "".join(self.texts)
        if not self.children:
            return _json_of_text(text, kind, root)
        members = dict(kind.members)
        names = {child.name for child in self.children}
        if names == {"item"} and "object" not in members:
            return _list(self.children, _items(members), root)
        return self._object(members.get("object", schema), root)

    def _object(self, schema: object, root: object) -> str:
        by_name: dict[str, list[_Element]] = {}
        for child in self.children:
            by_name.setdefault(child.name, []).append(child)
        fields = (
            f"{json_string(name)}:{_value(children, property_of(schema, name), root)}"
            for name, children in by_name.items()
        )
        return "{" + ",".join(fields) + "}"


def _value(elements: list[_Element], schema: object, root: object) -> str:
    """What elements of one name are: a list if there are several."""
    if len(elements) == 1:
        return elements[0].json(schema, root)
    return _list(elements, _items(dict(type_of(schema, root).members)), root)


def _items(members: dict[str, dict[str, object]]) -> object:
    return members.get("array", {}).get("items")


def _list(elements: list[_Element], items: object, root: object) -> str:
    return "[" + ",".join(each.json(items, root) for each in elements) + "]"


def _json_of_text(text: str, kind: ValueType, root: object) -> str:
    """A value that is text: of a list, the whole of it as JSON, or its one member."""
    json = kind.json_of(text)
    first = kind.members[0][0] if kind.members else ""
    if first == "array" and not json.startswith("[") and not (kind.takes_null and json == "null"):
        items = type_of(kind.members[0][1].get("items"), root)
        return f"[{items.json_of(text)}]" if text.strip() else "[]"
    return "{}" if first == "object" and not text.strip() else json


_ELEMENT_SIZE = 64
"""Characters for which an element counts in what is held."""


class _Elements(TypedArguments):
    """Arguments that may be elements of elements.  A string leaves as it comes; any other
    value when the next argument begins, as until then it may be a list."""

    def __init__(self, schema: object) -> None:
        super().__init__(schema)
        self._same: list[_Element] = []
        """Elements of the last name that have not left."""
        self._open: list[_Element] = []
        self._size = 0
        self._texts: list[str] = []
        """Theirs."""

    @property
    def held(self) -> Held:
        return ("", self._texts, len(self._texts)) if self._same else super().held

    @property
    def nests(self) -> bool:  # type: ignore[override]
        """Whether an element may begin in the open one: not after text."""
        return 0 < len(self._open) < MAX_DEPTH and not self._open[-1].said

    @property
    def begun(self) -> bool:
        return bool(self._same) or super().begun

    def begin(self, key: str, kind: ValueType | None = None, *, trim: bool = False) -> None:
        element = _Element(key)
        if self._open:
            self._size += _ELEMENT_SIZE
            if self._size > VALUE_LIMIT:
                self.drop("an element of a value that is too long to be held")
            else:
                self._open[-1].children.append(element)
        else:
            if self._same and self._same[0].name != key:
                self._release()
            kind = type_of(property_of(self._schema, key), self._schema)
            if len(self._same) > VALUE_LIMIT // _ELEMENT_SIZE:
                self._release()
            if self.has(key) or (kind.is_string and not kind.takes_null):
                super().begin(key, kind, trim=trim)
                return
            self._same.append(element)
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
            element.said = element.said or bool(text.strip())

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
        same, self._same, self._size, self._texts = self._same, [], 0, []
        self._open.clear()
        if same:
            schema = property_of(self._schema, same[0].name)
            self.whole_value(same[0].name, _value(same, schema, self._schema))


MINIMAX_M3 = TaggedFormat(
    "minimax_m3",
    (_BEGINNING,),
    rf"{_PREFIXES}(?:<[^<>]*>)?",
    TagSyntax(
        tag=_TAG,
        so_far=_SO_FAR,
        in_value=_TAG,
        in_value_so_far=_SO_FAR,
        closing=re.compile(rf"\s*{_PREFIXES}(?:</|\Z)"),
        read=_read,
        may_begin_in=lambda text: "]" in text,
        arguments=_Elements,
    ),
)
