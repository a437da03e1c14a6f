"""Converting a Responses or a Messages request in a test, and looking at what it became."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pytest

from dragoman.bridge.cure.chat_request import cure_request
from dragoman.bridge.cure.tool_names import ToolNames
from dragoman.bridge.host_requirements import Family
from dragoman.bridge.request.conversion import Conversion
from dragoman.bridge.request.convert import convert_request
from dragoman.bridge.request.convert_messages import convert_messages
from dragoman.notes import Evidence
from dragoman.reply.turn_context import Tool
from dragoman.wire.errors import Refused

Json = dict[str, Any]
T = TypeVar("T")


def drained(work: Generator[None, None, T]) -> T:
    """The result of work that is done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True)
class Converted:
    """A converted request: the chat body, the tools by upstream name, the evidence."""

    chat: Json
    tools: dict[str, Tool]
    notes: list[str]

    @property
    def messages(self) -> list[Json]:
        messages: list[Json] = self.chat["messages"]
        return messages

    @property
    def functions(self) -> dict[str, Json]:
        """The chat functions by name."""
        return {tool["function"]["name"]: tool["function"] for tool in self.chat.get("tools", [])}


def convert(body: object, **options: Any) -> Conversion:
    return drained(convert_request(body, **options))


@dataclass(frozen=True)
class Cured:
    """A cured request, the names of its tools, and the evidence, once for each time."""

    request: Json
    tool_names: ToolNames
    notes: tuple[tuple[str, str], ...]


def cured(request: Json, family: Family) -> Cured:
    evidence = Evidence()
    made = drained(cure_request(request, family, evidence))
    return Cured(made.request, made.tool_names, tuple(evidence.notes.elements()))


def converted(body: Json, unsupported: Literal["drop", "error"] = "drop") -> Converted:
    evidence = Evidence()
    conversion = convert(body, unsupported=unsupported, evidence=evidence)
    return Converted(conversion.chat, dict(conversion.turn.tools), evidence.lines())


def of_input(*items: Any, model: str = "some-model", **fields: Any) -> Converted:
    """A request of these input items, converted."""
    return converted({"model": model, "input": list(items), **fields})


def of_messages(*messages: Json, model: str = "some-model", **fields: Any) -> Converted:
    """A Messages request of these messages, converted."""
    conversion, evidence = message_conversion({"model": model, "messages": [*messages], **fields})
    return Converted(conversion.chat, dict(conversion.turn.tools), evidence.lines())


def message_conversion(
    body: object, unsupported: Literal["drop", "error"] = "drop"
) -> tuple[Conversion, Evidence]:
    evidence = Evidence()
    return convert_message(body, unsupported=unsupported, evidence=evidence), evidence


def convert_message(body: object, **options: Any) -> Conversion:
    return drained(convert_messages(body, **options))


def message_refusal(body: object, unsupported: Literal["drop", "error"] = "drop") -> Refused:
    """The refusal of a Messages request."""
    with pytest.raises(Refused) as caught:
        message_conversion(body, unsupported)
    return caught.value


def with_fields(model: str = "some-model", **fields: Any) -> Converted:
    """A request with these fields, converted."""
    return converted({"model": model, "input": "hi", **fields})


def refusal(
    body: Any, unsupported: Literal["drop", "error"] = "drop", status: int = 400
) -> Refused:
    """The refusal of a request that must be refused, with a status and the reason."""
    with pytest.raises(Refused) as caught:
        convert(body, unsupported=unsupported, evidence=Evidence())
    assert caught.value.status == status
    assert caught.value.message
    return caught.value


def user(content: Any) -> Json:
    return {"type": "message", "role": "user", "content": content}


def said(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def thought(text: str) -> Json:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def call(call_id: str, name: str = "run", arguments: Any = "{}", **fields: Any) -> Json:
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return item | fields


def output(call_id: str, value: Any, kind: str = "function_call_output", **fields: Any) -> Json:
    return {"type": kind, "call_id": call_id, "output": value, **fields}


def image(url: str = "data:image/png;base64,AA==", **fields: Any) -> Json:
    return {"type": "input_image", "image_url": url, **fields}


def function(name: str, **fields: Any) -> Json:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"type": "function", "name": name, "parameters": parameters, **fields}


def roles(messages: list[Json]) -> list[str]:
    return [message["role"] for message in messages]


def chat_call(call_id: str, name: str = "run", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def answer(call_id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}
