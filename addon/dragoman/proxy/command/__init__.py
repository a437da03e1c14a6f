"""What `dragoman` does beside the addon: start mitmproxy with it, keep it on, show it.

Each command is a module of this package whose `main` takes the command's name and the words after
it, and returns the exit status, or what failed in words.  A module is imported when its command is
given: a recorded reply is repaired without mitmproxy.
"""

from __future__ import annotations

import sysconfig
from importlib import import_module
from pathlib import Path

INSTALLED = Path(sysconfig.get_path("data")) / "share" / "dragoman" / "main.py"
"""Where `pip install .` puts the script that mitmproxy loads."""
CHECKED_OUT = Path(__file__).parents[3] / "main.py"
"""Where it is in a checkout."""

COMMANDS = {
    "run": ("run", "start mitmdump with the addon, and print the lines for clients' shells"),
    "web": ("run", "the same with mitmweb"),
    "env": ("run", 'print these lines alone: eval "$(dragoman env)"'),
    "check": ("check", "see whether a host needs it: dragoman check URL --model NAME"),
    "demo": ("demo", "see it at work: a replayed host, mitmdump, clients of three APIs"),
    "service": ("service", "print a systemd unit or a launchd plist that keeps it on"),
}
"""The module of each, and what it does."""


def run_command(words: list[str]) -> int | str | None:
    """Run the command that these words begin with; None if they begin with none."""
    if not words or words[0] not in COMMANDS:
        return None
    module = import_module(f".{COMMANDS[words[0]][0]}", __name__)
    status: int | str = module.main(words[0], words[1:])
    return status


def listed() -> str:
    """The commands, for a help text."""
    return "\n".join(f"  dragoman {name:8} {what}" for name, (_, what) in COMMANDS.items())


def script() -> Path:
    """What `mitmdump -s` loads."""
    return CHECKED_OUT if CHECKED_OUT.exists() else INSTALLED
