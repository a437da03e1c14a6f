"""Records both sides of a flow.

When a flow has ended, the client's side of its reply becomes the flow's content and the rest its
metadata, which mitmproxy saves and loads.  `exchange_of` reads these, or the record of a flow that
still runs.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar, cast, get_args
from weakref import WeakKeyDictionary

from mitmproxy import http
from mitmproxy.flow import Flow

from ...inspect.exchange import Exchange, Job, Step, Timing
from ...inspect.outcome import RUNNING, SIGNS, Outcome
from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ..content_decoding import MAX_REQUEST, DecodingError
from ..http_headers import body_of
from .reply_log import ReplyLog

T = TypeVar("T")

KEY = "dragoman"
"""Of the flow's metadata."""
MAX_NUMBER = 2.0**53
"""Seconds or bytes in a record: a larger number was not written by Dragoman."""
_running: WeakKeyDictionary[Flow, FlowRecorder] = WeakKeyDictionary()
"""Of the module, so that a script that is loaded anew finds them."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What the client of a bridged flow sent, kept with the flow, whose own request is the
    upstream's: so a replay of the flow is bridged again."""

    body: bytes
    """Without content encoding."""
    path: str
    """With its query."""
    dialect: str
    resumes: bytes = b""
    """Where the body is the outputs of tools that are submitted to a stored response: the request,
    without its input, that this response answers."""


class FlowRecorder:
    def __init__(
        self,
        flow: http.HTTPFlow,
        job: Job,
        *,
        evidence: Evidence,
        keep: int,
        model: str = "",
        client_request: ClientRequest | None = None,
    ) -> None:
        """`keep` is how many bytes are kept of each side of the reply, `model` is the one
        asked for if known, `client_request` what the client sent where the upstream was
        sent something else."""
        self.job = job
        self.model = model
        signed = flow.metadata[KEY].get("signed") if is_watched(flow) else None
        self.signed: list[str] = signed if _is_signature(signed) else ["", ""]
        """The comment and the mark last put on the flow, perhaps in an earlier run."""
        self.answered_here = False
        """Whether the reply is our own."""
        self.outcome = RUNNING
        self.evidence = evidence
        self.tools = DeclaredTools({})
        self.options: Mapping[str, str] = {}
        """See `Exchange.options`."""
        self.upstream_status: int | None = None
        """If it differs from the client's."""
        self.streamed = False
        self.began = flow.request.timestamp_end or flow.request.timestamp_start
        self.reply = ReplyLog(keep, self.began)
        self._client_request = client_request
        self._uncured: bytes | None = None
        flow.metadata[KEY] = {"job": job, **self._request_fields}
        _running[flow] = self

    def sent_another(self, client_request: bytes) -> None:
        """The request was cured: the upstream was sent something else than this."""
        self._uncured = client_request

    def so_far(self, exchange: Exchange) -> Exchange:
        """`exchange` with the sides of the reply as they are now."""
        fields, upstream, client = self._request_fields, self.reply.upstream, self.reply.client
        return replace(
            exchange,
            upstream_status=self.upstream_status or exchange.status,
            client_request=fields.get("request", exchange.client_request),
            client_path=fields.get("path", ""),
            upstream_reply=upstream.kept,
            client_reply=client.kept,
            upstream_missing=upstream.missing,
            client_missing=client.missing,
            request_notes=tuple(self.evidence.request_lines()),
            reply_notes=tuple(self.evidence.reply_lines()),
            calls=dict(self.evidence.calls),
            timing=self.reply.timing if self.streamed else None,
            options=self.options,
        )

    def end(self, flow: http.HTTPFlow) -> None:
        """The flow has ended: what is kept becomes part of it."""
        _running.pop(flow, None)
        upstream, client, steps = self.reply.upstream, self.reply.client, self.reply.steps
        flow.metadata[KEY] = {
            "job": self.job,
            "outcome": [self.outcome.ending, self.outcome.what],
            # The names of these two are those in files of flows that were saved before.
            "told_request": self.evidence.request_lines(),
            "told": self.evidence.reply_lines(),
            # A file of flows keeps the order of a list only.
            "calls": [[name, count] for name, count in self.evidence.calls.items()],
            "options": dict(self.options),
            "signed": self.signed,
            "missing": [upstream.missing, client.missing],
            "steps": struct.pack(f"<{len(steps)}d", *steps),
            "ended": list(self.reply.ended) if self.streamed else None,
            "status": self.upstream_status,
            **self._request_fields,
            "upstream": None if self._is_unchanged else upstream.kept,
        }
        if (kept := client.kept) and flow.response is not None:
            # Not `content`, whose setter would change headers that have been sent.
            flow.response.data.content = kept

    @property
    def _request_fields(self) -> dict[str, Any]:
        """Of the flow's metadata."""
        sent = self._client_request
        if sent is None:
            return {} if self._uncured is None else {"request": self._uncured}
        resumes = {"resumes": sent.resumes} if sent.resumes else {}
        return {"request": sent.body, "path": sent.path, "dialect": sent.dialect, **resumes}

    @property
    def _is_unchanged(self) -> bool:
        """Whether the client received what came from the upstream."""
        upstream, client = self.reply.upstream, self.reply.client
        if not self.streamed:
            return not upstream.total and not self.answered_here
        return upstream.total == client.total and upstream.kept == client.kept


