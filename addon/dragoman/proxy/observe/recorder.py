"""Records both sides of a flow.

When a flow has ended, the client's side of its reply becomes the flow's content and the rest its
metadata, which mitmproxy saves and loads.  `exchange_of` reads these; of a flow that still runs it
reads what its record would keep now.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mitmproxy import http
from mitmproxy.flow import Flow

from ...inspect.exchange import Exchange, Step, Timing
from ...inspect.outcome import RUNNING, Job, Outcome
from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...reply.facts import TurnReader
from ...wire.reply_bounds import MAX_REPLY
from ...wire.request_bounds import MAX_BODY
from ..content_decoding import DecodingError, decode
from ..flow_state import known_state, state_of
from ..http_headers import encoding_of
from .reply_log import ReplyLog

KEY = "dragoman"
"""The record's key in a flow's metadata."""
VERSION = 1
"""Of what a flow's metadata has of a record; one of another version, or none, is not read."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What the client sent, where the upstream was sent something else.  It is kept with the flow,
    whose own request is the upstream's: so a replay of a bridged flow is bridged again."""

    body: bytes
    """Without content encoding."""
    path: str = ""
    """With its query; empty if the request was only cured."""
    dialect: str = ""
    """Empty where the client's API has none."""
    resumes: bytes = b""
    """Where the body is the outputs of tools that are submitted to a stored response: the request,
    without its input, that this response answers."""


class FlowRecorder:
    def __init__(self, flow: http.HTTPFlow, job: Job, *, keep: int) -> None:
        """`keep` is how many bytes are kept of each side of the reply."""
        self.job = job
        self.model = ""
        """The one asked for, if known."""
        self.signed: list[str] = _metadata_of(flow).get("signed", ["", ""])
        """The comment and the mark last put on the flow, perhaps in an earlier run."""
        self.received: http.Response | None = None
        """The upstream's reply, once its headers have come; an addon may make one, too."""
        self.outcome = RUNNING
        self.evidence = Evidence()
        self.read: TurnReader | None = None
        """What the stages have read of the reply, if it streams."""
        self.tools = DeclaredTools({})
        self.streamed = False
        self.began = flow.request.timestamp_end or flow.request.timestamp_start
        self.reply = ReplyLog(keep, self.began)
        self.client_request: ClientRequest | None = None
        """What the client sent, if the upstream is sent something else."""
        state_of(flow).record = self

    def begun(self) -> dict[str, Any]:
        """What the flow's metadata has of the record while the flow runs."""
        own = {"version": VERSION, "job": self.job, "signed": self.signed}
        return own | self._request_fields

    def kept(self, flow: http.HTTPFlow) -> dict[str, Any]:
        """What the flow's metadata has of the record when it has ended; at any time."""
        upstream, client, timing = self.reply.upstream, self.reply.client, self.reply.timing
        steps = (struct.pack("<3d", step.at, step.upstream, step.client) for step in timing.steps)
        evidence = self.evidence
        return {
            **self.begun(),
            "outcome": [self.outcome.ending, self.outcome.what, self.outcome.counted],
            # A file keeps the order of a list only.
            "cures": _counts(evidence.cures),
            "notes_of_request": _counts(evidence.of_request),
            "notes_of_reply": _counts(evidence.notes - evidence.of_request),
            "calls": [[name, count] for name, count in evidence.calls.items()],
            "forms": _counts(evidence.forms),
            "refused": evidence.refused_calls,
            "changed": evidence.changed,
            "tools": bool(self.tools),
            "missing": [upstream.missing, client.missing],
            "steps": b"".join(steps),
            "ended": [timing.ended, timing.longest_silence] if self.streamed else None,
            "upstream": None if self._is_unchanged(flow) else upstream.kept,
        }

    def end(self, flow: http.HTTPFlow) -> None:
        """The flow has ended: what is kept becomes part of it."""
        state_of(flow).record = None
        flow.metadata[KEY] = self.kept(flow)
        if (body := self.reply.client.kept) and flow.response is not None:
            # Not `content`, whose setter would change headers that have been sent.
            flow.response.data.content = body

    @property
    def _request_fields(self) -> dict[str, Any]:
        """What the flow's metadata has of the client's request."""
        sent = self.client_request
        if sent is None:
            return {}
        others = {"path": sent.path, "dialect": sent.dialect, "resumes": sent.resumes}
        return {"request": sent.body} | {name: text for name, text in others.items() if text}

    def _is_unchanged(self, flow: http.HTTPFlow) -> bool:
        """Whether the client received what came from the upstream."""
        upstream, client = self.reply.upstream, self.reply.client
        if not self.streamed:  # only what was changed is recorded
            ours = self.job == "bridge" or flow.error or self.received not in (None, flow.response)
            return not (ours or upstream.total)
        return upstream.total == client.total and upstream.kept == client.kept


