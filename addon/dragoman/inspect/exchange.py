"""One request and its reply, as each side of the proxy saw them.

`proxy` records it while a flow runs; views are made from it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

from ..bridge.reader_writer_pairs import read_reply
from ..notes import Evidence, TurnFacts
from .outcome import Job, Outcome, outcome_of

Side = Literal["upstream", "client"]


@dataclass(frozen=True, slots=True)
class Step:
    at: float
    """Seconds since the request was complete."""
    upstream: int
    """Bytes that had been received by then, decoded."""
    client: int
    """Bytes that had been sent by then."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When the bytes of a streamed reply passed; later steps of a long one are thinned out."""

    steps: tuple[Step, ...] = ()
    ended: float = 0.0
    """Seconds from the request to the end of the reply."""
    longest_silence: float = 0.0
    """Seconds between two steps, or between the request and the first."""

    def moment(self, offset: int | None, side: Side) -> float | None:
        """Seconds from the request until so many bytes had passed; None if it is not known."""
        if offset is None:
            return None
        at = bisect_left(self.steps, offset, key=lambda step: getattr(step, side))
        return self.steps[at].at if at < len(self.steps) else None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Both sides of a flow. Bodies are without content encoding, and empty if they were not
    kept."""

    job: Job
    client_request: bytes
    upstream_request: bytes
    """As the upstream received it: it differs for bridged flows and cured requests."""
    upstream_reply: bytes = b""
    client_reply: bytes = b""
    """Both replies have a `gap` where bytes are missing."""
    client_path: str = ""
    """The client's path, with its query, of a bridged flow."""
    upstream_missing: int = 0
    """Bytes that were not kept."""
    client_missing: int = 0
    outcome: Outcome | None = None
    """None if it was not recorded; `RUNNING` where the flow runs, or did when it was saved."""
    status: int = 200
    error: str = ""
    """How a connection broke off, in mitmproxy's words."""
    evidence: Evidence = field(default_factory=Evidence)
    """What was done."""
    has_tools: bool | None = None
    """Whether its request declared tools; None where its evidence was not recorded, or only in
    words, as by an earlier Dragoman."""
    timing: Timing | None = None

    @property
    def facts(self) -> TurnFacts:
        """What the bytes of both sides say; of a reply that was made here, its own."""
        made_here = b"" if self.timing else self.client_reply
        upstream = read_reply(self.upstream_reply or made_here).facts
        same = self.client_reply == self.upstream_reply
        return TurnFacts(upstream, upstream if same else read_reply(self.client_reply).facts)

    def outcome_by(self, facts: TurnFacts) -> Outcome:
        """As it was recorded, else by its facts: an earlier Dragoman recorded none."""
        broken = "connection broken" if self.error else ""
        evidence, status = self.evidence, self.status
        return self.outcome or outcome_of(facts, evidence, status=status, broken=broken)
