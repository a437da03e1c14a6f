"""A call that is a JSON object and nothing else: all of a text, or what follows a thought in it, or
a fence with which it ends.  An answer may be JSON as well, so it is a call only if its tool is
declared, the tool's schema accepts the arguments, and nothing follows (`MarkerMatch.alone`); and it
is refused at the first member that shows that it is none.
"""

from __future__ import annotations

import re

from ...wire.json_codec import Json, loads
from ...wire.json_schema import TYPES
from ..events import Arguments
from ..schema import properties
from .json_calls import JsonCallsParser
from .marker_set import BLANKS, MarkerPattern, marker_set, so_far, spelled
from .protocol import LeakFormat, MarkerMatch

_FENCE, _THOUGHT = "```", "</think>"
_BEGIN = re.compile(r"\s*+(?=[\[{])")
_FENCED = (r"(?<!`)", (_FENCE,), r"[a-z_]{0,16}+[ \t]{0,16}+", r"\r?+", r"\n")
"""A fence, the name of a language, and the end of its line."""
_GIVEN = ("arguments", "parameters")
_OF_A_SCHEMA = {"type", "properties", "required", "additionalProperties", "title", "description"}
_OF_A_SCHEMA |= {"$schema", "$defs", "definitions", "strict"}
"""Members of the schema of a tool's arguments."""


class JsonAloneParser(JsonCallsParser):
    """Reads the objects of a text, or of a fence after its opening line."""

    end_is_marked = False
    markers = marker_set((_FENCE,))
    closer = _FENCE

    def _read_name(self) -> bool:
        decided = super()._read_name()
        if self._name is None:
            return decided
        meant = self._tools.find(self._name) or ""
        if meant.lower() != self._name.lower():
            return self._refuse()
        self._name = meant
        return decided

    def _read_value(self) -> bool:
        known = (*_GIVEN, "type", "function", "id")
        return super()._read_value() if self._key in known else self._refuse()

    def _may_stream(self) -> bool:
        return False

    def _call(self) -> bool:
        given = any(
            each.key in _GIVEN and isinstance(each.value, (dict, str)) for each in self._members
        )
        if self._name is None or not (given and super()._call()):
            return False
        arguments = "".join(each.text for each in self._events if isinstance(each, Arguments))
        if self._tools.refuses(self._name, arguments):
            return False
        members = loads(arguments) if arguments else {}
        if not members or members.keys() & self._declared(self._name):
            return True
        return self._is_open(self._name) and not _is_schema(members)

    def _is_open(self, name: str) -> bool:
        """Whether this tool means to take arguments that it does not list."""
        schema = self._tools.schema_of(name)
        listed = properties(schema)
        return not listed or (isinstance(schema, dict) and bool(schema.get("additionalProperties")))


def _is_schema(members: Json) -> bool:
    """Whether this is the schema of a tool, or its properties, which a list of tools has where a
    call has its arguments: an open schema accepts that as well."""
    if members.get("type") == "object" or isinstance(members.get("properties"), dict):
        return members.keys() <= _OF_A_SCHEMA
    types = [each.get("type") if isinstance(each, dict) else None for each in members.values()]
    return bool(types) and all(isinstance(each, str) and each in TYPES for each in types)


class _JsonAlone(LeakFormat):
    """Looks for fences, and ends of thoughts; where a text begins it is asked."""

    def at_start(self, text: str) -> MarkerMatch | None:
        """The place at which a call begins, if all of `text` may be one."""
        found = _BEGIN.match(text)
        return self.meaning(found) if found else None

    def meaning(self, found: re.Match[str]) -> MarkerMatch:
        """Of what precedes a call only a fence is no text."""
        begin = found.start() if _FENCE in found[0] else found.end()
        return MarkerMatch(self, "json", begin, found.end(), True, alone=True)


JSON_ALONE = _JsonAlone(
    "json",
    (_FENCE, _THOUGHT),
    MarkerPattern(
        rf"(?:{spelled(*_FENCED)}|{_THOUGHT}){BLANKS}(?=[\[{{])",
        f"{so_far(*_FENCED, BLANKS, '(?!)')}|{so_far((_THOUGHT,), BLANKS, '(?!)')}",
    ),
    JsonAloneParser,
)
