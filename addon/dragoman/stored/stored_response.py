"""A response as it is kept, and its bytes.

The request is kept as it was sent, but tools and instructions that a conversation repeats are
kept once (`StoredResponse.packed`).  Of the stream only the cuts are kept with which it can be
made again.  A conversation is never kept whole: it is read from a chain of responses, oldest first,
each of which adds its input and output.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
"""Bytes of a request, beside its parts, that is parsed to find these."""
_CUT = re.compile(rb"\0(\d+)\0")
"""Replaces a part in the events, which have no NUL."""
_FIELD = re.compile(r'\s*[{,]\s*"((?:[^"\\]|\\.)*)"\s*:\s*')
"""The name of an object's next field."""
_DECODER = json.JSONDecoder()


class Unreadable(ValueError):  # noqa: N818 - the name says what is the matter
    """The bytes are no kept response, or one of another version."""


Written = tuple[bytes, dict[str, bytes]]
"""The JSON of a response object without its long repeated fields, and of each of these."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    response: Json
    """The response object as the client got it last, if it was decoded with its parts."""
    request: bytes
    """The body of its request as the client sent it, under the same condition."""
    ancestor_ids: bytes = b""
    """The ids of the responses before it, oldest first, with blanks between. Only the last
    response's is ever read, so it is no part of the JSON."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which the request's ``item_reference`` items refer, by id."""
    full_output: Sequence[Json] | None = None
    """The output with the outputs of tools that were submitted in between, if there are any."""
    delta_cuts: bytes = b""
    """Makes the response's events again (`event_replay`); empty if it was not streamed."""
    events: bytes = b""
    """The stream itself, which earlier versions kept instead."""
    inherited: Sequence[str] = ()
    """The parts (see `packed`) of the responses before it."""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The ids of the responses before it, oldest first."""
        return tuple(self.ancestor_ids.decode().split())

    def request_body(self) -> Slices[Json]:
        """In the form of the Responses API."""
        body: Json = yield from forming((yield from reading(self.request)))
        return body

    def input_items(self) -> Slices[list[Json]]:
        """The items of the request's ``input``, whatever form it had."""
        body = yield from self.request_body()
        return (yield from resolved_items(body.get("input"), self.references))

    def output_items(self) -> Slices[list[Json]]:
        """What the model answered, without a call that was cut, or the prose that a failure cut:
        listed as ``incomplete``, its end was never sent to the client, and it is never history."""
        items: list[Json] = []
        failed = self.response.get("status") == "failed"
        cut = (*STREAMED_CALLS, "message", "reasoning") if failed else STREAMED_CALLS
        for item in self.response["output"] if self.full_output is None else self.full_output:
            if item.get("status") != "incomplete" or item.get("type") not in cut:
                items.append(item)
            yield
        return items

    def turn_items(self) -> Slices[list[Json]]:
        """What this response adds to its conversation."""
        items = yield from self.input_items()
        items += yield from self.output_items()
        return items

    def writing(self) -> Slices[Written]:
        response, fields = dict(self.response), {}
        for name in _REPEATED:
            if response.get(name):
                text = yield from writing(response[name])
                if len(text) >= _MIN_PART:
                    response[name], fields[name] = None, text
        return (yield from writing(response)), fields

    def packed(self, written: Written) -> tuple[bytes, dict[str, bytes]]:
        """The bytes to keep, without tools and instructions, which many turns have in common; and
        these parts by their digests."""
        response, fields = written
        request, cuts = _cut(self.request, _MAX_READ + 2 * sum(map(len, fields.values())))
        texts = list(dict.fromkeys([*fields.values(), *(text for _, text in cuts)]))
        parts = {hashlib.sha256(text).hexdigest(): text for text in texts}
        head = {
            "version": WHOLE,
            "sizes": [len(self.ancestor_ids), len(response), len(request)],
            "references": self.references,
            "said": self.full_output,
            # A text, which is read sooner than what is in it.
            "delta_cuts": self.delta_cuts.decode(),
        }
        if parts or self.inherited:
            head |= {
                "version": PACKED,
                "parts": list(parts),
                "inherited": list(self.inherited),
                "fields": {name: texts.index(text) for name, text in fields.items()},
                "cuts": [[place, texts.index(text)] for place, text in cuts],
            }
        return b"".join((dumps(head), b"\n", self.ancestor_ids, response, request)), parts

    @classmethod
    def decoding(
        cls, blob: bytes, parts: Mapping[str, bytes] | None = None
    ) -> Slices[StoredResponse]:
        """What was `packed`; raises `Unreadable`. Without its `parts`, which no conversation needs,
        long tools and instructions are null in both the response and the request."""
        head_text, _, rest = blob.partition(b"\n")
        try:
            head = loads(head_text)
            if head["version"] not in (WHOLE, PACKED):
                raise Unreadable(f"it is of version {head['version']}")
            ids_end, response_end, request_end = itertools.accumulate(head["sizes"])
            own = head.get("parts", [])
            texts = [b"null" if parts is None else parts[digest] for digest in own]
            response = yield from reading(rest[ids_end:response_end])
            for name, index in head.get("fields", {}).items():
                response[name] = yield from reading(texts[index])
            request = _uncut(rest[response_end:request_end], head.get("cuts", []), texts)
            return cls(
                response=response,
                request=request,
                ancestor_ids=rest[:ids_end],
                references=head["references"],
                full_output=head["said"],
                delta_cuts=str(head.get("delta_cuts", "")).encode(),
                events=_CUT.sub(lambda found: texts[int(found[1])], rest[request_end:]),
                inherited=tuple(dict.fromkeys([*head.get("inherited", []), *own])),
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
    A body longer than `longest` stays whole."""
    if not _MIN_PART <= len(request) <= longest:
        return request, []
    try:
        text = request.decode()
        found = _values_of(text)
    except (ValueError, RecursionError):
        return request, []
    pieces, cuts, end, place = [], [], 0, 0
    for begin, after in found:
        pieces.append(text[end:begin].encode())
        place += len(pieces[-1])
        cuts.append((place, text[begin:after].encode()))
        end = after
    return b"".join((*pieces, text[end:].encode())), cuts


def _values_of(text: str) -> list[tuple[int, int]]:
    """Where the long values of a request's repeated fields begin and end."""
    found, end = [], 0
    while member := _FIELD.match(text, end):
        begin = member.end()
        _, end = _DECODER.raw_decode(text, begin)
        if member[1] in _REPEATED and end - begin >= _MIN_PART:
            found.append((begin, end))
    return found


def _uncut(rest: bytes, cuts: Sequence[Sequence[int]], texts: Sequence[bytes]) -> bytes:
    pieces, end = [], 0
    for place, index in cuts:
        pieces += [rest[end:place], texts[index]]
        end = place
    return b"".join((*pieces, rest[end:]))


def resolved_items(value: object, references: Mapping[str, Json]) -> Slices[list[Json]]:
    """The items of an ``input`` that was accepted, references replaced."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    items: list[Json] = []
    for item in array(value):
        items.append(references.get(item["id"], item) if refers(item) else item)
        yield
    return items
