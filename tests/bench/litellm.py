"""LiteLLM's proxy, which does the bridge's job among many others, on the same upstream.

It lives in an environment of its own, which `make bench` sets up.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from typing import Self

from tests.bench.bench import Bench, progress
from tests.bench.client import RESPONSES, base, fetch, post, request
from tests.bench.cpu import FEW
from tests.bench.figures import Goal, Missing, Row, Samples
from tests.bench.processes import cpu_clock, give_own_core, memory_of
from tests.bench.streams import MODEL
from tests.live.mitmdump import ROOT

PROGRAM = ROOT / ".venv-litellm" / "bin" / "litellm"
EVENTS = 2_000
STREAM = f"thinking-{EVENTS}"
WHAT = "bridge, reasoning and text"
STARTS_IN = 120.0
_KEY = "sk-bench-0123456789abcdef0123456789abcdef"
_AFTERWARDS = 0.5
"""Seconds in which LiteLLM does its bookkeeping behind a stream."""


def litellm(bench: Bench) -> Iterator[Row | Missing]:
    """CPU time and memory."""
    if not PROGRAM.exists():
        yield Missing(f"{WHAT}, against LiteLLM", "it is not installed")
        return
    with _LiteLLM(bench) as other, bench.new_proxy() as dragoman:
        of_litellm = post("/v1/responses", RESPONSES, _KEY)
        sides = {
            "litellm": partial(_cost, other.pid, other.port, of_litellm),
            "dragoman": partial(_cost, dragoman.pid, dragoman.port, request(STREAM, RESPONSES)),
        }
        found = bench.rounds("LiteLLM", sides, rounds=FEW, warm_up=1)
    for column, what, unit, times in (
        (0, f"CPU per event: {WHAT}", "µs", 25),
        (1, "memory between streams: bridge", "MB", 4),
    ):
        baseline, measured = (
            Samples([figures[column] for figures in found[side]])
            for side in ("litellm", "dragoman")
        )
        goal = Goal(times, at_least=True)
        yield Row(what, unit, baseline, measured, "times less", goal, other.name)


def _cost(pid: int, port: int, asked: bytes) -> tuple[float, float]:
    """Microseconds of CPU time for an event, and megabytes that are occupied then."""
    clock = cpu_clock(pid)
    before = time.clock_gettime(clock)
    fetch(port, asked)
    time.sleep(_AFTERWARDS)
    return (time.clock_gettime(clock) - before) / EVENTS * 1e6, memory_of(pid)


class _LiteLLM:
    """Its proxy, running."""

    def __init__(self, bench: Bench) -> None:
        folder = bench.confdir()
        parameters = {"model": f"moonshot/{MODEL}", "api_key": _KEY}
        parameters["api_base"] = bench.upstream.url + base(STREAM)
        config = folder / "config.yaml"  # JSON is YAML as well
        models = [{"model_name": MODEL, "litellm_params": parameters}]
        settings = {"general_settings": {"master_key": _KEY}, "model_list": models}
        config.write_text(json.dumps(settings))
        self.port = _free_port()
        self._log = folder / "litellm.log"
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--telemetry", "False")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(PROGRAM), "--config", str(config), *options],
                cwd=folder,
                env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid
        give_own_core(self.pid)
        package = next(PROGRAM.parents[1].glob("lib/python3*/site-packages/litellm-*.dist-info"))
        self.name = f"LiteLLM {package.stem.partition('-')[2]}"

    def __enter__(self) -> Self:
        progress(f"{self.name} starts")
        deadline = time.monotonic() + STARTS_IN
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            time.sleep(0.5)
        self.__exit__()
        raise RuntimeError(f"LiteLLM does not start:\n{self._log.read_text()[-4000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
