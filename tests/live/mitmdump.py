"""A real mitmdump (or another of mitmproxy's programs) with the addon, as a user starts it.

The process runs in a confdir of its own with a certificate authority made
beforehand, listens on a free port, and its whole log is kept.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Self

from mitmproxy.certs import CertStore

from tests.live.forking import Forked, Forker

ROOT = Path(__file__).parents[2]
ADDON = ROOT / "addon" / "main.py"
_LISTENING = re.compile(r"proxy.* listening at (?:\S*:)?(\d+)\.?$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_FIRST = frozenset({"compiled", "without_layer", "without_sqlite"})
"""Scripts that change what the addon finds, or watch how it is imported: it is not before them."""


@functools.cache
def _authority() -> dict[str, bytes]:
    """The files of a new certificate authority, whose keys take a while to be found."""
    with tempfile.TemporaryDirectory() as folder:
        CertStore.create_store(Path(folder), "mitmproxy", 2048)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def make_confdir(confdir: Path) -> None:
    """A confdir with a certificate authority: what mitmproxy does at its first start."""
    confdir.mkdir(parents=True, exist_ok=True)
    for name, content in _authority().items():
        (confdir / name).write_bytes(content)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


@functools.cache
def _forker(*, imported: bool) -> Forker:
    """What starts programs of mitmproxy; `imported`: whether they have the addon already."""
    package = [ADDON.parent] if imported else []
    return Forker(sys.executable, ROOT, _environment(), "mitmproxy", *package)


class Mitmdump:
    """One running mitmdump; `with Mitmdump(confdir, "--set", "…") as proxy:`."""

    PROGRAM: ClassVar = "mitmdump"
    OPTIONS: ClassVar[tuple[str, ...]] = ("ssl_insecure=true", "flow_detail=0")
    forked: ClassVar[bool] = False
    """Whether it is forked, which is ten times as fast, and not started as a program."""

    def __init__(self, confdir: Path, *arguments: str, scripts: tuple[Path, ...] = (ADDON,)):
        """`arguments` go to mitmdump as they are; `confdir` should be made by `make_confdir`."""
        self.confdir = confdir
        self.expected_tracebacks = 0
        """A test that provokes faults says here how many tracebacks it wants in the log."""
        self._log: list[str] = []
        self._logged = threading.Condition()
        self._mark = 0
        script = Path(sys.executable).with_name(self.PROGRAM)
        options = ["listen_port=0", "listen_host=127.0.0.1", *self.OPTIONS]
        command = ["--set", f"confdir={confdir}"]
        command += [word for option in options for word in ("--set", option)]
        command += [word for path in scripts for word in ("-s", str(path))]
        self._process: Forked | subprocess.Popen[bytes]
        if self.forked:
            imported = not any(path.stem in _FIRST for path in scripts)
            self._process = _forker(imported=imported).start(script, *command, *arguments)
        else:
            self._process = subprocess.Popen(
                [script, *command, *arguments],
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            self.port = int(_LISTENING.findall(self.wait_for_log(_LISTENING.pattern, 60))[-1])
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Where it listens: a proxy URL, or the reverse proxy's base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ca_file(self) -> Path:
        return self.confdir / "mitmproxy-ca-cert.pem"

    def client_environment(self) -> dict[str, str]:
        """The environment of a client that is to go through this proxy and trust it."""
        ca = str(self.ca_file)
        unset = {"NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "https_proxy", "http_proxy"}
        return {
            **{name: value for name, value in os.environ.items() if name not in unset},
            "HTTPS_PROXY": self.url,
            "SSL_CERT_FILE": ca,
            "NODE_EXTRA_CA_CERTS": ca,
            "NODE_USE_ENV_PROXY": "1",
        }

    @property
    def log(self) -> str:
        """What it has logged since `mark`."""
        with self._logged:
            return "".join(self._log[self._mark :])

    def mark(self) -> None:
        """Forget the log so far: the next test begins."""
        with self._logged:
            self._mark = len(self._log)
        self.expected_tracebacks = 0

    def wait_for_log(self, pattern: str, timeout: float = 60) -> str:
        """The log once `pattern` is in it; fails after `timeout` seconds or if mitmdump ends."""
        deadline = time.monotonic() + timeout
        expression = re.compile(pattern, re.MULTILINE)
        with self._logged:
            while True:
                log = "".join(self._log[self._mark :])
                if expression.search(log):
                    return log
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError(f"no {pattern!r} in the log of {self.PROGRAM}:\n{log}")
                self._logged.wait(min(left, 0.2))

    def check_log(self) -> None:
        """Fails if the log since `mark` holds more or fewer tracebacks than expected.

        mitmproxy logs one for whatever escapes from an addon or crashes a connection.
        """
        found = self.log.count(_TRACEBACK)
        assert found == self.expected_tracebacks, (
            f"{found} tracebacks for {self.expected_tracebacks} expected:\n{self.log}"
        )

    def stop(self) -> bool:
        """Whether it has ended by itself."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._reader.join(5)
        return True

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _read_log(self) -> None:
        assert self._process.stdout
        with self._process.stdout as stdout:
            for line in stdout:
                with self._logged:
                    self._log.append(line.decode(errors="replace"))
                    self._logged.notify_all()
        with self._logged:
            self._logged.notify_all()


def output_of(*arguments: str) -> str:
    """All that a mitmdump with these arguments says; it must end by itself, without a
    traceback."""
    script = Path(sys.executable).with_name(Mitmdump.PROGRAM)
    if Mitmdump.forked:
        process = _forker(imported=True).start(script, *arguments)
        killer = threading.Timer(60, process.kill)
        killer.start()
        with process.stdout as stdout:
            output = stdout.read().decode(errors="replace")
        assert killer.is_alive(), f"it does not end:\n{output}"
        killer.cancel()
    else:
        ended = subprocess.run(
            [script, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode
        output = ended.stdout + ended.stderr
    assert _TRACEBACK not in output
    return output


class Mitmdumps:
    """The mitmdumps of a test session: one for each set of arguments, started once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[tuple[tuple[str, ...], tuple[Path, ...]], Mitmdump] = {}

    def get(self, *arguments: str, scripts: tuple[Path, ...] = (ADDON,)) -> Mitmdump:
        """A running mitmdump with these arguments; all share one certificate authority."""
        key = arguments, scripts
        if key not in self._running:
            confdir = self._folder / f"confdir{len(self._running)}"
            make_confdir(confdir)
            self._running[key] = Mitmdump(confdir, *arguments, scripts=scripts)
        return self._running[key]

    def stop(self) -> None:
        """All at once: each takes a moment to end."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Mitmdump.stop, self._running.values()))