def recorder_of(flow: Flow) -> FlowRecorder | None:
    """The record of a flow that still runs."""
    state = known_state(flow)
    return state.record if state else None


def client_request_of(flow: Flow) -> ClientRequest | None:
    """What the client sent, of a flow that was bridged, perhaps in an earlier run."""
    match _metadata_of(flow):
        case {"request": body, "path": path, **more}:
            return ClientRequest(body, path, more.get("dialect", ""), more.get("resumes", b""))
    return None


def is_watched(flow: Flow) -> bool:
    return isinstance(flow, http.HTTPFlow) and bool(_metadata_of(flow))


def exchange_of(flow: Flow) -> Exchange | None:
    """Both sides of a flow, which may still run or be loaded from a file; None if not watched."""
    if not isinstance(flow, http.HTTPFlow) or not is_watched(flow):
        return None
    record, response, sent = recorder_of(flow), flow.response, readable(flow.request)
    kept = record.kept(flow) if record else _metadata_of(flow)
    # Only `FlowRecorder.kept` has the outcome; else the flow was saved while it ran.
    has_ended = "outcome" in kept and record is None
    received = record.reply.shown if record else readable(response)
    upstream_missing, client_missing = kept.get("missing", (0, 0))
    upstream = kept.get("upstream", b"")
    return Exchange(
        job=kept["job"],
        client_request=kept.get("request", sent),
        upstream_request=sent,
        upstream_reply=received if upstream is None else upstream,
        client_reply=received,
        client_path=kept.get("path", ""),
        upstream_missing=upstream_missing,
        client_missing=client_missing,
        outcome=Outcome(*kept["outcome"]) if has_ended else RUNNING,
        status=response.status_code if response else 0,
        error=flow.error.msg if flow.error else "",
        evidence=_evidence(kept),
        has_tools=kept.get("tools"),
        timing=_timing(kept.get("steps", b""), kept.get("ended")),
    )


def readable(message: http.Message | None) -> bytes:
    """A body without its encoding, as far as it can be decoded."""
    body = message.raw_content if message else None
    return plain(body, encoding_of(message), MAX_BODY) if message and body else b""


def plain(body: bytes, encoding: str, limit: int = MAX_REPLY) -> bytes:
    """The same of the bytes of a body, to some `limit` bytes."""
    pieces: list[bytes] = []
    with suppress(DecodingError):
        pieces.extend(decode(body, encoding, limit))
    return b"".join(pieces)


def _metadata_of(flow: Flow) -> dict[str, Any]:
    """What `FlowRecorder` has put there, perhaps in an earlier run; empty if nothing."""
    metadata: Any = flow.metadata.get(KEY)
    if not isinstance(metadata, dict) or metadata.get("version") != VERSION:
        return {}
    return metadata


def _evidence(kept: Mapping[str, Any]) -> Evidence:
    cures, of_request, of_reply, forms = (
        Counter({(one, other): count for one, other, count in kept.get(name, ())})
        for name in ("cures", "notes_of_request", "notes_of_reply", "forms")
    )
    return Evidence(
        calls=Counter(dict(kept.get("calls", ()))),
        forms=forms,
        refused_calls=kept.get("refused", 0),
        notes=of_request + of_reply,
        of_request=of_request,
        cures=cures,
        changed=kept.get("changed", False),
    )


def _counts(counter: Counter[tuple[str, str]]) -> list[list[Any]]:
    return [[*names, count] for names, count in counter.items()]


def _timing(packed: bytes, ended: Sequence[float] | None) -> Timing | None:
    if ended is None:
        return None
    steps = (Step(at, int(up), int(down)) for at, up, down in struct.iter_unpack("<3d", packed))
    return Timing(tuple(steps), *ended)
