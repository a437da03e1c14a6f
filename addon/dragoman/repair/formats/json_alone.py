"""A call that is a JSON object and nothing else: all of a text, or what follows a thought in it, or
a fence with which it ends.  An answer may be JSON as well, so it is a call only if its tool is
declared, the tool's schema accepts the arguments, and nothing follows (`MarkerMatch.alone`); and it
is refused at the first member that shows that it is none.
"""

from __future__ import annotations

import re

from ...wire.json_codec import Json, loads
from ...wire.json_schema import TYPES
from ..schema import properties
from .held_arguments import CallEnds
from .json_calls import JsonCallsParser
from .marker_set import BLANKS, MarkerPattern, marker_set, so_far, spelled
from .protocol import LeakFormat, MarkerMatch
from .value_types import Member

_FENCE, _THOUGHT = "```", "</think>"
_BEGIN = re.compile(r"\s*+(?=[\[{])")
_FENCED = (r"(?<!`)", (_FENCE,), r"[a-z_]{0,16}+[ \t]{0,16}+", r"\r?+", r"\n")
"""A fence, the name of a language, and the end of its line."""
_GIVEN = ("arguments", "parameters")
_KNOWN = (*_GIVEN, "name", "type", "function", "id", "")
_OF_A_SCHEMA = {"type", "properties", "required", "additionalProperties", "title", "description"}
_OF_A_SCHEMA |= {"$schema", "$defs", "definitions", "strict"}
"""Members of the schema of a tool's arguments."""


class JsonAloneParser(JsonCallsParser):
    """Reads the objects of a text, or of a fence after its opening line."""

    end_is_marked = False
    ends = CallEnds(marker_set((_FENCE,)))
    closer = _FENCE
    other_names = ()

    def _is_no_call(self, keys: list[str], members: list[Member]) -> bool:
        names = [each.value for each in members if each.key == "name"]
        return not all(map(self._meant, names)) or not all(key in _KNOWN for key in keys)

    def _meant(self, name: object) -> str | None:
        """The tool of this name, which may differ in case."""
        tool = self._tools.find(name) if isinstance(name, str) else None
        return tool if tool and tool.lower() == str(name).lower() else None

    def _arguments_of(self, found: list[Member], name: str) -> list[str] | None:
        given = any(each.key in _GIVEN and isinstance(each.value, dict | str) for each in found)
        known = all(each.key in _KNOWN for each in found)
        if not (given and known and (tool := self._meant(name))):
            return None
        pieces = super()._arguments_of(found, tool)
        if pieces is None or self._tools.refuses(tool, arguments := "".join(pieces)):
            return None
        members = loads(arguments)
        if not members or members.keys() & self._declared(tool):
            return pieces
        return pieces if self._is_open(tool) and not _is_schema(members) else None

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
