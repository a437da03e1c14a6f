"""The tool calls of one choice: scanner pieces in, ``tool_calls`` deltas out.

Owns the indexes of a choice (contiguous from 0, shared with the calls that the
upstream sent natively) and the ids.  The deltas are what every client measured
accepts: ``id``, ``type`` and ``name`` only in a call's first delta, one call after
the other, and never ``""`` as the whole of its arguments.
"""

from __future__ import annotations

from typing import Any

from ..notes import Evidence
from .call_namer import LITERAL
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart

Delta = dict[str, Any]

MAX_CHECKED = 64 * 1024
"""Characters of arguments that are compared with the schema of their tool: longer ones are
texts to be written to a file, which every schema takes."""
MAX_INDEX = 2**31
"""Larger indexes of calls are invalid."""


class CallBuilder:
    """Builds the calls of one choice.  `now` (seconds) only serves to make ids."""

    def __init__(self, evidence: Evidence, now: int, tools: DeclaredTools) -> None:
        self._evidence = evidence
        self._tools = tools
        self._now = now
        self._next_index = 0
        self._native: dict[int, int] = {}
        self._ids: set[str] = set()
        self._repaired_ids: set[str] = set()
        self._renumbers = False
        self._index = 0
        self._empty = True
        self._name = ""
        self._arguments: list[str] = []
        """Those of the open call, up to a limit."""
        self._size = 0
        self.repaired = 0

    def native_index(self, index: int) -> int:
        """The index the client sees for a call that the upstream numbered `index`: that
        very one, unless repair made calls before it, or it was made to `renumber`."""
        if index not in self._native:
            if not (self.repaired or self._renumbers):
                self._native[index] = index
                self._next_index = max(self._next_index, index + 1)
            else:
                self._native[index] = self._next_index
                self._next_index += 1
        return self._native[index]

    def renumber(self) -> None:
        """The upstream has numbered what is no call: those to come are counted on."""
        self._renumbers = True

    def native_id(self, call_id: object, index: int) -> object:
        """The id the client sees for a call of the upstream's own: another one if a
        repaired call has it already."""
        if not isinstance(call_id, str):
            return call_id
        if call_id in self._repaired_ids:
            return f"call_{index}_{self._now}"
        self._ids.add(call_id)
        return call_id

    def native(self, delta: object) -> Any:
        """The delta the client sees for one of a call of the upstream's own."""
        if not isinstance(delta, dict):
            return delta
        index = delta.get("index", 0)
        if type(index) is not int or not 0 <= index < MAX_INDEX:
            return delta
        client_index = self.native_index(index)
        call_id = self.native_id(delta.get("id"), client_index)
        if client_index == index and call_id == delta.get("id"):
            return delta
        return {**delta, "index": client_index} | ({"id": call_id} if "id" in delta else {})

    def deltas_of(self, event: CallStart | Arguments | CallEnd) -> list[Delta]:
        if isinstance(event, Arguments):
            return self.arguments(event.text)
        return self.start(event) if isinstance(event, CallStart) else self.end(event)

    def start(self, call: CallStart) -> list[Delta]:
        self.repaired += 1
        self._empty = True
        self._name, self._arguments, self._size = call.name, [], 0
        self._index = self._next_index
        self._next_index += 1
        self._evidence.call(call.name, call.format, call.form)
        if call.form == LITERAL:
            self._evidence.note("kept the literal header of a call that names no tool")
        function = {"name": call.name, "arguments": ""}
        call_id = self._id(call.call_id)
        return [{"index": self._index, "id": call_id, "type": "function", "function": function}]

    def arguments(self, text: str) -> list[Delta]:
        self._empty = False
        self.keep_arguments(text)
        return [{"index": self._index, "function": {"arguments": text}}]

    def keep_arguments(self, text: str) -> None:
        """A piece of the open call's arguments, which are compared with a schema at its end."""
        if self._size <= MAX_CHECKED:
            self._size += len(text)
            self._arguments.append(text)

    def end(self, end: CallEnd) -> list[Delta]:
        if end.cut:
            self._evidence.note("closed a call that the stream cut off")
        elif not end.valid:
            self._evidence.note("passed on arguments that are not JSON")
        if not end.cut and (not end.valid or self._refused()):
            self._evidence.refused_calls += 1
        self._arguments = []
        return self.arguments("{}") if self._empty and not end.cut else []

    def _refused(self) -> bool:
        if self._size > MAX_CHECKED:
            return False
        return self._tools.refuses(self._name, "".join(self._arguments))

    def _id(self, wanted: str) -> str:
        call_id = wanted
        if not call_id or call_id in self._ids:
            call_id = f"call_{self._index}_{self._now}"
        self._ids.add(call_id)
        self._repaired_ids.add(call_id)
        return call_id
