"""The tool calls of one choice: scanner pieces in, ``tool_calls`` deltas out.

Owns the indexes of a choice (contiguous from 0, shared with the calls that the
upstream sent natively) and the ids.  The deltas are what every client measured
accepts: ``id``, ``type`` and ``name`` only in a call's first delta, one call after
the other, and never ``""`` as the whole of its arguments.
"""

from __future__ import annotations

from typing import Any

from ..evidence import Evidence
from .headers import Tools, is_call_id, resolve
from .pieces import CallEnd

NAMELESS_LIMIT = 1024 * 1024
"""Characters of arguments kept until a call without a name can be told from them."""

Delta = dict[str, Any]


class Calls:
    """Builds the calls of one choice.  `now` (seconds) only serves to make ids."""

    def __init__(self, tools: Tools, evidence: Evidence, now: int) -> None:
        self._tools = tools
        self._evidence = evidence
        self._now = now
        self._next_index = 0
        self._native: dict[int, int] = {}
        self._ids: set[str] = set()
        self._repaired_ids: set[str] = set()
        self._index = 0
        self._header = ""
        self._open = False
        self._empty = True
        self._nameless: list[str] | None = None
        self._nameless_size = 0
        self.repaired = 0

    def native_index(self, index: int) -> int:
        """The index the client sees for a call that the upstream numbered `index`: that
        very one, unless calls out of repair came before it."""
        if index not in self._native:
            if not self.repaired:
                self._native[index] = index
                self._next_index = max(self._next_index, index + 1)
            else:
                self._native[index] = self._next_index
                self._next_index += 1
        return self._native[index]

    def native_id(self, call_id: object, index: int) -> object:
        """The id the client sees for a call of the upstream's own: another one if a call
        out of repair has it already."""
        if not isinstance(call_id, str):
            return call_id
        if call_id in self._repaired_ids:
            return f"call_{index}_{self._now}"
        self._ids.add(call_id)
        return call_id

    def start(self, header: str) -> list[Delta]:
        """A call begins; without a name in `header` it is held until it is whole."""
        self.repaired += 1
        self._header = header
        self._empty = True
        self._open = True
        self._index = self._next_index
        self._next_index += 1
        found = resolve(header, self._tools)
        if found.name is not None:
            return [self._first(found.name, found.form)]
        self._nameless = []
        self._nameless_size = 0
        return []

    def arguments(self, text: str) -> list[Delta]:
        """The next piece of the open call's arguments."""
        if self._nameless is not None:
            self._nameless.append(text)
            self._nameless_size += len(text)
            return self._name_it("") if self._nameless_size > NAMELESS_LIMIT else []
        self._empty = False
        return [{"index": self._index, "function": {"arguments": text}}]

    def end(self, end: CallEnd) -> list[Delta]:
        """The open call ends."""
        deltas: list[Delta] = []
        if self._nameless is not None:
            candidates = self._tools.accepting("".join(self._nameless)) if end.valid else []
            deltas = self._name_it(candidates[0] if len(candidates) == 1 else "")
        if self._empty and not end.cut:
            deltas += self.arguments("{}")
        if end.cut:
            self._evidence.note("closed a call that the stream cut off")
        elif not end.valid:
            self._evidence.note("passed on arguments that are not JSON")
        self._open = False
        return deltas

    @property
    def held(self) -> tuple[str, list[str], int]:
        """The header of a call that has no name yet, and the pieces of its arguments:
        so many of a list that may grow."""
        pieces = self._nameless
        return ("", [], 0) if pieces is None else (self._header, pieces, len(pieces))

    def _name_it(self, inferred: str) -> list[Delta]:
        held, self._nameless = self._nameless or [], None
        if inferred:
            deltas = [self._first(inferred, "inferred from its arguments")]
        else:
            self._evidence.note("kept the literal header of a call that names no tool")
            deltas = [self._first(self._header or "unnamed", "literal header")]
        return deltas + [delta for text in held for delta in self.arguments(text)]

    def _first(self, name: str, form: str) -> Delta:
        self._evidence.call(name)
        self._evidence.note("read", f"{name} ({form})")
        function = {"name": name, "arguments": ""}
        return {"index": self._index, "id": self._id(), "type": "function", "function": function}

    def _id(self) -> str:
        call_id = self._header
        if not is_call_id(call_id) or call_id in self._ids:
            call_id = f"call_{self._index}_{self._now}"
        self._ids.add(call_id)
        self._repaired_ids.add(call_id)
        return call_id
