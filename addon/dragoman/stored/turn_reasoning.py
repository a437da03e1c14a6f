"""The reasoning of past turns: put back where a host wants it and the client does not send it.

A turn is known again by its calls, without their ids: Kimi's begin anew in each conversation,
K3's in each message, and some clients have ids of their own.  So the text is kept under a name
made of the conversation until then (what was said by all but the model, and its calls), and of
the functions and arguments of the turn's calls.  All calls between two inputs are of one turn:
some clients send each in a message of its own.  Others leave one out, change their order, or put
the outputs between them; so a name of each call alone, with its id, leads to the turn's.
A client that changes its conversation gets nothing back: it may be another conversation.  Of two
turns with one name the first is kept, so that each request begins as the one before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..chat.delta import texts
from ..chat.texts import reasoning
from ..wire.chat_calls import CallDelta, elements, read_delta
from ..wire.json_codec import Json, NotJson, dumps, loads
from ..wire.reply_bounds import MAX_CHECKED
from .store import Store

MAX_CALLS = 32
"""Calls of a turn that lead to it, each alone."""
_BLOCK = 256 * 1024
"""Characters of a longer part of a name that are hashed as a part of their own, as names in stores
were made."""
_NAME = "reasoning:"
"""The beginning of a name: no response's id begins so."""
_LEADS = _NAME.encode()
"""An entry that begins so is the name of the entry with the text: a call's entry has the name of
its turn's, ``reasoning:1f0c…``; a text is JSON, ``"So I …"``."""


@dataclass(frozen=True, slots=True)
class LackingMessage:
    """A message with calls that the client sent without their reasoning."""

    place: int
    names: Sequence[str]
    """The name of its turn, and those of its own calls."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A turn's reasoning as it is kept."""

    text: str
    names: Sequence[str]
    """The names it was found by: the time of these entries begins anew with the next turn."""


def _digest(*parts: str) -> bytes:
    texts = []
    for part in parts:
        if len(part) > _BLOCK:
            text = _digest(*(part[at : at + _BLOCK] for at in range(0, len(part), _BLOCK)))
        else:
            text = part.encode("utf-8", "surrogatepass")
        texts += [len(text).to_bytes(8, "big"), text]
    return hashlib.sha256(b"".join(texts)).digest()


_in_order = json.JSONEncoder(sort_keys=True).encode


def _canonical(arguments: str) -> str:
    """Clients write the arguments anew: other blanks, other escapes, another order."""
    try:
        return _in_order(loads(arguments.strip() or "{}"))
    except NotJson:
        return arguments.strip()


class History:
    """The turns of one conversation, as far as reasoning goes."""

    def __init__(self) -> None:
        self.lacking: list[LackingMessage] = []
        self._before = b""
        """The conversation until now."""

    @classmethod
    def of(cls, messages: Sequence[Any]) -> Generator[None, None, History]:
        """The turns in the messages of a request: its reply is the next.  Yields after each
        message."""
        history, calls, lacking = cls(), list[CallDelta](), dict[int, slice]()
        for place, message in enumerate(messages):
            role = message.get("role") if isinstance(message, dict) else None
            if isinstance(role, str) and role != "assistant":
                history._end_turn(calls, lacking)
                calls, lacking = [], {}
                text = "".join(text for _, text in texts(message))
                history._before = _digest(role, history._before.hex(), text)
            elif role == "assistant" and (made := calls_of(message)):
                if not reasoning(message):
                    lacking[place] = slice(len(calls), len(calls) + len(made))
                calls += made
            yield
        history._end_turn(calls, lacking)
        return history

    def _end_turn(self, calls: Sequence[CallDelta], lacking: Mapping[int, slice]) -> None:
        """`lacking`: which of the calls are in each message that lacks its reasoning."""
        if calls:
            turn, *alone = self.names(calls)
            self._before = _digest("calls", turn)
            for place, own in lacking.items():
                self.lacking.append(LackingMessage(place, [turn, *alone[own]]))

    def names(self, calls: Sequence[CallDelta]) -> list[str]:
        """The name of the next turn if it makes these calls, and those that lead to it."""
        before = self._before.hex()
        # Longer arguments are known by their very text.  With another bound kept names differ.
        parsed = sum(len(call.arguments) for call in calls) <= MAX_CHECKED
        named = [["said", before]]
        for call in calls:
            arguments = (_canonical if parsed else str.strip)(call.arguments)
            named[0] += [call.name, arguments]
            named.append(["call", before, call.id, call.name, arguments])
        return [_NAME + _digest(*parts).hex() for parts in named[: 1 + MAX_CALLS]]


def calls_of(message: Json) -> list[CallDelta]:
    found = map(read_delta, elements(message))
    return [call for call in found if call]


def with_reasoning(
    messages: Sequence[Any], lacking: Sequence[LackingMessage], found: Sequence[Remembered | None]
) -> list[Any]:
    """The messages, with the reasoning that was `found` of each that lacks it."""
    made = list(messages)
    for each, known in zip(lacking, found, strict=True):
        if known:
            made[each.place] = made[each.place] | {"reasoning_content": known.text}
    return made


# In the store.  A reasoning is kept as a JSON string, which cannot be taken for a response, nor
# for a name.


def keep(
    store: Store, owner: str, *, names: Sequence[str], text: str, now: float, used: Sequence[str]
) -> None:
    """Keep a turn's reasoning, unless one is kept under its name; the time of those that were
    `used` for it begins anew."""
    kept, *led = recall(store, owner, [[name] for name in names], now)
    turn, *alone = names
    store.put(owner, turn, dumps(kept.text if kept else text), now, used)
    for name, known in zip(alone, led, strict=True):
        if not known:
            store.put(owner, name, turn.encode(), now)


def recall(
    store: Store, owner: str, names: Sequence[Sequence[str]], now: float
) -> list[Remembered | None]:
    """What is kept under the first of its names, for each message; None if nothing is."""
    kept: dict[str, bytes | None] = {}
    wanted = {name for each in names for name in each}
    while wanted:
        kept |= zip(wanted, store.get(owner, list(wanted), now), strict=True)
        leads = {_led(blob) for blob in kept.values() if blob and blob.startswith(_LEADS)}
        wanted = leads - kept.keys()
    return [_remembered(each, kept) for each in names]


def _remembered(names: Sequence[str], kept: Mapping[str, bytes | None]) -> Remembered | None:
    for name in names:
        path = [name]
        if (blob := kept[name]) and blob.startswith(_LEADS):
            path.append(_led(blob))
            blob = kept[path[1]]
        with suppress(NotJson):  # a damaged one is unknown
            if blob and isinstance(text := loads(blob), str):
                return Remembered(text, path)
    return None


def _led(blob: bytes) -> str:
    """The name to which another leads."""
    return blob.decode(errors="replace")