def recorder_of(flow: Flow) -> FlowRecorder | None:
    """The record of a flow that still runs."""
    return _running.get(flow)


def client_request_of(flow: Flow) -> ClientRequest | None:
    """What the client sent, of a flow that was bridged, perhaps in an earlier run."""
    kept = flow.metadata.get(KEY)
    known = kept if isinstance(kept, dict) else {}
    match known.get("request"), known.get("path"), known.get("dialect"):
        case bytes() as body, str() as path, str() as dialect:
            return ClientRequest(body, path, dialect, _typed(known.get("resumes"), bytes, b""))
    return None


def is_watched(flow: Flow) -> bool:
    return isinstance(flow, http.HTTPFlow) and isinstance(flow.metadata.get(KEY), dict)


def exchange_of(flow: Flow) -> Exchange | None:
    """Both sides of a flow, which may still run or be loaded from a file; None if not watched."""
    if not isinstance(flow, http.HTTPFlow) or not is_watched(flow):
        return None
    kept: dict[str, Any] = flow.metadata[KEY]
    response, sent = flow.response, readable(flow.request)
    status = response.status_code if response else 0
    exchange = Exchange(
        job=cast(Job, kept["job"] if kept.get("job") in get_args(Job) else "watch"),
        client_request=_typed(kept.get("request"), bytes, sent),
        client_path=_typed(kept.get("path"), str, ""),
        upstream_request=sent,
        status=status,
        upstream_status=_typed(kept.get("status"), int, status),
        unfinished=True,
        outcome=RUNNING,
        retry_after=response.headers.get("retry-after", "") if response else "",
        error=flow.error.msg if flow.error else "",
    )
    if flow in _running:
        return _running[flow].so_far(exchange)
    received = readable(response) if response else b""
    if "missing" not in kept:  # it did not run to its end here
        return replace(exchange, client_reply=received)
    upstream_missing, client_missing = _missing(kept["missing"])
    return replace(
        exchange,
        unfinished=False,
        outcome=_outcome(kept.get("outcome")),
        upstream_reply=_typed(kept.get("upstream"), bytes, received),
        client_reply=received,
        upstream_missing=upstream_missing,
        client_missing=client_missing,
        request_notes=tuple(map(str, _typed(kept.get("told_request"), list, []))),
        reply_notes=tuple(map(str, _typed(kept.get("told"), list, []))),
        calls=_pairs(kept.get("calls")),
        timing=_timing(kept),
        options=_words(kept.get("options")),
    )


def readable(message: http.Message) -> bytes:
    """A body without its encoding; empty if it cannot be decoded."""
    try:
        return body_of(message, MAX_REQUEST)
    except DecodingError:
        return b""


def _typed(value: object, kind: type[T], otherwise: T) -> T:
    return value if isinstance(value, kind) else otherwise


def _is_signature(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and [type(text) for text in value] == [str, str]


def _outcome(value: object) -> Outcome | None:
    match value:
        case [str() as ending, str() as what] if ending in SIGNS:
            return Outcome(ending, what)
    return None  # an earlier Dragoman kept none


def _missing(value: object) -> tuple[int, int]:
    match value:
        case [int() as upstream, int() as client, *_] if min(upstream, client) >= 0:
            return upstream, client
    return 0, 0


def _pairs(value: object) -> dict[str, int]:
    pairs = [pair for pair in _typed(value, list, []) if isinstance(pair, list) and len(pair) == 2]
    return {name: n for name, n in pairs if isinstance(name, str) and isinstance(n, int)}


def _words(value: object) -> dict[str, str]:
    items = _typed(value, dict, {}).items()
    return {name: word for name, word in items if isinstance(name, str) and isinstance(word, str)}


def _timing(kept: dict[str, Any]) -> Timing | None:
    packed, ended = kept.get("steps"), kept.get("ended")
    if not (isinstance(packed, bytes) and isinstance(ended, list) and len(packed) % 24 == 0):
        return None
    if len(ended) != 2 or not all(isinstance(seconds, float) for seconds in ended):
        return None
    steps = list(struct.iter_unpack("<3d", packed))
    if not all(0 <= number < MAX_NUMBER for number in itertools.chain(*steps, ended)):
        return None  # NaN is not either
    return Timing(tuple(Step(at, int(up), int(down)) for at, up, down in steps), *ended)
