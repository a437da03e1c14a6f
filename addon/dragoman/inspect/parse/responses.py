"""Reads a Responses reply: the events of a stream in any dialect, or one response object.

Some servers send an item as deltas, some only its end, some only the last snapshot.  Items are
kept by output index; a whole item counts before its deltas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...bridge.envelope import open_sealed
from ...wire.json_codec import Json, array, dumps, objects, string
from ...wire.reply_reader import call_fields, finish_of
from ...wire.responses import DELTAS, DONES, TextEvents, TextKind
from .values import ParsedCall, ParsedChoice, Prose

_NO_ARGUMENTS = frozenset(
    {
        *("id", "type", "status", "call_id", "name", "namespace", "execution", "created_by"),
        "environment",
    }
)


@dataclass(slots=True)
class _Item:
    latest: Json = field(default_factory=dict)
    """From the latest event that held it."""
    whole: bool = False
    texts: dict[tuple[TextKind, int], list[str]] = field(default_factory=dict)
    """The texts of its parts, in pieces."""


class ResponsesReader:
    """Reads events, or a whole ``response``."""

    def __init__(self) -> None:
        self._items: dict[int | str, _Item] = {}
        self._keys: dict[str, int] = {}
        self._finish = ""

    def feed(self, event: Json) -> None:
        kind = string(event.get("type"))
        delta = event.get("delta")
        if isinstance(delta, str) and (text := DELTAS.get(kind)):
            self._fragments(event, text).append(delta)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._item(event, whole=kind.endswith("done"))
        elif isinstance(response := event.get("response"), dict):
            self._snapshot(response)
        elif (done := DONES.get(kind)) and (text_done := string(event.get(done.field))):
            self._fragments(event, done)[:] = [text_done]

    def _snapshot(self, response: Json) -> None:
        """A response object; its output counts for items without events."""
        self._finish = finish_of(response) or self._finish
        for index, item in enumerate(array(response.get("output"))):
            if isinstance(item, dict):
                known = self._items.get(string(item.get("id")))
                known = known or self._items.setdefault(index, _Item())
                if not known.whole:
                    known.latest, known.whole = item, item.get("status") != "in_progress"

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        parts = tuple(part for item in self._items.values() for part in _parts(item))
        return (ParsedChoice(0, parts, self._finish),) if parts or self._finish else ()

    def _at(self, event: Json) -> _Item:
        """The item of an event: by index, by id, or the latest."""
        index, item_id = event.get("output_index"), string(event.get("item_id"))
        if type(index) is int:
            key: int | str = index
        elif item_id:
            key = self._keys.get(item_id, item_id)
        else:
            key = next(reversed(self._items), 0)
        return self._items.setdefault(key, _Item())

    def _fragments(self, event: Json, text: TextEvents) -> list[str]:
        index = event.get("content_index", event.get("summary_index"))
        key = (text.kind, index if type(index) is int else 0)
        return self._at(event).texts.setdefault(key, [])

    def _item(self, event: Json, *, whole: bool) -> None:
        latest = event.get("item")
        if not isinstance(latest, dict):
            return
        item = self._at(event if "output_index" in event else {"item_id": latest.get("id")})
        item.latest, item.whole = latest, whole
        index = event.get("output_index")
        if type(index) is int:
            self._keys[string(latest.get("id"))] = index


def _parts(item: _Item) -> list[Prose | ParsedCall]:
    kind = string(item.latest.get("type"))
    if kind.endswith("_call") or any(part == "call" for part, _ in item.texts):
        streamed = "".join(item.texts.get(("call", 0), ()))
        return [read_call(item.latest, kind, streamed)]
    if kind == "compaction":
        sealed = item.latest.get("encrypted_content")
        return [Prose("compaction", open_sealed(sealed) or "(sealed by the host)")]
    whole = _message(item.latest) or _reasoning(item.latest) if item.whole else []
    return [*whole] or [
        Prose(part, "".join(texts))
        for (part, _), texts in item.texts.items()
        if part != "call" and any(texts)
    ]


def _message(item: Json) -> list[Prose]:
    kinds: tuple[Literal["text", "refusal"], ...] = ("text", "refusal")
    content = item.get("content")
    if item.get("type") == "reasoning":
        return []
    if isinstance(content, str):
        content = [{"text": content}]
    found = [Prose(kind, string(part.get(kind))) for part in objects(content) for kind in kinds]
    return [prose for prose in found if prose.text]


def _reasoning(item: Json) -> list[Prose]:
    """The summary, and the reasoning itself if the two differ."""
    texts: dict[str, None] = {}
    for parts in (objects(item.get("summary")), objects(item.get("content"))):
        texts["\n\n".join(filter(None, (string(part.get("text")) for part in parts)))] = None
    reasoning = "\n\n".join(filter(None, texts))
    return [Prose("reasoning", reasoning)] if reasoning else []


def read_call(item: Json, kind: str, streamed: str = "") -> ParsedCall:
    """`kind`: the item's type, or empty for a call of any other."""
    shown, name, arguments = call_fields(item if kind else {**item, "type": "function_call"})
    if shown not in ("function", "custom"):
        arguments = {name: item[name] for name in item if name not in _NO_ARGUMENTS}
        if len(arguments) == 1:
            (arguments,) = arguments.values()
    written = dumps(arguments).decode() if arguments and not isinstance(arguments, str) else ""
    return ParsedCall(
        name,
        string(item.get("call_id")) or string(item.get("id")),
        string(arguments) or written or streamed,
        shown,
        string(item.get("namespace")),
    )
