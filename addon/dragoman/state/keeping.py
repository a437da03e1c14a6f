"""What a turn has to know while it runs to be kept when it ends, and whose it is."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .going_on import Earlier
from .kept import Json, Kept

MAX_EVENTS = 16 * 1024 * 1024
"""Bytes of a stream that are kept; one that is longer cannot be replayed."""


def owner(secret: bytes, credentials: Iterable[str], upstream: str) -> str:
    """Whose a response is: a hash with the store's `secret`, from which neither can be had
    back.  `upstream` is scheme, host, port and base path."""
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for part in (upstream, *credentials):
        text = part.encode("utf-8", "surrogateescape")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a turn's end needs of its beginning."""

    owner: str
    request: bytes
    """The body as the client sent it."""
    earlier: Earlier = field(default_factory=Earlier)
    resumes: Kept | None = None
    """The response that goes on with this turn; None for a new one."""
    outputs: Sequence[Json] = ()
    """The outputs of tools with which it goes on."""

    @property
    def prior(self) -> Sequence[Json]:
        """The items that the response had before."""
        return self.resumes.response["output"] if self.resumes else ()

    def kept(self, response: Json, events: bytes) -> Kept:
        """What is to be kept of the ended `response`; `events` is its stream."""
        said = None
        if self.resumes is not None:
            before = self.resumes.said or self.prior
            said = [*before, *self.outputs, *response["output"][len(self.prior) :]]
        return Kept(
            response=response,
            request=self.request,
            before=self.earlier.before,
            references=self.earlier.references,
            said=said,
            events=events if len(events) <= MAX_EVENTS else b"",
        )
