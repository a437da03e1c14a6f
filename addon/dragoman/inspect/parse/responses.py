"""Reads a Responses reply: its events in any dialect, by which whole replies are read as well."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from ...responses.envelope import open_sealed
from ...responses.host_reader import HostReader, HostText, OtherEvent, Place, TextDelta
from ...wire.json_codec import Json, dumps, string
from ...wire.responses import DELTAS, DONES, call_fields, finish_of
from .values import ParsedCall, ParsedChoice, Prose, ProseKind

_NO_ARGUMENTS = frozenset(
    {
        *("id", "type", "status", "call_id", "name", "namespace", "execution", "created_by"),
        "environment",
    }
)


class ResponsesReader:
    """Reads events."""

    def __init__(self) -> None:
        self._host = HostReader()
        self._texts: defaultdict[int, dict[Place, HostText]] = defaultdict(dict)
        self._arguments: defaultdict[int, list[str]] = defaultdict(list)
        """Both by the output index of their item."""
        self._finish = ""

    def feed(self, event: Json) -> None:
        kind = event["type"]
        for said in self._host.read(event):
            if isinstance(said, TextDelta):
                self._texts[said.text.index][said.text.place] = said.text
            elif isinstance(said, OtherEvent) and said.index is not None:
                arguments = self._arguments[said.index]
                if kind in DELTAS and DELTAS[kind].kind == "call":
                    arguments.append(string(event.get("delta")))
                elif kind in DONES and (whole := string(event.get(DONES[kind].field))):
                    arguments[:] = [whole]
        if isinstance(response := event.get("response"), dict):
            self._finish = finish_of(response) or self._finish

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        indexes = sorted({*self._host.items, *self._arguments})
        parts = tuple(part for index in indexes for part in self._parts(index))
        return (ParsedChoice(0, parts, self._finish),) if parts or self._finish else ()

    def _parts(self, index: int) -> list[Prose | ParsedCall]:
        item = self._host.items[index].value if index in self._host.items else {}
        kind, arguments = string(item.get("type")), "".join(self._arguments[index])
        if kind.endswith("_call") or arguments:
            return [read_call(item, kind, arguments)]
        if kind == "compaction":
            sealed = item.get("encrypted_content")
            return [Prose("compaction", open_sealed(sealed) or "(sealed by the host)")]
        texts = [(each.part.text.kind, each.text) for each in self._texts[index].values()]
        # A summary may be the reasoning itself.
        return [Prose(cast(ProseKind, kind), text) for kind, text in dict.fromkeys(texts) if text]


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
