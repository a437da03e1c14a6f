"""The self-test: one leaked call and one bridged turn, through the proxy as it runs.

With a real host leaks are rare, so nobody can see whether an installation works.  Here our own
client connects to the proxy's listening address, and asks our own upstream on 127.0.0.1, which
speaks only Chat Completions and leaks a call.  Flows of that client, known by its port, are sent
to that upstream in every mode.  Both requests are ordinary flows, seen in the list, the views and
the log; but the hosts that are known and the statistics stay as they were.

The answer is shown where it was asked for.  The console shows an alert in its status line.  mitmweb
shows only what a command returns at once, so there the command, given again, returns the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, Literal, cast

from mitmproxy import ctx, exceptions, http
from mitmproxy.log import ALERT
from mitmproxy.proxy.mode_specs import RegularMode, ReverseMode

from ..bridge.reader_writer_pairs import read_reply
from ..chat.chunk_writer import ChunkWriter
from ..repair.formats.kimi_k2 import section
from ..wire.sse import joined
from .chat_only_hosts import Hosts
from .http_headers import EVENT_STREAM
from .observe.commands import typed_command
from .routes import SELF_TEST

logger = logging.getLogger(__name__)

PATIENCE = 10.0
"""Seconds for each of the two requests."""
_LOCAL = "127.0.0.1"
_TOOL, _ARGUMENTS = "selftest", {"answer": 42}
_SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}}
_FUNCTION = {"name": _TOOL, "parameters": _SCHEMA}
_MODEL = "kimi-k2.5"
_ASKED: dict[str, Any] = {"model": _MODEL, "stream": True}
_CHAT = _ASKED | {
    "messages": [{"role": "user", "content": "Call the tool."}],
    "tools": [{"type": "function", "function": _FUNCTION}],
}
_RESPONSES = _ASKED | {
    "store": False,
    "input": "Call the tool.",
    "tools": [{"type": "function", **_FUNCTION}],
}
_JOBS = (
    # What is found out of a host counts for its path: no engine has this one.
    ("repair", f"{SELF_TEST}/v1/chat/completions", _CHAT),
    ("bridge", f"{SELF_TEST}/v1/responses", _RESPONSES),
)
Verdict = Literal["works", "FAILED", "not tested"]


class SelfTest:
    name = "dragoman-self-test"

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._clients: set[tuple[str, int]] = set()
        """The addresses of our client while it asks."""
        self._upstream = 0
        """The port of our upstream."""
        self._task: asyncio.Task[None] | None = None
        self._unread: list[str] = []
        """The answer, if it was asked for in mitmweb and has not been read."""

    @typed_command("dragoman.selftest")
    def start(self) -> Sequence[str]:
        """Send a leaked call and a bridged turn of a built-in upstream through this proxy."""
        if self._task is not None and not self._task.done():
            return ["The self-test is running."]
        if self._unread:
            answer, self._unread = self._unread, []
            return answer
        host, port, is_reverse = _listening()
        self._task = asyncio.get_running_loop().create_task(self._run(host, port, is_reverse))
        if _in_mitmweb():
            return ["The self-test is running: give the command again to read its answer."]
        return ["The self-test is running: its answer comes in the status line and the log."]

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Send the flows of our client to our upstream."""
        peer = flow.client_conn.peername
        if peer and peer[:2] in self._clients:
            flow.request.scheme = "http"
            flow.request.host, flow.request.port = _LOCAL, self._upstream

    async def _run(self, host: str, port: int, is_reverse: bool) -> None:
        server = await asyncio.start_server(_answer, _LOCAL, 0)
        self._upstream = server.sockets[0].getsockname()[1]
        verdicts: dict[str, tuple[Verdict, str]] = {}
        """Of each job, and why."""
        try:
            for job, path, request in _JOBS:
                target = path if is_reverse else f"http://{_LOCAL}:{self._upstream}{path}"
                asking = asyncio.to_thread(self._ask, (host, port), target, request)
                try:
                    status, reply = await asyncio.wait_for(asking, 2 * PATIENCE)
                except (OSError, HTTPException, TimeoutError) as error:
                    verdicts[job] = "FAILED", str(error) or "no answer"
                    continue
                verdicts[job] = _verdict(job, status, reply)
        except Exception:
            logger.exception("The self-test could not end")
        finally:
            server.close()
            self._hosts.forget_self_test()
        # A status line has room for a few words: first the verdicts, then their reasons.
        words = ", ".join(f"{job} {verdict}" for job, (verdict, _) in verdicts.items())
        reasons = [f"{job}: {verdict}: {why}" for job, (verdict, why) in verdicts.items()]
        if _in_mitmweb():
            self._unread = reasons
        logger.log(ALERT, "The self-test has ended: %s.\n%s", words, "\n".join(reasons))

    def _ask(self, proxy: tuple[str, int], target: str, request: Any) -> tuple[int, bytes]:
        """In a thread."""
        headers = {"content-type": "application/json", "host": f"{_LOCAL}:{self._upstream}"}
        with contextlib.closing(HTTPConnection(*proxy, timeout=PATIENCE)) as connection:
            connection.connect()
            own = connection.sock.getsockname()[:2]
            self._clients.add(own)
            try:
                connection.request("POST", target, json.dumps(request), headers)
                response = connection.getresponse()
                return response.status, response.read()
            finally:
                self._clients.discard(own)


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


def _in_mitmweb() -> bool:
    return ctx.master.addons.get("webaddon") is not None


def _verdict(job: str, status: int, reply: bytes) -> tuple[Verdict, str]:
    option = f"dragoman_{job}"
    if status == 407:
        return "not tested", "this proxy asks for a password (proxyauth)"
    if status != 200:
        return "FAILED", f"HTTP {status}; {option} is {getattr(ctx.options, option)!r}"
    if read_reply(reply).calls == [(_TOOL, json.dumps(_ARGUMENTS))]:
        return "works", "the leaked call arrived as a call"
    return "FAILED", f"the call arrived as text; see the flow, and {option}"


def _leak() -> bytes:
    """A stream with a leaked call, cut into pieces of a few characters."""
    text = section(f"functions.{_TOOL}:0", json.dumps(_ARGUMENTS))
    writer = ChunkWriter("selftest", 0, _MODEL)
    writer.start()
    for at in range(0, len(text), 7):
        writer.text("text", text[at : at + 7])
    writer.end("stop")
    return joined(writer.events.drain())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Our upstream: serves one request."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = re.search(rb"\r\ncontent-length:\s*(\d+)", head)
        await reader.readexactly(int(size[1]) if size else 0)
        if b"/chat/completions" in head.partition(b"\r\n")[0]:
            status, kind, body = "200 OK", EVENT_STREAM, _leak()
        else:
            status, kind, body = "404 Not Found", "application/json", b'{"error": "not found"}'
        fields = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + body)
        await writer.drain()
    writer.close()
