"""A script for mitmdump: tests look inside and turn its knobs while it runs.

`POST …/controls/options` with a JSON object sets options, `GET …/controls/commands/NAME` gives
the result of a command without arguments as JSON, the answer to `GET
…/controls/memory` is the most memory the process ever had, in bytes, to `GET
…/controls/held` how many streams, records, timers and open files it holds now.

`test_constants` shortens what Dragoman waits for: `proxy.chat_only_hosts.LEARNED_FOR=1` sets a
constant of one of its modules.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mitmproxy import ctx, exceptions, http
from mitmproxy.addonmanager import Loader
from mitmproxy.proxy import server, server_hooks


class Controls:
    def load(self, loader: Loader) -> None:
        loader.add_option("test_upstream_http2", bool, False, "Speak HTTP/2 with TLS upstreams.")
        loader.add_option("test_patience", int, 600, "Seconds until mitmproxy's watchdog acts.")
        loader.add_option("test_constants", Sequence[str], [], "Other values of constants.")

    def configure(self, updated: set[str]) -> None:
        if "test_patience" in updated and "tcp_timeout" in ctx.options:
            ctx.options.tcp_timeout = ctx.options.test_patience
        elif "test_patience" in updated:  # mitmproxy 11 has no option for it
            server.TCP_TIMEOUT = sys.modules["dragoman.proxy.mitm.http_stream"].PATIENCE = (
                ctx.options.test_patience
            )
        if "test_constants" in updated:
            for constant in ctx.options.test_constants:
                _set_constant(*constant.split("="))

    def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        if ctx.options.test_upstream_http2:
            data.server.alpn_offers = (b"h2",)

    def request(self, flow: http.HTTPFlow) -> None:
        if flow.request.path == "/controls/memory":
            flow.response = http.Response.make(200, str(_peak_memory()))
        elif flow.request.path == "/controls/held":
            flow.response = http.Response.make(200, json.dumps(_held()))
        elif flow.request.path.startswith("/controls/commands/"):
            result = ctx.master.commands.execute(flow.request.path.rpartition("/")[2])
            flow.response = http.Response.make(200, json.dumps(result, default=list))
        elif flow.request.path == "/controls/options":
            try:
                ctx.options.update(**json.loads(flow.request.content or b""))
            except exceptions.OptionsError as error:
                flow.response = http.Response.make(400, str(error))
            else:
                flow.response = http.Response.make(200, b"set")


def _set_constant(name: str, value: str) -> None:
    module, _, constant = name.rpartition(".")
    owner = importlib.import_module(f"dragoman.{module}")
    assert hasattr(owner, constant), name
    setattr(owner, constant, float(value))


def _held() -> dict[str, int]:
    gc.collect()
    kinds = Counter(type(held).__name__ for held in gc.get_objects())
    names = ("Stream", "BridgeStream", "RepairStream", "Record", "Reply", "HTTPFlow")
    timers = [task for task in asyncio.all_tasks() if "wakeup" in task.get_name()]
    files = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    return {
        **{name: kinds[name] for name in names},
        "timers": len(timers),
        "files": len(list(files.iterdir())),
    }


def _peak_memory() -> int:
    # Linux: what `resource` tells includes the process that started this one.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


addons = [Controls()]
