"""Records both sides of a flow.

While a reply streams, its bytes are appended as they come and leave, with the time; when it has
ended, the client's side becomes the flow's content and the rest its metadata, which mitmproxy
saves and loads. `exchange_of` reads either.
"""

from __future__ import annotations

import itertools
import logging
import struct
import sys
import time
from array import array
from collections.abc import Callable, Mapping
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
from .kept_body import Body
from .refresh import FlowRefresher

logger = logging.getLogger(__name__)

T = TypeVar("T")

KEY = "dragoman"
"""Of the flow's metadata."""
MAX_NUMBER = 2.0**53
"""Seconds or bytes in a record: a larger number was not written by Dragoman."""
MAX_LOOKED_AT = 1024 * 1024
"""Bytes of a reply that are looked at while it grows, twice a second."""
ENDS = 64 * 1024
"""Bytes of the beginning of one that is longer, and of its end: they hold the usage."""
FIRST_STEPS = 256
MAX_STEPS = 2048
"""Steps that are kept of a stream: the first ones all, later ones thinned out."""

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
        self.growth: FlowRefresher | None = None
        self._upstream, self._client = Body(keep), Body(keep)
        self._request = client_request
        self._uncured: bytes | None = None
        self._broken = False
        self.began = flow.request.timestamp_end or flow.request.timestamp_start
        self._last = self.began
        self._silence = 0.0
        self._steps = array("d")
        self._count, self._stride = 0, 1
        flow.metadata[KEY] = {"job": job, **self._asked}
        _running[flow] = self

    def sent_another(self, client_request: bytes) -> None:
        """The request was cured: the upstream was sent something else than this."""
        self._uncured = client_request

    def came(self, data: bytes) -> None:
        self._noted(self._upstream.add, data)

    def left(self, data: bytes) -> None:
        """This, perhaps nothing, was sent to the client, after what `came`."""
        self._noted(self._leave, data)

    def left_in_silence(self, data: bytes) -> None:
        """This was sent although nothing had come: the upstream's silence continues."""
        self._noted(self._add_left, data)

    def _noted(self, note: Callable[[bytes], None], data: bytes) -> None:
        """A fault of the record must not end the stream."""
        if self._broken:
            return
        try:
            note(data)
        except Exception:
            self._broken = True
            logger.exception("A stream continues without being recorded")

    def _add_left(self, data: bytes) -> None:
        self._client.add(data)
        if self.growth:
            self.growth.passed()

    def _leave(self, data: bytes) -> None:
        self._add_left(data)
        now = time.time()
        self._silence = max(self._silence, now - self._last)
        self._last = now
        self._count += 1
        if self._count % self._stride == 0:
            self._steps.extend((now - self.began, self._upstream.total, self._client.total))
            if len(self._steps) > 3 * MAX_STEPS:
                self._thin_out()

    def so_far(self, exchange: Exchange) -> Exchange:
        """`exchange` with the sides of the reply as they are now."""
        return replace(
            exchange,
            upstream_status=self.upstream_status or exchange.status,
            client_request=self._asked.get("request", exchange.client_request),
            client_path=self._request.path if self._request else "",
            upstream_reply=self._upstream.kept,
            client_reply=self._client.kept,
            upstream_missing=self._upstream.missing,
            client_missing=self._client.missing,
            request_notes=tuple(self.evidence.request_lines()),
            reply_notes=tuple(self.evidence.reply_lines()),
            calls=dict(self.evidence.calls),
            timing=self.timing,
            options=self.options,
        )

    def _thin_out(self) -> None:
        kept = self._steps[: 3 * FIRST_STEPS]
        for index in range(3 * FIRST_STEPS, len(self._steps) - 2, 6):
            kept.extend(self._steps[index : index + 3])
        self._steps = kept
        self._stride *= 2

    def ends(self, *, growing: bool = False) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Both sides of the reply; `growing`: only the ends of a long one."""
        whole, part = (MAX_LOOKED_AT, ENDS) if growing else (sys.maxsize, 0)
        return self._upstream.ends(whole, part), self._client.ends(whole, part)

    @property
    def is_cut(self) -> bool:
        return self._upstream.missing > 0

    @property
    def client(self) -> bytes:
        return self._client.kept

    def reached(self, offset: int | None) -> float | None:
        """Seconds from the request until so many bytes had come from the upstream; None if
        that is not known."""
        if offset is None:
            return None
        for index in range(0, len(self._steps), 3):
            if self._steps[index + 1] >= offset:
                return self._steps[index]
        return None

    @property
    def timing(self) -> Timing | None:
        """None for a reply that is not streamed."""
        if not self.streamed:
            return None
        steps = zip(*[iter(self._steps)] * 3, strict=True)
        return Timing(
            tuple(Step(at, int(up), int(down)) for at, up, down in steps),
            self._last - self.began,
            self._silence,
        )

    def end(self, flow: http.HTTPFlow) -> None:
        """The flow has ended: what is kept becomes part of it."""
        _running.pop(flow, None)
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
            "missing": [self._upstream.missing, self._client.missing],
            "steps": struct.pack(f"<{len(self._steps)}d", *self._steps),
            "ended": [self._last - self.began, self._silence] if self.streamed else None,
            "status": self.upstream_status,
            **self._asked,
            "upstream": None if self._same else self._upstream.kept,
        }
        if (kept := self._client.kept) and flow.response is not None:
            # Not `content`, whose setter would change headers that have been sent.
            flow.response.data.content = kept

    @property
    def _asked(self) -> dict[str, Any]:
        asked = self._request
        if asked is None:
            return {} if self._uncured is None else {"request": self._uncured}
        resumes = {"resumes": asked.resumes} if asked.resumes else {}
        return {"request": asked.body, "path": asked.path, "dialect": asked.dialect, **resumes}

    @property
    def _same(self) -> bool:
        upstream, client = self._upstream, self._client
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
    missing = _missing(kept["missing"])
    return replace(
        exchange,
        unfinished=False,
        outcome=_outcome(kept.get("outcome")),
        upstream_reply=_typed(kept.get("upstream"), bytes, received),
        client_reply=received,
        upstream_missing=missing[0],
        client_missing=missing[1],
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


def _missing(value: object) -> list[int]:
    counts = _typed(value, list, [])[:2]
    sound = [type(count) for count in counts] == [int] * 2 and min(counts) >= 0
    return counts if sound else [0, 0]


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
