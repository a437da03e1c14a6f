"""A response as it is kept, and its bytes.

A response keeps what its turn added to the conversation: the items of the request's input, and the
output.  A conversation is put together when it is read, from a chain of responses, oldest first.
The tools and instructions, which come again with each turn, are at the end of its bytes: to put a
conversation together they are not read.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..bridge.request.chat_shapes import formed
from ..wire.json_codec import Json, NotJson, array, dumps, loads
from ..wire.responses import STREAMED_CALLS, refers
from .store import PART

Parts = Mapping[str, bytes]
VERSION = 4
_REPEATED = ("tools", "instructions")


class Unreadable(ValueError):  # noqa: N818 - the name says what is the matter
    """The bytes are no kept response."""


class OtherVersion(Unreadable):
    """They are a response that another version of this program kept."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What of a stream is needed to send it again."""

    dialect: str
    events: int = 0
    """How many events the client was sent; 0 if unknown."""
    prior: int = 0
    """Items of the output that were there before the stream."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    response: Json
    """The response object as the client got it last, if it was decoded with its parts."""
    request: Json
    """In the form of the Responses API, without its input; under the same condition."""
    items: bytes
    """The request's input: a JSON array of items, none of which refers to another response's."""
    ancestors: tuple[str, ...] = ()
    """The ids of the responses before it, oldest first."""
    full_output: Sequence[Json] | None = None
    """The output with the outputs of tools that were submitted in between, if there are any."""
    streamed: Streamed | None = None
    """None if it was not streamed."""
    size: int = 0
    """Bytes of what is read for a conversation, if it was decoded."""

    def input_items(self) -> list[Json]:
        items: list[Json] = loads(self.items)
        return items

    def output_items(self) -> list[Json]:
        """What the model answered, without a call that was cut, or the prose that a failure cut:
        listed as ``incomplete``, its end was never sent to the client, and it is never history."""
        failed = self.response.get("status") == "failed"
        cut = (*STREAMED_CALLS, "message", "reasoning") if failed else STREAMED_CALLS
        said = self.response["output"] if self.full_output is None else self.full_output
        return [
            item for item in said if item.get("status") != "incomplete" or item["type"] not in cut
        ]

    def turn_items(self) -> list[Json]:
        """What this response adds to its conversation."""
        return [*self.input_items(), *self.output_items()]

    def packed(self) -> bytes:
        """The bytes to keep."""
        sides = self.request, self.response
        repeated = [{name: side[name] for name in _REPEATED if side.get(name)} for side in sides]
        request, response = (
            dict(side) | dict.fromkeys(fields) for side, fields in zip(sides, repeated, strict=True)
        )
        own = dumps(repeated)
        streamed = self.streamed
        head = dumps(
            {
                "size": len(self.items),
                "repeated": len(own),
                "ancestors": self.ancestors,
                "said": self.full_output,
                "stream": streamed and [streamed.dialect, streamed.events, streamed.prior],
                "request": request,
            }
        )
        rest = b"".join((head, b"\n", self.items, dumps(response), own))
        return b'{"version":%d,"sum":%d}\n%b' % (VERSION, zlib.crc32(rest), rest)

    @classmethod
    def of(cls, blob: bytes, parts: Parts | None = None) -> StoredResponse:
        """What was `packed`; raises `Unreadable`. Without its `parts`, by their names (see
        `parts_of`), tools and instructions, which no conversation needs, are null in both the
        response and the request."""
        try:
            version, rest = _checked(blob)
            if version < 3:
                return _of_earlier_version(rest, parts)
            head_text, _, rest = rest.partition(b"\n")
            head = loads(head_text)
            end = len(rest) - head.get("repeated", 0)
            request, response = head["request"], loads(rest[head["size"] : end])
            if parts is not None:
                # Version 3 had them in a part that responses shared.
                shared = [_part(parts, name) for name in head.get("parts", ())]
                for text in shared if version == 3 else [rest[end:]]:
                    of_request, of_response = loads(text)
                    request |= of_request
                    response |= of_response
            return cls(
                response=response,
                request=request,
                items=rest[: head["size"]],
                ancestors=tuple(head["ancestors"]),
                full_output=head["said"],
                streamed=Streamed(*head["stream"]) if head["stream"] else None,
                size=end,
            )
        except OtherVersion:
            raise
        except (NotJson, LookupError, TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"it is damaged ({error})") from None


def _checked(blob: bytes) -> tuple[int, bytes]:
    """The version of a kept response, and what follows the line that says it, whose sum is right;
    all of it for versions that kept no sum.  Raises `Unreadable`."""
    line, _, rest = blob.partition(b"\n")
    first = loads(line)
    if first["version"] in (1, 2):
        return first["version"], blob
    if first["version"] not in (3, VERSION):
        raise OtherVersion(f"it is of version {first['version']}")
    if zlib.crc32(rest) != first["sum"]:
        raise Unreadable("its sum is another")
    return first["version"], rest


def _part(parts: Parts, name: str) -> bytes:
    text = parts[name]
    if name != PART + hashlib.sha256(text).hexdigest():
        raise Unreadable("a part of it is another")
    return text


def parts_of(blob: bytes) -> list[str]:
    """The names of the parts of a response that an earlier version kept; none of one that is
    damaged."""
    try:
        _, rest = _checked(blob)
        names: list[str] = loads(rest.partition(b"\n")[0]).get("parts", [])
        return [PART + name.removeprefix(PART) for name in names]
    except (NotJson, LookupError, TypeError, ValueError, AttributeError):
        return []


def resolved_items(value: object, references: Mapping[str, Json]) -> list[Any]:
    """The items of an ``input``, with those that it refers to in the place of the references."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return [references.get(item["id"], item) if refers(item) else item for item in array(value)]


def _of_earlier_version(blob: bytes, parts: Parts | None) -> StoredResponse:
    """Versions 1 and 2 kept the request as it was sent, with the items that it refers to beside it.
    Version 2 cut long tools and instructions out of both sides, each a part of its own."""
    head_text, _, rest = blob.partition(b"\n")
    head = loads(head_text)
    ids_end, response_end, request_end = itertools.accumulate(head["sizes"])
    names = tuple(PART + digest for digest in head.get("parts", ()))
    texts = [b"null" if parts is None else _part(parts, name) for name in names]
    response = loads(rest[ids_end:response_end])
    for name, index in head.get("fields", {}).items():
        response[name] = loads(texts[index])
    sent = b"".join(_uncut(rest[response_end:request_end], head.get("cuts", ()), texts))
    request = dict(formed(loads(sent)))
    items = resolved_items(request.pop("input", None), head["references"])
    cuts = loads(head.get("delta_cuts") or "{}")
    was_streamed = cuts or rest[request_end:]
    return StoredResponse(
        response=response,
        request=request,
        items=dumps(items),
        ancestors=tuple(rest[:ids_end].decode().split()),
        full_output=head["said"],
        streamed=Streamed(cuts.get("dialect", "openai"), prior=cuts.get("prior", 0))
        if was_streamed
        else None,
        size=len(blob),
    )


def _uncut(rest: bytes, cuts: Sequence[Sequence[int]], texts: Sequence[bytes]) -> Iterator[bytes]:
    end = 0
    for place, index in cuts:
        yield rest[end:place]
        yield texts[index]
        end = place
    yield rest[end:]
