"""Asking for chat completions through a mitmdump: a made-up or recorded reply comes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fixtures.server import FOLDER, Reply, Upstream
from tests.live import wire
from tests.live.mitmdump import ROOT, Mitmdump

CONTROLS = ROOT / "tests" / "live" / "controls.py"
FAULTS = ROOT / "tests" / "live" / "faults.py"
REQUEST: dict[str, Any] = json.loads((FOLDER / "kimi_specification" / "request.json").read_bytes())
"""Streamed, with the tools bash and read."""
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Chat:
    """A client of `upstream` behind `proxy`."""

    upstream: Upstream
    proxy: Mitmdump
    reverse: bool = True
    """Whether the proxy is that upstream's reverse proxy, or a regular one."""

    def ask(
        self,
        reply: str | bytes | Reply,
        options: str = "",
        *,
        path: str = "/v1/chat/completions",
        request: dict[str, Any] = REQUEST,
        headers: tuple[tuple[str, str], ...] = (),
        http2: bool = False,
        release_when: Callable[[bytes], bool] | None = None,
    ) -> wire.Reply:
        """Ask for a fixture by its name, or for the reply given; `options` as in a URL.

        A reply that the upstream holds (`;hold=…`) continues once `release_when` is true of
        the body that has come so far.
        """
        name = reply
        if not isinstance(name, str):
            name = f"made_up_{next(_names)}"
            self.upstream.replies[name] = Reply(reply) if isinstance(reply, bytes) else reply

        def watch(body: bytes) -> None:
            if release_when is not None and release_when(body):
                self.upstream.release(name)

        base = self.proxy.url if self.reverse else self.upstream.url
        body = json.dumps(request).encode()
        headers = (("content-type", "application/json"), *headers)
        if http2:
            # It takes TLS; a reverse proxy speaks either on its port.  Without the length, as
            # real clients send it, mitmproxy sends HTTP/1.1 upstreams a body that has no end.
            base = base.replace("http:", "https:")
            headers = (*headers, ("content-length", str(len(body))))
        return wire.exchange(
            f"{base}/{name}{options}{path}",
            body,
            headers=headers,
            proxy=None if self.reverse else self.proxy.url,
            http2=http2,
            watch=watch if release_when else None,
        )

    def control(self, what: str, **values: object) -> wire.Reply:
        """Ask the script `CONTROLS`, which the (reverse) proxy must have loaded."""
        return wire.exchange(f"{self.proxy.url}/controls/{what}", json.dumps(values).encode())


def fixture_bytes(name: str, file: str = "upstream.sse") -> bytes:
    return (FOLDER / name / file).read_bytes()
