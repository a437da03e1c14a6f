"""The reasoning of past turns: put back where a host wants it and the client does not send it.

A turn is known again by its calls, without their ids: Kimi's begin anew in each conversation,
K3's in each message, and some clients have ids of their own.  So the text is kept under a name
made of the conversation until then (what was said by all but the model, and its calls), and of
the functions and arguments of the turn's calls.  All calls between two inputs are of one turn:
some clients send each in a message of its own.  A client that changes its conversation gets
nothing back: it may be another conversation.  Of two turns with one name the first is kept, so
that each request begins as the one before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..wire.chat_calls import CallDelta, elements, read_delta
from ..wire.chat_delta import content_parts, texts
from ..wire.chat_text import reasoning
from ..wire.json_codec import Json, NotJson, dumps, loads
from ..wire.slices import Slices
from .store import Store

MAX_PARSED = 64 * 1024
"""Characters of a turn's arguments that are parsed, in a millisecond; of a turn with more they are
known by their very text."""

_AT_ONCE = 256 * 1024
"""Characters that are hashed by one call: some tenths of a millisecond."""
_PARTS = 1000
"""The same of parts of a message, or of a name."""
_NAME = "reasoning:"
"""How a turn's name begins: it cannot be the id of a response that this store has made."""


def _digest(*parts: str) -> Slices[bytes]:
    digest, size = hashlib.sha256(), 0
    for part in parts:
        if len(part) > _AT_ONCE:
            blocks = (part[at : at + _AT_ONCE] for at in range(0, len(part), _AT_ONCE))
            text = yield from _digest(*blocks)
        else:
            text = part.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
        size += len(text) + _AT_ONCE // _PARTS
        if size > _AT_ONCE:
            size = 0
            yield
    return digest.digest()


def _canonical(arguments: str) -> str:
    """Clients write the arguments anew: other blanks, other escapes, another order."""
    try:
        return json.dumps(loads(arguments.strip() or "{}"), sort_keys=True)
    except NotJson:
        return arguments.strip()


@dataclass(frozen=True, slots=True)
class LackingTurn:
    """A turn of which the client sent calls without their reasoning."""

    name: str
    places: Sequence[int]
    """Of the messages that lack it."""


class History:
    """The turns of one conversation, as far as reasoning goes."""

    def __init__(self) -> None:
        self.lacking: list[LackingTurn] = []
        self._before = b""
        """The conversation until now."""

    @classmethod
    def reading(cls, messages: Sequence[Any]) -> Slices[History]:
        """The turns in the messages of a request: its reply is the next."""
        history, calls, places = cls(), list[CallDelta](), list[int]()
        for place, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if isinstance(role, str) and role != "assistant":
                yield from history._end_turn(calls, places)
                calls, places = [], []
                text = yield from _text_of(message)
                history._before = yield from _digest(role, history._before.hex(), text)
            elif role == "assistant" and (made := (yield from calls_of(message))):
                calls += made
                places += [] if reasoning(message) else [place]
            yield
        yield from history._end_turn(calls, places)
        return history

    def _end_turn(self, calls: Sequence[CallDelta], places: Sequence[int]) -> Slices[None]:
        if calls:
            name = yield from self.name(calls)
            self._before = yield from _digest("calls", name)
            self.lacking += [LackingTurn(name, places)] if places else []

    def name(self, calls: Sequence[CallDelta]) -> Slices[str]:
        """What the next turn is kept under if it makes these calls."""
        parsed = sum(len(call.arguments) for call in calls) <= MAX_PARSED
        parts = []
        for call in calls:
            parts += [call.name, (_canonical if parsed else str.strip)(call.arguments)]
            yield
        digest = yield from _digest("said", self._before.hex(), *parts)
        return _NAME + digest.hex()


def _text_of(message: Json) -> Slices[str]:
    content = message.get("content")
    if not isinstance(content, list) or len(content) <= _PARTS:
        return "".join(text for _, text in texts(message))
    found: list[str] = []
    for begin in range(0, len(content), _PARTS):
        found += (text for _, text in content_parts(content[begin : begin + _PARTS])[0])
        yield
    return "".join(found)


def calls_of(message: Json) -> Slices[list[CallDelta]]:
    calls = []
    for element in elements(message):
        call = read_delta(element)
        if call and not call.silent:
            calls.append(call)
        yield
    return calls


def with_reasoning(
    messages: Sequence[Any], lacking: Sequence[LackingTurn], found: Sequence[str]
) -> tuple[list[Any], int]:
    """The messages, and how many of them were given the reasoning that was `found` of each turn;
    empty if none was."""
    made, given = list(messages), 0
    for turn, text in zip(lacking, found, strict=True):
        for place in turn.places if text else ():
            made[place] = made[place] | {"reasoning_content": text}
            given += 1
    return made, given


# In the store.  A reasoning is kept as a JSON string, which cannot be taken for a response.


def keep(
    store: Store, owner: str, *, name: str, text: str, now: float, used: Sequence[str]
) -> None:
    """Keep a turn's reasoning, unless one is kept under its name; the time of those that were
    `used` for it begins anew."""
    (kept,) = recall(store, owner, [name], now)
    store.put(owner, name, dumps(kept or text), now, used)


def recall(store: Store, owner: str, names: Sequence[str], now: float) -> list[str]:
    """What is kept of each turn; empty if nothing is."""
    found = store.get(owner, names, now)
    for place, blob in enumerate(found):
        if blob and blob.startswith(_NAME.encode()):
            # Earlier versions kept the text under another name, and that one here.
            (found[place],) = store.get(owner, [blob.decode()], now)
    return [loads(blob) if blob else "" for blob in found]
