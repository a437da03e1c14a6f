"""The elements of ``tool_calls`` of one choice, as the client gets them: their indexes and ids.

Indexes are contiguous from 0, and shared by the host's own calls and those that repair has made.
The host's own keep theirs unless another call has it, or something made one before them; an id is
another only if another call of the reply has it already, or one of the conversation.  ``id``,
``type`` and ``name`` are only in the first element of a call.  An element in which nothing is
another is the host's own object.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..notes import Evidence
from ..reply.words import Arguments, CallBegin, Part
from ..wire.chat_calls import read_delta, renumbered
from ..wire.json_codec import Json
from .reader import MAX_INDEX


class ReplyCallIds:
    """`called` are the ids of the conversation, `made` those that were made for all choices of this
    reply.  `now` (seconds) only serves to make ids, and is that of no other reply."""

    def __init__(
        self, called: Container[str], made: set[str], evidence: Evidence, now: int
    ) -> None:
        self._called = called
        self._made = made
        self._evidence = evidence
        self._now = now
        self._next = 0
        self._indexes: dict[int, int] = {}
        """Of the host's own calls, by their own."""
        self._leaked_index = -1
        """That of the leaked call that came last."""
        self._ids: dict[str, int] = {}
        """Those that left, and the index of the call that had each first."""
        self._other_ids: dict[tuple[str, int], str] = {}
        """Of the host's own calls that have another id than theirs."""
        self._numbers: dict[str, int] = {}
        self._begun: dict[Part, int] = {}
        """The host's own calls of which the client has the beginning, and their indexes."""
        self._counts_on = False
        """Whether calls to come are counted on, whatever index their host gives them."""

    # Leaked calls

    def leaked(self, delta: CallBegin | Arguments) -> Json:
        if isinstance(delta, Arguments):
            return more_arguments(self._leaked_index, delta.text)
        self._leaked_index, self._next = self._next, self._next + 1
        self._counts_on = True
        call_id = delta.id
        if not call_id or call_id in self._ids or call_id in self._called:
            call_id = self._new_id(call_id, self._leaked_index)
        self._ids[call_id] = self._leaked_index
        function = {"name": delta.name, "arguments": delta.text}
        head = {"index": self._leaked_index, "id": call_id, "type": "function"}
        return {**head, "function": function}

    # The host's own

    def native(self, delta: CallBegin | Arguments) -> Any:
        """None if nothing of the element is left."""
        raw = delta.raw
        host, function = raw.get("index"), raw.get("function")
        if host is not None and (type(host) is not int or not 0 <= host < MAX_INDEX):
            return raw
        changed: Json = {}
        if isinstance(function, dict):
            if isinstance(delta, Arguments):
                raw = self._more(delta, raw, function)
                if raw is None:
                    return None
            else:
                changed = _begun(delta, raw, function)
                if delta.part not in self._begun:
                    changed |= self._head(delta, raw, host)
        host, whole = raw.get("index"), delta.part.whole
        index = self.index_of(delta.part, host)
        if index != host and not whole:
            changed["index"] = index
        call_id = changed.get("id", raw.get("id"))
        if isinstance(call_id, str) and (own := self._id(call_id, index)) != raw.get("id"):
            changed["id"] = own
        return {**raw, **changed} if changed else raw

    def _head(self, delta: CallBegin, raw: Json, host: int | None) -> Json:
        """What is another in the head of a call, beside its function: its id may have come with a
        head that was held.  One that has the index of another call, or none, gets an index of its
        own, as clients join what has one index, and then an id if it has none; but not in a
        message, whose calls are in a list and joined by nobody."""
        if delta.part.whole or host is None or host in self._indexes:
            index = self._begun[delta.part] = self._next
            self._next += 1
            if delta.part.whole:
                return {}
            self._counts_on = True
            if host is not None:
                self._indexes[host] = index
            self._evidence.note("numbered", "a call without an index of its own")
            return {"id": delta.id or self._new_id("", index), "type": "function"}
        self._begun[delta.part] = self.index(host)
        return {"id": delta.id, "type": "function"} if delta.id and not raw.get("id") else {}

    def _more(self, delta: Arguments, raw: Json, function: Json) -> Json | None:
        """A later element of a call, with its arguments, without what belongs to its first."""
        came = function.get("arguments")
        if isinstance(came, str) and came != delta.text:
            function = {**function, "arguments": delta.text}
            raw = {**raw, "function": function}
        first = delta.part.place
        elsewhere = bool(raw.get("id")) and raw.get("index") not in (None, first)
        if not (elsewhere or function.get("name")):
            return raw
        self._evidence.change("joined", "deltas of a call that each look like its first")
        self._counts_on = self._counts_on or elsewhere
        function = _without(function, "name")
        if not function:
            return None
        index = {} if first is None else {"index": first}
        return {**_without(raw, "id", "type"), **index, "function": function}

    def index_of(self, part: Part, host: int | None) -> int:
        """The index of a call that has begun; before that, by the one that its host gives it."""
        if (begun := self._begun.get(part)) is not None:
            return begun
        return 0 if part.whole or host is None else self.index(host)

    def index(self, host: int) -> int:
        """The index of a call that the host numbered so."""
        if host not in self._indexes:
            index = self._next if self._counts_on else host
            self._indexes[host] = index
            self._next = max(self._next, index + 1)
        return self._indexes[host]

    def _id(self, call_id: str, index: int) -> str:
        if not call_id:
            return call_id
        if call_id in self._called or self._ids.setdefault(call_id, index) != index:
            if (call_id, index) not in self._other_ids:
                self._other_ids[call_id, index] = self._new_id(call_id, index)
            return self._other_ids[call_id, index]
        return call_id

    def _new_id(self, wanted: str, index: int) -> str:
        """One that no call of this reply or of the conversation has."""
        new = ""
        if wanted in self._called:
            new = renumbered(wanted, self._is_taken, self._numbers)
        while not new or self._is_taken(new):
            new = f"call_{index}_{self._now}"
            index += 1
        self._made.add(new)
        return new

    def _is_taken(self, call_id: str) -> bool:
        return call_id in self._called or call_id in self._ids or call_id in self._made


def more_arguments(index: int, text: str) -> Json:
    return {"index": index, "function": {"arguments": text}}


def _begun(delta: CallBegin, raw: Json, function: Json) -> Json:
    """What is another in the first element of a call: its name, its arguments."""
    changed: Json = {}
    if delta.name and function.get("name") != delta.name:
        changed["name"] = delta.name
    came = read_delta(raw)
    if (came.arguments if came is not None else "") != delta.text:
        changed["arguments"] = delta.text
    return {"function": function | changed} if changed else {}


def _without(value: Json, *names: str) -> Json:
    return {key: member for key, member in value.items() if key not in names}
