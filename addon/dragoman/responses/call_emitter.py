"""One call, written as an item of the kind of its tool.

Function arguments pass as they are and custom input is unescaped, both live.  A call whose item
carries a structure is written when its arguments are complete; if they do not make that
structure, as an item of its kind that runs nothing, so that the failure is seen (as a function
call, ``apply_patch`` is fatal in Codex, and a search is never answered).

Clients run a tool as soon as its item is done, whatever becomes of the turn.  So a call that was
cut is never done: one that the client knows of is left ``incomplete``, any other is dropped.
"""

from __future__ import annotations

from ..notes import Evidence, printable
from ..reply.turn_context import Tool
from ..wire.chat_calls import Call
from ..wire.json_codec import NotJson, loads
from ..wire.reply_bounds import MAX_CHECKED
from .custom_input import CustomInputReader
from .event_writer import Writer
from .output_items import structured_call, unfit_call


class CallEmitter:
    """Writes `call`; made when its name is known and no other item is open."""

    def __init__(self, call: Call, tool: Tool, writer: Writer) -> None:
        self.call = call
        self._tool = tool
        self._writer = writer
        self._has_text = False
        patch = tool.name == "apply_patch"
        self._input = CustomInputReader(patch=patch) if tool.kind == "custom" else None
        self.opened = tool.kind in ("function", "custom")
        """Whether the client knows of the call."""
        if self.opened:
            writer.begin_call(tool, call.id)
        else:
            writer.close_item()

    @property
    def half_input(self) -> bool:
        """Whether the input of a custom tool has no end, or the text that holds it has none."""
        if self._input is None:
            return False
        return self._input.half or self.call.lacks_value

    def add(self, text: str) -> None:
        """More of the arguments."""
        self.call.add(text)
        if self.opened:
            self._write(self._input.feed(text) if self._input else text)

    def _write(self, text: str) -> None:
        """Text of the item; blanks before arguments mean nothing, and arguments that are only
        blanks break the AI SDK, openai-python's helper and others."""
        if text and (self._has_text or self._input is not None or not text.isspace()):
            self._writer.call_delta(text)
            self._has_text = True

    def end(self, evidence: Evidence, *, cut: bool) -> None:
        """Write the end of the call; `cut` if the upstream stopped within its arguments."""
        name, arguments = printable(self._tool.name[:80]), self.call.arguments
        if cut:
            done = "left open" if self.opened else "dropped"
            evidence.note(done, f"call of {name} that was cut")
        elif self._input is not None:
            self._write(self._input.close())
            if self._input.anomaly:
                evidence.note(self._input.anomaly, f"of custom tool {name}")
        elif self.opened:
            # Before the item is done, as that is when Codex runs the tool.
            if not is_object(self.call):
                evidence.note("invalid arguments", f"of {name}")
            if not self._has_text:
                self._write("{}")
        else:
            kind = self._tool.kind
            fields = structured_call(kind, arguments)
            if fields is None:
                evidence.note("invalid arguments", f"of {kind}")
                fields = unfit_call(kind, arguments)
            self._writer.whole_call(fields, self._tool, self.call.id, arguments)
        self._writer.close_item("incomplete" if cut else "completed")


def is_object(call: Call) -> bool:
    """Whether the arguments of a call are a JSON object, or empty, which means an empty one.  Of
    many it is known whether all brackets and strings are closed."""
    arguments = call.arguments
    if len(arguments) > MAX_CHECKED:
        return call.only_value and arguments.lstrip().startswith("{")
    try:
        return isinstance(loads(arguments.strip() or "{}"), dict)
    except NotJson:
        return False
