"""`make demo-web`: mitmweb with the addon and some traffic in it, until Ctrl-C.

    python -m tests.web.demo

Starts the replaying upstream and a mitmweb, and prints the address to open.  There is a turn
for each way to end, and one that is still running.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from fixtures.server import Reply, Upstream
from tests.live.mitmdump import make_confdir
from tests.web.mitmweb import HOST, Mitmweb, ask

TRAFFIC = (
    ("repair", "kimi_specification"),
    ("bridge", "kimi_specification"),
    ("repair", "clean_native_tools"),
    ("bridge", "kimi_pretty_arguments"),
    ("bridge", "clean_native_tools"),
    ("repair", "clean_text"),
    ("repair", "kimi_cut_off"),
    ("bridge", "empty"),
    ("bridge", "clean_error_frame"),
    ("repair", "clean_http_error"),
    ("bridge", "kimi_two_sections;abort=2000"),
)
EMPTY = Reply(b'data: {"model":"kimi-k2.5","choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
RUNNING = ("bridge", "kimi_cut_markers")
PACED = ";cut=event;pace=0.02"
SLOW = ";cut=event;pace=0.5"
INTRODUCTION = f"""
Open {{url}}

Clients ask {HOST}, which is the replaying upstream here.  Click on a
flow, then on Response: "LLM stream" is what the model said.  The button "View" offers
"LLM upstream" (what the host sent) and "LLM diff" (what was changed).  One stream is
running all the time: watch it grow.  Ctrl-C ends this.
"""


def main() -> None:
    # A shell that starts this in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), mitmweb_with_traffic() as proxy:
        print(INTRODUCTION.format(url=proxy.web_url), flush=True)
        try:
            threading.Event().wait()
        finally:
            # All that is left is to end, which the impatient need not interrupt.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Daily(Mitmweb):
    """As a person has it in front of them: nothing insecure, and no upstream's port."""

    OPTIONS: ClassVar = ("flow_detail=0", "connection_strategy=lazy")


@contextmanager
def mitmweb_with_traffic() -> Iterator[Mitmweb]:
    """A mitmweb in which some streams have ended, and one runs."""
    names = ("localhost", HOST.removeprefix("https://"))
    with tempfile.TemporaryDirectory() as name, Upstream(tls=True, names=names) as upstream:
        folder = Path(name)
        make_confdir(folder)
        trusted = folder / "upstream.pem"
        trusted.write_bytes(upstream.certificate)
        upstream.replies["empty"] = EMPTY
        with _Daily(
            folder, upstream, "--set", f"ssl_verify_upstream_trusted_ca={trusted}"
        ) as proxy:
            for job, fixture in TRAFFIC:
                ask(proxy, job, fixture + PACED, real_path=True)
            threading.Thread(target=keep_running, args=[proxy], daemon=True).start()
            yield proxy


def keep_running(proxy: Mitmweb) -> None:
    """A slow stream, and the next one when it has ended, until mitmweb does."""
    job, fixture = RUNNING
    with contextlib.suppress(OSError, AssertionError):
        while ask(proxy, job, fixture + SLOW, real_path=True).complete:
            pass


if __name__ == "__main__":
    main()
