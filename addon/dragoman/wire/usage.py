"""Token counts: read by their chat names, written as the full Responses object.

Codex refuses a partial object and compacts by ``total_tokens``; opencode asks again for ever if
there is none.  So missing counts are estimated from sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .json_codec import Json, array

_MAX = 2**53
_CHARACTERS_A_TOKEN = 4
_MEDIA_TOKENS = 1000
"""Tokens for an inlined file, whose length in base64 is no measure."""

# Where each count may be; the first that is found counts: chat names (OpenAI), Responses
# names, and the places of Moonshot (cached_tokens), DeepSeek (prompt_cache_hit_tokens) and
# Anthropic's chat endpoint (cache_read_input_tokens).
_INPUT = (("prompt_tokens",), ("input_tokens",))
_OUTPUT = (("completion_tokens",), ("output_tokens",))
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
_TOTAL = (("total_tokens",),)
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cached_tokens",),
    ("prompt_cache_hit_tokens",),
    ("cache_read_input_tokens",),
)
_WRITTEN = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),
)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),
)


@dataclass(frozen=True, slots=True)
class Counts:
    input: int | None = None
    output: int | None = None
    total: int | None = None
    cached: int = 0
    written: int = 0
    reasoning: int = 0


def counts(value: Mapping[str, Any]) -> Counts | None:
    """The counts in a chunk, an event or a whole reply of any API: at its top, in a choice
    (Moonshot) or in an event's response or message. The last one counts; None if there is none."""
    found = _counts(value["usage"]) if value.get("usage") else None
    for holder in array(value.get("choices")) or (value.get("response"), value.get("message")):
        if isinstance(holder, dict) and holder.get("usage"):
            found = _counts(holder["usage"]) or found
    return found


def _counts(value: Any) -> Counts | None:
    """None if it holds neither input nor output."""
    if not isinstance(value, dict):
        return None
    read = _find(value, _INPUT)
    if read is not None and "prompt_tokens" not in value:  # Anthropic counts these apart
        read += sum(_find(value, ((name,),)) or 0 for name in _APART)
    found = Counts(
        input=read,
        output=_find(value, _OUTPUT),
        total=_find(value, _TOTAL),
        cached=_find(value, _CACHED) or 0,
        written=_find(value, _WRITTEN) or 0,
        reasoning=_find(value, _REASONING) or 0,
    )
    return None if found.input is None and found.output is None else found


def merged(known: Counts | None, later: Counts | None) -> Counts | None:
    """The later ones, with the input of those before where they have none: Messages say it at the
    beginning."""
    if later is None or known is None or later.input is not None:
        return later or known
    cached, written = later.cached or known.cached, later.written or known.written
    return replace(later, input=known.input, cached=cached, written=written)


def _find(value: Json, places: tuple[tuple[str, ...], ...]) -> int | None:
    for place in places:
        found: Any = value
        for name in place:
            found = found.get(name) if isinstance(found, dict) else None
        if type(found) in (int, float) and 0 <= found < _MAX:
            return int(found)
    return None


def usage(counted: Counts | None, sent: int, written: int) -> tuple[Json, bool]:
    """The Responses ``usage``, and whether any of it is estimated: from the tokens probably `sent`,
    and the characters `written` to the client."""
    known = counted or Counts()
    read = known.input if known.input is not None else sent
    wrote = known.output if known.output is not None else written // _CHARACTERS_A_TOKEN + 1
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": known.cached,
            "cache_write_tokens": known.written,
        },
        "output_tokens": wrote,
        "output_tokens_details": {"reasoning_tokens": known.reasoning},
        "total_tokens": known.total if known.total is not None else read + wrote,
    }, known.input is None or known.output is None


def chat_usage(counted: Counts) -> Json:
    """The same for Chat Completions, of what the upstream has counted."""
    read, wrote = counted.input or 0, counted.output or 0
    return {
        "prompt_tokens": read,
        "completion_tokens": wrote,
        "total_tokens": counted.total if counted.total is not None else read + wrote,
        "prompt_tokens_details": {"cached_tokens": counted.cached},
        "completion_tokens_details": {"reasoning_tokens": counted.reasoning},
    }


def messages_usage(counted: Counts | None, sent: int, written: int) -> tuple[Json, bool]:
    """The same for the Messages API.  Clients add the first three to know when to compact; hosts
    that do not count say 0."""
    known = counted or Counts()
    read = known.input or sent
    cached = min(known.cached, read)
    stored = min(known.written, read - cached)
    return {
        "input_tokens": read - cached - stored,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": stored,
        "output_tokens": known.output or written // _CHARACTERS_A_TOKEN + 1,
    }, not (known.input and known.output)


_AT_ONCE = 10_000
"""Values that are looked at before others have their turn."""


def estimated_tokens(request: Json) -> Generator[None, None, int]:
    """Of a request; at least 1.  Yields after some values."""
    tokens = characters = 0
    waiting: list[Any] = [request]
    for seen in itertools.count():
        if not waiting:
            break
        if seen % _AT_ONCE == 0:
            yield
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            is_base64 = len(value) > 10_000 and value.isascii() and " " not in value
            if is_base64 or value.startswith("data:"):
                tokens += _MEDIA_TOKENS
            else:
                characters += len(value)
    return tokens + characters // _CHARACTERS_A_TOKEN + 1
