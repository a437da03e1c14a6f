"""What other addons, users and mitmproxy itself do to a flow: nothing is lost by it."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowReader, FlowWriter

from dragoman.inspect.outcome import RUNNING
from dragoman.proxy.observe.recorder import exchange_of
from fixtures.server import Reply, Upstream
from tests.live import wire
from tests.live.chat import Chat, fixture_bytes
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.normal import normal
from tests.live.test_evidence import LEAKING, RESPONSES, Saved, exchanged
from tests.live.test_repair_options import comments_in
from tests.repair.streams import chunk, read, sse
from tests.waiting import eventually

EDITS = ROOT / "tests" / "live" / "edits.py"
OTHERS = ROOT / "tests" / "live" / "others.py"
REPLAYER = ROOT / "tests" / "live" / "replayer.py"


@pytest.fixture
def confdir(tmp_path: Path) -> Path:
    make_confdir(tmp_path / "conf")
    return tmp_path / "conf"


def bridged(chat: Chat, options: str = "") -> bytes:
    return chat.ask(LEAKING, options, path="/v1/responses", request=RESPONSES).body


@pytest.mark.parametrize("order", ["before", "behind"])
def test_a_stream_that_another_addon_made_reaches_the_client(
    plain_upstream: Upstream, confdir: Path, order: str
) -> None:
    scripts = (OTHERS, ADDON) if order == "before" else (ADDON, OTHERS)
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    with Mitmdump(confdir, *arguments, scripts=scripts) as proxy:
        chat = Chat(plain_upstream, proxy)
        body = chat.ask(LEAKING, path="/made/v1/chat/completions").body
        proxy.check_log()
    assert [call["name"] for call in read(body).calls] == ["bash"]


PATHS = pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def edited(
    upstream: Upstream, tmp_path: Path, scripts: tuple[Path, Path], path: str, *, stream: bool
) -> tuple[bytes, str, str]:
    """What the client receives whose upstream says "Hello.", the log, and the flow's comment."""
    make_confdir(tmp_path / "conf")
    arguments = ["--mode", f"reverse:{upstream.url}", "--set", "dragoman_bridge=~u /v1/responses"]
    flows = tmp_path / "flows"
    with Mitmdump(tmp_path / "conf", *arguments, "-w", str(flows), scripts=scripts) as proxy:
        upstream.replies["edited"] = Reply(sse([chunk({"content": "Hello."}), chunk({}, "stop")]))
        body = {"model": "m", "messages": [], "input": "Hi.", "stream": stream}
        body.pop("input" if "chat" in path else "messages")
        reply = wire.exchange(f"{proxy.url}/edited{path}", json.dumps(body).encode())
        assert (reply.status, reply.complete) == (200, True)
        log = proxy.wait_for_log(r"/v1/chat/completions: (?!two addons)")
        proxy.check_log()
    (comment,) = comments_in(flows)
    return reply.body, log, comment


@PATHS
@STREAMED
def test_an_addon_that_is_loaded_before_loses_its_edit_and_the_log_says_so(
    plain_upstream: Upstream, tmp_path: Path, path: str, stream: bool
) -> None:
    body, log, comment = edited(plain_upstream, tmp_path, (EDITS, ADDON), path, stream=stream)
    assert b"Hello." in body and b"Edited" not in body
    assert (b"chat.completion" in body) == ("chat" in path)
    assert "edits has lost it to Dragoman, loaded later" in log
    assert comment.startswith("✓ text") and "lost its stream: edits (to Dragoman)" in comment


@PATHS
@STREAMED
def test_an_addon_that_is_loaded_after_takes_the_reply_and_the_log_says_so(
    plain_upstream: Upstream, tmp_path: Path, path: str, stream: bool
) -> None:
    body, log, comment = edited(plain_upstream, tmp_path, (ADDON, EDITS), path, stream=stream)
    assert b"Edited." in body and b"chat.completion" in body
    assert "Dragoman has lost it to edits, loaded later" in log
    assert comment.startswith("✗ lost to another addon")
    assert "lost its stream: Dragoman (to edits)" in comment


def test_saved_flows_are_replayed_as_the_client_got_them(
    plain_upstream: Upstream, tmp_path: Path, confdir: Path
) -> None:
    options = "--set", "dragoman_bridge=~u /v1/responses"
    saved = Saved(plain_upstream, tmp_path, *options)
    repaired = saved.chat.ask(LEAKING).body
    first = bridged(saved.chat)
    saved.flows()
    arguments = ["--server-replay", str(tmp_path / "flows"), "--set", "server_replay_reuse=true"]
    arguments += ["--set", "server_replay_kill_extra=true"]
    mode = "--mode", f"reverse:{plain_upstream.url}"
    with Mitmdump(confdir, *mode, *arguments, *options) as proxy:
        chat = Chat(plain_upstream, proxy)
        asked = len(plain_upstream.requests)
        assert chat.ask(LEAKING).body == repaired
        assert bridged(chat) == first
        assert len(plain_upstream.requests) == asked
        proxy.check_log()


def test_a_stream_without_a_body_is_an_http_error(plain_upstream: Upstream, tmp_path: Path) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~all")
    saved.chat.upstream.replies["empty"] = Reply(b"")
    options = ";framing=length"
    reply = saved.chat.ask("empty", options, path="/v1/responses", request=RESPONSES)
    assert reply.status == 502
    saved.flows()


