"""Renames calls in a request to a host that speaks the Responses API itself.

Kimi's template shows a call by its id alone, and K2 reads the tool's name out of it.  A host that
makes ids of its own loses the name, and the model then writes unreadable calls (seen with vLLM).
So calls in the history, and their outputs, get the ids of their model's family, as in a bridged
request; the client keeps the ids that it knows, as these are made anew for each request.
"""

from __future__ import annotations

import itertools
import re

from ...wire.json_codec import Json, string
from ...wire.responses import CALL_OUTPUTS, STREAMED_CALLS
from ...wire.slices import Slices
from ..model_families import Family, family_of
from ..request.toolbox import upstream_name

_OUTPUTS = frozenset(CALL_OUTPUTS[call] for call in STREAMED_CALLS)


def renaming_calls(request: Json) -> Slices[tuple[Json, int]]:
    """The request with these ids, in slices, and how many calls have a new one; the very same
    object if none has.

    A request that continues what its host has stored has only a part of the conversation, so
    nobody knows how many calls came before: it stays as it is."""
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
        self._count = 0
        """Calls so far, of the conversation or of the turn, as the family counts them."""
        self._used: set[str] = set()
        """The ids of these calls."""
        self._ids: dict[str, str] = {}
        """The latest new id for each id of the client's."""
        self.changed = 0

    def renamed(self, item: Json) -> Json:
        kind, old, name = item.get("type"), item.get("call_id"), item.get("name")
        is_call = kind in STREAMED_CALLS and isinstance(name, str)
        if not is_call and kind != "reasoning" and self._family.call_ids == "message":
            self._count = 0
            self._used.clear()
        if not isinstance(old, str) or not (is_call or kind in _OUTPUTS):
            return item
        if is_call:
            self._ids[old] = self._new_id(old, str(name), item.get("namespace"))
            self.changed += self._ids[old] != old
        new = self._ids.get(old, old)
        return item if new == old else {**item, "call_id": new}

    def _new_id(self, old: str, name: str, namespace: object) -> str:
        """The old id, if the family could have given it; else the next."""
        within = namespace if isinstance(namespace, str) else None
        shown = upstream_name(name, within, self._family)
        form = re.escape(self._family.call_id(shown, 0, 0)[:-1]) + "[0-9]+"
        new = old
        if old in self._used or not re.fullmatch(form, old):
            ids = (self._family.call_id(shown, n, n) for n in itertools.count(self._count))
            new = next(call_id for call_id in ids if call_id not in self._used)
        self._count += 1
        self._used.add(new)
        return new
