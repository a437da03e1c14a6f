"""What mitmproxy has of a watched flow when it has ended: both sides, timing, a comment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.flow import Flow
from mitmproxy.io import FlowReader, FlowWriter

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.parse.frames import gap
from dragoman.proxy.observe.recorder import exchange_of
from fixtures.server import FOLDER, Reply, Upstream
from tests.live import raw
from tests.live.chat import REQUEST, Chat, fixture_bytes
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.repair.streams import chunk, sse

LEAKING = "kimi_specification"
RESPONSES = {"model": "kimi-k2.5", "stream": True, "input": "List the headers."}


class Saved:
    """Flows that a mitmdump wrote to a file, as another mitmproxy would load them."""

    def __init__(self, upstream: Upstream, folder: Path, *options: str) -> None:
        self._file = folder / "flows"
        make_confdir(folder / "conf")
        arguments = "--mode", f"reverse:{upstream.url}", "-w", str(self._file)
        self.proxy = Mitmdump(folder / "conf", *arguments, *options)
        self.chat = Chat(upstream, self.proxy)

    def flows(self) -> list[http.HTTPFlow]:
        """All flows, in their order; mitmdump has stopped."""
        self.proxy.stop()
        self.proxy.check_log()
        with self._file.open("rb") as file:
            flows = list(FlowReader(file).stream())
        assert all(isinstance(flow, http.HTTPFlow) for flow in flows)
        return flows  # type: ignore[return-value]


@pytest.fixture
def saved(plain_upstream: Upstream, tmp_path: Path) -> Saved:
    return Saved(plain_upstream, tmp_path)


def exchanged(flow: Flow) -> Exchange:
    exchange = exchange_of(flow)
    assert exchange is not None
    return exchange


def table(log: str) -> list[str]:
    """The rows of the statistics in a log, without times."""
    rows = log.rpartition("] flows ")[2].splitlines()[1:]
    counted = [re.sub(r"first token p50 [\d.]+ s · ", "", " ".join(row.split())) for row in rows]
    return [row for row in counted if "p50" not in row]


def test_how_often_a_host_leaks_is_told_at_the_end_and_the_same_of_saved_flows(
    saved: Saved, tmp_path: Path
) -> None:
    for body in (LEAKING, "clean_text", LEAKING):
        saved.chat.ask(body)
    saved.chat.ask(LEAKING, path="/v1/responses", request=RESPONSES)
    saved.chat.upstream.replies["dragoman-selftest"] = Reply(fixture_bytes(LEAKING))
    saved.chat.ask("dragoman-selftest")
    flows = saved.flows()
    assert len(flows) == 5, "with a self-test: not counted"
    flows[0].metadata["dragoman"] = {
        "version": 1,
        "job": "repair",
    }  # as if it had been saved while it ran
    with (tmp_path / "flows").open("ab") as file:
        FlowWriter(file).add(flows[0])
    told = table(saved.proxy.log)
    assert re.search(r"calls repaired 4 .* leaked \(4 kimi_k2\)", "\n".join(told))
    mitmdump = Path(sys.executable).with_name("mitmdump")
    command = [mitmdump, "-s", ADDON, "-nr", tmp_path / "flows", "--set", f"confdir={tmp_path}"]
    loaded = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert table(loaded.stdout) == told
    assert re.search(r"\bflows +4\n", loaded.stdout)


def test_a_repaired_stream_is_saved_with_both_its_sides(saved: Saved) -> None:
    received = saved.chat.ask(LEAKING, ";cut=event;pace=0.01").body
    (flow,) = saved.flows()
    assert flow.response is not None
    assert flow.response.content == received
    exchange = exchanged(flow)
    assert exchange.client_reply == received
    assert exchange.upstream_reply == fixture_bytes(LEAKING)
    assert (exchange.job, exchange.status) == ("repair", 200)
    assert exchange.evidence.calls == {"bash": 1, "read": 1}
    assert any(line.startswith("repaired bash") for line in exchange.evidence.reply_lines())
    assert (exchange.upstream_missing, exchange.client_missing) == (0, 0)
    assert flow.marked == ":gear:"


def test_the_time_of_every_event_is_saved(saved: Saved) -> None:
    saved.chat.ask(LEAKING, ";cut=event;pace=0.01")
    timing = exchanged(saved.flows()[0]).timing
    assert timing is not None
    assert [step.at for step in timing.steps] == sorted(step.at for step in timing.steps)
    assert timing.steps[-1].upstream == len(fixture_bytes(LEAKING))
    assert len(timing.steps) > 3
    assert timing.ended >= timing.steps[-1].at >= 0.01 * 20
    assert timing.longest_silence >= 0.01


def test_a_clean_stream_is_saved_once(saved: Saved) -> None:
    saved.chat.ask("clean_text")
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    assert exchange.client_reply == exchange.upstream_reply == fixture_bytes("clean_text")
    assert flow.metadata["dragoman"]["upstream"] is None
    assert flow.marked == ""


def test_the_headers_that_are_saved_are_those_that_were_sent(saved: Saved) -> None:
    sent = saved.chat.ask(LEAKING)
    (flow,) = saved.flows()
    assert flow.response is not None
    names = {name.lower() for name, _ in sent.headers}
    assert {name.lower() for name in flow.response.headers} == names
    assert "content-length" not in names


def test_a_bridged_turn_is_saved_as_the_client_and_as_the_upstream_saw_it(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~all")
    reply = saved.chat.ask(LEAKING, path="/v1/responses", request=RESPONSES)
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    assert json.loads(exchange.client_request) == RESPONSES
    assert "messages" in json.loads(exchange.upstream_request)
    assert exchange.client_reply == reply.body
    assert b"response.completed" in exchange.client_reply
    assert exchange.upstream_reply == fixture_bytes(LEAKING)
    assert re.match(
        r"✓ 2 calls bash, read · bridge · kimi-k2\.5 · 2 repaired from kimi_k2 · \d+ tok · "
        r"first 0\.\d s$",
        flow.comment,
    )
    assert flow.marked == ":hammer_and_pick:"


@pytest.mark.parametrize("name", ["kimi_whole_message", "clean_native_tools"])
def test_a_reply_in_one_piece_is_saved_with_both_its_sides(saved: Saved, name: str) -> None:
    folder = FOLDER / name
    upstream = folder / "upstream.json"
    received = saved.chat.ask(name, request={**REQUEST, "stream": False}).body
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    assert exchange.client_reply == received
    if upstream.exists():
        assert exchange.upstream_reply == upstream.read_bytes() != received
        assert exchange.timing is None


def test_what_came_before_a_break_is_saved(saved: Saved) -> None:
    reply = saved.chat.ask(LEAKING, ";abort=7000;cut=event")
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    assert fixture_bytes(LEAKING).startswith(exchange.upstream_reply)
    assert len(exchange.upstream_reply) > 5000
    assert exchange.client_reply.startswith(reply.body)
    assert flow.comment.startswith("✗ connection broken · ")
    assert flow.marked == ":heavy_multiplication_x:"


def test_a_compressed_stream_is_saved_readable(saved: Saved) -> None:
    body = fixture_bytes(LEAKING)
    packed = Reply(zlib.compress(body), headers=(("content-encoding", "deflate"),))
    assert saved.chat.ask(packed).body == packed.body
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    assert exchange.upstream_reply == exchange.client_reply == body
    assert " · passed unread (deflate) · " in flow.comment


def test_a_compressed_stream_that_passes_is_read_as_what_it_says(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    body = fixture_bytes("native_clean")
    packed = Reply(zlib.compress(body), headers=(("content-encoding", "deflate"),))
    plain_upstream.replies["packed/v1/responses"] = packed
    options = ("dragoman_repair=off", "dragoman_bridge=off")
    saved = Saved(plain_upstream, tmp_path, *(word for each in options for word in ("--set", each)))
    assert saved.chat.ask("packed", path="/v1/responses", request=RESPONSES).body == packed.body
    saved.chat.ask("packed", ";abort=900;cut=bytes:100", path="/v1/responses", request=RESPONSES)
    flow, broken = saved.flows()
    assert flow.comment.startswith("✓ 1 call bash · passed · ")
    assert exchanged(flow).client_reply == exchanged(flow).upstream_reply == body
    assert broken.comment.startswith("✗ connection broken")
    assert body.startswith(exchanged(broken).client_reply) and exchanged(broken).client_reply


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
def test_an_error_of_ours_is_nothing_that_the_upstream_said(
    plain_upstream: Upstream, tmp_path: Path, path: str
) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~all")
    request = {**(RESPONSES if "responses" in path else REQUEST), "stream": False}
    saved.chat.ask(Reply(b"", "application/json"), path=path, request=request)
    assert saved.chat.ask("clean_text", ";abort=0", path=path, request=request).status == 502
    assert [exchanged(flow).upstream_reply for flow in saved.flows()] == [b"", b""]


def test_a_flow_whose_address_is_no_text_can_be_saved(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~all")
    body = json.dumps(RESPONSES).encode()
    head = b"POST /clean_text/v1\xff/responses HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    assert raw.status(raw.send(saved.proxy, head % len(body) + body)) == 200
    (flow,) = saved.flows()
    assert exchanged(flow).client_path == "/clean_text/v1\ufffd/responses"


def test_a_stream_that_is_not_converted_is_saved_too(saved: Saved) -> None:
    body = fixture_bytes("native_clean")
    saved.chat.upstream.replies["native/v1/responses"] = Reply(body)
    saved.chat.ask("native", path="/v1/responses", request=RESPONSES)
    (flow,) = saved.flows()
    assert flow.response is not None
    assert flow.response.content == body
    assert flow.comment.startswith("✓ 1 call bash · repair · ")
    assert " repaired " not in flow.comment
    assert exchanged(flow).job == "repair"


def test_other_event_streams_are_none_of_its_business(saved: Saved) -> None:
    saved.chat.upstream.replies["other/events"] = Reply(b"data: 1\n\n")
    saved.chat.ask("other", path="/events")
    (flow,) = saved.flows()
    assert exchange_of(flow) is None
    assert (flow.comment, flow.marked) == ("", "")


def test_a_request_that_is_refused_is_told(plain_upstream: Upstream, tmp_path: Path) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_bridge=~all")
    request = {**RESPONSES, "background": True}
    assert saved.chat.ask(LEAKING, path="/v1/responses", request=request).status == 400
    (flow,) = saved.flows()
    assert flow.comment.startswith("✗ background: 'background' needs")
    assert any("background" in line for line in exchanged(flow).evidence.request_lines())


def test_a_failure_of_a_repaired_host_leaves_a_line(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    chat = Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))
    for name in ("clean_text", "clean_http_error", "clean_error_frame"):
        chat.ask(name)
    log = chat.proxy.wait_for_log(r"\.1:\d+/clean_error_frame/\S*: ✗ server_error · repair · ")
    assert re.search(
        r"clean_http_error/\S*: ✗ rate_limit_reached_error · repair · \S+ · HTTP 429", log
    )
    assert "clean_text/v1/chat/completions: " not in log


def test_no_more_is_kept_than_the_option_allows(plain_upstream: Upstream, tmp_path: Path) -> None:
    saved = Saved(plain_upstream, tmp_path, "--set", "dragoman_keep=100k")
    text = [chunk({"content": f"{number:05} " * 100}) for number in range(1000)]
    usage: dict[str, Any] = {"choices": [], "usage": {"completion_tokens": 4321}}
    body = sse([*text, chunk({}, "stop"), usage])
    assert saved.chat.ask(body).body == body
    (flow,) = saved.flows()
    exchange = exchanged(flow)
    half, missing = 50 * 1024, len(body) - 100 * 1024
    assert exchange.client_reply == body[:half] + gap(missing) + body[-half:]
    assert exchange.client_missing == missing
    assert "4321 tok" in flow.comment


# A host of which nothing is understood


def test_silent_uselessness_is_not_silent(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    chat = Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))
    other_format = Reply(b'event: ready\ndata: {"kind": "ready"}\n\n')
    for _ in range(19):
        chat.ask(other_format)
    chat.ask("clean_text")
    for _ in range(19):
        chat.ask(other_format)
    assert "held nothing that Dragoman can read" not in chat.proxy.log
    chat.ask(Reply(b"<html>", "text/html"))
    line = chat.proxy.wait_for_log("20 replies in a row held nothing that Dragoman can read")
    assert f"] 127.0.0.1:{plain_upstream.port}: 20 replies" in line
    for _ in range(5):
        chat.ask(other_format)
    assert chat.proxy.log.count("held nothing") == 1


def test_what_is_not_kept_is_not_called_unreadable(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_keep=0")
    chat = Chat(plain_upstream, proxy)
    for _ in range(20):
        chat.ask("clean_text")
    chat.ask(LEAKING)
    proxy.wait_for_log("repair")
    assert "held nothing that Dragoman can read" not in proxy.log
