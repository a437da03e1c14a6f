"""A real mitmweb with the addon, and what is sent through it.

Clients ask `https://api.moonshot.ai/FIXTURE…`, which the script `reroute.py` connects to
the replaying upstream: the addon and the person in front of it see a host that is bridged
without any option, and nothing leaves the machine.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any, ClassVar

from fixtures.server import FOLDER, Upstream
from tests.live import wire
from tests.live.mitmdump import ADDON, ROOT, Mitmdump

HOST = "https://api.moonshot.ai"
SCRIPTS = (ADDON, ROOT / "tests" / "live" / "reroute.py")
COLUMNS = ("path", "comment", "status", "size", "time")
"""Of the flow list.  mitmweb shows no comments there unless it is told to."""
_URL = re.compile(r"Web server listening at (\S+)")
_CHAT: dict[str, Any] = json.loads((FOLDER / "kimi_specification" / "request.json").read_bytes())
_RESPONSES: dict[str, Any] = {
    "model": "kimi-k2.5",
    "instructions": _CHAT["messages"][0]["content"],
    "input": _CHAT["messages"][1]["content"],
    "tools": [{"type": "function", **tool["function"]} for tool in _CHAT["tools"]],
    "stream": True,
}
_REQUESTS = {"repair": ("chat/completions", _CHAT), "bridge": ("responses", _RESPONSES)}


class Mitmweb(Mitmdump):
    """One running mitmweb; `with Mitmweb(confdir, upstream) as proxy:`."""

    PROGRAM: ClassVar = "mitmweb"
    OPTIONS: ClassVar = (*Mitmdump.OPTIONS, "showhost=true")

    def __init__(
        self,
        confdir: Path,
        upstream: Upstream,
        *arguments: str,
        scripts: tuple[Path, ...] = SCRIPTS,
    ) -> None:
        super().__init__(
            confdir,
            "--no-web-open-browser",
            *("--set", f"web_port={free_port()}"),
            *(word for column in COLUMNS for word in ("--set", f"web_columns={column}")),
            *("--set", f"reroute={upstream.host}:{upstream.port}"),
            *arguments,
            scripts=scripts,
        )
        found = _URL.search(self.wait_for_log(_URL.pattern, 30))
        assert found
        self.web_url = found[1]
        """Where a person looks, with the token that mitmweb 12 asks for."""


def free_port() -> int:
    """A port for a program that cannot tell which one it took."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(proxy: Mitmdump, job: str, fixture: str, *, real_path: bool = False) -> wire.Reply:
    """Have `job` ("repair", "bridge") done: ask for a fixture; options as in a URL.

    `real_path`: the fixture is in a header, and the URL is what it is at a real host.
    """
    path, request = _REQUESTS[job]
    body = json.dumps(request).encode()
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    if real_path:
        headers += (("x-replay", fixture),)
    url = f"{HOST}/v1/{path}" if real_path else f"{HOST}/{fixture}/v1/{path}"
    return wire.exchange(url, body, headers=headers, proxy=proxy.url)
