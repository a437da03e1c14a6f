"""Fixtures on disk: of every watched flow (option ``dragoman_capture``), or of one.

Secrets are removed and files written in a thread; a flow never waits for its fixture,
and nothing that goes wrong here reaches it.  Folders and files are for the user alone.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from mitmproxy import http

from ...inspect.exchange import Exchange
from ...inspect.fixture import IncompleteError, fixture
from ...inspect.redact import Redaction, credentials

logger = logging.getLogger(__name__)

MAX_PENDING = 512 * 1024 * 1024
"""Bytes of flows that wait for being written."""


def redaction_of(flow: http.HTTPFlow) -> Redaction:
    """What removes the secrets of this flow."""
    return Redaction(credentials(flow.request.headers.items(multi=True), flow.request.path))


def write_fixture(folder: Path, files: dict[str, bytes]) -> None:
    """Make `folder`, unless it is there and empty, and write `files` into it: all or none.

    Raises `OSError`, a `FileExistsError` for a folder that is not empty.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    written: list[Path] = []
    try:
        for name, body in files.items():
            # Never through a link, nor over a file, that somebody has put there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(folder / name, flags, 0o600)
            written.append(folder / name)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(body)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


class Capture:
    """Writes each flow it is given as a fixture."""

    def __init__(self) -> None:
        self._writer: ThreadPoolExecutor | None = None
        self._pending = 0
        self._lock = Lock()
        self._lost = 0
        self._numbers = itertools.count(1)
        self._complained: set[str] = set()

    def keep(self, folder: Path, flow: http.HTTPFlow, exchange: Exchange) -> None:
        """Have a flow that has ended written into a folder of its own within `folder`."""
        size = sum(map(len, (exchange.client_request, exchange.upstream_request)))
        size += sum(map(len, (exchange.upstream_reply, exchange.client_reply)))
        if self._pending + size > MAX_PENDING:
            self._lost += 1
            self._complain("flows come faster than they can be written: some are not captured.")
            return
        self._count(size)
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="dragoman-capture")
        name = _name(flow)
        written = self._writer.submit(self._write, folder, name, exchange, redaction_of(flow))
        written.add_done_callback(lambda _: self._count(-size))

    def done(self) -> None:
        """Wait for what is still being written."""
        if self._writer is not None:
            if self._pending:
                logger.info("dragoman_capture: writing what is left …")
            self._writer.shutdown(wait=True)
            self._writer = None
        if self._lost:
            logger.warning("dragoman_capture: %d flows were not captured", self._lost)

    def _count(self, size: int) -> None:
        with self._lock:
            self._pending += size

    def _write(self, folder: Path, name: str, exchange: Exchange, redaction: Redaction) -> None:
        try:
            files = fixture(exchange, redaction)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_fixture(self._fresh(folder, name), files)
        except IncompleteError as error:
            logger.info("%s is not captured: %s", name, error)
        except OSError as error:
            self._complain(
                f"cannot write to {folder} ({error.strerror or error}). "
                "Set it to a folder that you may write to, or to nothing."
            )
        except Exception:
            logger.exception("%s could not be captured", name)

    def _fresh(self, folder: Path, name: str) -> Path:
        """A folder that nobody else writes to: another mitmproxy may be at it, too."""
        for number in self._numbers:
            path = folder / f"{name}_{number:04}"
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                return path
        raise AssertionError("numbers do not end")

    def _complain(self, what: str) -> None:
        if what not in self._complained:
            self._complained.add(what)
            logger.error("dragoman_capture: %s", what)


def _name(flow: http.HTTPFlow) -> str:
    """When and where to: ``20250131T235959_api.example.com``."""
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime(flow.request.timestamp_start))
    host = re.sub(r"[^a-z0-9.-]", "_", flow.request.pretty_host.lower())[:80].strip(".")
    return f"{when}_{host or 'unknown'}"
