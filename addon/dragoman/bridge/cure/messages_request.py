"""A Messages request that its host would refuse, in the form that it takes.

Hosts of open models take what their models know: no role ``system`` among the messages, no blocks
of Anthropic's servers, and thoughts before each call.  What needs no change stays the very object
that came.  The same request gives the same bytes, and the messages of one turn begin with those of
the turn before: each depends on itself and on the one before it alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import groupby
from typing import Any

from ...notes import Evidence
from ...wire import messages as api
from ...wire.json_codec import Json, dumps, objects, string
from ..model_families import Family
from .chat_history import with_member

_NO_THOUGHTS = " "
"""An empty text is refused as well."""
_TAKEN = frozenset({*api.TEXTS, "redacted_thinking", "image", api.CALL, api.RESULT})
_NAMES = ("title", "name", "tool_name", "query")
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


def cure_messages(request: Json, family: Family, evidence: Evidence) -> Generator[None, None, Json]:
    """The request as the hosts of a family take it; yields after each message.  One of the
    assistant's may have what is remembered of its thoughts as chat messages have them."""
    cured = with_member(request, "thinking", _thinking(request, family, evidence))
    if not family.forced_tool_choice and family.thinks(cured):
        cured = with_member(cured, "tool_choice", _unforced(request, family, evidence))
    if family.refuses.web_search:
        cured = with_member(cured, "tools", _without_search(request.get("tools"), evidence))
    messages = request.get("messages")
    if not isinstance(messages, list):
        return cured
    sent: list[Any] = []
    for are_system, run in groupby(messages, _is_system):
        if are_system:
            _add_system(sent, [*run], evidence)
            continue
        for message in run:
            is_read = isinstance(message, dict)
            sent.append(_accepted(message, family, evidence) if is_read else message)
            yield
    return with_member(cured, "messages", sent)


def _is_system(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "system"


def _unforced(request: Json, family: Family, evidence: Evidence) -> Any:
    """A model that thinks refuses to be forced to call."""
    choice = request.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in ("any", "tool"):
        return choice
    evidence.note("downgraded to auto", f"tool_choice {choice['type']} ({family.name})")
    rest = {name: choice[name] for name in choice if name != "name"}
    return {**rest, "type": "auto"}


def _thinking(request: Json, family: Family, evidence: Evidence) -> Any:
    thinking, taken = request.get("thinking"), family.refuses.thinking_types
    if not (isinstance(thinking, dict) and taken) or (kind := thinking.get("type")) in taken:
        return thinking
    evidence.note("sent as enabled", f"thinking {kind} ({family.name})")
    return {**thinking, "type": taken[0]}


def _without_search(tools: Any, evidence: Evidence) -> Any:
    """The tools without Anthropic's search of the web, if there are functions."""
    found = [tool for tool in objects(tools) if string(tool.get("type")).startswith("web_search")]
    if not found or not any("input_schema" in tool for tool in objects(tools)):
        return tools
    evidence.note("left out", "web_search beside functions")
    return [tool for tool in tools if tool not in found]


def _add_system(sent: list[Any], run: Sequence[Json], evidence: Evidence) -> None:
    """System messages stay in their place, as the user's; after outputs of calls they join the
    last: templates drop the thoughts before a message of the user's."""
    evidence.note("made a user message of", "a system message", len(run))
    texts = ("\n\n".join(filter(None, map(api.text_of, api.blocks_of(each)))) for each in run)
    reminders = [
        {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"} for text in texts
    ]
    before = api.blocks_of(sent[-1]) if sent and isinstance(sent[-1], dict) else []
    if before and before[-1].get("type") == api.RESULT:
        result = {**before[-1], "content": [*api.blocks_of(before[-1]), *reminders]}
        sent[-1] = {**sent[-1], "content": [*before[:-1], result]}
    else:
        sent += [{"role": "user", "content": [reminder]} for reminder in reminders]


def _accepted(message: Json, family: Family, evidence: Evidence) -> Json:
    message = with_member(message, "content", _known_blocks(message.get("content"), evidence))
    if family.refuses.missing_reasoning is None or message.get("role") != "assistant":
        return message
    blocks = api.blocks_of(message)
    remembered = string(message.get(_REMEMBERED))
    if not any(block.get("type") == api.CALL for block in blocks) or any(map(_thinks, blocks)):
        return message
    if not remembered:
        evidence.note("filled in", "unknown thoughts before a call")
    thought = {"type": "thinking", "thinking": remembered or _NO_THOUGHTS, "signature": ""}
    others = [block for block in blocks if block.get("type") != "thinking"]
    message = {name: member for name, member in message.items() if name != _REMEMBERED}
    return {**message, "content": [thought, *others]}


def _thinks(block: Json) -> bool:
    return block.get("type") == "redacted_thinking" or bool(block.get("thinking"))


def _known_blocks(content: Any, evidence: Evidence) -> Any:
    """The content with a line in the place of each block that only Anthropic's servers know."""
    if not isinstance(content, list):
        return content
    return [_known(block, evidence) if isinstance(block, dict) else block for block in content]


def _known(block: Json, evidence: Evidence) -> Json:
    kind = string(block.get("type"))
    if kind == api.RESULT:
        return with_member(block, "content", _known_blocks(block.get("content"), evidence))
    if kind in _TAKEN:
        return block
    evidence.note("written as a line", f"a block {kind}")
    about = ", ".join(_words(block))
    line = f"Loaded: {about}" if kind == "tool_reference" else f"[{kind}: {about}]"
    return {"type": "text", "text": line}


def _words(block: Json) -> Iterator[str]:
    """What names a block: a document's title, the query of a search, the titles of its results."""
    given = block.get("input")
    holders = [block, given if isinstance(given, dict) else {}, *objects(block.get("content"))]
    for holder in holders:
        yield from (holder[name] for name in _NAMES if string(holder.get(name)))
