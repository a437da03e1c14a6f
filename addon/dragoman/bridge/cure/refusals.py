"""The refusals of chat requests that are known by their text, and what a user can do.

They come all the same where a request is not cured: for models of no known family, with
``dragoman_cure`` off, and where only the user can change something.
"""

from __future__ import annotations

import re

_CURED = "dragoman_cure=auto does so for models whose family it knows by their name"
_CURABLE = (
    (
        r"reasoning_content\b.{0,200}\b(?:missing|must be passed back)"
        r"|thinking in the thinking mode|missing .?reasoning_content",
        "the client left out the reasoning of earlier calls; turn thinking off, or have it "
        "put back",
    ),
    (
        r"moonshot flavored json schema",
        "a tool's schema is outside Moonshot's subset; leave that tool out",
    ),
    (
        r"invalid (?:temperature|top_p|presence_penalty|frequency_penalty)\b",
        "the model has fixed sampling parameters; take them out of the client",
    ),
    (
        r"message at position \d+ .{0,200}must not be empty|text content is empty"
        r"|content or tool_calls must be set",
        "the conversation holds an empty message; leave it out, or begin anew",
    ),
    (
        r"did not have response messages|must be followed by tool messages"
        r"|tool_call_id\b.{0,200}\bis not found|must be a response to a prece\w+ message",
        "a call in the conversation has no output, or an output no call; go back before it, or "
        "begin anew",
    ),
    (
        r"tool_choice\b.{0,200}\b(?:thinking|does not support)|not support this tool_choice",
        "a thinking model cannot be forced to call; set tool_choice to auto",
    ),
    (
        r"function name is invalid|function\.name'?: string does not match",
        "a tool's name holds what the host does not take; rename or leave out",
    ),
    (
        r"system message must be at the beginning|invalid chat setting"
        r"|developer is not one of|role developer\b",
        "a message of the system or the developer is refused; move it to the start",
    ),
)
_OTHERS = (
    (r"max of \d+ tools", "too many tools; switch off MCP servers or tools of the client"),
    (
        r"only available for coding agents|access_terminated",
        "this plan is for certain clients only; use another key, or one of those clients",
    ),
)
_REFUSALS = tuple(
    (re.compile(words, re.IGNORECASE), advice)
    for words, advice in (*((words, f"{advice}: {_CURED}") for words, advice in _CURABLE), *_OTHERS)
)


def advice_on(error: str) -> str:
    """What a user can do about a refusal with this in its error; empty if it is not a known one."""
    found = (advice for words, advice in _REFUSALS if words.search(error))
    return next(found, "")
