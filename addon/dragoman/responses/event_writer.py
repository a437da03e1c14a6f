"""The one class that builds Responses events.

It owns the output indexes, the item ids and what is open.  Its callers name the content, never the
event: for text, whatever else is open is closed, and a text part is opened if none is
(`output_items.StreamedPart` is the table of what lies in what).  So an illegal order cannot be
expressed:

- a response is new, then open, then ended; there is no event before `response.created`
  or after the one terminal event;
- at most one item is open, and an open item has exactly one open part;
- clients run or keep an item the moment it is done.  So what a failure cuts, and a call
  that anything cuts, is left: it gets no event of its end, and the response's ``output``
  lists it as ``incomplete``;
- the terminal's ``output`` lists the items that were closed or left, and by then all are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Literal

from ..reply.turn_context import Tool
from ..wire.error_codes import official_code
from ..wire.errors import ErrorObject
from ..wire.finish_reasons import IncompleteReason
from ..wire.json_codec import Json
from ..wire.sse import DONE
from . import output_items as items
from .call_ids import ResponseCallIds
from .dialects import Dialect
from .envelope import MAX_SEALED, seal
from .event_queue import NumberedEvents
from .heartbeats import snapshot_again
from .names import item_id
from .open_part import OpenPart
from .output_items import ARGUMENTS, INPUT, TEXT, StreamedPart

ProseKind = Literal["text", "refusal", "reasoning"]
ItemStatus = Literal["completed", "incomplete"]


class Writer:
    """Writes one response as `events`."""

    seals = True
    """Whether reasoning is also sent in a form that comes back with the next request."""
    own_ids = ""
    """What the ids of items and calls have after that of the response: where its host makes some,
    none is one of them."""

    def __init__(
        self,
        response: Json,
        dialect: Dialect,
        *,
        clock: Callable[[], float],
        prior: Sequence[Json] = (),
        called: Container[str] = (),
    ) -> None:
        """`response` is the first `snapshot`; `prior` are the items that it has already, if it
        continues; `called` has the call ids of the conversation before it."""
        self._dialect = dialect
        self._clock = clock
        self._response = response
        self._output: list[Json] = response["output"]
        self._output += prior
        self._id = response["id"].removeprefix("resp_") + self.own_ids
        self.started = self.ended = False
        """Whether the first event has been written, and the terminal one."""
        self.events = NumberedEvents()
        self.characters = 0
        """How much text has been written, for an estimate of its tokens."""
        self._opening_size = 0
        """Bytes of the first events."""
        self.unsealed = False
        """Whether a reasoning was too long to be sealed."""
        self.open_part: OpenPart | None = None
        self._call_ids = ResponseCallIds(self._id, prior, called)
        self._required: list[Json] = []
        self._prose: dict[ProseKind, StreamedPart] = {
            "text": TEXT,
            "refusal": items.REFUSAL,
            "reasoning": items.SUMMARY if dialect.reasoning_summary else items.REASONING,
        }

    @property
    def response(self) -> Json:
        """The response object; its ``output`` holds the items that have ended."""
        return self._response | {"output": list(self._output)}

    @property
    def in_text(self) -> bool:
        return self.open_part is not None and self.open_part.part is TEXT

    # The response

    def start(self) -> None:
        """`response.created` and `response.in_progress`, the first time."""
        if not self.started:
            self.started = True
            response = self.response
            self.events.add("response.created", response=response)
            self.events.add("response.in_progress", response=response)
            self._opening_size = sum(len(frame.raw) for frame in self.events.frames)

    def heartbeat(self) -> None:
        """An event without news; none before the start or after the end."""
        if self.ended or not self.started:
            return
        if self._dialect.ping:
            self.events.add("ping")
        elif self.open_part is not None:
            self.open_part.append("")
        else:
            response = snapshot_again(self.response, self._opening_size + self.characters)
            self.events.add("response.in_progress", response=response)

    def complete(self, usage: Json) -> None:
        """The turn is whole; see `Dialect.required_action`."""
        self.close_item()
        if not (self._dialect.required_action and self._required):
            self._response["completed_at"] = int(self._clock())
            self._end("response.completed", "completed", usage)
            return
        action = {
            "type": "submit_tool_outputs",
            "submit_tool_outputs": {"tool_calls": self._required},
        }
        self._response |= {"status": "incomplete", "usage": usage, "required_action": action}
        event = "response.required_action"
        self.events.add(event, response=self._response, required_action=action)
        self._end("response.completed", "incomplete", usage)

    def incomplete(self, reason: IncompleteReason, usage: Json) -> None:
        """The upstream has cut the turn short."""
        self.close_item("incomplete")
        self._response["incomplete_details"] = {"reason": reason}
        self._end("response.incomplete", "incomplete", usage)

    def fail(self, error: ErrorObject, usage: Json) -> None:
        """The turn failed: an `error` event in both shapes clients read, then the terminal."""
        self._leave_item()
        self._error_event(error)
        code = error.code if self._dialect.every_error_code else official_code(error.code)
        self._response["error"] = {"code": code, "message": error.message}
        self._end("response.failed", "failed", usage)

    def _error_event(self, error: ErrorObject) -> None:
        fields = {"code": error.code, "message": error.message, "param": error.param}
        self.events.add("error", **fields, error={"type": error.type, **fields})

    def end_again(self, ended: Json, events: int) -> None:
        """The end of a response that is written once more: `ended` is the whole response, which had
        so many `events`, if that is known."""
        error, action = ended.get("error"), ended.get("required_action")
        if error:
            self._leave_item()
        ends = 1 + bool(error) + bool(action)
        self.events.number = max(self.events.number, events - ends)
        if error:
            self._error_event(ErrorObject(error["message"], "server_error", error["code"]))
        if action:
            fields = {"response": ended, "required_action": action}
            self.events.add("response.required_action", **fields)
        self._response = ended
        completed = action or ended["status"] == "completed"
        event = "response.completed" if completed else "response.incomplete"
        self._end("response.failed" if error else event, ended["status"], ended["usage"])

    def _end(self, event: str, status: str, usage: Json) -> None:
        self._response |= {"status": status, "usage": usage}
        self.events.add(event, response=self._response)
        if self._dialect.done_marker:
            self.events.frames.append(DONE)
        action = "required_action" in self._response
        self.events.last = 1 + self._dialect.done_marker + action
        self.ended = True

    # Text

    def prose(self, kind: ProseKind, delta: str, logprobs: Sequence[Json] = ()) -> None:
        """Text for the reader, a refusal, or reasoning; `logprobs` only with text."""
        part, opened = self._prose[kind], self.open_part
        if opened is None or opened.part is not part:
            opened = self._enter(part)
        opened.append(delta, logprobs)

    def annotate(self, annotation: Json) -> None:
        """An annotation of the text in the open text part."""
        opened = self.open_part
        assert opened is not None and opened.part is TEXT
        self.events.add(
            "response.output_text.annotation.added",
            **opened.where,
            annotation_index=len(opened.annotations),
            annotation=annotation,
        )
        opened.annotations.append(annotation)

    def _enter(self, part: StreamedPart, fields: Json | None = None) -> OpenPart:
        """Open `part`: in the open item if that is of its kind, else in a new one, or at once in a
        new one with these `fields`."""
        opened = self.open_part
        if fields is None and opened is not None and opened.part.item == part.item:
            self._close_part(opened)
            return self._begin_part(opened.item, part)
        self.close_item()
        if fields is None:
            fields = items.reasoning(part) if part.item == "reasoning" else items.message()
        return self._begin_part(self._add_item(fields), part)

    # Calls

    def begin_call(self, tool: Tool, wanted_id: str) -> None:
        """Open the item of a function or custom call; its text comes by `call_delta`."""
        self.close_item()
        fields = items.text_call(
            tool, self._call_ids.new(wanted_id, len(self._output)), self._dialect
        )
        self._begin_part(self._add_item(fields), INPUT if tool.kind == "custom" else ARGUMENTS)

    def call_delta(self, delta: str) -> None:
        """More of the arguments, or of the custom input, of the open call."""
        assert self.open_part is not None and self.open_part.part.item == "call"
        self.open_part.append(delta)

    def whole_call(self, fields: Json, tool: Tool, wanted_id: str, arguments: str) -> None:
        """A call whose item carries a structure, and no text to stream.  It is completed unless
        `fields` has another status."""
        self.close_item()
        status = fields.get("status", "completed")
        call_id = self._call_ids.new(wanted_id, len(self._output))
        item = self._add_item(fields | {"call_id": call_id, "status": "in_progress"})
        self.characters += len(arguments)
        self._require(call_id, {"name": tool.name, "arguments": arguments})
        self._item_done(item, status)

    def compaction(self, summary: str) -> None:
        """The summary from which the conversation continues, sealed in an item."""
        self.close_item()
        self.characters += len(summary)
        fields = {"type": "compaction", "encrypted_content": seal(summary)}
        self._item_done(self._add_item(fields), "completed")

    # Items and parts

    def close_item(self, status: ItemStatus = "completed") -> None:
        """Close the open item, if there is one; a call that is ``incomplete`` is left."""
        opened = self.open_part
        if opened is None:
            return
        if opened.part.item == "call" and status == "incomplete":
            self._leave_item()
            return
        text, item = self._close_part(opened), opened.item
        self.open_part = None
        if opened.part is INPUT:
            self._require(item["call_id"], {"name": item["name"], "input": text}, "custom")
        elif opened.part is ARGUMENTS:
            function = item.get("function", item)
            self._require(item["call_id"], {"name": function["name"], "arguments": text})
        elif opened.part.item == "reasoning" and self.seals:
            self.unsealed |= len(text) > MAX_SEALED
            if len(text) <= MAX_SEALED:
                item["encrypted_content"] = seal(text)
        self._item_done(item, status)

    def _leave_item(self) -> None:
        """Leave the open item, if there is one, as it is."""
        if self.open_part is not None:
            self._fill(self.open_part)
            self.open_part.item["status"] = "incomplete"
            self._output.append(self.open_part.item)
            self.open_part = None

    def _add_item(self, fields: Json) -> Json:
        index = len(self._output)
        kind = fields["type"]
        own_id = fields["call_id"] if kind == "tool_call" else item_id(kind, f"{self._id}_{index}")
        item = {"id": own_id, "type": kind, "status": "in_progress", **fields}
        event = "response.output_item.added"
        self.events.add(event, output_index=index, item=item)
        return item

    def _item_done(self, item: Json, status: ItemStatus) -> None:
        item["status"] = status
        index = len(self._output)
        self.events.add("response.output_item.done", output_index=index, item=item)
        self._output.append(item)

    def _begin_part(self, item: Json, part: StreamedPart) -> OpenPart:
        where: Json = {"item_id": item["id"], "output_index": len(self._output)}
        if part.holder:
            where[part.index] = len(item[part.holder])
            item[part.holder].append(part.empty())
            if part.added:
                self.events.add(part.added, **where, part=part.empty())
        self.open_part = OpenPart(item, part, where, self.events)
        return self.open_part

    def _close_part(self, opened: OpenPart) -> str:
        """The events of the part's end; returns its whole text."""
        part, text = opened.part, self._fill(opened)
        done: Json = {part.text.field: text}
        if part is TEXT:
            done["logprobs"] = opened.logprobs
        elif part is ARGUMENTS:
            done["name"] = opened.item.get("function", opened.item)["name"]
        self.events.add(part.text.done, **opened.where, **done)
        if part.done:
            whole = opened.item[part.holder][-1]
            self.events.add(part.done, **opened.where, part=whole)
        return text

    def _fill(self, opened: OpenPart) -> str:
        """Put the text that was written into the item; returns it."""
        text = opened.fill()
        self.characters += len(text)
        return text

    def _require(self, call_id: str, call: Json, kind: str = "function") -> None:
        self._required.append({"id": call_id, "type": kind, kind: call})
