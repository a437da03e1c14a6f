"""The tool calls of one choice: scanner pieces in, ``tool_calls`` deltas out.

Owns the indexes of a choice (contiguous from 0, shared with the calls that the
upstream sent natively) and the ids.  The deltas are what every client measured
accepts: ``id``, ``type`` and ``name`` only in a call's first delta, one call after
the other, and never ``""`` as the whole of its arguments.  A call that came twice,
as text and natively, is one (`RepeatedCalls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..notes import Evidence
from ..wire.chat_calls import read_delta, renumbered
from .declared_tools import DeclaredTools
from .events import Call
from .repeated_calls import RepeatedCalls

Delta = dict[str, Any]

MAX_CHECKED = 64 * 1024
"""Characters of arguments that are compared with the schema of their tool: longer ones are
texts to be written to a file, which every schema takes."""
MAX_INDEX = 2**31
"""Larger indexes of calls are invalid."""


class CallBuilder:
    """Builds the calls of one choice.  `now` (seconds) only serves to make ids, and is that of no
    other reply; `made` are the ids that were made for all choices of this one."""

    def __init__(self, evidence: Evidence, now: int, tools: DeclaredTools, made: set[str]) -> None:
        self._evidence = evidence
        self._tools = tools
        self._now = now
        self._made = made
        self._next_index = 0
        self._native: dict[int, int] = {}
        self._ids: set[str] = set()
        self._repaired_ids: set[str] = set()
        self._client_ids: dict[tuple[str, int], str] = {}
        """Of the upstream's own calls that have another id than theirs."""
        self._numbers: dict[str, int] = {}
        self._renumbers = False
        self.repeated = RepeatedCalls[Delta](evidence)
        self.repaired = 0
        """Leaked calls so far."""

    @property
    def remembered(self) -> int:
        """How many ids and indexes are known."""
        return len(self._native) + len(self._ids)

    def knows(self, index: int) -> bool:
        """Whether the upstream has begun a call of this index."""
        return index in self._native

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

    def begun_again(self, head: Delta) -> Delta:
        """The head of a call of the upstream's own; one that has the index of another call, and its
        id or none, gets an index and an id of its own, as clients join what has one index."""
        index, call_id = head.get("index"), head.get("id")
        if index not in self._native or not (not call_id or call_id in self._ids):
            return head
        del self._native[index]
        self.renumber()
        return {**head, "id": self._new_id("", self.native_index(index)), "type": "function"}

    def native_id(self, call_id: object, index: int) -> object:
        """The id the client sees for a call of the upstream's own: another one if a
        repaired call has it already, or one of the history."""
        if not isinstance(call_id, str):
            return call_id
        if call_id in self._tools.called or call_id in self._repaired_ids:
            if (call_id, index) not in self._client_ids:
                self._client_ids[call_id, index] = self._new_id(call_id, index)
            return self._client_ids[call_id, index]
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

    def came(self, native: Any, index: int) -> Any:
        """A whole call of the upstream's own, as the client gets it."""
        self.native_index(index)
        if (delta := read_delta(native)) is None:
            return native
        call = self.repeated.begin(delta.name, leaked=False)
        self.repeated.keep(call, delta.arguments)
        self.repeated.end(call)
        call_id = self.native_id(native.get("id"), index)
        return native if call_id == native.get("id") else {**native, "id": call_id}

    def deltas_of(self, call: Call) -> list[Delta]:
        """The deltas for a leaked call."""
        self.repaired += 1
        return self.written(self.repeated.leaked(call))

    def written(self, pieces: Sequence[Call | Delta]) -> list[Delta]:
        """The deltas for pieces of calls.  A call that was held may leave, whole, within another
        one."""
        deltas: list[Delta] = []
        for piece in pieces:
            deltas += [self.native(piece)] if isinstance(piece, dict) else self._written(piece)
        return deltas

    def close(self, *, cut: bool) -> list[Delta]:
        """No more calls come; see `RepeatedCalls.close`."""
        return self.written(self.repeated.close(cut=cut))

    def _written(self, call: Call) -> list[Delta]:
        index, self._next_index = self._next_index, self._next_index + 1
        note_call(self._evidence, self._tools, call)
        call_id = call.call_id
        if not call_id or call_id in self._ids or call_id in self._tools.called:
            call_id = self._new_id(call_id, index)
        self._ids.add(call_id)
        self._repaired_ids.add(call_id)
        function = {"name": call.name, "arguments": ""}
        head = {"index": index, "id": call_id, "type": "function", "function": function}
        arguments = ({"index": index, "function": {"arguments": each}} for each in call.pieces)
        return [head, *arguments]

    def _new_id(self, wanted: str, index: int) -> str:
        """One that no call of this reply or of the history has."""
        new = ""
        if wanted in self._tools.called:
            new = renumbered(wanted, self._has_id, self._numbers)
        while not new or self._has_id(new):
            new = f"call_{index}_{self._now}"
            index += 1
        self._made.add(new)
        return new

    def _has_id(self, call_id: str) -> bool:
        return call_id in self._tools.called or call_id in self._ids or call_id in self._made


def note_call(evidence: Evidence, tools: DeclaredTools, call: Call) -> None:
    """Record a call that leaves, and what is wrong with its arguments."""
    evidence.call(call.name, call.format, call.form)
    if call.unmarked:
        evidence.note("inferred", "the end of a call")
    arguments = call.arguments
    if len(arguments) <= MAX_CHECKED and tools.refuses(call.name, arguments):
        evidence.refused_calls += 1
