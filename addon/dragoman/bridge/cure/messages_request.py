"""A Messages request that its host would refuse, in the form that it takes.

Hosts of open models take what their models know: no role ``system`` among the messages, no blocks
of Anthropic's servers (`anthropic_blocks`), and thoughts before each call; Moonshot has its rules
for tools, as in chat.  What needs no change stays the very object that came.  The same request
gives the same bytes, and the messages of one turn begin with those of the turn before: each
depends on itself and on the one before it alone.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ...messages import names as api
from ...messages.tools import tools_added
from ...notes import Evidence
from ...wire.json_codec import Json, dumps, objects, string
from ..anthropic_blocks import plain_blocks, reminder, system_text, without_billing
from ..host_requirements import Family
from .chat_history import with_member
from .chat_request import Cured, accepted_schema, with_inner
from .tool_names import ToolNames

_NO_THOUGHTS = " "
"""An empty text is refused as well."""
_REDACTED = "redacted_thinking"
_TAKEN = frozenset({*api.TEXTS, _REDACTED, "image", api.CALL, api.RESULT})
_NAMED = {api.CALL: "name", "tool_reference": "tool_name"}
"""The blocks that name a tool of the client's, and where."""
_REMEMBERED = "reasoning_content"


def as_chat(messages: Sequence[Any]) -> list[Json]:
    """The messages as chat messages, one for each, by which their turns are known again."""
    return [_as_chat(message) if isinstance(message, dict) else {} for message in messages]


def _as_chat(message: Json) -> Json:
    blocks = api.blocks_of(message)
    calls = [
        {
            "id": string(block.get("id")),
            "function": {
                "name": string(block.get("name")),
                "arguments": dumps(block.get("input") or {}).decode(),
            },
        }
        for block in api.calls_in([message])
    ]
    return {
        "role": message.get("role"),
        "content": "".join(map(api.text_of, blocks)),
        "reasoning_content": "".join(string(block.get("thinking")) for block in blocks),
        "tool_calls": calls,
    }


def cure_messages(
    request: Json, family: Family, evidence: Evidence
) -> Generator[None, None, Cured]:
    """The request as the hosts of a family take it; yields after each message and tool.  Of a
    family whose hosts refuse nothing, it is changed in its instructions alone.  A message of the
    assistant's may have what is remembered of its thoughts as chat messages have them."""
    names = ToolNames(family, evidence)
    cured = _without_billing(request, evidence)
    if not family.is_strict:
        return Cured(cured, names)
    cured = with_member(cured, "thinking", _thinking(request, family, evidence))
    cured = with_member(cured, "tools", (yield from _tools(request, family, names, evidence)))
    cured = with_member(cured, "tool_choice", _tool_choice(cured, family, names, evidence))
    if family.refuses.schemas:
        cured = with_member(cured, "output_config", _output_config(request, evidence))
    messages = request.get("messages")
    if isinstance(messages, list):
        sent = yield from _messages(messages, family, names, evidence)
        cured = with_member(cured, "messages", sent)
    return Cured(cured, names)


def _without_billing(request: Json, evidence: Evidence) -> Json:
    system = request.get("system")
    sent = without_billing(system)
    if sent is system:
        return request
    evidence.note("left out", "the billing header")
    rest = {name: value for name, value in request.items() if name != "system"}
    return rest if sent is None else {**request, "system": sent}


def _messages(
    messages: Sequence[Any], family: Family, names: ToolNames, evidence: Evidence
) -> Generator[None, None, list[Any]]:
    """System messages stay in their place, but between calls and their results: after these."""
    sent: list[Any] = []
    waiting: list[Json] = []
    is_between = False
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "system":
            is_between = is_between if waiting else _has(api.CALL, sent[-1:])
            waiting.append(message)
        else:
            if waiting and not (is_between and _has(api.RESULT, [message])):
                _add_system(sent, waiting, evidence)
                waiting = []
            is_read = isinstance(message, dict)
            sent.append(_accepted(message, family, names, evidence) if is_read else message)
        yield
    if waiting:
        _add_system(sent, waiting, evidence)
    return sent


def _has(kind: str, messages: Sequence[Any]) -> bool:
    """Whether one of the messages has a block of this type."""
    return any(b.get("type") == kind for each in objects(messages) for b in api.blocks_of(each))


