"""The upstream's own calls, where hosts read what the model wrote only in part.

| what arrives                                    | what leaves                             |
|-------------------------------------------------|-----------------------------------------|
| a name with markup around it                    | the name, if a tool of it is declared   |
| the id of Kimi's calls (``functions.bash:0``)   | the name in it, if it is a tool's       |
| a name that is a whole call of GLM's            | that call                               |
| a name that is cut over deltas                  | the name, when it is whole              |
| the name in every delta                         | the name once                           |
| the same head after whole arguments, then more  | another call, with an index of its own  |
| an id and an index of its own for each fragment | one call                                |
| a call that a text has, too                     | nothing                                 |

Markers in arguments stay, as nobody can tell what was meant; they are recorded.

Which call a delta belongs to is decided by `wire.chat_calls`.  A delta with which nothing is
wrong leaves as it came.
"""

from __future__ import annotations

from typing import Any

from ..notes import Evidence
from ..wire.chat_calls import Call, CallAssembler, CallDelta, read_delta
from ..wire.json_codec import Json
from .call_builder import CallBuilder
from .declared_tools import DeclaredTools
from .formats.active import ActiveFormats
from .formats.glm import KEY, TABLE, VALUE_END
from .formats.tagged_call import read_call
from .repeated_calls import ComparedCall

_TOKEN = "<|"


