"""Reads events of the Responses API, or a whole response as its last event: `HostReader` knows how
hosts number and leave out; here its items and texts become parts.

An item is a part, and so is each text in one.  A text or the arguments of a call that came without
deltas come with the end of their part.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from ..reply.words import (
    Arguments,
    CallBegin,
    Cited,
    Delta,
    Failed,
    Finish,
    Kind,
    More,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Shown,
    Status,
    Text,
)
from ..wire.errors import error_object, read_error, unlisted
from ..wire.json_codec import Json, array, objects, string
from ..wire.sse import Frame
from . import names as api
from .envelope import open_sealed
from .host_reader import (
    ANNOTATION,
    HostReader,
    HostText,
    ItemAdded,
    ItemDone,
    Said,
    TextDelta,
    TextDone,
)

_KINDS: dict[str, Kind] = {"message": "text", "reasoning": "reasoning"}
_ARGUMENTS = (api.ARGUMENTS.delta, api.CUSTOM_INPUT.delta)
_WHOLE = {"response.completed": "stop", "response.incomplete": "length"}
"""The ends after which clients run calls, and their finish reasons."""
_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesReader:
    """Reads one reply.  The `raw` of a part's beginning and end is the item; of any other word, its
    event."""

    one_channel = False
    remembered = 0
    counted: Json | None = None
    says_more = False

    def __init__(self) -> None:
        self._host = HostReader()
        self.value: Any = None
        self.known = self.ended = False
        self.model = self.id = ""
        self._items: dict[int, Part] = {}
        """By their output indexes."""
        self._texts: dict[HostText, Part] = {}
        self._latest: tuple[HostText, Part] | None = None
        self._arguments: dict[Part, StringIO] = {}
        """Of the calls that are open."""

    @property
    def response(self) -> Json | None:
        """The first snapshot."""
        return self._host.response

    def take_repeated(self) -> int:
        return 0

    def shown(self, part: Part, raw: Any, /) -> Shown:
        item = raw if isinstance(raw, dict) else part.begun
        if part.type == "compaction":
            sealed = open_sealed(item.get("encrypted_content"))
            return Shown("", "", sealed or "(sealed by the host)")
        return Shown(part.name, api.call_id(item), api.shown_arguments(item))

    def part_of(self, kind: Kind, part: Part) -> Part:
        return Part(kind, part.choice, part.place)

    def more(self, frame: Frame) -> More | None:
        self.value = event = frame.json
        if not isinstance(event, dict):
            return None
        if (continued := self._host.continued(event)) is not None:
            return self._part_of(continued), event["delta"]
        if event.get("type") in _ARGUMENTS:
            part, text = self._items.get(event.get("output_index", -1)), event.get("delta")
            if part in self._arguments and isinstance(text, str) and text:
                self._arguments[part].write(text)
                return part, text
        return None

    def delta(self, part: Part, text: str) -> Text | Arguments:
        if part.kind == "call":
            return Arguments(part, text, self.value)
        return Text(part, text, array(self.value.get("logprobs")))

    def read(self, frame: Frame) -> list[Delta]:
        value = unlisted(self.value)
        self.known = isinstance(value, dict) and (
            api.is_response(value) or string(value.get("type")).startswith("response.")
        )
        if not isinstance(value, dict) or not (self.known or api.is_event(value)):
            if frame.is_error or read_error(value):
                self.ended = True
                return [Failed(value, error_object(value))]
            return [Other(None, value)]
        whole = api.is_response(value)
        return self._event({"type": "response.completed", "response": value} if whole else value)

    def _event(self, event: Json) -> list[Delta]:
        if isinstance(response := event.get("response"), dict):
            self.model = string(response.get("model")) or self.model
            self.id = string(response.get("id")) or self.id
        found: list[Delta] = []
        for said in self._host.read(event):
            self._say(found, said)
        if event["type"].endswith("part.added"):
            item = self._host.items.get(self._host.index_of(event) or 0)
            texts = item.latest.values() if item is not None else ()
            found += [Text(self._part_of(text), "") for text in texts if text not in self._texts]
        return found

    def _say(self, found: list[Delta], said: Said) -> None:
        if isinstance(said, TextDelta):
            found.append(Text(self._part_of(said.text), said.delta, said.logprobs))
        elif isinstance(said, ItemAdded):
            found.append(self._begin(said))
        elif isinstance(said, TextDone):
            if (part := self._items.get(said.index)) is not None:
                found.append(Other(part, None, ends_text=True))
        elif isinstance(said, ItemDone):
            self._end(found, said)
        elif said.index is not None:
            found += self._of_item(said.event, self._items.get(said.index))
        else:
            found.append(delta := _of_response(said.event))
            self.ended = self.ended or isinstance(delta, Finish | Failed)

    def _part_of(self, text: HostText) -> Part:
        if self._latest is not None and self._latest[0] is text:
            return self._latest[1]
        part = self._texts.get(text)
        if part is None:
            refuses = text.part.type == "refusal"
            kind: Kind = "refusal" if refuses else _KINDS[text.part.item]
            item = self._items.get(text.index)
            part = Part(kind, 0, text, fixed=refuses, item=item, begun={**text.value})
            part.begun["annotations"] = objects(text.value.get("annotations"))
            self._texts[text] = part
        self._latest = text, part
        return part

    # Items

    def _begin(self, said: ItemAdded) -> Delta:
        item, index = said.item, said.index
        shown, name, _ = api.call_fields(item)
        kind = string(item.get("type"))
        if shown in ("function", "custom"):
            part = Part("call", 0, index, "custom" if shown == "custom" else "", begun=item)
            self._items[index], self._arguments[part] = part, StringIO()
            part.namespace = string(item.get("namespace"))
            return CallBegin(part, api.call_id(item), name, raw=item)
        part = Part(_KINDS.get(kind, "other"), 0, index, begun=item)
        if part.kind == "other":
            part.type, part.name = shown or kind, name
        self._items[index] = part
        return PartBegin(part, item)

    def _end(self, found: list[Delta], said: ItemDone) -> None:
        part = self._items.get(said.index)
        if part is None:
            return
        cut = said.item.get("status") == "incomplete"
        if part in self._arguments:
            whole = string(api.call_fields(said.item)[2])
            if not cut and (rest := self._rest(part, whole)):
                found.append(Arguments(part, rest))
            del self._arguments[part]
        found.append(PartEnd(part, cut and part.kind == "call", said.item))
        self._texts = {text: part for text, part in self._texts.items() if text.index != said.index}

    def _of_item(self, event: Json, part: Part | None) -> list[Delta]:
        """An event of an item, but for its texts."""
        kind = event["type"]
        if kind == ANNOTATION:
            return [Cited(objects([event.get("annotation")]), part, event)]
        events = api.DELTAS.get(kind) or api.DONES.get(kind)
        text = string(event.get("delta"))
        if part is None or events is None or events.kind != "call":
            return [Other(part, event)]
        if part not in self._arguments:
            return [Other(part, event, text=text)]
        if kind in api.DELTAS:
            self._arguments[part].write(text)
            return [Arguments(part, text, event) if text else Other(part, event)]
        rest = self._rest(part, string(event.get(events.field)))
        found: list[Delta] = [Arguments(part, rest)] if rest else []
        return [*found, Other(part, event, ends_text=True)]

    def _rest(self, part: Part, whole: str) -> str:
        """What the end of a call has that its deltas did not have."""
        streamed = self._arguments[part]
        if not whole or streamed.tell() >= len(whole):
            return ""
        rest = whole[streamed.tell() :] if whole.startswith(streamed.getvalue()) else ""
        streamed.write(rest)
        return rest


def _of_response(event: Json) -> Delta:
    """An event of none of its items."""
    kind, response = string(event.get("type")), event.get("response")
    response = response if isinstance(response, dict) else {}
    status = _status_of(response)
    if kind in api.FAILURES or kind == "error" or response.get("status") in ("failed", "cancelled"):
        error = read_error(response) or (read_error(event) if kind == "error" else None)
        return Failed(event, error, status)
    if kind not in _WHOLE:
        return Other(None, event)
    if status is not None and status.waits:
        return Finish(0, "tool_calls", event, status)
    cut = response.get("status") == "incomplete" or kind == "response.incomplete"
    why = status.reason if status is not None else ""
    return Finish(0, _REASONS.get(why, "length") if cut else _WHOLE[kind], event, status)


def _status_of(response: Json) -> Status | None:
    """How a response has ended; None if it has not."""
    name, details = string(response.get("status")), response.get("incomplete_details")
    waits = isinstance(response.get("required_action"), dict)
    if not waits and name in ("", "in_progress", "queued"):
        return None
    reason = string(details.get("reason")) if isinstance(details, dict) else ""
    return Status(name, reason, waits)
