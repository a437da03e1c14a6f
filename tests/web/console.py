"""mitmproxy's console in a terminal of its own (tmux), typed into and read off the screen."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from fixtures.server import Upstream
from tests.live.clients import need_command
from tests.live.mitmdump import ROOT
from tests.web.mitmweb import SCRIPTS, free_port

COLUMNS, ROWS = 140, 45


def find_tmux() -> str:
    """The program; without it the test cannot run."""
    return need_command("tmux", install="install tmux (Debian: apt-get install tmux)")


class Console:
    """One running console; `with Console(confdir, upstream) as console:`."""

    def __init__(self, confdir: Path, upstream: Upstream) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tmux")  # a socket's path is short
        self._tmux = [find_tmux(), "-u", "-f", "/dev/null", "-S", f"{self._folder.name}/socket"]
        self.port = free_port()
        options = [
            f"confdir={confdir}",
            "listen_host=127.0.0.1",
            f"listen_port={self.port}",
            "ssl_insecure=true",
            f"reroute={upstream.host}:{upstream.port}",
            "showhost=true",
        ]
        program = str(Path(sys.executable).with_name("mitmproxy"))
        command = [program, *(word for option in options for word in ("--set", option))]
        command += [word for path in SCRIPTS for word in ("-s", str(path))]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", *size, "-c", str(ROOT), shlex.join(command))
        try:
            self.wait(lambda screen: self._listens() and "Flows" in screen, 30)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """The proxy's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def screen(self) -> str:
        """What stands on the screen."""
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names: `Enter`, `Right`, `q`."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._run("send-keys", "-l", text)

    def wait(self, condition: Callable[[str], bool], timeout: float = 60) -> str:
        """The screen once `condition` holds of it."""
        deadline = time.monotonic() + timeout
        while not condition(screen := self.screen):
            assert time.monotonic() < deadline, f"never on the screen; now there is:\n{screen}"
            time.sleep(0.05)
        return screen

    def wait_for(self, *texts: str, timeout: float = 60) -> str:
        """The screen once it shows all of these."""
        return self.wait(lambda screen: all(text in screen for text in texts), timeout)

    def turn_to(self, text: str) -> str:
        """The screen once it shows this, on one of a flow's tabs (the last used is open)."""
        for _ in range(3):
            for _ in range(10):
                if text in (screen := self.screen):
                    return screen
                time.sleep(0.05)
            self.press("Tab")
        return self.wait_for(text)

    def stop(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _run(self, *command: str) -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        environment.pop("TMUX", None)
        done = subprocess.run(
            [*self._tmux, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
