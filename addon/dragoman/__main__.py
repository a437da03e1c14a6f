"""The command `dragoman`: starts mitmproxy with the addon, or repairs a recorded reply.

    dragoman run api.moonshot.ai                   # `dragoman --help` lists the commands
    dragoman turn.log                              # what a client would receive
    dragoman turn.log --request turn-request.json
    dragoman turn.log --as responses               # the same reply, as a stream of another API
    mitmdump -s "$(dragoman)"                      # where the addon's script is

`python3 -m dragoman` is the same command.

A reply is an event stream of chat chunks, or of events of Responses or Messages (`*.sse`, `*.log`),
or the JSON of one that was not streamed.  The request declares the tools, and so decides which call
is meant; without it no tool is declared.  The repaired reply goes to standard output, what was done
to standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .bridge.convert_recorded import convert_recorded
from .bridge.reader_writer_pairs import APIS
from .notes import Evidence
from .proxy.command import listed, run_command, script
from .wire.json_codec import NotJson, loads


def main() -> int | str:
    """Returns the exit status, or what failed."""
    if (status := run_command(sys.argv[1:])) is not None:
        return status
    parser = argparse.ArgumentParser(
        prog="dragoman",
        description=__doc__.split("\n")[0],
        epilog=f"commands (`dragoman run --help`):\n{listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("reply", nargs="?", type=Path, help="a recorded reply to repair")
    parser.add_argument("--request", type=Path, help="the request (JSON) that it answers")
    parser.add_argument("--as", dest="api", choices=APIS, help="the API of the client")
    paths = parser.parse_args()
    if paths.reply is None:
        print(script())
        return 0
    evidence = Evidence()
    try:
        request = loads(paths.request.read_bytes()) if paths.request else {}
        reply = paths.reply.read_bytes()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    except NotJson as error:
        return f"{paths.request}: not JSON ({error}); give the body of the request"
    repaired = convert_recorded(reply, request, paths.api, evidence, int(time.time()))
    sys.stdout.buffer.write(repaired)
    print("\n".join(evidence.lines()) or "nothing to repair", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
