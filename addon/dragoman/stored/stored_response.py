"""A response as it is kept, and its bytes.

A response keeps what its turn added to the conversation: the items of the request's input, and the
output.  A conversation is put together when it is read, from a chain of responses, oldest first.
The tools and instructions, which come again with each turn, are at the end of its bytes: to put a
conversation together they are not read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..responses.names import STREAMED_CALLS, refers
from ..wire.json_codec import Json, NotJson, array, dumps, loads

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
    """The response object as the client got it last, if it was read whole."""
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
    def of(cls, blob: bytes, *, whole: bool = True) -> StoredResponse:
        """What was `packed`; raises `Unreadable`.  Unless `whole`, tools and instructions, which no
        conversation needs, are null in both the response and the request."""
        try:
            rest = _checked(blob)
            head_text, _, rest = rest.partition(b"\n")
            head = loads(head_text)
            end = len(rest) - head["repeated"]
            request, response = head["request"], loads(rest[head["size"] : end])
            if whole:
                of_request, of_response = loads(rest[end:])
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


def _checked(blob: bytes) -> bytes:
    """What follows the line with version and sum, if both are right.  Raises `Unreadable`."""
    line, _, rest = blob.partition(b"\n")
    first = loads(line)
    if first["version"] != VERSION:
        raise OtherVersion(f"it is of version {first['version']}")
    if zlib.crc32(rest) != first["sum"]:
        raise Unreadable("its sum is another")
    return rest


def resolved_items(value: object, references: Mapping[str, Json]) -> list[Any]:
    """The items of an ``input``, with those that it refers to in the place of the references."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return [references.get(item["id"], item) if refers(item) else item for item in array(value)]
