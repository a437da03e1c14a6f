"""Official clients as processes of their own, which know of the proxy by their environment.

A script of `tests/clients/` reads jobs and writes results, one JSON text a line, so one
process serves all tests that go through the same proxy.  A Python script is imported once and
forked for each environment, before it has made a client: its imports take most of its start.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dragoman.repair.formats.formats_by_family import FORMATS
from dragoman.repair.formats.json_alone import JSON_ALONE
from tests.live import forking
from tests.live.forking import Forked, Forker
from tests.live.mitmdump import ROOT

SCRIPTS = ROOT / "tests" / "clients"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
HEAVY = SCRIPTS / "heavy" / "node_modules"
TIMEOUT = 120.0
MARKERS = "|".join(
    re.escape(text) for each in FORMATS if each is not JSON_ALONE for text in each.beginnings
)
"""An expression for what begins markers of all formats, which no client may show."""

not_run: list[str] = []
"""What was missing, once for each test that could not run for it."""


def need(program: Path, install: str) -> None:
    """Skip the test if a client is not installed; under CI that is a failure."""
    if not program.exists():
        cannot_run(f"{program.relative_to(ROOT)} is missing: {install}")


def need_command(*names: str, install: str) -> str:
    """The path of the first of these commands that is there; as `need` if none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or cannot_run(f"{names[0]} is missing: {install}")


def cannot_run(missing: str) -> NoReturn:
    """Skip the test for what is missing, and say so at the end; under CI, fail."""
    if os.environ.get("CI"):
        pytest.fail(missing)
    not_run.append(missing)
    pytest.skip(missing)


def node() -> Path:
    """The Node that the lock file pins, on this platform."""
    found = sorted((SCRIPTS / "node_modules").glob("node-*/bin/node"))
    program = found[0] if found else SCRIPTS / "node_modules" / "node"
    need(program, "install npm, then `make test` sets up the Node clients")
    return program


@functools.cache
def _forker(path: Path) -> Forker:
    """What starts the processes of a Python script."""
    return Forker(PYTHON, ROOT, os.environ, "script", path)


class Client:
    """One client process; `ask` is a call into it."""

    def __init__(self, script: str, environment: Mapping[str, str]) -> None:
        path = SCRIPTS / script
        python = path.suffix == ".py"
        if python:
            need(PYTHON, "`make test` sets it up")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        pipe = subprocess.PIPE
        self._process: Forked | subprocess.Popen[bytes]
        if python and forking.available():
            errors = self._errors.fileno()
            self._process = _forker(path).start(env=environment, stdin=pipe, stderr=errors)
        else:
            self._process = subprocess.Popen(
                [PYTHON if python else node(), path],
                env=dict(environment),
                stdin=pipe,
                stdout=pipe,
                stderr=self._errors,
            )

    def ask(self, how: str, base_url: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one job; fails with the client's own words if it raised or hung."""
        assert self._process.stdin
        assert self._process.stdout
        job = {"how": how, "base_url": base_url, "request": request}
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(TIMEOUT), f"{how} gave no answer in {TIMEOUT} seconds"
        line = self._process.stdout.readline()
        result: dict[str, Any] = json.loads(line or b'{"error": "the client ended"}')
        if "error" in result:
            self._errors.seek(0)
            errors = self._errors.read().decode(errors="replace")
            pytest.fail(f"{how}: {result['error']}\n{errors[-4000:]}")
        return result

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class Clients:
    """The client processes of a test session: one for each script and environment."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, frozenset[tuple[str, str]]], Client] = {}

    def get(self, script: str, environment: Mapping[str, str]) -> Client:
        key = script, frozenset(environment.items())
        if key not in self._running:
            self._running[key] = Client(script, environment)
        return self._running[key]

    def stop(self) -> None:
        for client in self._running.values():
            client.stop()


def run_agent(
    command: Iterable[str | Path],
    environment: Mapping[str, str],
    folder: Path,
    seconds: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run an agent in a folder, killed after `seconds` (some never end by themselves)."""
    return subprocess.run(
        list(command),
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