def test_bridged_flows_that_are_replayed_from_a_file_are_bridged_again(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    """Without the store that had a part of their conversation."""
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~u /v1/responses")
    replies = plain_upstream.replies
    # No id of the first turn is one of the second's, which then has others in its replay.
    replies["turn"] = Reply(fixture_bytes("k3_in_content"))
    first = saved.chat.ask("turn", path="/v1/responses", request=RESPONSES).body
    replies["turn"] = Reply(fixture_bytes(LEAKING))
    previous = json.loads(first.rpartition(b"data: ")[2])["response"]["id"]
    request = {**RESPONSES, "previous_response_id": previous}
    headers = (("x-dragoman-dialect", "codex"),)
    codex = saved.chat.ask("turn", path="/v1/responses?a=b", request=request, headers=headers)
    waits = json.loads(codex.body.rpartition(b"data: ")[2])["response"]
    calls = [item["call_id"] for item in waits["output"] if item["type"] == "function_call"]
    outputs = [{"tool_call_id": call_id, "output": "done"} for call_id in calls]
    path, submitted = f"/v1/responses/{waits['id']}/submit_tool_outputs", {"tool_outputs": outputs}
    saved.chat.ask("turn", path=path, request=submitted | {"stream": True}, headers=headers)
    flows = saved.flows()[-2:]
    assert "continued with 4 items from the store" in exchanged(flows[0]).evidence.request_lines()
    with (tmp_path / "two").open("wb") as file:
        for flow in flows:
            FlowWriter(file).add(flow)
    again = tmp_path / "again"
    make_confdir(tmp_path / "conf2")
    arguments = "--client-replay", str(tmp_path / "two"), "-w", str(again)
    with Mitmdump(tmp_path / "conf2", *arguments, "--set", "dragoman_store=off") as proxy:
        proxy.wait_for_log("(?s)(; bridged: it was when it ran first.*){2}")
        proxy.check_log()
    with again.open("rb") as file:
        replayed = [exchanged(flow) for flow in FlowReader(file).stream()]
    for now, before in zip(replayed, map(exchanged, flows), strict=True):
        assert now.job == "bridge"
        assert now.client_path == before.client_path
        assert now.client_request == before.client_request
        assert now.upstream_request == before.upstream_request
        assert b"response.required_action" in now.client_reply
        assert str(now.outcome) == "✓ 2 calls bash, read"
    assert normal(replayed[0].client_reply) == normal(codex.body)


def test_a_person_replays_edits_and_reverts_a_bridged_flow(
    plain_upstream: Upstream, confdir: Path
) -> None:
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    with Mitmdump(confdir, *arguments, scripts=(ADDON, REPLAYER)) as proxy:
        first = bridged(Chat(plain_upstream, proxy))

        def ask(path: str, body: bytes = b"") -> Any:
            return json.loads(wire.exchange(f"{proxy.url}{path}", body).body)

        def sent() -> list[Any]:
            return [json.loads(r.body) for r in plain_upstream.requests[asked:]]

        asked = len(plain_upstream.requests)
        original = ask("/replay")
        eventually(lambda: "✓" in ask("/replayer")["comment"])
        assert sent() == [json.loads(original["sent"])]
        replayed = ask("/replayer")
        assert normal(replayed["received"].encode()) == normal(first)
        assert replayed["path"].endswith("/chat/completions")
        edited = json.loads(original["sent"]) | {"temperature": 0.5}
        for body in (json.dumps(edited).encode(), b""):  # once more without another edit
            ask("/replay", body)
            eventually(lambda: "✓" in ask("/replayer")["comment"])
            assert sent()[-1] == edited
            assert normal(ask("/replayer")["received"].encode()) == normal(first)
        reverted = ask("/revert")
        assert reverted["sent"] == original["sent"]
        assert reverted["received"].encode() == first
        ask("/replay")
        eventually(lambda: "✓" in ask("/replayer")["comment"])
        assert sent()[-1] == sent()[0]
        proxy.check_log()


def test_a_flow_that_the_user_kills_is_told(plain_upstream: Upstream, confdir: Path) -> None:
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    with Mitmdump(confdir, *arguments, scripts=(ADDON, OTHERS)) as proxy:
        chat = Chat(plain_upstream, proxy)
        chat.ask(LEAKING, ";cut=event;pace=0.05", path="/killed/v1/chat/completions")
        proxy.wait_for_log(r"killed\S*: ✗ connection broken · repair")
        proxy.check_log()


def test_a_script_that_is_loaded_anew_finds_what_runs(
    plain_upstream: Upstream, tmp_path: Path, confdir: Path
) -> None:
    script = tmp_path / "addon" / "main.py"
    shutil.copytree(ADDON.parent, script.parent, ignore=shutil.ignore_patterns("__pycache__"))
    flows = tmp_path / "flows"
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "-w", str(flows)]
    arguments += ["--set", "dragoman_bridge=~u /v1/responses"]
    with Mitmdump(confdir, *arguments, scripts=(script,)) as proxy:
        chat = Chat(plain_upstream, proxy)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(bridged, chat, ";cut=event;hold=9;key=anew")
            eventually(lambda: plain_upstream.requests_of(LEAKING, "anew"))
            proxy.wait_for_log("Streaming response")
            script.touch()
            proxy.wait_for_log("(?s)Loading script.*Loading script")
            plain_upstream.release(LEAKING)
            assert b"event: response.completed" in running.result()
        proxy.wait_for_log("bridge · ")
        proxy.check_log()
    with flows.open("rb") as file:
        (flow,) = FlowReader(file).stream()
    exchange = exchange_of(flow)
    assert exchange is not None
    assert exchange.outcome is not RUNNING
    assert exchange.upstream_reply == fixture_bytes(LEAKING)
