"""Input items that are about the turn, not part of the conversation.

Codex appends them: ``compaction_trigger`` as the last item asks for a summary from which to
continue; ``configuration_update`` sets the effort.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...wire.json_codec import array
from ...wire.slices import Slices
from .validation import RequestObject, wrong_type

SUMMARY_PROMPT = (
    "Write a summary of this conversation. Whoever reads it continues the work and knows nothing "
    "else of it. Say what the user wants, in their words where these matter; what has been done, "
    "found out and decided, and why; the state of the files, with their paths, and of whatever "
    "else was changed; what failed; and what remains to be done, the next step first. Keep names, "
    "commands, numbers and quotes exact. Call no tools. Reply with the summary alone."
)


def asks_for_summary(request: RequestObject) -> bool:
    """Whether the turn is to be a summary.  A trigger before the last item has had its summary."""
    items = array(request.get("input"))
    return bool(items) and _type(items[-1]) == "compaction_trigger"


def effort(request: RequestObject, earlier: Sequence[Any]) -> Slices[str | None]:
    """The reasoning effort that the client asks for: as it said last.  Codex has numbers, too."""
    for item in chain(reversed(array(request.get("input"))), reversed(earlier)):
        yield
        if _type(item) == "configuration_update":
            reasoning = item.get("reasoning")
            value = reasoning.get("effort") if isinstance(reasoning, dict) else None
            if _is_effort(value):
                return str(value)
    asked = request.object("reasoning")
    value = asked.get("effort") if asked is not None else None
    if value is None or _is_effort(value):
        return None if value is None else str(value)
    raise wrong_type(value, "a string", "reasoning.effort")


def _is_effort(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _type(item: object) -> object:
    return item.get("type") if isinstance(item, dict) else None
