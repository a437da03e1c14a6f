"""The arguments of a call that a format writes one by one, as text: one JSON object of them.

An object that is the only argument, and named ``arguments`` or ``input`` though its tool has no
argument of that name, holds the arguments: DeepSeek writes them so now and then (and vLLM reads
them).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...wire.json_codec import loads
from ..schema import properties
from .elements import element_of, elements_json
from .tags import Tag, TagTable
from .value_types import ValueType, json_string, property_of, read_json, type_of

_WRAPPERS = ("arguments", "input")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as it was written."""

    key: str | None
    """None if its opening tag is missing."""
    text: str
    type: ValueType | None
    """If its tag has one."""
    closed: bool
    """Whether it has its own closing tag."""
    opened: bool = True
    """Whether it has its opening tags, too."""
    start: int = 0
    """Where the text begins in that of the call."""
    tags: tuple[Tag, ...] = ()
    """Those that the text holds, where they are in that of the call."""

    def kind(self, schema: object, table: TagTable) -> ValueType:
        """Its type, by its tag or the tool's schema."""
        declared = type_of(property_of(schema, self.key or ""), schema)
        return self.type if self.type and (table.typed or not declared.members) else declared


def object_json(text: str) -> str | None:
    """The same text, with the control characters in its strings escaped, if it is a JSON object."""
    found = read_json(text.strip())
    return found[1] if found is not None and isinstance(found[0], dict) else None


def arguments_json(
    arguments: list[Argument], schema: object, table: TagTable
) -> tuple[str | None, bool]:
    """One JSON object of these arguments, and whether one of them came twice: the first counts.
    None if one cannot be read."""
    by_key: dict[str, list[Argument]] = {}
    for each in arguments:
        by_key.setdefault(each.key or "", []).append(each)
    twice = False
    members: dict[str, str] = {}
    for key, same in by_key.items():
        declared = property_of(schema, key)
        kind = same[0].kind(schema, table)
        elements = [element_of(_text(each, table), table) for each in same] if table.nested else []
        whole = [each for each in elements if each is not None]
        if whole and len(whole) == len(elements) and not (kind.is_string and not kind.takes_null):
            members[key] = elements_json(whole, declared, schema)
        elif elements and not kind.is_string:
            return None, False
        else:
            twice = twice or len(same) > 1
            members[key] = kind.json_of(_text(same[0], table))
    if members.keys() <= set(_WRAPPERS) and len(members) == 1:
        (key,) = members
        inner = object_json(_text(by_key[key][0], table))
        if _lacks(schema, key) and inner and not any(_lacks(schema, k) for k in loads(inner)):
            return inner, twice
    return "{" + ",".join(f"{json_string(k)}:{v}" for k, v in members.items()) + "}", twice


def _lacks(schema: object, key: str) -> bool:
    """Whether the tool declares arguments, but none of this name."""
    declared = properties(schema)
    return bool(declared) and key not in declared


def _text(argument: Argument, table: TagTable) -> str:
    """The value without the line ends that are formatting: those beside its own tags, and those
    that stood on the other side of a tag that is missing."""
    text = argument.text
    for _ in range(table.trim + (not argument.opened)):
        text = text.removeprefix("\r\n" if text[:1] == "\r" else "\n")
    for _ in range(table.trim + (not argument.closed)):
        text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    return text
