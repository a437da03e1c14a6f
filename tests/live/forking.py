"""Processes that start at once: forked from one that has imported what they need already.

Most of the start of a mitmdump goes into the import of mitmproxy and the addon, most of that
of an official client into the import of its libraries, and a test session starts some three
hundred.  What runs after the fork is what the program runs, in a process of its own, with
arguments and an environment of its own.  The scripts of a mitmdump are loaded there.  Where
one changes what the addon finds, the addon has not been imported before the fork.

This file is also the program of the process that is forked: it is given a socket, receives
the arguments, the environment and the streams of each process, and answers with its pid and
a pidfd.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

_MAX = 65536
"""Bytes of the arguments and the environment of one process."""


class Forked:
    """One forked process, with those of `subprocess.Popen`'s members that tests use."""

    def __init__(self, pid: int, pidfd: int, stdin: IO[bytes] | None, stdout: IO[bytes]) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self.stdin = stdin
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
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)


class Forker:
    """Starts processes of one kind; they end with the process that has it."""

    def __init__(
        self, python: str | Path, folder: Path, environment: Mapping[str, str], *kind: str | Path
    ) -> None:
        """They run in that folder.  `kind` is a name of `_KINDS` and what that is given."""
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [python, __file__, str(theirs.fileno()), *kind],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start(
        self,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.STDOUT,
    ) -> Forked:
        """The options are those of `subprocess.Popen`; `stdin` may be a pipe, `stderr` a file.

        Its output always is a pipe.
        """
        output, write = os.pipe()
        piped = stdin == subprocess.PIPE
        read, given = os.pipe() if piped else (os.open(os.devnull, os.O_RDONLY), None)
        message = json.dumps([list(map(str, arguments)), env and dict(env)]).encode()
        assert len(message) < _MAX
        streams = [read, write, write if stderr == subprocess.STDOUT else stderr]
        socket.send_fds(self._connection, [message], streams)
        os.close(read)
        os.close(write)
        answer, (pidfd,), _, _ = socket.recv_fds(self._connection, _MAX, 1)
        theirs = None if given is None else os.fdopen(given, "wb")
        return Forked(int(answer), pidfd, theirs, os.fdopen(output, "rb"))


def available() -> bool:
    """Whether a process can be forked and waited for in this way: on Linux."""
    return hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")


def _serve(connection: socket.socket) -> list[str] | None:
    """Fork for every request: in the child the arguments, in the parent nothing at the end."""
    children: list[int] = []
    while True:
        message, streams, _, _ = socket.recv_fds(connection, _MAX, 3)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for descriptor in (*streams, connection.detach(), *children):
                os.close(descriptor)
            arguments: list[str]
            arguments, environment = json.loads(message)
            if environment is not None:
                os.environ.clear()
                os.environ.update(environment)
            return arguments
        for stream in streams:
            os.close(stream)
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


def _mitmproxy(package: str = "") -> Callable[..., None]:
    """mitmproxy's programs; the addon is imported from the folder `package`, if given."""
    from mitmproxy.tools import dump, main  # noqa: F401, PLC0415 - `dump` is what takes long

    if package:
        sys.path.append(package)
        importlib.import_module("dragoman.proxy.addon")
        # Four fifths of what is left of the start: expressions, which are kept.
        importlib.import_module("dragoman.repair.formats.formats_by_family").AUTO.compile()
        sys.path.remove(package)

    def run(program: str, *arguments: str) -> None:
        # As for the program itself, whose folder comes first.
        sys.path.insert(0, str(Path(program).parent))
        sys.argv = [program, *arguments]
        getattr(main, Path(program).name)()

    return run


def _script(script: str) -> Callable[..., None]:
    """The function `main` of a script, which is imported as a module."""
    sys.path.insert(0, str(Path(script).parent))
    run: Callable[..., None] = importlib.import_module(Path(script).stem).main
    return run


_KINDS = {"mitmproxy": _mitmproxy, "script": _script}


def _main() -> None:
    _, descriptor, kind, *given = sys.argv
    del sys.path[0]  # the folder of this file
    run = _KINDS[kind](*given)
    # A collection would write to every object, and so copy the memory that is shared till then.
    gc.freeze()
    # Nobody has to wait for the children, but they for theirs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    arguments = _serve(socket.socket(fileno=int(descriptor)))
    if arguments is not None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed()
        with contextlib.suppress(SystemExit):
            run(*arguments)
        _end()


if __name__ == "__main__":
    _main()
