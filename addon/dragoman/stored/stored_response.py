"""A response as it is kept, and its bytes.

The request is kept as it was sent, but tools and instructions that a conversation repeats are
kept once (`StoredResponse.packed`).  Of the stream only the cuts are kept with which it can be
made again.  A conversation is read off a chain of responses, oldest first, each of which adds its
own input and outcome, and is never kept whole.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bridge.request.chat_shapes import forming
from ..wire.json_codec import Json, NotJson, array, dumps, loads
from ..wire.json_slices import reading, writing
from ..wire.responses import STREAMED_CALLS, refers
from ..wire.slices import Slices

WHOLE, PACKED = 1, 2
"""The versions: all in one, and with repeated parts cut out."""
_REPEATED = ("tools", "instructions")
_MIN_PART = 512
"""Bytes of a part at least."""
_MAX_READ = 1024 * 1024
"""Bytes of a request, without its parts, that is parsed to find these."""
_TRIES = 16
"""Fields of one name that are tried: tools may have such fields, too."""
_CUT = re.compile(rb"\0(\d+)\0")
"""Replaces a part in the events, which have no NUL."""
_DECODER = json.JSONDecoder()


class Unreadable(ValueError):  # noqa: N818 - the name says what is the matter
    """The bytes are no kept response, or one of another version."""


@dataclass(frozen=True, slots=True)
class Written:
    """The JSON of a response."""

    response: bytes
    """Without the repeated long fields."""
    fields: dict[str, bytes]
    """Those."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    response: Json
    """The response object as the client got it last."""
    request: bytes
    """The body that asked for it, as the client sent it."""
    trail: bytes = b""
    """The ids of the responses before it, oldest first, with blanks between. Only the last
    response's is ever read, so it is no part of the JSON."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which the request's ``item_reference`` items refer, by id."""
    said: Sequence[Json] | None = None
    """The outcome, if that is more than the response's output: outputs of tools that were submitted
    stand between the output items."""
    delta_cuts: bytes = b""
    """Makes the response's events again (`event_replay`); empty if it was not streamed."""
    events: bytes = b""
    """The stream itself, which earlier versions kept instead."""
    inherited: Sequence[str] = ()
    """The parts (see `packed`) of the responses before it."""

    @property
    def before(self) -> tuple[str, ...]:
        """The ids of the responses before it, oldest first."""
        return tuple(self.trail.decode().split())

    length: int = field(default=0, compare=False)
    """Bytes of the JSON of a decoded response."""

    @property
    def size(self) -> int:
        """About how many bytes of JSON it adds to its conversation."""
        return len(self.request) + self.length

    def asking(self) -> Slices[Json]:
        """The request's body, in the form of the Responses API."""
        ask: Json = yield from forming((yield from reading(self.request)))
        return ask

    def listing_input(self) -> Slices[list[Json]]:
        """The items of the request's ``input``, whatever form it had."""
        ask = yield from self.asking()
        return (yield from input_items(ask.get("input"), self.references))

    def listing(self) -> Slices[list[Json]]:
        """What this response adds to its conversation."""
        items = yield from self.listing_input()
        items += yield from self.outcome()
        return items

    def outcome(self) -> Slices[list[Json]]:
        """What the model answered, without a call that was cut, or the prose that a failure cut:
        listed as ``incomplete``, its end was never sent to the client, and it is never history."""
        came: list[Json] = []
        failed = self.response.get("status") == "failed"
        cut = (*STREAMED_CALLS, "message", "reasoning") if failed else STREAMED_CALLS
        for item in self.response["output"] if self.said is None else self.said:
            if item.get("status") != "incomplete" or item.get("type") not in cut:
                came.append(item)
            yield
        return came

    def writing(self) -> Slices[Written]:
        """The response's JSON, in slices."""
        response, fields = dict(self.response), {}
        for name in _REPEATED:
            if response.get(name):
                text = yield from writing(response[name])
                if len(text) >= _MIN_PART:
                    response[name], fields[name] = None, text
        return Written((yield from writing(response)), fields)

    def packed(self, written: Written) -> tuple[bytes, dict[str, bytes]]:
        """The bytes to keep, without tools and instructions, which many turns have in common; and
        these parts by their digests."""
        fields = written.fields
        request, cuts = _cut(self.request, _MAX_READ + 2 * sum(map(len, fields.values())))
        texts = list(dict.fromkeys([*fields.values(), *(text for _, text in cuts)]))
        parts = {hashlib.sha256(text).hexdigest(): text for text in texts}
        if not parts and not self.inherited:
            return self._joined(written.response, self.request), {}
        packed = {
            "parts": list(parts),
            "inherited": list(self.inherited),
            "fields": {name: texts.index(text) for name, text in fields.items()},
            "cuts": [[place, texts.index(text)] for place, text in cuts],
        }
        return self._joined(written.response, request, **packed), parts

    def _joined(self, response: bytes, request: bytes, **packed: Any) -> bytes:
        head = {
            "version": PACKED if packed else WHOLE,
            "sizes": [len(self.trail), len(response), len(request)],
            "references": self.references,
            "said": self.said,
            # A text, which is read sooner than what is in it.
            "delta_cuts": self.delta_cuts.decode(),
            **packed,
        }
        return b"".join((dumps(head), b"\n", self.trail, response, request))

    @classmethod
    def decoding(
        cls, blob: bytes, parts: Mapping[str, bytes] | None = None
    ) -> Slices[StoredResponse]:
        """What was `packed`; raises `Unreadable`. Without `parts` these are null: a conversation
        does not need them."""
        head_text, _, rest = blob.partition(b"\n")
        try:
            head = loads(head_text)
            if head["version"] not in (WHOLE, PACKED):
                raise Unreadable(f"it is of version {head['version']}")
            answer, asked, events = itertools.accumulate(head["sizes"])
            own = head.get("parts", [])
            texts = [b"null" if parts is None else parts[digest] for digest in own]
            response = yield from reading(rest[answer:asked])
            for name, index in head.get("fields", {}).items():
                response[name] = yield from reading(texts[index])
            return cls(
                response=response,
                request=_uncut(rest[asked:events], head.get("cuts", []), texts),
                trail=rest[:answer],
                references=head["references"],
                said=head["said"],
                delta_cuts=str(head.get("delta_cuts", "")).encode(),
                events=_CUT.sub(lambda found: texts[int(found[1])], rest[events:]),
                inherited=tuple(dict.fromkeys([*head.get("inherited", []), *own])),
                length=asked - answer,
            )
        except (NotJson, KeyError, TypeError, ValueError, IndexError) as error:
            raise Unreadable(str(error)) from None


