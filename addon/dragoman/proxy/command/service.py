"""`dragoman service`: a unit of systemd, or a property list of launchd, that keeps the proxy on.

It goes to standard output, and the lines that install it to standard error.  It starts
`dragoman run` with the words that were given, for this user, when the machine starts, and again
after a failure.
"""

from __future__ import annotations

import argparse
import os
import plistlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from . import CHECKED_OUT
from .run import Start

INSTALL = {
    "systemd": """\
mkdir -p ~/.config/systemd/user && {again} > ~/.config/systemd/user/dragoman.service
systemctl --user daemon-reload && systemctl --user enable --now dragoman
loginctl enable-linger
""",
    "launchd": """\
mkdir -p ~/Library/LaunchAgents && {again} > ~/Library/LaunchAgents/dragoman.plist
launchctl unload ~/Library/LaunchAgents/dragoman.plist 2>/dev/null || true
launchctl load -w ~/Library/LaunchAgents/dragoman.plist
""",
}
"""The lines that do it; the last one of systemd's keeps it on while its user is not logged in."""


def main(command: str, words: Sequence[str]) -> int | str:
    """Print the file for the words of `dragoman run`."""
    parser = argparse.ArgumentParser(
        prog=f"dragoman {command}",
        description="Print what keeps the proxy on: a systemd user unit, or a launchd plist.",
        epilog="All other arguments are those of `dragoman run`: HOST, --port, --set name=value.",
        allow_abbrev=False,
    )
    default = "launchd" if sys.platform == "darwin" else "systemd"
    parser.add_argument("--for", dest="kind", choices=("systemd", "launchd"), default=default)
    given, others = parser.parse_known_args(words)
    Start.of("run", others)  # refuses what it would
    line = [sys.executable, "-m", "dragoman", "run", *others]
    if odd := [word for word in line if not word.isprintable()]:
        return f"{odd[0]!r} cannot stand in a {given.kind} file"
    again = shlex.join([*_this_command(), command, *words])
    install, text = INSTALL[given.kind], unit if given.kind == "systemd" else properties
    print(text(line), end="", flush=True)
    print(f"\nTo install it:\n\n{install.format(again=again)}", file=sys.stderr)
    return 0


def _this_command() -> list[str]:
    if not CHECKED_OUT.exists():
        return ["dragoman"]
    return [
        "env",
        *(f"{k}={v}" for k, v in environment().items()),
        sys.executable,
        "-m",
        "dragoman",
    ]


def environment() -> dict[str, str]:
    """What the process needs beside its command line: in a checkout, where the package is."""
    return {"PYTHONPATH": str(CHECKED_OUT.parent)} if CHECKED_OUT.exists() else {}


def unit(line: Sequence[str]) -> str:
    """A user unit of systemd that runs this command."""
    variables = "".join(f"Environment={_quoted(f'{k}={v}')}\n" for k, v in environment().items())
    return f"""\
[Unit]
Description=Dragoman, an interpreter for LLM streams

[Service]
{variables}ExecStart={" ".join(map(_quoted, line))}
Restart=on-failure
RestartSec=2

[Install]
WantedBy=default.target
"""


def _quoted(word: str) -> str:
    """As systemd.syntax(7) has it: `%` and `$` begin what systemd puts in."""
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{safe}"'


def properties(line: Sequence[str]) -> str:
    """A property list of launchd that runs this command."""
    log = str(Path("~/Library/Logs/dragoman.log").expanduser())
    values = {
        "Label": "dragoman",
        "ProgramArguments": list(line),
        "EnvironmentVariables": {"PATH": os.defpath, **environment()},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(values, sort_keys=False).decode()
