"""Asking for responses through a bridging mitmdump, and what then arrived upstream."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import Frame, FrameSplitter
from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.bridge.grammar import Story, check, check_prefix
from tests.live import wire
from tests.live.mitmdump import Mitmdump

TOOLS = [
    {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {argument: {"type": "string"}}},
    }
    for name, argument in [("bash", "command"), ("read", "path")]
]
REQUEST: dict[str, Any] = {
    "model": "kimi-k2.5",
    "input": "Where are the headers?",
    "tools": TOOLS,
    "stream": True,
}
WHOLE = REQUEST | {"stream": False}
JSON = ("content-type", "application/json")
_keys = itertools.count()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a client, seen from both of its ends."""

    reply: wire.Reply
    sent: list[Request]
    """What arrived upstream for it."""

    @property
    def json(self) -> Any:
        return json.loads(self.reply.body)

    @property
    def chat(self) -> Any:
        """The body of the one request that arrived upstream."""
        (request,) = self.sent
        assert request.path.partition("?")[0].endswith("/chat/completions")
        return request.json

    def story(self, dialect: str = "openai", prior: Sequence[dict[str, Any]] = ()) -> Story:
        """The stream, checked event by event; `prior` are the items of a response resumed."""
        assert self.reply.complete
        return check(self._frames(), DIALECTS[dialect], prior)

    def broken_off(self, dialect: str = "openai") -> Story:
        """The same of a stream that broke off after whole events, and without a terminal."""
        assert not self.reply.complete
        story = check_prefix(self._frames(), DIALECTS[dialect])
        assert story.response["status"] == "in_progress"
        assert "error" not in [event["type"] for event in story.events]
        return story

    def _frames(self) -> list[Frame]:
        assert self.reply.status == 200
        assert self.reply.header("content-type") == "text/event-stream; charset=utf-8"
        assert self.reply.header("cache-control") == "no-cache"
        splitter = FrameSplitter()
        frames = splitter.feed(self.reply.body)
        assert not splitter.held
        return frames

    def error(self, status: int) -> dict[str, Any]:
        """The error of a reply that must be one, in the shape that Responses clients read."""
        assert (self.reply.status, self.reply.complete) == (status, True), self.reply.body
        assert self.reply.header("content-type") == "application/json"
        error: dict[str, Any] = self.json["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"] and error["type"]
        return error


@dataclass(frozen=True, slots=True)
class Bridge:
    """A client of `upstream` behind `proxy`."""

    upstream: Upstream
    proxy: Mitmdump
    origin: str = ""
    """Where the client believes to ask through a regular proxy; a reverse one if empty."""
    http2: bool = False

    def ask(
        self,
        reply: str | Reply,
        body: dict[str, Any] | bytes = REQUEST,
        *headers: tuple[str, str],
        options: str = "",
        path: str = "/v1/responses",
        method: str = "POST",
        release_when: Callable[[bytes], bool] | None = None,
    ) -> Exchange:
        """Ask for a fixture by its name, or for the reply given; `options` as in a URL.

        A reply that the upstream holds (`;hold=…`) continues once `release_when` is true of
        the body that has come so far.
        """
        key = f"key{next(_keys)}"
        name = reply if isinstance(reply, str) else key
        if isinstance(reply, Reply):
            self.upstream.replies[name] = reply

        def watch(body: bytes) -> None:
            if release_when is not None and release_when(body):
                self.upstream.release(name)

        got = wire.exchange(
            f"{self.origin or self.proxy.url}/{name};key={key}{options}{path}",
            body if isinstance(body, bytes) else json.dumps(body).encode(),
            method=method,
            headers=(JSON, *headers),
            proxy=self.proxy.url if self.origin else None,
            http2=self.http2,
            watch=watch if release_when else None,
        )
        return Exchange(got, self.upstream.requests_of(name, key))


def text_of(response: dict[str, Any]) -> str:
    """All text of a response's messages."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "".join(part["text"] for message in messages for part in message["content"])


def calls_of(response: dict[str, Any]) -> list[tuple[str, Any]]:
    """The function calls of a response: name, parsed arguments."""
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    return [(call["name"], json.loads(call["arguments"])) for call in calls]


def to_last_message(request: Request) -> bytes:
    """The body's bytes to the end of its last message: with what the next turn must begin,
    or the provider's prefix cache is lost."""
    text = request.body.decode()
    _, end = json.JSONDecoder().raw_decode(text, text.index('"messages":') + len('"messages":'))
    return text[: end - 1].encode()
