"""The commands, with mitmproxy's own command manager."""

from __future__ import annotations

import json
from typing import Any

from mitmproxy import http
from mitmproxy.addons import view
from mitmproxy.test import taddons, tflow

from dragoman.inspect.stats import Stats
from dragoman.proxy.observe.commands import Commands
from dragoman.proxy.observe.recorder import FlowRecorder
from fixtures.server import FOLDER
from tests.inspect.test_stats import count

FIXTURE = FOLDER / "kimi_specification"
KEY = "my-own-credential-0001"


def recorded(limit: int = 1 << 20) -> http.HTTPFlow:
    """A repaired flow that has ended, as the hooks leave it."""
    flow = tflow.tflow(resp=True)
    assert flow.response is not None
    request = json.loads((FIXTURE / "request.json").read_bytes())
    request["messages"].append({"role": "user", "content": f"My key is {KEY}."})
    flow.request.content = json.dumps(request).encode()
    flow.request.headers["authorization"] = f"Bearer {KEY}"
    record = FlowRecorder(flow, "repair", keep=limit)
    record.streamed = True
    record.reply.add((FIXTURE / "upstream.sse").read_bytes(), (FIXTURE / "chat.sse").read_bytes())
    record.end(flow)
    return flow


def run(flow: http.HTTPFlow, command: str, *arguments: str, stats: Stats | None = None) -> Any:
    """What a person who types this gets."""
    shown = view.View()
    with taddons.context(shown, Commands(stats or Stats())) as context:
        shown.add([flow])
        return context.master.commands.execute(" ".join([command, *arguments]))


def test_counts_are_a_table_for_the_console_and_json_for_mitmweb() -> None:
    stats = Stats()
    count(stats, first_token=1.0)
    rows = run(recorded(), "dragoman.stats", stats=stats)
    assert {len(row) for row in rows} == {2}
    # The console takes lists and nothing else for a table.
    assert {type(rows), *map(type, rows)} == {list}
    assert json.loads(json.dumps(rows))[0] == ["flows", "1"]
