"""The reasoning of past turns: put back where a host wants it and the client does not send it.

A turn is known again by its calls.  Their ids are not enough: Kimi's begin anew in each
conversation, K3's in each message, and some clients have ids of their own.  So the text is
kept under a name made of the conversation until then (what was said by all but the model,
and its calls), the calls' ids, functions and arguments; and there are names that lead to it,
without the ids, and for each call alone, as some clients send each in a message of its own.
A client that changes its conversation gets nothing back: it may be another conversation.  Of
two turns with one name the first is kept, so that each request begins as the one before.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire.chat_calls import CallDelta, elements, read_delta
from ..wire.chat_delta import content_parts, texts
from ..wire.chat_text import reasoning
from ..wire.json_codec import Json, NotJson, dumps, loads
from ..wire.slices import Slices
from .store import Store

MAX_CALLS = 32
"""Calls of a turn that lead to it, each alone."""
MAX_PARSED = 64 * 1024
"""Characters of a turn's arguments that are parsed, in a millisecond; of a turn with more they are
known by their very text."""

_AT_ONCE = 256 * 1024
"""Characters that are hashed by one call: some tenths of a millisecond."""
_PARTS = 1000
"""The same of parts of a message, or of a name."""


@dataclass(frozen=True, slots=True)
class TurnNames:
    """What a turn's reasoning is kept under."""

    text: str
    leads: tuple[str, ...]
    """The names that lead to it, the most exact first."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A turn's reasoning as it is kept."""

    reasoning: str
    names: tuple[str, ...]
    """Those it was found by: their time begins anew with the next turn."""


class TurnNamer:
    """Names the turns of one conversation, one after the other."""

    def __init__(self) -> None:
        self._before = self._at_input = b""
        """The conversation until now, and until its last input to the model."""

    def add_input(self, role: str, text: str) -> Slices[None]:
        """Anyone but the model says this, or a tool returns it.  Its ids do not count: clients
        have others than the model."""
        self._before = self._at_input = yield from _digest(role, self._before.hex(), text)

    def call(self, calls: Sequence[CallDelta]) -> Slices[TurnNames]:
        """The model makes these calls; returns their names."""
        names = yield from self.names(calls)
        self._before = yield from _digest("calls", *names.leads[:1])
        return names

    def names(self, calls: Sequence[CallDelta]) -> Slices[TurnNames]:
        """The names of a turn with these calls, were it the next."""
        before, at_input = self._before.hex(), self._at_input.hex()
        parsed = sum(len(call.arguments) for call in calls) <= MAX_PARSED
        canonical = []
        for call in calls:
            arguments = (_canonical if parsed else str.strip)(call.arguments)
            canonical.append((call.id, call.name, arguments))
            yield
        text = yield from _name("turn", before, *itertools.chain(*canonical))
        without_ids = (part for call in canonical for part in call[1:])
        leads = [(yield from _name("said", before, *without_ids))]
        for alone in canonical[:MAX_CALLS]:
            lead = yield from _name("call", at_input, *alone)
            leads.append(lead)
        return TurnNames(text, tuple(leads))


def _name(*parts: str) -> Slices[str]:
    """It cannot be the id of a response that this store has made."""
    return "reasoning:" + (yield from _digest(*parts)).hex()


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


@dataclass(slots=True)
class History:
    """The messages of a request, as far as reasoning goes."""

    namer: TurnNamer = field(default_factory=TurnNamer)
    """It has named all turns so far: the reply is the next."""
    lacking: list[tuple[int, TurnNames]] = field(default_factory=list)
    """The messages with calls that the client sent without their reasoning, by their place."""


def reading_history(messages: Sequence[Any]) -> Slices[History]:
    """What of a conversation's reasoning is missing."""
    history = History()
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if isinstance(role, str) and role != "assistant":
            yield from history.namer.add_input(role, (yield from _text_of(message)))
        elif role == "assistant" and (calls := (yield from calls_of(message))):
            names = yield from history.namer.call(calls)
            if not reasoning(message):
                history.lacking.append((place, names))
        yield
    return history


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
    messages: Sequence[Any], lacking: Sequence[tuple[int, TurnNames]], found: Sequence[str]
) -> list[Any]:
    """The messages, with those that lack it given what was found; nothing where that is empty."""
    made = list(messages)
    for (place, _), text in zip(lacking, found, strict=True):
        if text:
            made[place] = made[place] | {"reasoning_content": text}
    return made


# In the store.  A reasoning is kept as a JSON string, which cannot be taken for a response.


def keep(
    store: Store, owner: str, *, names: TurnNames, text: str, now: float, used: Sequence[str]
) -> None:
    """Keep a turn's reasoning, unless one is kept under its names; the time of those that were
    `used` for it begins anew."""
    (kept,) = store.get(owner, [names.text], now)
    store.put(owner, names.text, kept or dumps(text), now, used)
    for lead in names.leads:
        if _follow(store, owner, [lead], now) is None:
            store.put(owner, lead, names.text.encode(), now)


def recall(
    store: Store, owner: str, turns: Sequence[TurnNames], now: float
) -> list[Remembered | None]:
    """What is kept of each; None if nothing is."""
    exact = store.get(owner, [names.text for names in turns], now)
    return [
        Remembered(loads(blob), (names.text,)) if blob else _follow(store, owner, names.leads, now)
        for names, blob in zip(turns, exact, strict=True)
    ]


def _follow(store: Store, owner: str, leads: Sequence[str], now: float) -> Remembered | None:
    for lead, target in zip(leads, store.get(owner, leads, now), strict=True):
        blob = store.get(owner, [target.decode()], now)[0] if target else None
        if target and blob:
            return Remembered(loads(blob), (lead, target.decode()))
    return None
