"""Converts a Responses request to a chat completions request.

The same conversation gives the same bytes, with ``model`` and ``messages`` first and before all
that changes between turns.  What a chat upstream cannot do is recorded; where silence would
change the meaning, refused.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from typing import Literal

from ...notes import Evidence
from ...reply.turn_context import TurnContext
from ...responses.names import refers
from ...wire.errors import Refused
from ...wire.json_codec import Json, array, objects
from ..cure.tool_names import ToolNames
from ..host_requirements import family_of
from .chat_messages import chat_messages
from .chat_shapes import formed
from .conversion import SAME, Conversion, converted
from .toolbox import Toolbox
from .validation import RequestObject, label, missing, previous_not_found, wrong_type

SUMMARY_PROMPT = (
    "Write a summary of this conversation. Whoever reads it continues the work and knows nothing "
    "else of it. Say what the user wants, in their words where these matter; what has been done, "
    "found out and decided, and why; the state of the files, with their paths, and of whatever "
    "else was changed; what failed; and what remains to be done, the next step first. Keep names, "
    "commands, numbers and quotes exact. Call no tools. Reply with the summary alone."
)


def convert_request(
    body: object,
    *,
    unsupported: Literal["drop", "error"],
    evidence: Evidence,
    earlier: Sequence[Json] | None = None,
) -> Generator[None, None, Conversion]:
    """The chat request of a Responses request (`body`, any JSON value).

    `unsupported` says what becomes of tools no chat upstream can serve.  `earlier` are the
    items of the responses that it continues; None if responses are not kept.  Yields
    where others may have their turn.  Raises `Refused`, and nothing else, for what is malformed
    or cannot be served.
    """
    request = _checked(formed(body, evidence), stores=earlier is not None)
    model = request.required_string("model")
    family = family_of(model)
    toolbox = Toolbox(family, unsupported=unsupported, evidence=evidence)
    for tool in request.array("tools"):
        toolbox.declare([tool])
        yield
    names = ToolNames(family.bridged, evidence)
    messages = yield from chat_messages(request, toolbox, names, evidence, earlier or ())
    effort = _effort(request, earlier or ())
    if summary := _asks_for_summary(request):
        evidence.note("asked for a summary", "instead of the turn")
        messages.append({"role": "user", "content": SUMMARY_PROMPT})
    thinks = effort != "none" and (effort is not None or request.get("reasoning") is not None)
    echoed = {name: value for name, value in request.values.items() if name != "input"}
    streams = request.boolean("stream") is True
    turn = TurnContext(echoed, model, streams, {}, thinks, summary=summary)
    conversion = yield from converted(
        request, turn, messages, toolbox, names=names, effort=effort, evidence=evidence
    )
    _record_ignored(request, evidence)
    return conversion


def without_stored(body: object) -> object:
    """A request without its references to stored items: it still says what its reply becomes."""
    if not isinstance(body, dict):
        return body
    items = body.get("input")
    own = [item for item in items if not refers(item)] if isinstance(items, list) else items
    return body | {"input": own or "(of the store)"}


def _checked(body: object, *, stores: bool) -> RequestObject:
    """The request.  Refuses one without a model, a chat request, and what only a provider that
    stores and schedules responses can do."""
    if not isinstance(body, dict):
        raise Refused("The request body must be a JSON object.", code="invalid_type")
    request = RequestObject(body)
    if not request.required_string("model"):
        raise missing("model")
    if request.boolean("background"):
        raise _unservable("background", "Responses cannot run in the background here.")
    for name, reason in _NEEDS_A_STORE.items():
        if request.get(name) is not None:
            raise _unservable(name, reason)
    for name, here in _MOVED.items():
        if request.get(name) is not None and request.get(here.partition(".")[0]) is None:
            message = f"Unsupported parameter: '{name}'. In the Responses API, it is '{here}'."
            raise Refused(message, param=name, code="unsupported_parameter")
    if (previous := request.string("previous_response_id")) and not stores:
        raise previous_not_found(previous)
    return request


_NEEDS_A_STORE = {
    "conversation": "Conversations are not stored here. Send the whole conversation as 'input'.",
    "prompt": "Stored prompts are not available here. Send the prompt as 'instructions'.",
}

_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}
"""Fields of a chat request, with the name of each in the Responses API."""


def _unservable(name: str, reason: str) -> Refused:
    message = f"'{name}' needs more than a Chat Completions upstream. {reason}"
    return Refused(message, param=name, code="unsupported_parameter")


def _asks_for_summary(request: RequestObject) -> bool:
    """Whether Codex wants a summary from which to continue: its trigger is the last item."""
    last = objects(array(request.get("input"))[-1:])
    return bool(last) and last[0].get("type") == "compaction_trigger"


def _effort(request: RequestObject, earlier: Sequence[Json]) -> str | None:
    """The latest reasoning effort that the client asks for.  Codex sets it by items, too, and
    sends numbers."""
    for item in chain(reversed(array(request.get("input"))), reversed(earlier)):
        if isinstance(item, dict) and item.get("type") == "configuration_update":
            reasoning = item.get("reasoning")
            effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
            if type(effort) in _EFFORT_TYPES:
                return str(effort)
    asked = request.object("reasoning")
    effort = None if asked is None else asked.get("effort")
    if effort is not None and type(effort) not in _EFFORT_TYPES:
        raise wrong_type(effort, "a string", "reasoning.effort")
    return None if effort is None else str(effort)


_EFFORT_TYPES = (str, int, float)


_READ = {
    *SAME,
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
