"""Renames calls in a request to a host that speaks the Responses API itself.

Kimi's template shows a call by its id alone, and K2 reads the tool's name out of it.  A host that
makes ids of its own loses the name, and the model then writes unreadable calls (seen with vLLM).
So calls in the history, and their outputs, get the ids of their model's family, as in a bridged
request; the client keeps the ids that it knows, as these are made anew for each request.
"""

from __future__ import annotations

from ..responses.names import CALL_OUTPUTS, STREAMED_CALLS
from ..wire.json_codec import Json, string
from .cure.tool_names import ToolNames
from .host_requirements import family_of
from .request.toolbox import upstream_name
from .sent_call_ids import CallIds

_OUTPUTS = frozenset(CALL_OUTPUTS[call] for call in STREAMED_CALLS)


def rename_calls(request: Json, names: ToolNames) -> tuple[Json, int]:
    """The request with these ids, and how many calls have a new one; the very same
    object if none has.  The tools of these are added to `names`.

    A request that continues what its host has stored has only a part of the conversation, so
    nobody knows how many calls came before: it stays as it is."""
    items, family = request.get("input"), family_of(string(request.get("model")))
    stored = request.get("previous_response_id") or request.get("conversation")
    if family.call_ids == "kept" or stored or not isinstance(items, list):
        return request, 0
    ids = CallIds(family.call_ids)
    sent: dict[str, str] = {}
    """The latest new id for each id of the client's."""
    renamed, changed = [], 0
    for item in items:
        renamed.append(item)
        if not isinstance(item, dict):
            continue
        kind, old, name = string(item.get("type")), item.get("call_id"), item.get("name")
        is_call = kind in STREAMED_CALLS and isinstance(name, str)
        # With ids that count all calls, one is unique in the whole conversation.
        if not is_call and kind != "reasoning" and family.call_ids == "message":
            ids.new_message()
        if not isinstance(old, str) or not (is_call or kind in _OUTPUTS):
            continue
        if is_call:
            shown = upstream_name(str(name), string(item.get("namespace")), family)
            sent[old] = ids.sent(old, shown)
            if sent[old] != old:
                names.called(old, shown)
                changed += 1
        if (new := sent.get(old, old)) != old:
            renamed[-1] = {**item, "call_id": new}
    return ({**request, "input": renamed} if changed else request), changed
