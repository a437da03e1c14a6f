"""`make demo`: one leaked turn through a real mitmdump, to clients of three APIs.

    python -m tests.demo CLIENT_PYTHON

Starts the replaying upstream and mitmdump with the addon, runs OpenAI's and Anthropic's official
clients as processes of their own (with `CLIENT_PYTHON`), and leaves nothing running.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from fixtures.server import FOLDER, Upstream
from tests.live.mitmdump import ROOT, Mitmdump, make_confdir

FIXTURE = FOLDER / "kimi_specification"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Upstream(tls=True) as upstream:
        confdir = Path(folder)
        make_confdir(confdir)
        with Mitmdump(confdir) as proxy:
            say("The upstream speaks only Chat Completions, and sends these deltas:")
            show_upstream()
            say("1. Repair: a Chat Completions client, with HTTPS_PROXY set, receives:")
            run_client("chat", upstream, proxy)
            say("2. Bridge: a Responses client of the same host receives:")
            run_client("responses", upstream, proxy)
            say("3. Bridge: a client of Anthropic's Messages API, as Claude Code is, receives:")
            run_client("messages", upstream, proxy)
            say("The log of mitmdump:")
            log = proxy.wait_for_log("(?s)repaired.*repaired.*repaired")
            print("".join(f"    {line}\n" for line in log.splitlines() if FIXTURE.name in line))


def say(what: str) -> None:
    print(f"\n{what}\n", flush=True)


def show_upstream() -> None:
    for frame in (FIXTURE / "upstream.sse").read_text().split("\n\n"):
        data = frame.removeprefix("data: ")
        if data.startswith("{"):
            for choice in json.loads(data)["choices"]:
                print("   ", json.dumps(choice["delta"]))
                if choice["finish_reason"]:
                    print("    finish_reason:", choice["finish_reason"])


def run_client(api: str, upstream: Upstream, proxy: Mitmdump) -> None:
    base_url = f"{upstream.url}/{FIXTURE.name};cut=event;pace=0.02/v1"
    script = ROOT / "tests" / "clients" / "demo.py"
    command = [sys.argv[1], script, api, base_url, FIXTURE / "request.json"]
    subprocess.run(command, env=proxy.client_environment(), timeout=60, check=True)


if __name__ == "__main__":
    main()
