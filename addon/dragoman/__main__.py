"""Dragoman without a proxy: where its script is, and what repair makes of a recorded reply.

    mitmdump -s "$(python -m dragoman)"            # after `pip install .`
    python -m dragoman turn.log                    # what a client would receive
    python -m dragoman turn.log --request turn-request.json

A reply is an event stream of chat chunks, or of events of Responses or Messages (`*.sse`, `*.log`),
or the JSON of one that was not streamed.  The request declares the tools, and so decides which call
is meant; without it no tool is declared, and a reply of Responses is none.  The repaired reply goes
to standard output, what was done to standard error.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import time
from pathlib import Path

from .bridge.native.reply_repair import api_of, repair_whole, tools_of
from .notes import Evidence
from .repair.policy import Policy
from .wire.json_codec import NotJson, loads

INSTALLED = Path(sysconfig.get_path("data")) / "share" / "dragoman" / "main.py"
"""Where `pip install .` puts the script that mitmproxy loads."""
CHECKED_OUT = Path(__file__).parents[1] / "main.py"
"""Where it is in a checkout."""


def main() -> int | str:
    """Returns the exit status, or what failed."""
    parser = argparse.ArgumentParser(prog="python -m dragoman", description=__doc__.split("\n")[0])
    parser.add_argument("reply", nargs="?", type=Path, help="a recorded reply to repair")
    parser.add_argument("--request", type=Path, help="the request (JSON) that it answers")
    paths = parser.parse_args()
    if paths.reply is None:
        print(CHECKED_OUT if CHECKED_OUT.exists() else INSTALLED)
        return 0
    evidence = Evidence()
    try:
        request = loads(paths.request.read_bytes()) if paths.request else {}
        reply = paths.reply.read_bytes()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except NotJson as error:
        return f"{paths.request}: not JSON ({error}); give the body of the request"
    tools = tools_of(request, api_of(request, reply))
    repaired = repair_whole(reply, tools, Policy(), evidence, int(time.time()))
    sys.stdout.buffer.write(repaired)
    print("\n".join(evidence.lines()) or "nothing to repair", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