def _tool_choice(request: Json, family: Family, names: ToolNames, evidence: Evidence) -> Any:
    """A model that thinks refuses to be forced to call."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in ("any", "tool"):
        return choice
    if family.forced_tool_choice or not family.thinks(request):
        return _named(choice, "name", names)
    evidence.note("downgraded to auto", f"tool_choice {choice['type']} ({family.name})")
    rest = {name: choice[name] for name in choice if name != "name"}
    return {**rest, "type": "auto"}


def _named(holder: Json, member: str, names: ToolNames) -> Json:
    """A tool, or what names one in this member, with the name that is sent."""
    name = holder.get(member)
    return with_member(holder, member, names.sent(name)) if isinstance(name, str) else holder


def _output_config(request: Json, evidence: Evidence) -> Any:
    def accepted(form: Json) -> Json:
        schema = accepted_schema(form.get("schema"), "output_config", evidence)
        return with_member(form, "schema", schema)

    return with_inner(request.get("output_config"), "format", accepted)


def _thinking(request: Json, family: Family, evidence: Evidence) -> Any:
    thinking, taken = request.get("thinking"), family.refuses.thinking_types
    if not (isinstance(thinking, dict) and taken) or (kind := thinking.get("type")) in taken:
        return thinking
    evidence.note("sent as enabled", f"thinking {kind} ({family.name})")
    return {**thinking, "type": taken[0]}


def _tools(
    request: Json, family: Family, names: ToolNames, evidence: Evidence
) -> Generator[None, None, Any]:
    tools = _with_added(request, evidence)
    if family.refuses.web_search:
        tools = _without_search(tools, evidence)
    if not isinstance(tools, list):
        return tools
    sent = []
    for tool in tools:
        accepted = tool
        if isinstance(tool, dict) and "input_schema" in tool and family.refuses.schemas:
            where = f"tool {tool.get('name')}"
            schema = accepted_schema(tool["input_schema"], where, evidence)
            accepted = with_member(tool, "input_schema", schema)
        sent.append(_named(accepted, "name", names) if isinstance(tool, dict) else tool)
        yield
    return sent


def _with_added(request: Json, evidence: Evidence) -> Any:
    """The tools, also those that messages of role `system` bring: these become the user's."""
    tools, added = request.get("tools"), tools_added(request.get("messages"))
    if not added:
        return tools
    evidence.note("declared", "a tool that a message adds", len(added))
    latest = {string(tool.get("name")) or at: tool for at, tool in enumerate(added)}
    kept = [tool for tool in objects(tools) if string(tool.get("name")) not in latest]
    return [*kept, *latest.values()]


def _without_search(tools: Any, evidence: Evidence) -> Any:
    """The tools without Anthropic's search of the web, if there are functions."""
    found = [tool for tool in objects(tools) if string(tool.get("type")).startswith("web_search")]
    if not found or not any("input_schema" in tool for tool in objects(tools)):
        return tools
    evidence.note("left out", "web_search beside functions")
    return [tool for tool in tools if tool not in found]


def _add_system(sent: list[Any], run: Sequence[Json], evidence: Evidence) -> None:
    """System messages as the user's; after outputs of calls they join the last: templates drop
    the thoughts before a message of the user's."""
    evidence.note("made a user message of", "a system message", len(run))
    texts = (system_text(message.get("content")) for message in run)
    reminders = [{"type": "text", "text": reminder(text)} for text in texts if text]
    before = api.blocks_of(sent[-1]) if sent and isinstance(sent[-1], dict) else []
    if before and before[-1].get("type") == api.RESULT:
        result = {**before[-1], "content": [*api.blocks_of(before[-1]), *reminders]}
        sent[-1] = {**sent[-1], "content": [*before[:-1], result]}
    else:
        sent += [{"role": "user", "content": [each]} for each in reminders]


def _accepted(message: Json, family: Family, names: ToolNames, evidence: Evidence) -> Json:
    content = _known_blocks(message.get("content"), names, evidence)
    message = with_member(message, "content", content)
    if family.refuses.missing_reasoning is None or message.get("role") != "assistant":
        return message
    blocks = api.blocks_of(message)
    # What is redacted is known to Anthropic alone.
    if not _has(api.CALL, [message]) or any(block.get("thinking") for block in blocks):
        return message
    remembered = string(message.get(_REMEMBERED))
    if not remembered:
        evidence.note("filled in", "unknown thoughts before a call")
    thought = {"type": "thinking", "thinking": remembered or _NO_THOUGHTS, "signature": ""}
    others = [block for block in blocks if block.get("type") not in ("thinking", _REDACTED)]
    message = {name: member for name, member in message.items() if name != _REMEMBERED}
    return {**message, "content": [thought, *others]}


def _known_blocks(content: Any, names: ToolNames, evidence: Evidence) -> Any:
    """The content with texts and images in the place of the blocks that only Anthropic's servers
    know."""
    if not isinstance(content, list):
        return content
    return [
        known
        for block in content
        for known in (_known(block, names, evidence) if isinstance(block, dict) else [block])
    ]


def _known(block: Json, names: ToolNames, evidence: Evidence) -> list[Json]:
    kind = string(block.get("type"))
    if member := _NAMED.get(kind):
        block = _named(block, member, names)
    if kind == api.RESULT:
        inner = _known_blocks(block.get("content"), names, evidence)
        return [with_member(block, "content", inner)]
    return [block] if kind in _TAKEN else plain_blocks(block, evidence)
