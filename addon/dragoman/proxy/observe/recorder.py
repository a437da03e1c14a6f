"""Records both sides of a flow.

When a flow has ended, the client's side of its reply becomes the flow's content and the rest its
metadata, which mitmproxy saves and loads.  `exchange_of` reads these; of a flow that still runs it
reads what its record would keep now.
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args
from weakref import WeakKeyDictionary

from mitmproxy import http
from mitmproxy.flow import Flow

from ...inspect.exchange import Exchange, Step, Timing
from ...inspect.outcome import RUNNING, SIGNS, Job, Outcome
from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...reply.facts import TurnReader
from ...wire.request_bounds import MAX_BODY
from ..content_decoding import DecodingError
from ..http_headers import decoded
from .reply_log import Body, ReplyLog

KEY = "dragoman"
"""The record's key in a flow's metadata."""
MAX_NUMBER = 2.0**53
"""Seconds or bytes in a record: a larger number was not written by Dragoman."""
_NOTES = ("told_request", "told")
_running: WeakKeyDictionary[Flow, FlowRecorder] = WeakKeyDictionary()
"""Kept by the module: a script that is loaded anew finds the records of flows that run."""


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
        self.signed: list[str] = _sound(flow.metadata.get(KEY)).get("signed", ["", ""])
        """The comment and the mark last put on the flow, perhaps in an earlier run."""
        self.received: http.Response | None = None
        """The upstream's reply, once its headers have come; an addon may make one, too."""
        self.passes_encoded = False
        """Whether the reply passes in its content encoding: both sides are the same."""
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
        _running[flow] = self

    def begun(self) -> dict[str, Any]:
        """What the flow's metadata has of the record while the flow runs."""
        return {"job": self.job, "signed": self.signed, **self._request_fields}

    @property
    def sent(self) -> Body:
        """What the client received of a stream, without content encoding."""
        return self.reply.upstream if self.passes_encoded else self.reply.client

    def kept(self, flow: http.HTTPFlow) -> dict[str, Any]:
        """What the flow's metadata has of the record when it has ended; at any time."""
        upstream, client, timing = self.reply.upstream, self.reply.client, self.reply.timing
        steps = (struct.pack("<3d", step.at, step.upstream, step.client) for step in timing.steps)
        evidence = self.evidence
        return {
            **self.begun(),
            "outcome": [self.outcome.ending, self.outcome.what],
            # The names of these two are those in files of flows that were saved before.  A file
            # keeps the order of a list only.
            "told_request": _counts(evidence.of_request),
            "told": _counts(evidence.notes - evidence.of_request),
            "calls": [[name, count] for name, count in evidence.calls.items()],
            "forms": _counts(evidence.forms),
            "refused": evidence.refused_calls,
            "tools": bool(self.tools),
            "missing": [upstream.missing, client.missing],
            "steps": b"".join(steps),
            "ended": [timing.ended, timing.longest_silence] if self.streamed else None,
            "upstream": None if self._is_unchanged(flow) else upstream.kept,
        }

    def end(self, flow: http.HTTPFlow) -> None:
        """The flow has ended: what is kept becomes part of it."""
        _running.pop(flow, None)
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
    return _running.get(flow)


def client_request_of(flow: Flow) -> ClientRequest | None:
    """What the client sent, of a flow that was bridged, perhaps in an earlier run."""
    match _sound(flow.metadata.get(KEY)):
        case {"request": body, "path": path, **more}:
            return ClientRequest(body, path, more.get("dialect", ""), more.get("resumes", b""))
    return None


def is_watched(flow: Flow) -> bool:
    return isinstance(flow, http.HTTPFlow) and isinstance(flow.metadata.get(KEY), dict)


