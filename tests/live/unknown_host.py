"""An upstream of which nothing is known yet, and what arrived there."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fixtures.server import BadRequestError, Options, Reply, Upstream, plan
from fixtures.wire import Plan, Request
from tests.live import wire
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST

NO_ADDRESS = Reply(b'{"detail":"Not Found"}', "application/json", 404)
NO_MODEL = Reply(
    b'{"error":{"message":"The model `x` does not exist","code":null}}', "application/json", 404
)
INVALID = Reply(b'{"error":{"message":"input is required"}}', "application/json", 400)
NATIVE = Reply(b'{"id":"resp_1","object":"response","output":[]}', "application/json")
KEY = ("authorization", "Bearer sk-one")
OTHER_KEY = ("authorization", "Bearer sk-other")
STREAM = Reply(b'event: response.created\ndata: {"type":"response.created"}\n\n')
_names = itertools.count()


@dataclass(slots=True)
class UnknownHosts(Upstream):
    """Every reply is one of these, by the first part of the path."""

    to_requests: dict[str, tuple[Reply, Options]] = field(default_factory=dict)
    """To all but chat requests."""
    to_chats: dict[str, Reply] = field(default_factory=dict)
    """Else a chat stream."""

    def _answer(self, request: Request) -> Plan:
        try:
            name, options, rest = self._arrived(request)
        except BadRequestError:
            return plan(NO_ADDRESS, Options())
        if rest.endswith("/chat/completions"):
            reply = self.to_chats.get(name) or self._reply(request, "clean_text", options, rest)
            return plan(reply, options)
        reply, own = self.to_requests.get(name, (NO_ADDRESS, options))
        return plan(reply, options if own == Options() else own)


@dataclass(frozen=True, slots=True)
class Host:
    """One address of such an upstream behind a proxy."""

    upstream: UnknownHosts
    proxy: Mitmdump
    base: str
    """Where a client believes that the upstream is."""
    regular: bool = False
    """Whether `proxy` is asked as a proxy, with CONNECT; else as the upstream itself."""
    http2: bool = False
    name: str = field(default_factory=lambda: f"host{next(_names)}")

    def says(
        self,
        request: Reply = NO_ADDRESS,
        *,
        chat: Reply | None = None,
        **options: Any,
    ) -> Host:
        """What it answers; `options` are those of the answer to all but chat requests."""
        self.upstream.to_requests[self.name] = request, Options(**options)
        if chat is not None:
            self.upstream.to_chats[self.name] = chat
        return self

    def ask(
        self,
        body: Mapping[str, Any] | bytes = REQUEST,
        *headers: tuple[str, str],
        path: str = "/v1/responses",
        method: str = "POST",
    ) -> wire.Reply:
        return wire.exchange(
            f"{self.base}/{self.name}{path}",
            body if isinstance(body, bytes) else json.dumps(body).encode(),
            method=method,
            headers=(JSON, *headers),
            proxy=self.proxy.url if self.regular else None,
            http2=self.http2,
        )

    @property
    def sent(self) -> list[Request]:
        """What arrived there."""
        return self.upstream.requests_of(self.name)

    @property
    def arrived(self) -> list[str]:
        """The same, each in a word."""
        return [_in_a_word(request) for request in self.sent]

    def behind(self, proxy: Mitmdump) -> Host:
        """The same, behind another proxy in its place."""
        return replace(self, proxy=proxy, base=self.base.replace(self.proxy.url, proxy.url))


def _in_a_word(request: Request) -> str:
    is_chat = request.path.partition("?")[0].endswith("/chat/completions")
    return "chat" if is_chat else "request"


def status_of(reply: wire.Reply) -> int:
    """Of a reply that must be complete."""
    assert reply.complete
    return reply.status
