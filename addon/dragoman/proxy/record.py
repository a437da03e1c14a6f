"""What passed in one flow, on both sides, kept while it runs and afterwards.

While a reply streams, its bytes are appended here as they come and as they leave, with
the time; when it has ended, the client's side becomes the flow's content and the rest
its metadata, which mitmproxy saves and loads with it.  `exchange_of` reads either.
"""

from __future__ import annotations

import logging
import struct
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeGuard, cast, get_args
from weakref import WeakKeyDictionary

from mitmproxy import http
from mitmproxy.flow import Flow

from ..evidence import Evidence
from ..report.exchange import Exchange, Job, Step, Timing
from .decoding import DecodingError, decode_whole
from .ledger import Body, Ledger

logger = logging.getLogger(__name__)

KEY = "dragoman"
"""Of the flow's metadata."""
FIRST_STEPS = 256
MAX_STEPS = 2048
"""Steps that are kept of a stream: the first ones all, later ones thinned out."""

_running: WeakKeyDictionary[Flow, Record] = WeakKeyDictionary()


class Record:
    """What passes in one flow."""

    def __init__(
        self,
        flow: http.HTTPFlow,
        job: Job,
        *,
        evidence: Evidence,
        ledgers: tuple[Ledger, Ledger],
        model: str = "",
        client_request: bytes | None = None,
    ) -> None:
        """`ledgers` are those of the upstream's side and the client's, `model` is the one
        asked for if known, `client_request` what the client sent where the upstream was
        sent something else."""
        self.job = job
        self.model = model
        self.comment = ""
        """The last comment that was put on the flow."""
        self.evidence = evidence
        self.options: Mapping[str, str] = {}
        """Those that the reply depends on, see `Exchange.options`."""
        self.upstream_status: int | None = None
        """If it is not the one that the client received."""
        self.streamed = False
        self.on_step: Callable[[], None] | None = None
        """Called when something passed."""
        self._upstream, self._client = (Body(ledger) for ledger in ledgers)
        self._request = Body(ledgers[1])
        if client_request is not None:
            self._request.add(client_request)
        self._broken = False
        self.began = flow.request.timestamp_end or flow.request.timestamp_start
        self._last = self.began
        self._silence = 0.0
        self._steps = array("d")
        self._count = 0
        self._stride = 1
        flow.metadata[KEY] = {"job": job}
        _running[flow] = self

    def came(self, data: bytes) -> None:
        """The upstream sent this."""
        self._noted(self._upstream.add, data)

    def left(self, data: bytes) -> None:
        """This, perhaps nothing, left for the client, after what `came` just now."""
        self._noted(self._leave, data)

    def said(self, data: bytes) -> None:
        """This left although nothing had come: the upstream's silence goes on."""
        self._noted(self._say, data)

    def _say(self, data: bytes) -> None:
        self._client.add(data)
        if self.on_step:
            self.on_step()

    def _noted(self, note: Callable[[bytes], None], data: bytes) -> None:
        """A stream goes on whatever happens to its record."""
        if self._broken:
            return
        try:
            note(data)
        except Exception:
            self._broken = True
            logger.exception("A stream goes on without being recorded")

    def _leave(self, data: bytes) -> None:
        self._client.add(data)
        now = time.time()
        self._silence = max(self._silence, now - self._last)
        self._last = now
        self._count += 1
        if self._count % self._stride == 0:
            self._steps.extend((now - self.began, self._upstream.total, self._client.total))
            if len(self._steps) > 3 * MAX_STEPS:
                self._thin_out()
        if self.on_step:
            self.on_step()

    def so_far(self, exchange: Exchange) -> Exchange:
        """`exchange` with the sides of the reply as they are now."""
        return replace(
            exchange,
            upstream_status=self.upstream_status or exchange.status,
            client_request=self._request.kept or exchange.client_request,
            upstream_reply=self._upstream.kept,
            client_reply=self._client.kept,
            upstream_missing=self._upstream.missing,
            client_missing=self._client.missing,
            told=tuple(self.evidence.lines()),
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

    @property
    def upstream(self) -> tuple[bytearray, bytes]:
        """What has come, as far as it is kept, to be looked at; and its end if not all is."""
        return self._upstream.view, self._upstream.tail

    @property
    def client(self) -> bytes:
        """What has left, as far as it is kept."""
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
        """When what passed did; None for a reply that is not streamed."""
        if not self.streamed:
            return None
        steps = zip(*[iter(self._steps)] * 3, strict=True)
        return Timing(
            tuple(Step(at, int(up), int(down)) for at, up, down in steps),
            self._last - self.began,
            self._silence,
        )

    def end(self, flow: http.HTTPFlow) -> None:
        """The flow takes over what is kept: nothing passes any more."""
        _running.pop(flow, None)
        told = {
            "job": self.job,
            "told": self.evidence.lines(),
            # A file of flows keeps the order of a list only.
            "calls": [[name, count] for name, count in self.evidence.calls.items()],
            "options": dict(self.options),
            "missing": [self._upstream.missing, self._client.missing],
            "steps": struct.pack(f"<{len(self._steps)}d", *self._steps),
            "ended": [self._last - self.began, self._silence] if self.streamed else None,
            "status": self.upstream_status,
            "request": None,
            "upstream": None,
        }
        flow.metadata[KEY] = told
        if self._request.total:
            told["request"] = self._request.hand_over(flow, _drop("request"))
        if self._same:
            self._upstream.release()
        else:
            told["upstream"] = self._upstream.hand_over(flow, _drop("upstream"))
        if self.streamed and flow.response is not None:
            # Not `content`, whose setter would change headers that have been sent.
            flow.response.data.content = self._client.hand_over(flow, _drop_content)
        else:
            self._client.release()

    @property
    def _same(self) -> bool:
        """Whether the client received what the upstream sent."""
        upstream, client = self._upstream, self._client
        if not self.streamed:
            return not upstream.total
        return not upstream.missing and upstream.view == client.view


def is_watched(flow: Flow) -> bool:
    """Whether there is, or was, a record of this flow."""
    return isinstance(flow, http.HTTPFlow) and isinstance(flow.metadata.get(KEY), dict)


def exchange_of(flow: Flow) -> Exchange | None:
    """Both sides of a flow, which may still run, or have been loaded from a file; None if
    it is not watched."""
    if not isinstance(flow, http.HTTPFlow) or not is_watched(flow):
        return None
    told: dict[str, Any] = flow.metadata[KEY]
    job = cast(Job, told["job"] if told.get("job") in get_args(Job) else "watch")
    sent = readable(flow.request)
    status = flow.response.status_code if flow.response else 0
    exchange = Exchange(
        job=job,
        client_request=_bytes(told.get("request"), sent),
        upstream_request=sent,
        upstream_reply=b"",
        client_reply=b"",
        status=status,
        upstream_status=status,
        retry_after=flow.response.headers.get("retry-after", "") if flow.response else "",
        error=flow.error.msg if flow.error else "",
    )
    record = _running.get(flow)
    if record is not None:
        return record.so_far(exchange)
    received = readable(flow.response) if flow.response else b""
    missing = told.get("missing")
    upstream_missing, client_missing = missing if _counts(missing) else (0, 0)
    return replace(
        exchange,
        upstream_reply=_bytes(told.get("upstream"), received),
        client_reply=received,
        upstream_status=_count(told.get("status"), status),
        upstream_missing=upstream_missing,
        client_missing=client_missing,
        told=tuple(map(str, told.get("told") or ())),
        calls=dict(told.get("calls") or ()),
        timing=_timing(told),
        options=told.get("options") or {},
    )


def readable(message: http.Message) -> bytes:
    """A body without its encoding; empty if it cannot be had.  mitmproxy's own property
    would decode whatever it comes to."""
    try:
        encoding = message.headers.get("content-encoding", "identity")
        return decode_whole(message.raw_content or b"", encoding)
    except DecodingError:
        return b""


def _bytes(value: object, otherwise: bytes) -> bytes:
    return value if isinstance(value, bytes) else otherwise


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(n, int) for n in value)


def _timing(told: dict[str, Any]) -> Timing | None:
    packed, ended = told.get("steps"), told.get("ended")
    if not (isinstance(packed, bytes) and isinstance(ended, list) and len(packed) % 24 == 0):
        return None
    steps = struct.iter_unpack("<3d", packed)
    return Timing(tuple(Step(at, int(up), int(down)) for at, up, down in steps), *ended[:2])


def _drop(name: str) -> Callable[[http.HTTPFlow], None]:
    def drop(flow: http.HTTPFlow) -> None:
        told = flow.metadata.get(KEY)
        if isinstance(told, dict):
            told[name] = b""
            told["dropped"] = True

    return drop


def _drop_content(flow: http.HTTPFlow) -> None:
    if flow.response is not None:
        flow.response.data.content = None
