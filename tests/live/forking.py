"""Mitmdumps that start at once: forked from a process that has imported mitmproxy already.

To import mitmproxy and the addon takes most of a start, and a test session starts some two
hundred.  What runs after the fork is what the program `mitmdump` runs, in a process of its
own; all scripts are loaded there.  Where one is to be loaded before the addon, it may change
what the addon finds: then the addon has not been imported before the fork.

This file is also the program of the process that is forked: it is given a socket, receives
the arguments and the output of each mitmdump, and answers with its pid and a pidfd.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

_MAX = 65536
"""Bytes of the arguments of one mitmdump."""


class Forked:
    """One forked mitmdump, with those of `subprocess.Popen`'s methods that tests use."""

    def __init__(self, pid: int, pidfd: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self.stdout = stdout

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, timeout: float | None = None) -> None:
        """Return once it has ended; its status is not known."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("mitmdump", timeout or 0)


class Forker:
    """Starts mitmdumps; they end with the process that has it."""

    def __init__(
        self, program: Path, folder: Path, environment: Mapping[str, str], package: Path | None
    ) -> None:
        """They run in that folder, with that environment; the addon is imported from the
        folder `package` beforehand, unless that is None."""
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), program, package or ""],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start(self, *arguments: str) -> Forked:
        output, write = os.pipe()
        message = json.dumps(arguments).encode()
        assert len(message) < _MAX
        socket.send_fds(self._connection, [message], [write])
        os.close(write)
        answer, (pidfd,), _, _ = socket.recv_fds(self._connection, _MAX, 1)
        return Forked(int(answer), pidfd, os.fdopen(output, "rb"))


def available() -> bool:
    """Whether a process can be forked and waited for in this way: on Linux."""
    return hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")


def _serve(connection: socket.socket) -> list[str] | None:
    """Fork for every request: in the child the arguments, in the parent nothing at the end."""
    children: list[int] = []
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _MAX, 1)
        if not message:
            break
        (output,) = descriptors
        pid = os.fork()
        if pid == 0:
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            for descriptor in (output, connection.detach(), *children):
                os.close(descriptor)
            arguments: list[str] = json.loads(message)
            return arguments
        os.close(output)
        children.append(os.pidfd_open(pid))
        socket.send_fds(connection, [str(pid).encode()], [children[-1]])
    for pidfd in children:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    return None


def _end() -> None:
    """End as the interpreter does, but for taking every object to pieces: that takes longer
    than all the rest, as memory that is shared until then is copied."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _main() -> None:
    _, descriptor, program, package = sys.argv
    # As for the program itself, whose folder comes first.
    sys.path[0] = str(Path(program).parent)
    from mitmproxy.tools import dump, main  # noqa: F401, PLC0415 - `dump` is what takes long

    if package:
        sys.path.append(package)
        importlib.import_module("dragoman.proxy.addon")
        sys.path.remove(package)
    # Nobody has to wait for the children, but they for theirs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    arguments = _serve(socket.socket(fileno=int(descriptor)))
    if arguments is not None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed()
        sys.argv = [program, *arguments]
        with contextlib.suppress(SystemExit):
            main.mitmdump()
        _end()


if __name__ == "__main__":
    _main()
