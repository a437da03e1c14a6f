"""One request and its reply, as each side of the proxy saw them.

The record that everything a person is shown is made from: views, exports, replays.
`proxy` writes it while a flow runs; nothing here or in this room looks at a flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .outcome import Outcome

Job = Literal["watch", "repair", "bridge"]
"""What was to be done with a flow: nothing (its reply passes as it comes), repair, or the
bridge (which repairs as well)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A moment at which something came from the upstream."""

    at: float
    """Seconds since the request was complete."""
    upstream: int
    """Bytes that had come by then (decoded)."""
    client: int
    """Bytes that had left by then."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When the bytes of a streamed reply passed; a long reply's later steps are thinned out."""

    steps: tuple[Step, ...] = ()
    ended: float = 0.0
    """Seconds from the request to the end of the reply."""
    longest_silence: float = 0.0
    """Seconds between two steps, or between the request and the first."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Both sides of a flow.  Bodies are without content encoding; an empty one may also be
    one that was not kept."""

    job: Job
    client_request: bytes
    """As the client sent it."""
    upstream_request: bytes
    """As the upstream received it; the same but for bridged flows and cured requests."""
    upstream_reply: bytes = b""
    """As the upstream sent it, with a `gap` where bytes are missing."""
    client_reply: bytes = b""
    """As the client received it, with a `gap` where bytes are missing."""
    client_path: str = ""
    """Of a bridged flow: the path, with its query, that the client sent."""
    upstream_missing: int = 0
    """Bytes of the upstream's reply that were not kept."""
    client_missing: int = 0
    """Bytes of the client's reply that were not kept."""
    unfinished: bool = False
    """Whether the flow still runs, or its record ended before it did."""
    outcome: Outcome | None = None
    """How the turn ended; None if that was not recorded."""
    status: int = 200
    """Of the reply that the client received."""
    upstream_status: int = 200
    """Of the reply that the upstream sent."""
    retry_after: str = ""
    """That header of the reply, which the message of an error repeats."""
    error: str = ""
    """How a connection broke off, in mitmproxy's words; empty: none did."""
    told_request: tuple[str, ...] = ()
    """What was dropped from the request, renamed …: lines of the flow's evidence."""
    told: tuple[str, ...] = ()
    """What was repaired in the reply, dropped …: the other lines."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Tool calls that repair found, by name."""
    timing: Timing | None = None
    """None for a reply that was not streamed."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options in force, by their mitmproxy names; ``dragoman_repair`` is ``on`` or
    ``off`` for this flow, ``dragoman_dialect`` the dialect that was chosen."""
