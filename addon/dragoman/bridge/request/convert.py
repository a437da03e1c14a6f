"""Converts a Responses request to a chat completions request.

The same conversation gives the same bytes, with ``model`` and ``messages`` first and before all
that changes between turns.  What a chat upstream cannot do is recorded; where silence would
change the meaning, refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...notes import Evidence
from ...wire.errors import Refused
from ...wire.responses import refers
from ...wire.slices import Slices
from ...wire.usage import estimating
from ..cure.chat_request import SAMPLING, curing
from ..model_families import Family, family_of
from ..turn_context import TurnContext
from . import chat_messages
from .chat_shapes import forming
from .tool_choice import read_choice
from .toolbox import Toolbox
from .turn_items import SUMMARY_PROMPT, asks_for_summary, effort
from .validation import RequestObject, label, missing, previous_not_found

MAX_TOOLS = 20_000
"""Tools of a request: those that the reply may call are searched at once; hosts take a few
hundred."""
MAX_ITEMS = 800_000
"""Items of a request's ``input``: each takes a kilobyte of memory until it has been sent."""


@dataclass(frozen=True, slots=True)
class Conversion:
    chat: dict[str, Any]
    """The chat completions body, in its order."""
    turn: TurnContext

    @property
    def declaring(self) -> dict[str, Any]:
        """What says which calls the reply may hold: a choice of none is not sent without tools."""
        return {**self.chat, "tool_choice": self.turn.request.get("tool_choice")}


def converting(
    body: object,
    *,
    unsupported: Literal["drop", "error"],
    evidence: Evidence,
    earlier: Sequence[dict[str, Any]] | None = None,
) -> Slices[Conversion]:
    """The chat request of a Responses request (`body`, any JSON value).

    `unsupported` says what becomes of tools no chat upstream can serve.  `earlier` are the
    items of the responses that it continues; None if responses are not kept.  Raises
    `Refused`, and nothing else, for what is malformed or cannot be served.
    """
    body = yield from forming(body, evidence)
    if not isinstance(body, dict):
        raise Refused("The request body must be a JSON object.", code="invalid_type")
    request = RequestObject(body)
    model = _checked_model(request, stores=earlier is not None)
    family = family_of(model)
    toolbox = Toolbox(family, unsupported=unsupported, evidence=evidence)
    for tool in request.array("tools"):
        toolbox.declare([tool])
        yield
    messages = yield from chat_messages.messages(request, toolbox, evidence, earlier or ())
    stream, summary = request.boolean("stream") or False, asks_for_summary(request)
    chat: dict[str, Any] = {"model": model, "messages": messages}
    if summary:
        evidence.note("asked for a summary", "instead of the turn")
        messages.append({"role": "user", "content": SUMMARY_PROMPT})
    else:
        chat |= _tools(request, toolbox, evidence) | _text(request)
    asked = yield from effort(request, earlier or ())
    chat |= _limits_and_reasoning(request, asked, family, evidence) | _settings(request)
    if stream:
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    accepted = yield from curing(chat, family)
    for note in accepted.notes:
        evidence.note(*note)
    _record_ignored(request, evidence)
    echoed = {name: value for name, value in body.items() if name != "input"}
    size = yield from estimating(accepted.request)
    thinks = asked != "none" and (asked is not None or request.get("reasoning") is not None)
    turn = TurnContext(echoed, model, stream, toolbox.table, thinks, size, summary)
    return Conversion(accepted.request, turn)


def without_stored(body: object) -> object:
    """A request that was converted when a store had a part of it, without that part: what is
    left still says what its reply becomes."""
    if not isinstance(body, dict):
        return body
    items = body.get("input")
    own = [item for item in items if not refers(item)] if isinstance(items, list) else items
    return body | {"input": own or "(of the store)"}


def _checked_model(request: RequestObject, *, stores: bool) -> str:
    """The model.  Refuses a request without, what only a provider that stores and schedules
    responses can do, and more tools or items than are converted."""
    model = request.required_string("model")
    if not model:
        raise missing("model")
    if request.boolean("background"):
        raise _unservable("background", "Responses cannot run in the background here.")
    for name, reason in _NEEDS_A_STORE.items():
        if request.get(name) is not None:
            raise _unservable(name, reason)
    if (previous := request.string("previous_response_id")) and not stores:
        raise previous_not_found(previous)
    for name, limit in (("tools", MAX_TOOLS), ("input", MAX_ITEMS)):
        value = request.get(name)
        if isinstance(value, list) and len(value) > limit:
            raise Refused(
                f"Invalid '{name}': array too long. Expected an array with maximum length "
                f"{limit:,}, but got an array with length {len(value):,} instead.",
                param=name,
                code="array_above_max_length",
            )
    return model


