"""A response as it is kept, and its bytes.

The stream is kept as it was sent, and so is the request, but for what it has in common with
others of its conversation: tools and instructions are kept once (`Kept.packed`), however
often a client sends them.

What a response adds to its conversation is its own input and what came of it; a
conversation is read off a chain of responses, oldest first, and is never kept whole.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..jsonio import NotJson, dumps, loads

Json = dict[str, Any]
WHOLE, PACKED = 1, 2
"""The versions: all in one, and what is the same in many turns cut out."""
_REPEATED = ("tools", "instructions")
_MIN_PART = 512
"""Bytes; what is smaller is not worth a place of its own."""
_CUT = re.compile(rb"\0(\d+)\0")
"""In the place of a part: no JSON and no event has a NUL."""


class Unreadable(ValueError):  # noqa: N818 - the name says what is the matter
    """The bytes are not those of a kept response, or of another version."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One response."""

    response: Json
    """The response object as the client got it last."""
    request: bytes
    """The body that asked for it, as the client sent it."""
    trail: bytes = b""
    """The ids of the responses it goes on from, oldest first, with blanks between.  Of a
    long chain only the last one's is ever read, so it is no part of the JSON."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which the request's ``item_reference`` items refer, by id."""
    said: Sequence[Json] | None = None
    """What came of the input, if that is more than the response's output: the outputs of
    tools that were submitted stand between the output items."""
    events: bytes = b""
    """The stream as the client got it; empty if it was not streamed, or too long."""
    inherited: Sequence[str] = ()
    """The parts (see `packed`) of the responses it goes on from."""

    @property
    def before(self) -> tuple[str, ...]:
        """The ids of the responses it goes on from, oldest first."""
        return tuple(self.trail.decode().split())

    def ask(self) -> Json:
        """The request's body."""
        ask: Json = loads(self.request)
        return ask

    def own_input(self) -> list[Json]:
        """The items of the request's ``input``, whatever form it had."""
        return input_items(self.ask().get("input"), self.references)

    def items(self) -> list[Json]:
        """What this response adds to its conversation."""
        return [*self.own_input(), *(self.response["output"] if self.said is None else self.said)]

    def encoded(self) -> bytes:
        """The bytes to keep, with all that is in them."""
        return self._joined(dumps(self.response), self.request, self.events)

    def packed(self) -> tuple[bytes, dict[str, bytes]]:
        """The bytes to keep without what many turns have in common, tools and instructions;
        and these parts, each by its digest."""
        ask = self._asked_with()
        texts = {
            dumps(holder[name])
            for holder in (self.response, ask)
            for name in _REPEATED
            if holder.get(name)
        }
        cut = sorted((text for text in texts if len(text) >= _MIN_PART), key=len, reverse=True)
        parts = {hashlib.sha256(text).hexdigest(): text for text in cut}
        if not parts and not self.inherited:
            return self.encoded(), {}
        request = dumps(ask) if parts and ask else self.request
        pieces = (_without(data, cut) for data in (dumps(self.response), request, self.events))
        return self._joined(*pieces, parts=list(parts), inherited=list(self.inherited)), parts

    def _asked_with(self) -> Json:
        """The request's body, if it is long enough to have something to cut out."""
        if len(self.request) < _MIN_PART:
            return {}
        try:
            ask = self.ask()
        except NotJson:
            return {}
        return ask if isinstance(ask, dict) else {}

    def _joined(self, response: bytes, request: bytes, events: bytes, **packed: Any) -> bytes:
        head = {
            "version": PACKED if packed else WHOLE,
            "sizes": [len(self.trail), len(response), len(request)],
            "references": self.references,
            "said": self.said,
            **packed,
        }
        return b"".join((dumps(head), b"\n", self.trail, response, request, events))

    @classmethod
    def decoded(cls, blob: bytes, parts: Mapping[str, bytes] | None = None) -> Kept:
        """What was encoded, or packed; raises `Unreadable`.  Without `parts` what was cut out
        is null: a conversation does not need it."""
        head_text, _, rest = blob.partition(b"\n")
        try:
            head = loads(head_text)
            if head["version"] not in (WHOLE, PACKED):
                raise Unreadable(f"it is of version {head['version']}")
            answer, asked, events = itertools.accumulate(head["sizes"])
            own = head.get("parts", [])
            texts = [b"null" if parts is None else parts[digest] for digest in own]
            return cls(
                response=loads(_with(rest[answer:asked], texts)),
                request=_with(rest[asked:events], texts),
                trail=rest[:answer],
                references=head["references"],
                said=head["said"],
                events=_with(rest[events:], texts),
                inherited=tuple(dict.fromkeys([*head.get("inherited", []), *own])),
            )
        except (NotJson, KeyError, TypeError, ValueError, IndexError) as error:
            raise Unreadable(str(error)) from None


def parts_of(blob: bytes) -> list[str]:
    """The digests of the parts that were cut out of it."""
    try:
        digests: list[str] = loads(blob.partition(b"\n")[0]).get("parts", [])
    except (NotJson, AttributeError):
        return []
    return digests


def _without(data: bytes, parts: Sequence[bytes]) -> bytes:
    for index, part in enumerate(parts):
        data = data.replace(part, b"\0%d\0" % index)
    return data


def _with(data: bytes, parts: Sequence[bytes]) -> bytes:
    return _CUT.sub(lambda found: parts[int(found[1])], data) if parts else data


def input_items(value: object, references: Mapping[str, Json]) -> list[Json]:
    """The items of an ``input`` that was accepted, references replaced."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    items = value if isinstance(value, list) else []
    return [references.get(item["id"], item) if refers(item) else item for item in items]


def refers(item: object) -> bool:
    """Whether an input item stands for one that was sent before."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("id"), str)
        and (item.get("type") == "item_reference" or not item.keys() - {"id", "type"})
        and item.get("type") in ("item_reference", None)
    )


def conversation(chain: Iterable[Kept]) -> list[Json]:
    """All items of a chain of responses, oldest first."""
    return [item for kept in chain for item in kept.items()]
