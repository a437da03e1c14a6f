"""Renames calls in a request to a host that speaks the Responses API itself.

Kimi's template shows a call by its id alone, and K2 reads the tool's name out of it.  A host that
makes ids of its own loses the name, and the model then writes unreadable calls (seen with vLLM).
So calls in the history, and their outputs, get the ids of their model's family, as in a bridged
request; the client keeps the ids that it knows, as these are made anew for each request.
"""

from __future__ import annotations

import itertools

from ...wire.json_codec import Json, string
from ...wire.responses import CALL_OUTPUTS, STREAMED_CALLS
from ...wire.slices import Slices
from ..model_families import Family, family_of
from ..request.toolbox import upstream_name

_OUTPUTS = frozenset(CALL_OUTPUTS[call] for call in STREAMED_CALLS)


def renaming_calls(request: Json) -> Slices[tuple[Json, int]]:
    """The request with these ids, in slices, and how many calls have another one now; the very
    same object if none has.

    One that continues what its host has stored says only a part of the conversation, and so
    not how many calls came before it: it stays as it is."""
    items, family = request.get("input"), family_of(string(request.get("model")))
    stored = request.get("previous_response_id") or request.get("conversation")
    if family.call_ids == "kept" or stored or not isinstance(items, list):
        return request, 0
    calls = _Calls(family)
    renamed = []
    for item in items:
        renamed.append(calls.renamed(item) if isinstance(item, dict) else item)
        yield
    return ({**request, "input": renamed} if calls.changed else request), calls.changed


class _Calls:
    def __init__(self, family: Family) -> None:
        self._family = family
        self._count = self._position = 0
        """Calls so far, of the conversation and of the turn."""
        self._taken: set[str] = set()
        """The ids that no other call may have: those of the conversation, or of the turn."""
        self._ids: dict[str, str] = {}
        """The latest new id of each of the client's."""
        self.changed = 0

    def renamed(self, item: Json) -> Json:
        kind, known, name = item.get("type"), item.get("call_id"), item.get("name")
        if kind in STREAMED_CALLS and isinstance(known, str) and isinstance(name, str):
            new = self._ids[known] = self._new_id(known, name, item.get("namespace"))
            self.changed += new != known
            return item if new == known else {**item, "call_id": new}
        if kind != "reasoning":
            self._end_turn()
        if kind in _OUTPUTS and isinstance(known, str):
            new = self._ids.get(known, known)
            return item if new == known else {**item, "call_id": new}
        return item

    def _end_turn(self) -> None:
        self._position = 0
        if self._family.call_ids == "message":
            self._taken.clear()

    def _new_id(self, known: str, name: str, namespace: object) -> str:
        within = namespace if isinstance(namespace, str) else None
        shown = upstream_name(name, within, self._family)
        form = self._family.call_id(shown, 0, 0)[:-1]
        number = known.removeprefix(form)
        if number == known or not (number.isascii() and number.isdigit()) or known in self._taken:
            ids = (
                self._family.call_id(shown, self._count + more, self._position + more)
                for more in itertools.count()
            )
            known = next(each for each in ids if each not in self._taken)
        self._count, self._position = self._count + 1, self._position + 1
        self._taken.add(known)
        return known