_NEEDS_A_STORE = {
    "conversation": "Conversations are not stored here. Send the whole conversation as 'input'.",
    "prompt": "Stored prompts are not available here. Send the prompt as 'instructions'.",
}


def _unservable(name: str, reason: str) -> Refused:
    message = f"'{name}' needs more than a Chat Completions upstream. {reason}"
    return Refused(message, param=name, code="unsupported_parameter")


def _tools(request: RequestObject, toolbox: Toolbox, evidence: Evidence) -> dict[str, Any]:
    """Tools and what goes with them; nothing at all without tools, as hosts refuse an
    empty array and a choice among nothing."""
    choice = read_choice(request, toolbox, evidence)
    parallel = request.boolean("parallel_tool_calls")
    tools = toolbox.chat_tools(choice.allowed)
    if not tools:
        if choice.value not in (None, "auto", "none"):
            evidence.note("dropped", "tool_choice without tools")
        return {}
    fields = {"tools": tools, "tool_choice": choice.value, "parallel_tool_calls": parallel}
    return _present(fields)


def _text(request: RequestObject) -> dict[str, Any]:
    text = request.object("text")
    if text is None:
        return {}
    form = text.object("format")
    return _present(
        {
            "response_format": None if form is None else _response_format(form),
            "verbosity": text.string("verbosity"),
        }
    )


def _response_format(form: RequestObject) -> dict[str, Any] | None:
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
            fields = {
                "name": form.required_string("name"),
                "description": form.string("description"),
                "schema": schema,
                "strict": form.boolean("strict"),
            }
            return {"type": "json_schema", "json_schema": _present(fields)}
        case _:
            raise Refused(
                f"'{form.at('type')}': a Chat Completions upstream has no text format "
                f"'{label(kind)}'.",
                param=form.at("type"),
                code="unsupported_value",
            )


def _limits_and_reasoning(
    request: RequestObject, asked: str | None, family: Family, evidence: Evidence
) -> dict[str, Any]:
    fields = _present({family.token_limit: request.integer("max_output_tokens")})
    if asked == "none" and family.thinking_off is not None:
        return {**fields, **family.thinking_off}
    if asked is not None:
        fields["reasoning_effort"] = sent = family.effort(asked)
        if sent != asked:
            evidence.note("changed", f"reasoning.effort {label(asked)} to {sent} ({family.name})")
    return fields


def _settings(request: RequestObject) -> dict[str, Any]:
    """The fields with the same name and meaning on both sides, and logprobs."""
    settings = _present({name: read(request, name) for name, read in _SAME.items()})
    wanted = "message.output_text.logprobs" in request.strings("include")
    top = request.integer("top_logprobs")
    if top or wanted:
        settings["logprobs"] = True
        if top:
            settings["top_logprobs"] = top
    return settings


_SAME: Mapping[str, Callable[[RequestObject, str], Any]] = {
    **dict.fromkeys(SAMPLING, RequestObject.number),
    "metadata": RequestObject.metadata,
    "user": RequestObject.string,
    "safety_identifier": RequestObject.string,
    "prompt_cache_key": RequestObject.string,
    "service_tier": RequestObject.string,
    # Not of the Responses API: what clients add for chat hosts and their engines.
    "seed": RequestObject.integer,
    "stop": RequestObject.get,
    "logit_bias": RequestObject.plain_object,
    "top_k": RequestObject.integer,
    "min_p": RequestObject.number,
    "repetition_penalty": RequestObject.number,
    "thinking": RequestObject.plain_object,
    "chat_template_kwargs": RequestObject.plain_object,
}

_READ = {
    *_SAME,
    *_NEEDS_A_STORE,
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
    *("text", "reasoning", "max_output_tokens", "top_logprobs", "stream", "background"),
    *("previous_response_id", "truncation"),
    # Of no meaning upstream; the reply side echoes them.
    *("store", "include", "client_metadata"),
}
"""The top-level fields that are read."""


def _record_ignored(request: RequestObject, evidence: Evidence) -> None:
    """Fields no chat upstream has a place for, known ones and unknown; what the API has a type
    for is refused if it is of another all the same."""
    if request.choice("truncation", "auto", "disabled") == "auto":
        evidence.note("ignored", "truncation auto")
    request.boolean("store")
    request.integer("max_tool_calls")
    for name, value in request.values.items():
        if name not in _READ and value is not None:
            evidence.note("dropped", f"field {label(name)}")


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
