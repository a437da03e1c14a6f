"""Values that are made of elements, as MiniMax M3 writes objects and lists.

An object is a text of elements with the names of its members, a list one of elements with one
name, ``item`` or its own.  The schema of the tool gives the types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..schema import MAX_DEPTH
from .tags import TagKind, TagTable
from .value_types import ValueType, json_string, property_of, type_of


@dataclass(slots=True)
class Element:
    """A value, or one of the elements that it is made of: a text, or others."""

    name: str = ""
    text: str = ""
    children: list[Element] = field(default_factory=list)


def element_of(text: str, table: TagTable) -> Element | None:
    """The value that a text is; None if a tag is missing in it, or text stands between elements."""
    open_elements, at = [Element()], 0
    for tag in table.in_value.tags_in(text):
        last = open_elements[-1]
        last.text += text[at : tag.start]
        at = tag.end
        if tag.kind is TagKind.ARGUMENT and len(open_elements) < MAX_DEPTH:
            last.children.append(Element(tag.name or ""))
            open_elements.append(last.children[-1])
        elif tag.kind is TagKind.ARGUMENT_END and tag.name == last.name:
            open_elements.pop()
        else:
            return None
        if last.children and last.text.strip():
            return None
    open_elements[-1].text += text[at:]
    mixed = open_elements[0].children and open_elements[0].text.strip()
    return None if mixed or len(open_elements) > 1 else open_elements[0]


def elements_json(elements: list[Element], schema: object, root: object) -> str:
    """The JSON text of the value that the elements of one name are: a list if they are several."""
    if len(elements) > 1:
        return _list(elements, schema, root)
    element, kind = elements[0], type_of(schema, root)
    if not element.children:
        return _json_of_text(element.text, kind, root)
    members = dict(kind.members)
    by_name: dict[str, list[Element]] = {}
    for child in element.children:
        by_name.setdefault(child.name, []).append(child)
    if by_name.keys() == {"item"} and "object" not in members:
        return _list(element.children, schema, root)
    declared = members.get("object", schema)
    fields = (
        f"{json_string(name)}:{elements_json(children, property_of(declared, name), root)}"
        for name, children in by_name.items()
    )
    return "{" + ",".join(fields) + "}"


def _list(elements: list[Element], schema: object, root: object) -> str:
    items = dict(type_of(schema, root).members).get("array", {}).get("items")
    return "[" + ",".join(elements_json([each], items, root) for each in elements) + "]"


def _json_of_text(text: str, kind: ValueType, root: object) -> str:
    """A value that is text: the text of a list is all of it as JSON, or its one member."""
    json = kind.json_of(text)
    first, schema = kind.members[0] if kind.members else ("", {})
    if first == "array" and not json.startswith("[") and not (kind.takes_null and json == "null"):
        return f"[{type_of(schema.get('items'), root).json_of(text)}]" if text.strip() else "[]"
    return "{}" if first == "object" and not text.strip() else json
