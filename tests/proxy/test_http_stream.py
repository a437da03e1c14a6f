"""A reply where no hook of mitmproxy's is called: silence, breaks, ends, and requests that go
twice.  The layer, the addon and both sides of HTTP run here, without sockets, by a clock that
the test sets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from mitmproxy import http

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.proxy.addon import Dragoman
from dragoman.proxy.flows import bridge_reply
from dragoman.proxy.mitm import http_stream
from dragoman.proxy.observe.recorder import KEY
from dragoman.reply.frame_queue import QueuedRepair
from dragoman.wire.reply_bounds import MAX_REPLY
from dragoman.wire.sse import Frame
from tests.proxy.exchange import EVENT_STREAM, Exchange, unchunked
from tests.repair.streams import chunk, read, sse
from tests.repair.turns import REQUEST

LEAK = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|>'
CHAT = {**REQUEST, "stream": True}
RESPONSES = {"model": "kimi-k2.5", "input": "Hi.", "stream": True}
HI, STOP = sse([chunk({"content": "Hi."})], done=False), sse([chunk({}, "stop")], done=False)
DONE = b"data: [DONE]\n\n"
COMMENT = b": waiting for the upstream\n\n"


def bridged(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Exchange:
    return Exchange(monkeypatch, dragoman_bridge="~all", **options)


def events(sent: bytes) -> list[str]:
    lines = sent.split(b"\n")
    return [line.removeprefix(b"event: ").decode() for line in lines if line[:7] == b"event: "]


def test_the_opening_leaves_with_the_headers_and_each_piece_in_the_call_that_brought_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        assert exchange.ask(RESPONSES, "/v1/responses")["messages"][-1]["content"] == "Hi."
        exchange.answer(EVENT_STREAM)
        opening = exchange.to_client()
        assert opening.startswith(b"HTTP/1.1 200 OK\r\n")
        assert events(unchunked(opening)) == ["response.created", "response.in_progress"]
        assert events(exchange.piece(HI))[-1] == "response.output_text.delta"
        assert events(exchange.piece(STOP + DONE))[-1] == "response.completed"
        assert exchange.end() == b"0\r\n\r\n"
        assert not exchange.is_closed(exchange.server), "the next request can use it"


@pytest.mark.parametrize(("interval", "times"), [(5, 4), (10, 2), (0, 0)])
def test_in_a_silence_there_is_a_heartbeat_at_each_interval_and_none_after_the_end(
    monkeypatch: pytest.MonkeyPatch, interval: int, times: int
) -> None:
    with Exchange(monkeypatch, dragoman_heartbeat=str(interval)) as exchange:
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        assert unchunked(exchange.wait(20.5)) == COMMENT * times
        assert exchange.piece(HI) == HI
        assert exchange.wait(4.9) == b"", "measured from the last piece"
        assert unchunked(exchange.wait(15.6)) == COMMENT * times
        exchange.piece(STOP + DONE)
        exchange.end()
        assert exchange.wait(100) == b""


@pytest.mark.parametrize("begun", [False, True])
def test_an_upstream_that_is_silent_for_too_long_is_given_up_with_a_word_to_the_client(
    monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        if begun:
            exchange.answer(EVENT_STREAM)
            exchange.piece(HI)
        exchange.wait(599)
        assert not exchange.is_closed(exchange.server)
        late = exchange.wait(2)
        assert exchange.is_closed(exchange.server)
        assert exchange.flow is not None and exchange.flow.error is not None
        assert "for 600 seconds" in exchange.flow.error.msg
        if not begun:
            assert late.startswith(b"HTTP/1.1 502")
            assert (
                "for 600 seconds" in json.loads(late.partition(b"\r\n\r\n")[2])["error"]["message"]
            )
        assert exchange.hooks[-1] == ("error" if begun else "response")


def test_a_reply_that_is_complete_ends_although_its_upstream_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.piece(HI + STOP)
        assert exchange.wait(bridge_reply.TURN_END - 0.1) == b""
        sent = exchange.wait(0.2)
        assert sent.endswith(b"0\r\n\r\n")
        assert events(unchunked(sent))[-1] == "response.completed"
        assert exchange.is_closed(exchange.server) and not exchange.is_closed(exchange.client)
        assert exchange.hooks[-1] == "response"


def test_after_a_fault_in_a_reply_that_has_changed_both_sides_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Exchange(monkeypatch) as exchange:
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.piece(sse([chunk({"content": LEAK})], done=False))
        monkeypatch.setattr(QueuedRepair, "feed", lambda *_: 1 / 0)
        assert exchange.piece(HI) == b""
        assert exchange.is_closed(exchange.server) and exchange.is_closed(exchange.client)
        assert exchange.hooks[-1] == "error"


@pytest.mark.parametrize(("fails", "ending"), [(False, "ended early"), (True, "connection broken")])
def test_a_reply_that_breaks_off_by_a_fault_at_its_end_is_not_one_that_ended_early(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool, ending: str
) -> None:
    with Exchange(monkeypatch) as exchange:
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.piece(sse([chunk({"content": LEAK})], done=False))
        if fails:
            monkeypatch.setattr(QueuedRepair, "break_off", lambda _: 1 / 0)
        exchange.end()
        assert exchange.flow is not None
        assert exchange.flow.comment.startswith(f"✗ {ending}")


def test_a_reply_that_is_complete_and_killed_before_it_ends_is_not_one_that_ended_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.piece(HI + STOP)
        assert exchange.flow is not None
        exchange.flow.kill()
        exchange.wait(60)
        assert exchange.flow.comment.startswith("✗ connection broken")


def test_where_the_upstream_breaks_what_it_held_leaves_and_the_reply_breaks_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    with Exchange(monkeypatch) as exchange:
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        assert exchange.piece(HI) == HI
        assert exchange.piece(sse([chunk({"content": held})], done=False)) == b""
        rest = exchange.leave(exchange.server)
        assert not rest.endswith(b"0\r\n\r\n"), "a client must not take it for a whole reply"
        assert b'tool_calls":' not in rest
        assert exchange.is_closed(exchange.client)
        assert exchange.hooks[-1] == "error"


def test_a_reply_that_breaks_after_its_opening_has_the_status_that_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses", version="HTTP/1.0")  # which has no broken end
        exchange.answer(EVENT_STREAM)
        assert exchange.to_client().startswith(b"HTTP/1.1 200 ")
        assert events(exchange.leave(exchange.server)) == ["error", "response.failed"]
        assert exchange.flow is not None and exchange.flow.response is not None
        assert exchange.flow.response.status_code == 200
        assert exchange.flow.comment == "✗ server_error · bridge · kimi-k2.5"


def test_compressed_json_in_the_place_of_a_stream_is_repaired_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = {"index": 0, "message": {"content": LEAK}, "finish_reason": "stop"}
    body = gzip.compress(json.dumps({"model": "kimi", "choices": [choice]}).encode())
    with Exchange(monkeypatch) as exchange:
        exchange.ask(CHAT)
        exchange.answer("content-type: application/json", "content-encoding: gzip", body=body)
        sent = json.loads(exchange.to_client().partition(b"\r\n\r\n")[2])
        assert sent["choices"][0]["finish_reason"] == "tool_calls"


def test_a_call_that_its_tool_refuses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    function = {"name": "bash", "arguments": '{"command": 5}'}
    call = {"index": 0, "id": "a", "type": "function", "function": function}
    with Exchange(monkeypatch) as exchange:
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.piece(sse([chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]))
        exchange.end()
        assert exchange.flow is not None
        kept = exchange.flow.metadata[KEY]
        assert (kept["refused"], kept["tools"]) == (1, True)


def test_an_upstream_that_breaks_before_its_headers_is_an_error_of_the_clients_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        head, _, body = exchange.leave(exchange.server).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 502")
        assert json.loads(body)["error"]["type"] == "server_error"


def test_a_host_that_has_no_such_address_is_asked_again_before_the_client_learns_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Exchange(monkeypatch) as exchange:
        assert exchange.ask(RESPONSES, "/v1/responses") == RESPONSES
        exchange.answer("content-type: application/json", status="404 Not Found", body=b"{}")
        assert exchange.to_client() == b""
        head, _, body = exchange.to_server().partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/chat/completions ")
        assert json.loads(body)["messages"] == [{"role": "user", "content": "Hi."}]
        assert exchange.hooks[-1] == "dragoman_refused"
        exchange.answer(EVENT_STREAM)
        exchange.piece(HI + STOP + DONE)
        assert exchange.end() == b"0\r\n\r\n"
        # The next one is known.
        assert "messages" in exchange.ask(RESPONSES, "/v1/responses")


@pytest.mark.parametrize("size", ["1", None])
def test_what_is_converted_as_a_whole_is_read_whole_where_large_bodies_are_streamed(
    monkeypatch: pytest.MonkeyPatch, size: str | None
) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi."}}
    whole = json.dumps({"choices": [choice | {"finish_reason": "stop"}]}).encode()
    with bridged(monkeypatch, stream_large_bodies=size) as exchange:
        assert "messages" in exchange.ask({**RESPONSES, "stream": False}, "/v1/responses")
        exchange.answer("content-type: application/json", body=whole)
        body = json.loads(exchange.to_client().partition(b"\r\n\r\n")[2])
        assert body["output"][0]["content"][0]["text"] == "Hi."
        assert exchange.hooks[-2:] == ["responseheaders", "response"]


def test_a_whole_reply_that_says_it_is_too_large_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask({**RESPONSES, "stream": False}, "/v1/responses")
        length = f"content-length: {MAX_REPLY + 1}"
        exchange.answer("content-type: application/json", length, body=b"{")
        assert exchange.to_client().startswith(b"HTTP/1.1 502")
        assert exchange.is_closed(exchange.server)


def test_the_end_of_a_reply_waits_until_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with bridged(monkeypatch, dragoman_store="memory") as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.piece(HI)
        assert events(exchange.piece(STOP + DONE))[-1] == "response.completed"
        exchange.end()
        assert exchange.hooks[-2:] == ["dragoman_keep", "response"]


@pytest.mark.parametrize("long", [-1.0, 1.0])
def test_pieces_that_come_while_a_hook_is_waited_for_leave_in_their_order(
    monkeypatch: pytest.MonkeyPatch, long: float
) -> None:
    said = ["a ", "b ", LEAK, "c ", "d "]
    pieces = [sse([chunk({"content": text})], done=False) for text in said]
    with Exchange(monkeypatch) as exchange:
        monkeypatch.setattr(http_stream, "LONG", long)
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        sent = exchange.pieces(*pieces, STOP + DONE)
        assert exchange.hooks.count("dragoman_pause") == (len(pieces) + 1 if long < 0 else 0)
        assert read(sent).content.split() == ["a", "b", "c", "d"]
        assert len(read(sent).calls) == 1


def test_a_reply_whose_stream_another_addon_calls_is_whole_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bytes_of(stream: Callable[[bytes], Iterable[bytes]], data: bytes) -> bytes:
        return b"".join(stream(data))

    original = Dragoman.responseheaders

    async def responseheaders(self: Dragoman, flow: http.HTTPFlow) -> None:
        await original(self, flow)
        if flow.response is not None and callable(flow.response.stream):
            flow.response.stream = partial(bytes_of, flow.response.stream)

    monkeypatch.setattr(Dragoman, "responseheaders", responseheaders)
    with bridged(monkeypatch, dragoman_store="memory") as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        sent = exchange.piece(HI) + exchange.piece(STOP + DONE)
        assert exchange.end() == b"0\r\n\r\n"
        assert events(sent)[-1] == "response.completed"
        response = json.loads(sent.rpartition(b"data: ")[2])["response"]
        asked = exchange.ask({**RESPONSES, "previous_response_id": response["id"]}, "/v1/responses")
        assert [each["role"] for each in asked["messages"]] == ["user", "assistant", "user"]


def test_what_comes_while_a_reply_is_kept_comes_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with bridged(monkeypatch, dragoman_store="memory") as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        sent = exchange.pieces(HI, STOP + DONE, HI, HI)
        assert events(sent)[-1] == "response.completed"
        assert events(sent).count("response.output_text.delta") == 1
        assert exchange.hooks[-1] == "dragoman_keep"
        assert exchange.wait(1) == b"0\r\n\r\n", "its upstream's end was not waited for"
        assert exchange.is_closed(exchange.server)


@pytest.mark.parametrize("piece", [HI, STOP + DONE])
def test_work_is_long_from_where_it_began(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    with bridged(monkeypatch) as exchange:
        exchange.ask(RESPONSES, "/v1/responses")
        exchange.answer(EVENT_STREAM)
        exchange.piece(HI)
        feed = BridgePipeline.feed

        def slowly(pipeline: BridgePipeline, data: bytes) -> list[Frame]:
            exchange.clock.now += 2 * http_stream.LONG
            return feed(pipeline, data)

        monkeypatch.setattr(BridgePipeline, "feed", slowly)
        exchange.piece(piece)
        assert exchange.hooks.count("dragoman_pause") == 1


def test_after_long_work_on_a_piece_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [sse([chunk({"content": text})], done=False) for text in ("Now. ", LEAK)]
    with Exchange(monkeypatch) as exchange:
        monkeypatch.setattr(http_stream, "LONG", -1.0)  # everything takes longer
        exchange.ask(CHAT)
        exchange.answer(EVENT_STREAM)
        exchange.to_client()
        sent = b"".join([*map(exchange.piece, pieces), exchange.piece(STOP + DONE)])
        assert exchange.hooks.count("dragoman_pause") == 3
        (call,) = read(sent).calls
        assert (call["name"], call["arguments"]) == ("bash", '{"command":"ls"}')


@pytest.mark.parametrize(
    ("asked", "path"), [(CHAT, "/v1/chat/completions"), (RESPONSES, "/v1/responses")]
)
def test_other_flows_run_while_a_document_in_place_of_a_stream_is_read(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], path: str
) -> None:
    monkeypatch.setattr(http_stream, "LONG", -1.0)
    message = {"role": "assistant", "content": "Some text. " * 20_000}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    document = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
    with Exchange(monkeypatch, dragoman_bridge="~u /responses") as exchange:
        exchange.ask(asked, path)
        exchange.answer("content-type: application/json")
        exchange.to_client()
        exchange.piece(document)
        pauses = exchange.hooks.count("dragoman_pause")
        body = exchange.end()
        assert body.endswith(b"0\r\n\r\n")
        assert message["content"].encode() in body
        assert exchange.hooks.count("dragoman_pause") > pauses + 5
