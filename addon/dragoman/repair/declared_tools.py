"""The tools that a request declares, and what follows from them.

The tool of a call without a name is inferred from its arguments (`DeclaredTools.meant_by`):
exactly one declared tool's schema must accept them.  A best guess could silently run the wrong
tool, so there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from ..wire.json_codec import NotJson, loads
from ..wire.slices import Slices, drained
from .schema import OutOfSteps, Steps, accepts, flattened
from .tool_index import ToolIndex


class DeclaredTools:
    """The tools and earlier calls of a request."""

    def __init__(
        self,
        schemas: Mapping[str, object],
        *,
        model: str = "",
        forbidden: bool = False,
        called: Mapping[str, str] | None = None,
        index: ToolIndex | None = None,
    ) -> None:
        """`schemas` are those of the declared tools, none if they are not known; `model` is
        the one that was requested; `forbidden`: no call is wanted (``tool_choice``); `called`
        gives the tool of each call id in the history; `index` is that of the schemas, if it
        exists already."""
        self._schemas = schemas
        if index is None:
            index = ToolIndex(schemas)
            drained(index.indexing())
        self._index = index
        self.model = model
        self.forbidden = forbidden
        self._called = called or {}
        self._steps = Steps()
        self._flat: dict[str, object] = {}
        """See `schema_of`."""

    @classmethod
    def of_request(cls, request: object) -> DeclaredTools:
        """From a chat completions request body; anything unreadable declares nothing."""
        return drained(cls.reading(request))

    @classmethod
    def reading(cls, request: object) -> Slices[DeclaredTools]:
        """The same in slices."""
        schemas: dict[str, object] = {}
        for function in _functions(request):
            if not isinstance(function, dict):
                continue
            name = function.get("name")
            if isinstance(name, str) and name:
                # Without "parameters" a function takes none (OpenAI's API reference).
                nothing = {"type": "object", "additionalProperties": False}
                schemas[name] = function.get("parameters", nothing)
            yield
        index = ToolIndex(schemas)
        yield from index.indexing()
        if not isinstance(request, dict):
            return cls(schemas, index=index)
        called = yield from _called(request.get("messages"))
        model = request.get("model")
        return cls(
            schemas,
            model=model if isinstance(model, str) else "",
            forbidden="none" in (request.get("tool_choice"), request.get("function_call")),
            called=called,
            index=index,
        )

    def with_aliases(self, aliases: Mapping[str, str]) -> DeclaredTools:
        """The same tools, which may be called by further names; only a call without a name cannot
        mean an alias."""
        schemas = {alias: self._schemas[name] for alias, name in aliases.items() if name in self}
        return DeclaredTools(
            {**schemas, **self._schemas},
            model=self.model,
            forbidden=self.forbidden,
            called=self._called,
            index=self._index,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def __bool__(self) -> bool:
        return bool(self._schemas)

    @property
    def names(self) -> AbstractSet[str]:
        return self._schemas.keys()

    def schema_of(self, name: str) -> object:
        """The schema of the arguments of a declared tool as one object (`flattened`); None if there
        is no such tool."""
        if name in self._schemas and name not in self._flat:
            self._flat[name] = flattened(self._schemas[name])
        return self._flat.get(name)

    def meant_by(self, arguments: str, *, declared: bool = False) -> str | None:
        """The one tool whose schema accepts the whole argument object; of several whose
        schemas are open, or if `declared`, the one that declares all of its keys, of which
        there must be one.  None as well if it would take too long to find out."""
        try:
            self._steps.take()
            value = loads(arguments or "{}")
            if not isinstance(value, dict) or (declared and not value):
                return None
            accepting = [
                name
                for name in self._index.may_take(value)
                if accepts(self._schemas[name], value, self._steps)
            ]
        except (NotJson, OutOfSteps):
            return None
        if declared or len(accepting) > 1:
            accepting = [n for n in accepting if value.keys() <= _properties(self._schemas[n])]
        return accepting[0] if len(accepting) == 1 else None

    def refuses(self, name: str, arguments: str) -> bool:
        """Whether arguments are invalid JSON, or the schema of this tool refuses them."""
        try:
            value = loads(arguments or "{}")
            return name in self and not accepts(self._schemas[name], value, Steps())
        except NotJson:
            return True
        except OutOfSteps:
            return False

    def called_by(self, call_id: str) -> str | None:
        """The tool of the call in the history that has this id."""
        return self._called.get(call_id)

    def may_begin(self, text: str) -> bool:
        """Whether the name of a tool begins with `text`."""
        return self._index.may_begin(text)

    def alike(self, name: str) -> str | None:
        """The one declared tool that differs from `name` only in ``-`` and ``_``."""
        return self._index.alike(name)

    def longest_suffix(self, dotted: str) -> str | None:
        """The longest declared name that `dotted` ends in, at a dot."""
        while dotted not in self._schemas:
            if "." not in dotted:
                return None
            dotted = dotted.partition(".")[2]
        return dotted


def _functions(request: object) -> Iterator[object]:
    """The functions that a request declares; older clients do so without tools around them."""
    if not isinstance(request, dict):
        return
    tools, functions = request.get("tools"), request.get("functions")
    for tool in tools if isinstance(tools, list) else []:
        yield tool.get("function") if isinstance(tool, dict) else None
    if isinstance(functions, list):
        yield from functions


def _called(messages: object) -> Slices[dict[str, str]]:
    """The tool of each call in a history, by its id; not for ids that two tools share."""
    called: dict[str, str] = {}
    ambiguous: set[str] = set()
    for message in messages if isinstance(messages, list) else []:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function") if isinstance(call, dict) else None
            name = function.get("name") if isinstance(function, dict) else None
            call_id = call.get("id") if isinstance(call, dict) else None
            if not isinstance(name, str) or not name.strip() or not isinstance(call_id, str):
                continue
            if called.setdefault(call_id, name) != name:
                ambiguous.add(call_id)
        yield
    return {call_id: name for call_id, name in called.items() if call_id not in ambiguous}


def _properties(schema: object) -> AbstractSet[str]:
    declared = schema.get("properties") if isinstance(schema, dict) else None
    return declared.keys() if isinstance(declared, dict) else frozenset()
