"""The commands, with mitmproxy's own command manager."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import exceptions, http
from mitmproxy.addons import view
from mitmproxy.test import taddons, tflow

from dragoman.inspect.stats import Stats
from dragoman.notes import Evidence
from dragoman.proxy.observe import commands
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
    record = FlowRecorder(flow, "repair", evidence=Evidence(), keep=limit)
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


def test_a_flow_is_exported_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "turn"
    told = run(recorded(), "dragoman.export", "@focus", str(folder))
    assert str(folder) in told[0]
    assert {path.name for path in folder.iterdir()} == {"request.json", "upstream.sse", "chat.sse"}
    assert (folder / "chat.sse").read_bytes() == (FIXTURE / "chat.sse").read_bytes()
    assert KEY not in (folder / "request.json").read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_an_export_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    for path in (tmp_path, tmp_path / "mine", tmp_path / "mine" / "below"):
        with pytest.raises(exceptions.CommandError):
            run(recorded(), "dragoman.export", "@focus", str(path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("command", ["dragoman.export", "dragoman.replay"])
def test_what_cannot_be_is_refused_in_words(command: str, tmp_path: Path) -> None:
    path = [str(tmp_path / "x")] if command.endswith("export") else []
    with pytest.raises(exceptions.CommandError, match="does not watch"):
        run(tflow.tflow(resp=True), command, "@focus", *path)
    with pytest.raises(exceptions.CommandError, match="not kept whole"):
        run(recorded(limit=100), command, "@focus", *path)
    assert not (tmp_path / "x").exists()


def test_a_flow_is_replayed() -> None:
    (line,) = run(recorded(), "dragoman.replay", "@focus")
    assert line.startswith("reply: unchanged")


@pytest.mark.parametrize("at_once", [commands.AT_ONCE, 0])
def test_the_flows_of_a_conversation_are_shown_alone(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(commands, "AT_ONCE", at_once)
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

    async def chain(of: str) -> str:
        before = list(shown)
        line = context.master.commands.execute(f"dragoman.chain {of}")[0]
        while not at_once and list(shown) == before:
            await asyncio.sleep(0)
        return str(line)

    with taddons.context(shown, Commands(Stats())) as context:
        shown.add(flows)
        told = asyncio.run(chain(f"@{flows[1].id}"))
        assert told.startswith("2 flows: ~meta chain_" if at_once else "These are many")
        assert list(shown) == flows[:2]
        asyncio.run(chain("@focus"))
        assert list(shown) == [flows[0], flows[1], flows[3]]


def test_counts_are_a_table_for_the_console_and_json_for_mitmweb() -> None:
    stats = Stats()
    count(stats, first_token=1.0)
    rows = run(recorded(), "dragoman.stats", stats=stats)
    assert {len(row) for row in rows} == {2}
    # The console takes lists and nothing else for a table.
    assert {type(rows), *map(type, rows)} == {list}
    assert json.loads(json.dumps(rows))[0] == ["flows", "1"]
