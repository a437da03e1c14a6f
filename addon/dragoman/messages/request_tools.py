"""The tools of a Messages request."""

from __future__ import annotations

from dataclasses import dataclass

from ..repair.declared_tools import DeclaredTools, is_json_form, tools_by_id
from ..repair.model_family import families_of
from ..wire.json_codec import Json, objects, string
from . import names as api
from .tools import tools_declared


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """The tools of a Messages request."""

    declared: DeclaredTools

    @classmethod
    def of_request(cls, request: object, received: object = None) -> MessagesTools:
        """From a request's body; anything unreadable declares nothing.  `received` is the one that
        the client sent, if that differs: reminders of role `system` are the user's in a cured one.
        Hosts map names of Claude's models to others, so such a name says nothing of the model."""
        body: Json = request if isinstance(request, dict) else {}
        choice, output = body.get("tool_choice"), body.get("output_config")
        told = received if isinstance(received, dict) else body
        tools = tools_declared({**body, "messages": told.get("messages")})
        # Under the client's name, where another was sent.
        given = {string(tool.get("name")) for tool in objects(told.get("tools"))}
        calls = api.calls_in(body.get("messages"))
        declared = DeclaredTools(
            {tool.name: tool.schema for tool in tools if tool.kind != "deferred"},
            only_named={t.name for t in tools if t.kind == "deferred" and t.name not in given},
            model=known_model(body.get("model")),
            forbidden=isinstance(choice, dict) and choice.get("type") == "none",
            wants_json=is_json_form(output.get("format") if isinstance(output, dict) else None),
            called=tools_by_id((string(c.get("id")), string(c.get("name"))) for c in calls),
        )
        return cls(declared)


def known_model(model: object) -> str:
    """The name of a model, if that says whose it is."""
    name = string(model)
    return "" if "anthropic" in families_of(name) else name
