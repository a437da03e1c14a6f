"""The tool calls of one choice: scanner pieces in, ``tool_calls`` deltas out.

Owns the indexes of a choice (contiguous from 0, shared with the calls that the
upstream sent natively) and the ids.  The deltas are what every client measured
accepts: ``id``, ``type`` and ``name`` only in a call's first delta, one call after
the other, and never ``""`` as the whole of its arguments.  A call that came twice,
as text and natively, is one (`RepeatedCalls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..notes import Evidence
from ..wire.chat_calls import read_delta, renumbered
from .call_namer import LITERAL
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart
from .repeated_calls import RepeatedCall, RepeatedCalls

Delta = dict[str, Any]
CallEvent = CallStart | Arguments | CallEnd

MAX_CHECKED = 64 * 1024
"""Characters of arguments that are compared with the schema of their tool: longer ones are
texts to be written to a file, which every schema takes."""
MAX_INDEX = 2**31
"""Larger indexes of calls are invalid."""


@dataclass(slots=True)
class _WrittenCall:
    """A repaired call, as far as its deltas were made."""

    index: int
    name: str
    arguments: list[str]
    """Those so far, up to a limit."""
    size: int = 0
    empty: bool = True
    ended: bool = False

    def add(self, text: str) -> None:
        """More of the arguments, which are compared with a schema at the end of the call."""
        self.empty = False
        if self.size <= MAX_CHECKED:
            self.size += len(text)
            self.arguments.append(text)


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
        self._open = _WrittenCall(0, "", [], ended=True)
        """The repaired call that was written last."""
        self.repeated = RepeatedCalls[CallEvent | Delta](evidence)
        """Its pieces are events of leaked calls, and deltas of native ones."""
        self._leaked: RepeatedCall[CallEvent | Delta] | None = None
        """The leaked call that came last."""
        self.repaired = 0
        """Leaked calls so far."""

    @property
    def index(self) -> int:
        """That of the open call."""
        return self._open.index

    @property
    def writes(self) -> bool:
        """Whether the open leaked call leaves as it arrives."""
        leaked = self._leaked
        return leaked is not None and leaked.held is None and not leaked.left_out

    @property
    def remembered(self) -> int:
        """How many ids and indexes are known."""
        return len(self._native) + len(self._ids)

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

    def deltas_of(self, event: CallEvent) -> list[Delta]:
        """The deltas for an event of a leaked call."""
        repeated = self.repeated
        if isinstance(event, CallStart):
            self.repaired += 1
            self._leaked = repeated.begin(event.name, leaked=True)
        leaked = self._leaked
        assert leaked is not None
        text = event.text if isinstance(event, Arguments) else ""
        deltas = self.written(repeated.add(leaked, event, text))
        if isinstance(event, CallEnd) and not event.cuts_call:
            deltas += self.written(repeated.end(leaked))
        return deltas

    def written(self, pieces: Sequence[CallEvent | Delta]) -> list[Delta]:
        """The deltas for pieces of calls.  A call that was held may leave, whole, within another
        one."""
        if len(pieces) == 1 and isinstance(pieces[0], dict):
            return [self.native(pieces[0])]
        opened, deltas = self._open, list[Delta]()
        for piece in pieces:
            if isinstance(piece, dict):
                deltas.append(self.native(piece))
            elif isinstance(piece, Arguments):
                deltas += self.arguments(piece.text)
            else:
                deltas += self.start(piece) if isinstance(piece, CallStart) else self.end(piece)
        if not opened.ended:
            self._open = opened
        return _joined(deltas) if len(deltas) > 1 else deltas

    def close(self, *, cut: bool) -> list[Delta]:
        """No more calls come; see `RepeatedCalls.close`."""
        return self.written(self.repeated.close(cut=cut))

    def start(self, call: CallStart) -> list[Delta]:
        self._open = _WrittenCall(self._next_index, call.name, [])
        self._next_index += 1
        self._evidence.call(call.name, call.format, call.form)
        if call.form == LITERAL:
            self._evidence.note("kept the literal header of a call that names no tool")
        function = {"name": call.name, "arguments": ""}
        call_id = self._id(call.call_id)
        return [{"index": self.index, "id": call_id, "type": "function", "function": function}]

    def arguments(self, text: str) -> list[Delta]:
        self._open.add(text)
        return [{"index": self.index, "function": {"arguments": text}}]

    def keep_arguments(self, text: str) -> None:
        """A piece of the open call's arguments that leaves without a delta of ours."""
        assert self._leaked is not None
        self.repeated.keep(self._leaked, text)
        self._open.add(text)

    def end(self, end: CallEnd) -> list[Delta]:
        opened = self._open
        if end.cut:
            self._evidence.note("ended within a call")
        elif not end.valid:
            self._evidence.note("passed on arguments that are not JSON")
        if not end.cut and (not end.valid or self._refused(opened)):
            self._evidence.refused_calls += 1
        deltas = self.arguments("{}") if opened.empty and not end.cut else []
        opened.ended, opened.arguments = True, []
        return deltas

    def _refused(self, call: _WrittenCall) -> bool:
        if call.size > MAX_CHECKED:
            return False
        return self._tools.refuses(call.name, "".join(call.arguments))

    def _id(self, wanted: str) -> str:
        """That of a repaired call."""
        is_new = wanted and wanted not in self._ids and wanted not in self._tools.called
        call_id = wanted if is_new else self._new_id(wanted, self.index)
        self._ids.add(call_id)
        self._repaired_ids.add(call_id)
        return call_id

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


def _joined(deltas: list[Delta]) -> list[Delta]:
    """The same, with arguments alone in the delta of their call before them."""
    runs: list[tuple[Delta, list[str]]] = []
    for delta in deltas:
        first, function = runs[-1][0] if runs else {}, delta.get("function") or {}
        alone = delta.keys() == {"index", "function"} and function.keys() == {"arguments"}
        if alone and first.get("function") and first["index"] == delta["index"]:
            runs[-1][1].append(function["arguments"])
        else:
            runs.append((delta, []))
    return [_with_more(first, others) if others else first for first, others in runs]


def _with_more(delta: Delta, arguments: list[str]) -> Delta:
    function = delta["function"]
    first = function.get("arguments") or ""
    return {**delta, "function": {**function, "arguments": "".join([first, *arguments])}}