class NativeCalls:
    """The upstream's calls of one choice; `calls` gives them their indexes and ids."""

    def __init__(
        self, tools: DeclaredTools, calls: CallBuilder, formats: ActiveFormats, evidence: Evidence
    ) -> None:
        self._tools = tools
        self._calls = calls
        self._formats = formats
        self._evidence = evidence
        self._assembler = CallAssembler(tools.names)
        self._latest: Call | None = None
        self._index = 0
        """That of its first delta."""
        self._named = False
        """Whether the client has its name."""
        self._has_all = False
        """Whether its arguments stood in its name."""
        self._held: Json | None = None
        """Its first delta, while its name may be cut."""
        self._came: dict[Call, ComparedCall] = {}

    def rests_at(self, index: int) -> bool:
        """Whether this index is known, and nothing is held or known that another delta of its
        arguments could change."""
        rests = self._held is None and not (self._has_all or self._calls.repeated.holds)
        return rests and self._calls.knows(index)

    @property
    def remembered(self) -> int:
        return self._assembler.remembered + self._calls.remembered

    def clean(self, element: Any) -> Any:
        """An element of ``tool_calls`` without what leaked into its name; itself if nothing did.
        What leaked into arguments stays, as nobody can tell what was meant."""
        delta = read_delta(element)
        if delta is None:
            return element
        if self._formats.may_begin_in(delta.arguments):
            for marker in self._formats.find_all(delta.arguments):
                self._evidence.note("left", f"a {marker.name} in the arguments of a native call")
        if not (delta.name and isinstance(element.get("function"), dict)):
            return element
        name, is_call, rest = delta.name.partition(KEY)
        tool = (self._tools.find if is_call else self._tools.of_native)(name.strip())
        if tool is None:
            return element
        repaired = {"name": tool}
        if is_call:
            tags = KEY + rest  # of which the last may be missing
            texts = (read_call(tags + end, tool, TABLE, self._tools) for end in ("", VALUE_END))
            arguments = next((text for text in texts if text is not None), None)
            if arguments is None:
                return element
            repaired["arguments"] = arguments
        what = "a call in" if is_call else "what is not part of"
        self._evidence.note("took out", f"{what} the name of {tool}")
        return {**element, "function": {**element["function"], **repaired}}

    def take(self, elements: list[Any]) -> list[Any]:
        """What the client gets for the elements of ``tool_calls`` in a delta."""
        return [sent for element in elements for sent in self._take(element)]

    def take_whole(self, calls: list[Any]) -> list[Any]:
        """What the client gets for the ``tool_calls`` of a whole message."""
        return [self._calls.came(self.clean(call), at) for at, call in enumerate(calls)]

    def release(self) -> list[Any]:
        """What is held, as no more of the name comes."""
        held, self._held = self._held, None
        return self._send(held, self._latest) if held is not None and self._latest else []

    def _send(self, element: Json, call: Call, delta: CallDelta | None = None) -> list[Any]:
        """What leaves of an element of `call`, or with it: a call that came twice is one."""
        repeated, delta = self._calls.repeated, delta or read_delta(element)
        assert delta is not None
        if (came := self._came.get(call)) is None:
            if repeated.full:
                return [self._calls.native(element)]
            came = self._came[call] = repeated.begin(delta.name, leaked=False)
        pieces = repeated.add(came, element, delta.arguments)
        if delta.name and not came.name:
            pieces += repeated.rename(came, delta.name)
        if call.whole:
            pieces += repeated.end(came)
        return self._calls.written(pieces)

    def _take(self, element: Any) -> list[Any]:
        cleaned = self.clean(element)
        delta = read_delta(cleaned)
        if delta is None:
            return [self._calls.native(element)]
        if delta.index is None:
            return self._send(element, self._assembler.take(delta)[0])
        if not isinstance(cleaned.get("function"), dict):
            return [*self.release(), self._calls.native(element)]
        if delta.name.startswith(_TOKEN) and self._latest is not None:
            return self._tail(cleaned)
        call, is_new = self._assembler.take(delta)
        call.forget()
        if call.repeated is not None:
            self._evidence.note("joined", "deltas of a call that each look like its first")
            return []
        if is_new:
            has_all = cleaned is not element and bool(delta.arguments)
            cleaned = self._calls.begun_again(_with_head(cleaned, delta, call))
            delta.name = call.name
            return [*self.release(), *self._begin(cleaned, delta, call, has_all=has_all)]
        if call is not self._latest:
            return [*self.release(), *self._send(element, call, delta)]
        if self._held is not None:
            return self._join_name(self._held, cleaned, delta, call)
        if self._has_all:
            self._evidence.note("dropped", "arguments beside those in the name of a call")
            return []
        continued = self._continued(cleaned, delta)
        return self._send(continued, call, delta) if continued["function"] else []

    def _tail(self, element: Json) -> list[Any]:
        """The tokens after a name come in a delta of their own."""
        self._evidence.note("took out", "a token in the name of a call")
        function = _without(element["function"], "name")
        return self._take({**element, "function": function}) if any(function.values()) else []

    def _begin(self, element: Json, delta: CallDelta, call: Call, *, has_all: bool) -> list[Any]:
        self._latest, self._index = call, delta.index or 0
        self._named, self._has_all = bool(delta.name), has_all
        if not delta.arguments and self._tools.may_be_cut(delta.name):
            self._held = element
            return []
        return self._send(element, call)

    def _join_name(self, held: Json, element: Json, delta: CallDelta, call: Call) -> list[Any]:
        """A later delta of the call whose name may be cut."""
        function = held["function"]
        if call.name == function["name"] and delta.arguments:
            return [*self.release(), *self._send(self._continued(element, delta), call)]
        function = {**function, "name": self._tools.of_native(call.name) or call.name}
        if delta.arguments:
            function["arguments"] = delta.arguments
        self._held = {**held, "function": function}
        if not delta.arguments and self._tools.may_be_cut(call.name):
            return []
        self._evidence.note("joined", "the name of a call that came in pieces")
        return self.release()

    def _continued(self, element: Json, delta: CallDelta) -> Json:
        """A later delta of the latest call, without what belongs to its first."""
        repeats = bool(delta.name) and self._named
        self._named = self._named or bool(delta.name)
        elsewhere = bool(delta.id) and delta.index != self._index
        if not (repeats or elsewhere):
            return element
        self._evidence.note("joined", "deltas of a call that each look like its first")
        if elsewhere:
            self._calls.renumber()
        function = _without(element["function"], "name")
        return {**_without(element, "id", "type"), "index": self._index, "function": function}


def _with_head(element: Json, delta: CallDelta, call: Call) -> Json:
    """The first delta of a call; one that follows a repeated head has name and id from it."""
    if delta.name or not call.name:
        return element
    named = {**element["function"], "name": call.name}
    head = {"id": call.id, "type": "function"} if call.id and not delta.id else {}
    return {**element, **head, "function": named}


def _without(value: Json, *names: str) -> Json:
    return {key: member for key, member in value.items() if key not in names}
