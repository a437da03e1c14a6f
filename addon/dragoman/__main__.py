"""Dragoman without a proxy: where its script is, and what repair makes of a recorded reply.

    mitmdump -s "$(python -m dragoman)"            # after `pip install .`
    python -m dragoman turn.log                    # what a client would receive
    python -m dragoman turn.log --request turn-request.json

A reply is an event stream of chat chunks, or of Responses events (`*.sse`, `*.log`), or the JSON
of one that was not streamed.  The request says which tools are declared, and so which call is
meant; without it nothing is declared, and the reply is one of Chat Completions.  What is repaired
goes to standard output, what was done to standard error.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import time
from pathlib import Path

from .bridge.native.reply_repair import reading_tools, repairing_whole
from .notes import Evidence
from .repair.pending import Policy
from .wire.json_codec import NotJson, loads
from .wire.slices import drained

INSTALLED = Path(sysconfig.get_path("data")) / "share" / "dragoman" / "main.py"
"""Where `pip install .` puts the script that mitmproxy loads."""
BESIDE = Path(__file__).parents[1] / "main.py"
"""Where it is in a checkout."""


def repaired(reply: bytes, request: object, evidence: Evidence, now: int) -> bytes:
    """What a client receives of an upstream's `reply` to a `request`."""
    tools = drained(reading_tools(request))
    return drained(repairing_whole(reply, tools, Policy(), evidence, now))


def main() -> int | str:
    """Returns the exit status, or what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m dragoman", description=__doc__.split("\n")[0])
    parser.add_argument("reply", nargs="?", type=Path, help="a recorded reply to repair")
    parser.add_argument("--request", type=Path, help="the request (JSON) that it answers")
    asked = parser.parse_args()
    if asked.reply is None:
        print(BESIDE if BESIDE.exists() else INSTALLED)
        return 0
    evidence = Evidence()
    try:
        request = loads(asked.request.read_bytes()) if asked.request else {}
        reply = repaired(asked.reply.read_bytes(), request, evidence, int(time.time()))
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except NotJson as error:
        return f"{asked.request}: not JSON ({error}); give the body of the request"
    sys.stdout.buffer.write(reply)
    print("\n".join(evidence.lines()) or "nothing to repair", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
