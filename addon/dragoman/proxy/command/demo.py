"""`dragoman demo`: one leaked turn through a real mitmdump, to clients of three APIs.

A host of this process replays what hosts of Kimi K2 send, a mitmdump with the addon is its reverse
proxy, and each client prints what it receives.  Nothing stays behind or leaves the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ...chat.chunk_writer import ChunkWriter
from ...wire.sse import joined
from .run import PROGRAMS, Start

LEAK = (
    *("I look", " first.", " <|tool_calls_section_begin|>", " <|tool_call_begin|>", " functions"),
    *(".bash", ":0", " <|tool_call_argument_begin|>", ' {"', 'command": "', "ls", '"}'),
    *(" <|tool_call_end|>", " <|tool_calls_section_end|>"),
)
"""The deltas of a turn, as a host sends them that does not know the model's markup."""
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASH = {"name": "bash", "description": "Run a command."}
MODEL = "kimi-k2.5"
ASK = "Which files are here?"
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "Chat Completions": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": ASK}],
            "tools": [{"type": "function", "function": {**BASH, "parameters": SCHEMA}}],
        },
    ),
    "Responses": (
        "/v1/responses",
        {"input": ASK, "tools": [{"type": "function", **BASH, "parameters": SCHEMA}]},
    ),
    "Messages": (
        "/v1/messages",
        {
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": ASK}],
            "tools": [{**BASH, "input_schema": SCHEMA}],
        },
    ),
}
"""The path and the body of a request of each API."""
_PATIENCE = 60.0
"""Seconds until mitmdump must listen, and a client have its reply."""


class Host(BaseHTTPRequestHandler):
    """A host that speaks only Chat Completions."""

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.rfile.read(length)
        if self.path.endswith("/chat/completions"):
            self._send(200, "text/event-stream", _leaked())
        else:
            self._send(404, "application/json", b'{"error": {"message": "Not Found"}}')

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


def _leaked() -> bytes:
    writer = ChunkWriter("demo", 1, MODEL)
    for text in LEAK:
        writer.text("reasoning", text)
    writer.end("stop")
    return joined(writer.events.drain())


def main(command: str, words: Sequence[str]) -> int | str:
    """Show it; returns 0, or what failed."""
    description = "See Dragoman at work, without any host: a leaked call in three APIs."
    argparse.ArgumentParser(prog=f"dragoman {command}", description=description).parse_args(words)
    with tempfile.TemporaryDirectory() as folder, _host() as host:
        log = Path(folder) / "log"
        try:
            with _mitmdump(host, Path(folder), log) as port:
                _say("The host speaks only Chat Completions, and sends these deltas:")
                print("\n".join(f"    {json.dumps({'reasoning_content': t})}" for t in LEAK))
                print("    finish_reason: stop")
                for api, (path, body) in ASKED.items():
                    _say(f"A client of {api} receives:")
                    _show(port, path, {"model": MODEL, "stream": True, **body})
        except (OSError, TimeoutError) as error:
            return f"The demonstration failed: {error}"
        _say("The log of mitmdump:")
        lines = log.read_text(errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in lines if re.search("repair|bridge", line)))
    return 0


def _say(what: str) -> None:
    print(f"\n{what}\n", flush=True)


@contextmanager
def _host() -> Iterator[str]:
    """Gives the address of a host that runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def _mitmdump(host: str, folder: Path, log: Path) -> Iterator[int]:
    """Gives the port of a mitmdump that runs.

    :raises TimeoutError: if it does not listen
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    options = ("--set", f"confdir={folder}", "--set", "dragoman_store=off")
    line = Start(PROGRAMS["run"], host, port, options).command_line()
    with log.open("wb") as output:
        process = subprocess.Popen(
            line, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError("mitmdump does not listen")


def _show(port: int, path: str, body: dict[str, Any]) -> None:
    """Ask, and print what is said of each event: its deltas, items and blocks."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    connection.request("POST", path, json.dumps(body), headers)
    for line in connection.getresponse().read().decode().splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        for choice in event.get("choices", ()):
            print(f"    {json.dumps(choice['delta'])}")
            if choice.get("finish_reason"):
                print(f"    finish_reason: {choice['finish_reason']}")
        if kind := event.get("type"):
            said = event.get("delta") or event.get("item") or event.get("content_block") or ""
            print(f"    {kind:38} {said if isinstance(said, str) else json.dumps(said)}".rstrip())
    connection.close()
