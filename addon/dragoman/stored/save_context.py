"""What a turn needs while it runs to be kept when it ends, and its owner."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..wire.json_codec import Json
from .continuation import Continuation, response_ids_of
from .stored_response import StoredResponse, Streamed


def asker(credentials: Iterable[str], upstream: str) -> bytes:
    """Who asks, only for use in memory: a hash of the `credentials` and of the `upstream` (scheme,
    host, port and base path)."""
    return hash_of(upstream, *credentials)


def hash_of(*parts: str) -> bytes:
    """Another one if the same characters are cut into other parts."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode("utf-8", "surrogateescape")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.digest()


def owner(secret: bytes, asker: bytes) -> str:
    """A response's owner in a store: a hash with its `secret`, so that a guessed key cannot be
    tested on what is stored."""
    return hmac.new(secret, asker, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class SaveContext:
    asker: bytes
    request: Json
    items: bytes
    """The request, and its input's items, as in `StoredResponse`."""
    earlier: Continuation = field(default_factory=Continuation)
    resumes: StoredResponse | None = None
    """The response that this turn continues in place; None for a new one."""
    outputs: Sequence[Json] = ()
    """The outputs of tools with which it continues."""

    @property
    def prior(self) -> Sequence[Json]:
        return self.resumes.response["output"] if self.resumes else ()

    @property
    def used(self) -> list[str]:
        """The ids of the responses that this turn has used: their time begins anew."""
        return [*self.earlier.ancestors, *sorted(response_ids_of(self.earlier.references))]

    def kept(self, response: Json, dialect: str = "", events: int = 0) -> StoredResponse | None:
        """The ended `response` as it is kept, with the dialect of its stream and the number of its
        `events`, if it was streamed. None if it could not be resumed: then it stays as it was, and
        the outputs can be sent again."""
        said = None
        if self.resumes is not None:
            if response["status"] == "failed":
                return None
            before = self.resumes.full_output or self.prior
            said = [*before, *self.outputs, *response["output"][len(self.prior) :]]
        return StoredResponse(
            response=response,
            request=self.request,
            items=self.items,
            ancestors=self.earlier.ancestors,
            full_output=said,
            streamed=Streamed(dialect, events, len(self.prior)) if dialect else None,
        )
