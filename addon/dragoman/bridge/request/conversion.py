"""What a request for a chat host becomes, whatever the client's API: what is converted after its
messages.

The fields are read by the names that the Responses API has for them; `convert_messages` gives those
of a Messages request these names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...reply.turn_context import TurnContext
from ...wire.json_codec import Json
from ...wire.usage import estimated_tokens
from ..cure.chat_request import SAMPLING, cure_request
from ..cure.tool_names import ToolNames
from ..host_requirements import Family
from .toolbox import Toolbox, tool_fields
from .validation import RequestObject, label, missing, present, unsupported


@dataclass(frozen=True, slots=True)
class Conversion:
    chat: Json
    """The chat completions body, in its order."""
    turn: TurnContext
    names: ToolNames
    choice: Any
    """The client's ``tool_choice``, in the words of a chat request: one of none is not sent without
    tools."""
    only_named: frozenset[str] = frozenset()
    """Tools that the request names, and does not declare: the client runs a call of one."""

    def declared(self) -> DeclaredTools:
        """The calls that the reply may hold."""
        request = {**self.chat, "tool_choice": self.choice}
        tools = DeclaredTools.of_request(request, only_named=self.only_named)
        return self.names.with_aliases(tools)


def converted(
    request: RequestObject,
    turn: TurnContext,
    messages: list[Json],
    toolbox: Toolbox,
    *,
    names: ToolNames,
    effort: str | None,
    evidence: Evidence,
) -> Generator[None, None, Conversion]:
    """The conversion of a request with these messages; `turn` lacks the tools and the size, which
    are known here.  Raises `Refused`."""
    family = toolbox.family
    fields = {} if turn.summary else tool_fields(request, toolbox, evidence) | _text(request)
    fields |= _limits_and_reasoning(request, effort, family, evidence) | _settings(request)
    # The history is in the form that hosts take.
    cured = yield from cure_request({"model": turn.model} | fields, family.bridged, evidence)
    chat = {"model": turn.model, "messages": messages} | cured.request
    yield
    estimate = yield from estimated_tokens(chat)
    turn = replace(turn, tools=toolbox.tools, estimate=estimate)
    return Conversion(chat, turn, names, request.get("tool_choice"))


def _text(request: RequestObject) -> Json:
    text = request.object("text")
    if text is None:
        return {}
    form = text.object("format")
    response_format = None if form is None else _response_format(form)
    return present(response_format=response_format, verbosity=text.string("verbosity"))


def _response_format(form: RequestObject) -> Json | None:
    """``text`` is every host's default and not sent."""
    kind = form.required_string("type")
    match kind:
        case "text":
            return None
        case "json_object":
            return {"type": "json_object"}
        case "json_schema":
            schema = form.plain_object("schema")
            if schema is None:
                raise missing(form.at("schema"))
            fields = present(
                name=form.required_string("name"),
                description=form.string("description"),
                schema=schema,
                strict=form.boolean("strict"),
            )
            return {"type": "json_schema", "json_schema": fields}
        case _:
            reason = f"a Chat Completions upstream has no text format '{label(kind)}'."
            raise unsupported(form.at("type"), reason)


def _limits_and_reasoning(
    request: RequestObject, effort: str | None, family: Family, evidence: Evidence
) -> Json:
    fields = present(**{family.token_limit: request.integer("max_output_tokens")})
    if effort == "none" and family.thinking_off is not None:
        return {**fields, **family.thinking_off}
    if effort is not None:
        fields["reasoning_effort"] = sent = family.effort(effort)
        if sent != effort:
            evidence.note("changed", f"reasoning.effort {label(effort)} to {sent} ({family.name})")
    return fields


def _settings(request: RequestObject) -> Json:
    """The fields with the same name and meaning on both sides, logprobs, and whether to stream."""
    settings = present(**{name: read(request, name) for name, read in SAME.items()})
    wanted = "message.output_text.logprobs" in request.strings("include")
    top = request.integer("top_logprobs")
    if top or wanted:
        settings["logprobs"] = True
        if top:
            settings["top_logprobs"] = top
    if request.boolean("stream"):
        settings |= {"stream": True, "stream_options": {"include_usage": True}}
    return settings


SAME: Mapping[str, Callable[[RequestObject, str], Any]] = {
    **dict.fromkeys(SAMPLING, RequestObject.number),
    "metadata": RequestObject.metadata,
    **dict.fromkeys(("user", "safety_identifier", "prompt_cache_key"), RequestObject.string),
    "service_tier": RequestObject.string,
    # Not of the Responses API: what clients add for chat hosts and their engines.
    "seed": RequestObject.integer,
    "stop": RequestObject.get,
    "logit_bias": RequestObject.plain_object,
    "top_k": RequestObject.integer,
    **dict.fromkeys(("min_p", "repetition_penalty"), RequestObject.number),
    **dict.fromkeys(("thinking", "chat_template_kwargs"), RequestObject.plain_object),
}
"""The fields that are sent as they are, and how each is read."""
