"""A call that is a JSON object and nothing else: all of a text, or what follows a thought in it, or
a fence with which it ends; a closing tag may follow that has lost its other half.  Phi-4 writes
``functools`` before a list that is all of a text.  An answer may be JSON as well, so it is a call
only if its tool is declared, the tool's schema accepts the arguments, and nothing follows
(`MarkerMatch.alone`); and it is refused at the first member that shows that it is none.
"""

from __future__ import annotations

import re

from ...wire.json_codec import Json, loads
from ...wire.json_schema import TYPES
from ..declared_tools import DeclaredTools
from ..schema import properties
from .held_arguments import CallEnds
from .json_calls import JsonCallsParser
from .marker_set import BLANKS, HEADER_LIMIT, MarkerPattern, Run, marker_set, so_far, spelled
from .protocol import LeakFormat, MarkerMatch
from .value_types import Member

_FENCE, _THOUGHT, _PHI = "```", "</think>", "functools"
_TAG = "</tool_call>"
"""What may follow an object that is in no fence: hosts take the opening tag out."""
_OBJECT = Run(rf"(?=\{{|\[{BLANKS}\{{)", rf"\[?{BLANKS}")
"""With what an object begins, or a list of them."""
_BEGIN = re.compile(rf"\s*+(?:{_PHI}(?={BLANKS}\[){BLANKS})?{_OBJECT.whole}")
_FENCED = (r"(?<!`)", (_FENCE,), r"[a-z_]{0,16}+[ \t]{0,16}+", r"\r?+", r"\n")
"""A fence, the name of a language, and the end of its line."""
_GIVEN = ("arguments", "parameters")
_KNOWN = (*_GIVEN, "name", "type", "function", "id", "")
_OF_A_SCHEMA = {"type", "properties", "required", "additionalProperties", "title", "description"}
_OF_A_SCHEMA |= {"$schema", "$defs", "definitions", "strict"}
"""Members of the schema of a tool's arguments."""


_ENDS_WITH_TAG = CallEnds(marker_set((_TAG,)))


class JsonAloneParser(JsonCallsParser):
    """Reads the objects of a text, or of a fence after its opening line."""

    end_is_marked = False
    ends = CallEnds(marker_set((_FENCE,)))
    closer = _FENCE
    other_names = ()

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._given = False
        """Whether an object before had arguments: then another without is a call without."""
        if match.start == match.end:
            self.ends, self.closer = _ENDS_WITH_TAG, _TAG

    def _is_no_call(self, keys: list[str], members: list[Member]) -> bool:
        names = [each.value for each in members if each.key == "name"]
        return not all(map(self._meant, names)) or not all(key in _KNOWN for key in keys)

    def _meant(self, name: object) -> str | None:
        """The tool of this name, which may differ in case."""
        tool = self._tools.find(name) if isinstance(name, str) else None
        return tool if tool and tool.lower() == str(name).lower() else None

    def _arguments_of(self, found: list[Member], name: str) -> list[str] | None:
        given = any(each.key in _GIVEN and isinstance(each.value, dict | str) for each in found)
        given = given or (self._given and not any(each.key in _GIVEN for each in found))
        known = all(each.key in _KNOWN for each in found)
        if not (given and known and (tool := self._meant(name))):
            return None
        pieces = super()._arguments_of(found, tool)
        self._given = True
        return pieces if pieces is not None and fits(self._tools, tool, "".join(pieces)) else None


def fits(tools: DeclaredTools, name: str, arguments: str) -> bool:
    """Whether a call of this tool that no marker shows may have these arguments."""
    if tools.refuses(name, arguments):
        return False
    members, schema = loads(arguments), tools.schema_of(name)
    listed = properties(schema)
    if not members or members.keys() & listed.keys():
        return True
    more = isinstance(schema, dict) and schema.get("additionalProperties")
    return bool(not listed or more) and not _is_schema(members)


def _is_schema(members: Json) -> bool:
    """Whether this is the schema of a tool, or its properties, which a list of tools has where a
    call has its arguments: an open schema accepts that as well."""
    if members.get("type") == "object" or isinstance(members.get("properties"), dict):
        return members.keys() <= _OF_A_SCHEMA
    types = [each.get("type") if isinstance(each, dict) else None for each in members.values()]
    return bool(types) and all(isinstance(each, str) and each in TYPES for each in types)


class _JsonAlone(LeakFormat):
    """Looks for fences, and ends of thoughts; where a text begins it is asked."""

    alone = True

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        word = text.strip()
        begins = _PHI.startswith(word) or word.removeprefix(_PHI).strip() in ("", "[")
        return bool(word) and begins and len(text.lstrip()) <= HEADER_LIMIT

    def at_start(self, text: str, tools: DeclaredTools) -> MarkerMatch | None:  # noqa: ARG002
        found = _BEGIN.match(text)
        return self.meaning(found) if found else None

    def meaning(self, found: re.Match[str]) -> MarkerMatch:
        """Of what precedes a call only a fence and the word of Phi-4 are no text."""
        begins = [found[0].find(each) for each in (_FENCE, _PHI) if each in found[0]]
        begin = found.start() + begins[0] if begins else found.end()
        return MarkerMatch(self, "json", begin, found.end(), True, alone=True)


JSON_ALONE = _JsonAlone(
    "json",
    (_FENCE, _THOUGHT),
    MarkerPattern(
        rf"(?:{spelled(*_FENCED)}|{_THOUGHT}){BLANKS}{_OBJECT.whole}",
        f"{so_far(*_FENCED, BLANKS, _OBJECT)}|{so_far((_THOUGHT,), BLANKS, _OBJECT)}",
    ),
    JsonAloneParser,
)
