"""The self-test: one leaked call and one bridged turn, through the proxy as it runs.

With a real host leaks are rare, so nobody can see whether an installation works.  Here our own
client connects to the proxy's listening address, and asks our own upstream on 127.0.0.1, which
speaks only Chat Completions and leaks a call.  Flows of that client, known by its port, are sent
to that upstream in every mode.  Both requests are ordinary flows, seen in the list, the views and
the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, cast

from mitmproxy import ctx, exceptions, http
from mitmproxy.proxy.mode_specs import RegularMode, ReverseMode

from ..repair.formats.kimi_k2.markers import section
from ..wire.sse import split
from .http_headers import EVENT_STREAM
from .observe.commands import typed_command

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds for each of the two requests."""
_TOOL, _ARGUMENTS = "selftest", {"answer": 42}
_SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}}
_FUNCTION = {"name": _TOOL, "parameters": _SCHEMA}
_MODEL = {"model": "kimi-k2.5", "stream": True}
_CHAT = _MODEL | {
    "messages": [{"role": "user", "content": "Call the tool."}],
    "tools": [{"type": "function", "function": _FUNCTION}],
}
_RESPONSES = _MODEL | {
    "store": False,
    "input": "Call the tool.",
    "tools": [{"type": "function", **_FUNCTION}],
}


class SelfTest:
    name = "dragoman-self-test"

    def __init__(self) -> None:
        self._upstreams: dict[tuple[str, int], int] = {}
        self._task: asyncio.Task[None] | None = None

    @typed_command("dragoman.selftest")
    def start(self) -> Sequence[str]:
        """Send a leaked call and a bridged turn of a built-in upstream through this proxy."""
        if self._task is not None and not self._task.done():
            raise exceptions.CommandError("The self-test is running: see the event log.")
        host, port, is_reverse = _listening()
        self._task = asyncio.get_running_loop().create_task(self._run(host, port, is_reverse))
        return ["The self-test runs: its result comes in the event log."]

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Send the flows of our client to our upstream."""
        peer = flow.client_conn.peername
        if peer and peer[:2] in self._upstreams:
            upstream = self._upstreams[peer[0], peer[1]]
            flow.request.scheme, flow.request.host, flow.request.port = "http", _LOCAL, upstream

    async def _run(self, host: str, port: int, is_reverse: bool) -> None:
        server = await asyncio.start_server(_answer, _LOCAL, 0)
        upstream = server.sockets[0].getsockname()[1]
        found = []
        try:
            for job, path, request, has_called in _JOBS:
                target = path if is_reverse else f"http://{_LOCAL}:{upstream}{path}"
                asking = asyncio.to_thread(self._ask, (host, port), upstream, target, request)
                try:
                    status, reply = await asyncio.wait_for(asking, 2 * PATIENCE)
                except (OSError, HTTPException, TimeoutError) as error:
                    found.append(f"{job}: FAILED: {error or 'no answer'}")
                    continue
                found.append(f"{job}: {_verdict(job, status, reply, has_called)}")
        except Exception:
            logger.exception("The self-test could not end")
        finally:
            server.close()
        logger.info("The self-test has ended.\n%s", "\n".join(found))

    def _ask(
        self, proxy: tuple[str, int], upstream: int, target: str, request: dict[str, Any]
    ) -> tuple[int, bytes]:
        connection = HTTPConnection(*proxy, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.connect()
            own = connection.sock.getsockname()[:2]
            self._upstreams[own] = upstream
            try:
                headers = {"content-type": "application/json", "host": f"{_LOCAL}:{upstream}"}
                connection.request("POST", target, json.dumps(request), headers)
                response = connection.getresponse()
                return response.status, response.read()
            finally:
                del self._upstreams[own]


_LOCAL = "127.0.0.1"


def _listening() -> tuple[str, int, bool]:
    """Where this proxy listens, and whether as a reverse proxy."""
    servers = cast(Any, ctx.master.addons.get("proxyserver")).servers
    for instance in servers:
        is_reverse = isinstance(instance.mode, ReverseMode)
        if is_reverse and (ctx.options.allow_hosts or ctx.options.ignore_hosts):
            # Its requests would pass unread, to the user's host.
            raise exceptions.CommandError("No self-test in reverse mode with allow_hosts.")
        if isinstance(instance.mode, RegularMode) or is_reverse:
            for host, port, *_ in instance.listen_addrs:
                anywhere = host in ("", "0.0.0.0", "::")
                return _LOCAL if anywhere else host, port, is_reverse
    raise exceptions.CommandError("The self-test needs a proxy in regular or reverse mode.")


def _verdict(job: str, status: int, reply: bytes, has_called: Callable[[bytes], bool]) -> str:
    if status == 407:
        return "not tested: this proxy asks for a password (proxyauth)"
    if status != 200:
        return (
            f"FAILED: HTTP {status}; dragoman_{job} is {getattr(ctx.options, f'dragoman_{job}')!r}"
        )
    if has_called(reply):
        return "works: the leaked call arrived as a call"
    return f"FAILED: the call arrived as text; see the flow, and dragoman_{job}"


def _events(reply: bytes) -> Iterator[dict[str, Any]]:
    for frame in split(reply):
        data = frame.data
        if data and data != b"[DONE]":
            yield json.loads(data)


def _is_call(name: object, arguments: str) -> bool:
    return name == _TOOL and json.loads(arguments or "null") == _ARGUMENTS


def _chat_called(reply: bytes) -> bool:
    name, arguments = "", ""
    for chunk in _events(reply):
        for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
            name += call["function"].get("name", "")
            arguments += call["function"].get("arguments", "")
    return _is_call(name, arguments)


def _responses_called(reply: bytes) -> bool:
    items = [event["item"] for event in _events(reply) if event["type"] == _ITEM_DONE]
    return any(_is_call(item.get("name"), item.get("arguments", "")) for item in items)


_ITEM_DONE = "response.output_item.done"
_JOBS = (
    # What is found out of a host counts for its path: no engine has this one.
    ("repair", "/dragoman-selftest/v1/chat/completions", _CHAT, _chat_called),
    ("bridge", "/dragoman-selftest/v1/responses", _RESPONSES, _responses_called),
)


def _leak() -> bytes:
    """A stream with a leaked call, cut into pieces of a few characters."""
    text = section(f"functions.{_TOOL}:0", json.dumps(_ARGUMENTS))
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": text[at : at + 7]}, None) for at in range(0, len(text), 7)]
    deltas.append(({}, "stop"))
    frames = []
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "selftest", "object": "chat.completion.chunk", "created": 0}
        chunk |= {"model": "kimi-k2.5", "choices": [choice]}
        frames.append(f"data: {json.dumps(chunk)}\n\n")
    return "".join([*frames, "data: [DONE]\n\n"]).encode()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Our upstream: serves one request."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = next(
            (line[15:] for line in head.split(b"\r\n") if line[:15] == b"content-length:"), b"0"
        )
        await reader.readexactly(int(size))
        if b"/chat/completions" in head.partition(b"\r\n")[0]:
            status, kind, body = "200 OK", EVENT_STREAM, _leak()
        else:
            status, kind, body = "404 Not Found", "application/json", b'{"error": "not found"}'
        fields = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()
