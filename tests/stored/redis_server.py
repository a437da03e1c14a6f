"""A real redis-server, as the system's packages bring it, that keeps nothing on disk."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.live.clients import cannot_run, need_command

READY = b"+PONG\r\n"


def find_redis() -> str:
    """The program; its client must be there, too."""
    if importlib.util.find_spec("redis") is None:
        cannot_run("the package redis is missing: `make test` installs it")
    return need_command("redis-server", install="install redis-server (Debian: redis-server)")


class RedisServer:
    """`with RedisServer(folder) as server:`; it can be stopped and started at the same port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._program = find_redis()
        self._folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns when it answers."""
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "--port", str(self.port), *options, *self._arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise AssertionError((self._folder / "redis.log").read_text())
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Connections are made, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        """An error (it wants a password) is an answer, too."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100).startswith((READY, b"-NOAUTH"))
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
