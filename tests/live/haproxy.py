"""A real HAProxy in front of several mitmdumps, with the example configuration."""

from __future__ import annotations

import csv
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.live.clients import need_command
from tests.live.mitmdump import Mitmdump

CONFIGURATION = Path(__file__).with_name("haproxy.cfg")
BACKEND = "instances"
SERVERS = ("first", "second")


class HAProxy:
    """One running HAProxy; `with HAProxy(folder, first, second) as balancer:`."""

    def __init__(self, folder: Path, first: Mitmdump, second: Mitmdump) -> None:
        program = need_command("haproxy", "/usr/sbin/haproxy", install="apt-get install haproxy")
        # The path of a Unix socket must be short; pytest's folders are not.
        self.admin = Path(f"/tmp/dragoman-haproxy-{os.getpid()}.sock")
        self._log = folder / "haproxy.log"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {
            **os.environ,
            "DRAGOMAN_ADMIN": str(self.admin),
            "DRAGOMAN_LISTEN": f"127.0.0.1:{self.port}",
            "DRAGOMAN_FIRST": f"127.0.0.1:{first.port}",
            "DRAGOMAN_SECOND": f"127.0.0.1:{second.port}",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "-db", "-f", CONFIGURATION],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.wait_until(lambda: all(self.status(name).startswith("UP") for name in SERVERS))
        except BaseException:
            self.stop()
            raise

    def ask(self, command: str) -> str:
        """What HAProxy answers to a command on its admin socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.admin))
            connection.sendall(f"{command}\n".encode())
            with connection.makefile() as answer:
                return answer.read()

    def drain(self, server: str) -> None:
        """Give the server nothing new; what runs there goes on."""
        answer = self.ask(f"set server {BACKEND}/{server} state drain").strip()
        assert not answer, answer

    def status(self, server: str) -> str:
        """`UP`, `DRAIN`, `DOWN`, …"""
        return self._stat(server, "status")

    def running(self, server: str) -> int:
        """The requests that the server is answering."""
        return int(self._stat(server, "scur"))

    def served(self, server: str) -> int:
        """The requests that the server has been given so far."""
        return int(self._stat(server, "stot"))

    def _stat(self, server: str, name: str) -> str:
        rows = csv.DictReader(self.ask("show stat").removeprefix("# ").splitlines())
        return next(r[name] for r in rows if (r["pxname"], r["svname"]) == (BACKEND, server))

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Until `condition()` holds; fails if it does not come to."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except OSError:  # it does not listen yet
                pass
            assert time.monotonic() < deadline, self._log.read_text() + self.ask("show stat")
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self.admin.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