def parts_of(blob: bytes) -> list[str]:
    try:
        digests: list[str] = loads(blob.partition(b"\n")[0]).get("parts", [])
    except (NotJson, AttributeError):
        return []
    return digests


def _cut(request: bytes, longest: int) -> tuple[bytes, list[tuple[int, bytes]]]:
    """A request's body without its long repeated fields; and those, with their places in the rest.
    One that is too long to be parsed stays whole, and one longer than `longest` is not even
    searched."""
    if not _MIN_PART <= len(request) <= longest:
        return request, []
    try:
        text = request.decode()
    except UnicodeDecodeError:
        return request, []
    found: list[tuple[int, int]] = []
    for name in _REPEATED:
        found += _values_of(name, text, found)
    found.sort()
    pieces, cuts, end, place = [], [], 0, 0
    for begin, after in found:
        pieces.append(text[end:begin].encode())
        place += len(pieces[-1])
        cuts.append((place, text[begin:after].encode()))
        end = after
    left = b"".join((*pieces, text[end:].encode()))
    # None of them may be in the input, which is read without them.
    nulls = [(index, 0) for index, _ in cuts]
    if not cuts or len(left) > _MAX_READ or not _are_fields(_uncut(left, nulls, [b"null"])):
        return request, []
    return left, cuts


def _values_of(name: str, text: str, taken: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the first long value of a field of this name begins and ends, outside of those `taken`;
    none, or one."""
    fields = re.finditer(rf'"{name}"[ \t\r\n]*:[ \t\r\n]*', text)
    for field_ in itertools.islice(fields, _TRIES):
        begin = field_.end()
        if any(first <= begin < last for first, last in taken):
            continue
        try:
            _, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        if end - begin >= _MIN_PART and not any(begin < first < end for first, _ in taken):
            return [(begin, end)]
    return []


def _are_fields(left: bytes) -> bool:
    """Whether the nulls, which were cut out, are fields of the request itself."""
    nulls = len(re.findall(rf'"({"|".join(_REPEATED)})"[ \t\r\n]*:[ \t\r\n]*null'.encode(), left))
    try:
        ask = loads(left)
    except NotJson:
        return False
    return isinstance(ask, dict) and nulls == sum(
        name in ask and ask[name] is None for name in _REPEATED
    )


def _uncut(left: bytes, cuts: Sequence[Sequence[int]], texts: Sequence[bytes]) -> bytes:
    pieces, end = [], 0
    for place, index in cuts:
        pieces += [left[end:place], texts[index]]
        end = place
    return b"".join((*pieces, left[end:]))


def input_items(value: object, references: Mapping[str, Json]) -> Slices[list[Json]]:
    """The items of an ``input`` that was accepted, references replaced."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    items: list[Json] = []
    for item in array(value):
        items.append(references.get(item["id"], item) if refers(item) else item)
        yield
    return items