def exchange_of(flow: Flow) -> Exchange | None:
    """Both sides of a flow, which may still run or be loaded from a file; None if not watched."""
    if not isinstance(flow, http.HTTPFlow) or not is_watched(flow):
        return None
    record, response, sent = recorder_of(flow), flow.response, readable(flow.request)
    metadata = record.kept(flow) if record else flow.metadata[KEY]
    # Only `FlowRecorder.kept` says what is missing; else the flow was saved while it ran.
    is_whole = "missing" in metadata
    kept = _sound(metadata)
    outcome = Outcome(*kept["outcome"]) if "outcome" in kept else None
    received = record.sent.kept if record else readable(response)
    upstream_missing, client_missing, *_ = kept.get("missing", (0, 0))
    status = response.status_code if response else 0
    return Exchange(
        job=kept.get("job", "watch"),
        client_request=kept.get("request", sent),
        upstream_request=sent,
        upstream_reply=kept.get("upstream", received if is_whole else b""),
        client_reply=received,
        client_path=kept.get("path", ""),
        upstream_missing=upstream_missing,
        client_missing=client_missing,
        outcome=RUNNING if record or not is_whole else outcome,
        status=status,
        error=flow.error.msg if flow.error else "",
        evidence=_evidence(kept),
        has_tools=kept.get("tools"),
        timing=_timing(kept.get("steps"), kept.get("ended")),
    )


def readable(message: http.Message | None) -> bytes:
    """A body without its encoding, as far as it can be decoded."""
    pieces: list[bytes] = []
    with suppress(DecodingError):
        pieces.extend(decoded(message, MAX_BODY) if message else ())
    return b"".join(pieces)


def _sound(metadata: object) -> dict[str, Any]:
    """What `FlowRecorder.kept` may have given, other than None; a file of flows may have
    anything."""
    items = metadata.items() if isinstance(metadata, dict) else ()
    return {name: value for name, value in items if _is_sound(name, value)}


def _is_sound(name: str, value: object) -> bool:
    match name, value:
        case (
            ("request" | "resumes" | "upstream" | "steps", bytes())
            | ("path" | "dialect", str())
            | ("told_request" | "told" | "calls" | "forms", [*_])
            | ("tools", bool())
            | ("signed", [str(), str()])
            | ("ended", [float(), float()])
        ):
            return True
        case "refused", int():
            return 0 <= value <= MAX_NUMBER
        case "job", _:
            return value in get_args(Job)
        case "outcome", [str() as ending, str()]:
            return ending in SIGNS
        case "missing", [int() as upstream, int() as client, *_]:
            return 0 <= min(upstream, client) <= max(upstream, client) <= MAX_NUMBER
    return False


def _evidence(kept: Mapping[str, Any]) -> Evidence:
    of_request, told, forms, calls = (
        Counter(dict(_counted(kept.get(name, ()), words=name in _NOTES)))
        for name in (*_NOTES, "forms", "calls")
    )
    return Evidence(
        calls=Counter({name: count for (name, _), count in calls.items()}),
        forms=forms,
        refused_calls=kept.get("refused", 0),
        notes=of_request + told,
        of_request=of_request,
    )


def _counts(counter: Counter[tuple[str, str]]) -> list[list[Any]]:
    return [[*names, count] for names, count in counter.items()]


def _counted(values: Iterable[object], *, words: bool) -> Iterator[tuple[tuple[str, str], int]]:
    """What `_counts` gave.  Calls have one name; an earlier Dragoman recorded a note's words."""
    for value in values:
        match value:
            case str() if words:
                yield (value, ""), 1
            case [str() as one, int() as count] if 0 < count <= MAX_NUMBER:
                yield (one, ""), count
            case [str() as one, str() as other, int() as count] if 0 < count <= MAX_NUMBER:
                yield (one, other), count


def _timing(packed: bytes | None, ended: list[float] | None) -> Timing | None:
    if packed is None or ended is None or len(packed) % 24:
        return None
    steps = list(struct.iter_unpack("<3d", packed))
    if not all(0 <= number < MAX_NUMBER for number in itertools.chain(*steps, ended)):
        return None  # NaN is not either
    return Timing(tuple(Step(at, int(up), int(down)) for at, up, down in steps), *ended)
