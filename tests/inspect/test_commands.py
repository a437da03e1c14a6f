"""The commands, with mitmproxy's own command manager."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mitmproxy import exceptions, http
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


def test_a_flow_without_a_record_is_refused_in_words() -> None:
    with pytest.raises(exceptions.CommandError, match="does not watch"):
        run(tflow.tflow(resp=True), "dragoman.chain", "@focus")


def test_the_flows_of_a_conversation_are_shown_alone() -> None:
    flows = [recorded() for _ in range(4)]
    request = json.loads(flows[0].request.content or b"")
    answer = {"role": "assistant", "content": "Yes."}
    for flow, more in zip(
        flows, ([], [answer], [answer], [answer | {"content": "No."}]), strict=True
    ):
        messages = [*request["messages"], *more]
        flow.request.content = json.dumps(request | {"messages": messages}).encode()
    flows[2].request.host = "elsewhere"
    shown = view.View()

    with taddons.context(shown, Commands(Stats())) as context:
        shown.add(flows)
        told = context.master.commands.execute(f"dragoman.chain @{flows[1].id}")[0]
        assert told.startswith("2 flows: ~meta chain_")
        assert list(shown) == flows[:2]
        context.master.commands.execute("dragoman.chain @focus")
        assert list(shown) == [flows[0], flows[1], flows[3]]


def test_counts_are_a_table_for_the_console_and_json_for_mitmweb() -> None:
    stats = Stats()
    count(stats, first_token=1.0)
    rows = run(recorded(), "dragoman.stats", stats=stats)
    assert {len(row) for row in rows} == {2}
    # The console takes lists and nothing else for a table.
    assert {type(rows), *map(type, rows)} == {list}
    assert json.loads(json.dumps(rows))[0] == ["flows", "1"]
