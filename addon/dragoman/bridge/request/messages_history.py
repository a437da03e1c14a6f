"""Reads the messages of a Messages request into the pieces of a conversation.

Reading a message needs only the message, so the same one gives the same pieces in every turn;
`chat_messages` makes messages of the pieces.  A string gives what one block of this text gives:
Claude Code sends its latest messages as blocks, and in later turns as strings.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...messages import names as api
from ...notes import Evidence
from ...wire.json_codec import Json, dumps, string
from ..anthropic_blocks import plain_blocks, reminder, system_text
from ..conversation import (
    AssistantText,
    ContentPart,
    ConversationItem,
    InputMessage,
    Reasoning,
    Remark,
    Reminder,
    ToolCall,
    ToolOutput,
)
from ..cure.resend_without import NO_IMAGES
from ..host_requirements import Family
from .content import merged
from .toolbox import upstream_name
from .validation import RequestObject, invalid_value, missing, wrong_type

_UNPARSED = "__unparsedToolInput"
"""Claude Code's, for arguments that were no JSON: their text is beside it, as ``raw``."""
_SAYS_SO = re.compile(r"\s*+(?:<\w{0,40}error>|[\[(]?\w{0,40}error\b)", re.IGNORECASE)
"""The beginning of a result that says itself that it is an error."""
_IMAGE_FOLLOWS = "[image follows]"
_NO_FILE = "[An image was left out: it is kept by Anthropic, and cannot be read here.]"


@dataclass(frozen=True, slots=True)
class MessageReader:
    family: Family
    evidence: Evidence
    tools: Container[str]
    """The names of those that are declared."""

    def read(self, message: RequestObject) -> Iterator[ConversationItem]:
        """The pieces of a message; none for one of the assistant that says nothing.  Raises
        `Refused`."""
        role = message.required_string("role")
        match role:
            case "user":
                yield from self._user(message)
            case "assistant":
                yield from self._assistant(message)
            case "system":
                if text := system_text(message.get("content"), self.tools):
                    yield Reminder(reminder(text))
            case _:
                raise invalid_value(role, message.at("role"), "'user', 'assistant' and 'system'")

    def _user(self, message: RequestObject) -> Iterator[ConversationItem]:
        """The outputs of calls, and one message with all else."""
        parts: list[ContentPart] = []
        is_answer = False
        for block in _blocks(message):
            if block.get("type") == api.RESULT:
                is_answer = True
                yield ToolOutput(block.string("tool_use_id") or "", self._output(block))
            else:
                parts += self._parts(block)
        if parts or not is_answer:
            yield InputMessage("user", merged(parts))

    def _parts(self, block: RequestObject) -> Iterator[ContentPart]:
        match block.required_string("type"):
            case "text":
                if text := block.required_string("text"):
                    yield {"type": "text", "text": text}
            case "image":
                yield self._image(block)
            case _:
                for plain in plain_blocks(dict(block.values), self.evidence):
                    yield from self._parts(RequestObject(plain, block.path))

    def _image(self, block: RequestObject) -> ContentPart:
        if not self.family.reads_images:
            self.evidence.note("left out", f"an image ({self.family.name})")
            return {"type": "text", "text": NO_IMAGES}
        source = block.object("source")
        if source is None:
            raise missing(block.at("source"))
        match source.required_string("type"):
            case "base64":
                media_type = source.string("media_type") or "image/png"
                url = f"data:{media_type};base64,{source.required_string('data')}"
            case "url":
                url = source.required_string("url")
            case _:
                self.evidence.note("left out", "an image that Anthropic keeps")
                return {"type": "text", "text": _NO_FILE}
        return {"type": "image_url", "image_url": {"url": url}}

    def _output(self, block: RequestObject) -> str | list[ContentPart]:
        """Its text, which says where its images are, and these."""
        parts: list[ContentPart] = []
        for inner in _blocks(block):
            parts += self._parts(inner)
        media = [part for part in parts if part["type"] != "text"]
        lines = (part.get("text", _IMAGE_FOLLOWS) for part in parts)
        text = "\n".join(lines)
        if block.get("is_error") is True and not _SAYS_SO.match(text):
            text = f"Error: {text}".rstrip()
        if not text and self.family.refuses.empty_messages:
            text = " "
        return [{"type": "text", "text": text}, *media] if media else text

    def _assistant(self, message: RequestObject) -> Iterator[ConversationItem]:
        """What it thought, said and called, in the order of a chat message, which is one."""
        blocks = _blocks(message)
        for thought in filter(None, (block.string("thinking") for block in blocks)):
            yield Reasoning(thought)
        has_called = False
        for block in blocks:
            kind = block.required_string("type")
            if kind == api.CALL:
                has_called = True
            elif kind == "text":
                if text := block.required_string("text"):
                    if has_called:
                        self.evidence.note("moved before the calls", "a text")
                    yield AssistantText(text)
            elif kind == "redacted_thinking":
                self.evidence.note("left out", "encrypted thoughts")
            elif kind not in api.TEXTS:
                for plain in plain_blocks(dict(block.values), self.evidence):
                    yield Remark(string(plain.get("text")) or _NO_FILE)
        yield from (self._call(block) for block in blocks if block.get("type") == api.CALL)

    def _call(self, block: RequestObject) -> ToolCall:
        """Arguments that are no object `cure.chat_history` has wrapped in one."""
        name, given = block.required_string("name"), block.get("input")
        unparsed = given.get(_UNPARSED) if isinstance(given, dict) else None
        if isinstance(unparsed, dict) and isinstance(unparsed.get("raw"), str):
            arguments = unparsed["raw"]
        elif isinstance(given, str):
            arguments = given
        else:
            arguments = dumps({} if given is None else given).decode()
        return ToolCall(block.string("id") or "", upstream_name(name, None, self.family), arguments)


def _blocks(holder: RequestObject) -> Sequence[RequestObject]:
    """The blocks of a message, or of the output of a call."""
    content: Any = holder.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        blocks: list[Json] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = content
    else:
        raise wrong_type(content, "a string or an array", holder.at("content"))
    path = holder.at("content")
    return [RequestObject.of(block, f"{path}[{index}]") for index, block in enumerate(blocks)]
