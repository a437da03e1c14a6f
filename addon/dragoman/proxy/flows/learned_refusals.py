"""What a host does not take of requests to a model: learned from its refusals, once the request was
taken without that, so that the next turn is not refused first.

It holds for a day, and for who has asked: another's key may have another model behind its name.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeAlias

from ...bridge.cure.resend_without import MAX_TIMES, once_more
from ...notes import Evidence
from ...wire.json_codec import Json
from ..chat_only_hosts import LEARNED_FOR

MAX_MODELS = 1000
"""Of each the words of five refusals at most are kept, of 12 kB each."""
Asked: TypeAlias = tuple[bytes, str]
"""Who asks which host (`asker_of`), and the model."""


@dataclass(slots=True)
class LearnedRefusals:
    _known: OrderedDict[Asked, tuple[float, tuple[str, ...]]] = field(default_factory=OrderedDict)

    def learn(self, asked: Asked, said: tuple[str, ...], now: float) -> None:
        """A request was taken that was changed for these refusals."""
        before = [each for each in self.of(asked, now) if each not in said]
        self._known[asked] = now, (*before, *said)[-MAX_TIMES:]
        self._known.move_to_end(asked)
        if len(self._known) > MAX_MODELS:
            self._known.popitem(last=False)

    def of(self, asked: Asked, now: float) -> tuple[str, ...]:
        since, said = self._known.get(asked, (now, ()))
        return said if now - since < LEARNED_FOR else ()


def adapted(chat: Json, refusals: tuple[str, ...], evidence: Evidence) -> Json:
    """The request without what these refusals say of each request like it."""
    for said in refusals:
        if (changed := once_more(chat, said, lasting=True)) is not None:
            evidence.note("sent at once", changed.how)
            chat = changed.chat
    return chat
