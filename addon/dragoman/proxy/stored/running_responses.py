"""The responses that are being streamed: each can be read as far as it is, and cancelled."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from mitmproxy import http

from ..flows.bridge_stream import BridgeStream


@dataclass(frozen=True, slots=True)
class Run:
    flow: weakref.ref[http.HTTPFlow]
    stream: BridgeStream


class Running:
    """By owner and id."""

    def __init__(self) -> None:
        self._runs: dict[tuple[bytes, str], Run] = {}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def began(self, flow: http.HTTPFlow, asker: bytes, stream: BridgeStream) -> None:
        self._runs[asker, str(stream.reply.response["id"])] = Run(weakref.ref(flow), stream)

    def ended(self, flow: http.HTTPFlow) -> None:
        for key in [key for key, run in self._runs.items() if run.flow() in (None, flow)]:
            del self._runs[key]

    def find(self, asker: bytes, response_id: str) -> Run | None:
        """None if it does not run, or has another owner."""
        return self._runs.get((asker, response_id))
