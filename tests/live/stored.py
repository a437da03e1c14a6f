"""One who has responses stored: the requests that go on from them, and those about them."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from dragoman.bridge.request.validation import label
from fixtures.server import Reply, Upstream
from fixtures.wire import Request
from tests.live import wire
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, TOOLS, Exchange
from tests.repair.streams import chunk, sse

Item = dict[str, Any]
CODEX = ("x-dragoman-dialect", "codex")
ASK: dict[str, Any] = {"model": "kimi-k2.5", "tools": TOOLS}
HELD = ";cut=event;hold=1"
"""Path parameters of an upstream that sends one event, then waits for `Client.release`."""
_names = itertools.count()


def said(text: str, *, thought: str = "") -> Reply:
    """An upstream's streamed answer."""
    thoughts = [chunk({"reasoning_content": thought})] if thought else []
    return Reply(sse([*thoughts, chunk({"content": text}), chunk({}, "stop")]))


def called(*commands: str, thought: str = "") -> Reply:
    """An upstream's calls of the tool bash, with ids that it counts from 0."""
    thoughts = [chunk({"reasoning_content": thought})] if thought else []
    calls = [
        {
            "index": index,
            "id": f"functions.bash:{index}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": command})},
        }
        for index, command in enumerate(commands)
    ]
    return Reply(sse([*thoughts, chunk({"tool_calls": calls}), chunk({}, "tool_calls")]))


def outputs_of(response: Item, text: str = "done") -> list[Item]:
    """What is submitted for the calls of a response: an output for each."""
    calls = [item for item in response["output"] if item["type"].endswith("_call")]
    return [{"tool_call_id": call["call_id"], "output": text} for call in calls]


@dataclass(frozen=True, slots=True)
class Client:
    """A key, and a base URL behind a proxy."""

    upstream: Upstream
    proxy: Mitmdump
    key: str | None = "sk-alice"
    name: str = field(default_factory=lambda: f"stored{next(_names)}")
    """The upstream's reply for it, and the first part of its base path."""
    options: str = ""
    """Path parameters of the replaying upstream; part of the base path."""
    origin: str = ""
    """Where it asks: the reverse proxy itself if empty."""
    http2: bool = False
    front: str = ""
    """The URL of what stands before the reverse proxy, if anything does."""

    def but(self, **changes: Any) -> Client:
        """The same, but for something."""
        return replace(self, **changes)

    @property
    def base(self) -> str:
        return f"{self.origin or self.front or self.proxy.url}/{self.name}{self.options}/v1"

    @property
    def sent(self) -> list[Request]:
        """All that has arrived upstream."""
        return self.upstream.requests_of(self.name)

    def call(self, method: str, path: str, body: Any = None, *headers: tuple[str, str]) -> Exchange:
        """Any request, `path` being behind ``/responses``."""
        before = len(self.sent)
        key = [("authorization", f"Bearer {self.key}")] if self.key is not None else []
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        got = wire.exchange(
            f"{self.base}/responses{path}",
            b"" if body is None else data,
            method=method,
            headers=(*key, *headers, *([] if body is None else [JSON])),
            proxy=self.proxy.url if self.origin else None,
            http2=self.http2,
        )
        return Exchange(got, self.sent[before:])

    def ask(self, reply: Reply, asked: Any, *headers: tuple[str, str], **fields: Any) -> Exchange:
        """Ask for a new response; the upstream will give `reply`."""
        self.upstream.replies[self.name] = reply
        body = ASK | {"input": asked} | fields
        return self.call("POST", "", {k: v for k, v in body.items() if v is not None}, *headers)

    def response(self, reply: Reply, asked: Any, **fields: Any) -> Item:
        """The new response, which must have come."""
        exchange = self.ask(reply, asked, **fields)
        assert exchange.reply.status == 200, exchange.reply.body
        if fields.get("stream"):
            return exchange.story().response
        response: Item = exchange.json
        return response

    @contextlib.contextmanager
    def running(
        self, path: str = "", body: Any = None, reply: Reply | None = None
    ) -> Iterator[tuple[str, HTTPResponse]]:
        """A streamed response that has begun: its id, and what is left to read of it.  At the
        end of the block the client leaves."""
        if reply is not None:
            self.upstream.replies[self.name] = reply
        connection = HTTPConnection("127.0.0.1", self.proxy.port, timeout=wire.TIMEOUT)
        with contextlib.closing(connection):
            sent = json.dumps(ASK | {"input": "Go.", "stream": True} if body is None else body)
            headers = dict([JSON, ("authorization", f"Bearer {self.key}")])
            target = f"/{self.name}{self.options}/v1/responses{path}"
            connection.request("POST", target, sent, headers)
            response = connection.getresponse()
            assert response.status == 200
            begun = b""
            while not (found := re.search(rb'"id":"(resp_\w+)"', begun)):
                begun += response.readline()
            yield found[1].decode(), response

    def release(self) -> None:
        """The upstream sends the rest of what it holds."""
        self.upstream.release(self.name)

    def submit(
        self, reply: Reply, response: Item, outputs: Any, *headers: tuple[str, str], **fields: Any
    ) -> Exchange:
        """Submit the outputs of tools to a response."""
        self.upstream.replies[self.name] = reply
        body = {"tool_outputs": outputs} | fields
        return self.call("POST", f"/{response['id']}/submit_tool_outputs", body, *headers)

    def get(self, response_id: str, query: str = "") -> Exchange:
        return self.call("GET", f"/{response_id}{query}")

    def about(self, response_id: str) -> list[Exchange]:
        """Every request there is about a response, but for those that change it."""
        return [
            self.get(response_id),
            self.get(response_id, "?stream=true"),
            self.get(response_id, "/input_items"),
        ]


def messages_of(exchange: Exchange) -> Any:
    """The messages of the one request that arrived upstream."""
    return exchange.chat["messages"]


def not_found(exchange: Exchange, response_id: str, *, previous: bool = False) -> None:
    """It must be the one answer for what is not there, with nothing sent upstream."""
    error = exchange.error(400 if previous else 404)
    what = "Previous response" if previous else "Response"
    assert error == {
        "message": f"{what} with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id" if previous else "response_id",
        "code": "previous_response_not_found" if previous else None,
    }
    assert exchange.sent == []


def item_not_found(exchange: Exchange, item_id: str) -> None:
    """It must be OpenAI's answer for a reference to what is not there."""
    error = exchange.error(404)
    assert error["message"].startswith(f"Item with id '{label(item_id)}' not found. Items are not ")
    assert (error["type"], error["param"]) == ("invalid_request_error", "input")
    assert exchange.sent == []
