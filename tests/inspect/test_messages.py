"""What is told of Messages: facts, pages, and a replay from a file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.bridge.reader_writer_pairs import api_of, read_reply, stage_for, tools_of, turn_reader
from dragoman.inspect.exchange import Exchange
from dragoman.inspect.outcome import outcome_of
from dragoman.inspect.pages.diff import diff_page
from dragoman.inspect.pages.page import Page
from dragoman.inspect.pages.request import request_page
from dragoman.inspect.pages.turn import turn_page
from dragoman.inspect.pages.upstream import upstream_page
from dragoman.inspect.parse.reply import parse_reply
from dragoman.inspect.parse.values import ParsedCall
from dragoman.notes import Evidence, ReplyFacts, TurnFacts
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from tests.bridge.messages_streams import K2, REQUEST, document, event, pieces, repaired, stream
from tests.live.mitmdump import ROOT
from tests.messages.test_repair import ERROR, NATIVE, OTHER, PLACES, SHAPES, leaked

LEAK = stream([("thinking", ["Hm."]), ("text", pieces(f"So. {K2}", 12))])


def shown(page: Page) -> str:
    return "\n".join(line.text for line in page)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [7, 1 << 20])
def test_what_passed_has_the_facts_of_its_bytes(place: str, size: int) -> None:
    body, evidence = stream(leaked(place, K2, 9)), Evidence()
    stage = stage_for(tools_of(REQUEST, "messages"), RepairOptions(), evidence, 7)
    pipeline = RepairPipeline(stage, evidence, read=turn_reader(keeps=True))
    sent = b"".join(pipeline.feed(body[at : at + size]) for at in range(0, len(body), size))
    sent += pipeline.close()
    assert pipeline.read.upstream.facts == read_reply(body).facts
    of_client = replace(read_reply(sent).facts, first_token=None)
    assert pipeline.read.client.facts == replace(of_client, finishes=("tool_calls",))
    assert of_client.finishes == ("tool_use",)
    assert pipeline.read.client.calls == read_reply(sent).calls
    facts = pipeline.read.client.facts
    assert facts.calls.count("bash") == len(facts.calls) >= 1
    (turn,) = pipeline.read.client.turns() or [None]
    assert (turn is not None) == ("thoughts" in place or place == "in both")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_message_has_the_same_facts_whole_and_streamed(shape: str) -> None:
    blocks = SHAPES[shape]
    whole = read_reply(json.dumps(document(blocks) | {"usage": {"output_tokens": 20}}).encode())
    streamed = read_reply(stream(blocks))
    assert whole.calls == [
        (name, json.dumps(json.loads(more), separators=(",", ":"))) for name, more in streamed.calls
    ]
    for name in ("model", "calls", "output_tokens", "finishes", "answered", "parsed"):
        assert getattr(whole.facts, name) == getattr(streamed.facts, name)


def facts_of(body: bytes) -> ReplyFacts:
    return read_reply(body).facts


def test_how_a_turn_ended() -> None:
    for body, outcome in (
        (repaired(LEAK), "✓ 1 call bash"),
        (stream([NATIVE, OTHER], "tool_use"), "✓ 2 calls bash"),
        (stream([("text", ["Hi."])]), "✓ text"),
        (stream([("text", ["Hi."])], "max_tokens"), "✂"),
        (stream([("text", ["Hi."])], "model_context_window_exceeded"), "✂"),
        (stream([]), "∅"),
        (event(ERROR), "✗ overloaded_error"),
        (json.dumps(ERROR).encode(), "✗ overloaded_error"),
    ):
        facts = TurnFacts(facts_of(body), facts_of(body))
        assert str(outcome_of(facts, Evidence(), status=200, broken="")).startswith(outcome)


def test_tokens_are_counted_with_those_of_the_cache() -> None:
    body = stream([("text", ["Hi."])])
    begin = {"input_tokens": 5, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7}
    body = body.replace(b'{"input_tokens": 10, "output_tokens": 1}', json.dumps(begin).encode())
    facts = facts_of(body)
    assert (facts.input_tokens, facts.output_tokens) == (42, 20)
    usage = parse_reply(body).usage
    assert usage is not None and (usage.input, usage.output, usage.cached) == (42, 20, 30)


def test_the_pages_show_the_blocks_before_and_after() -> None:
    request = json.dumps(REQUEST | {"system": [{"type": "text", "text": "Be brief."}]}).encode()
    for body in (
        LEAK,
        json.dumps(document([("thinking", ["Hm."]), ("text", [f"So. {K2}"])])).encode(),
    ):
        exchange = Exchange("repair", request, request, body, repaired(body))
        turn = shown(turn_page(exchange))
        assert turn.index("Hm.") < turn.index("So.") < turn.index("Call 1: bash")
        assert "Messages stream" in turn or "Messages reply" in turn
        assert "So. <|tool_c" in shown(upstream_page(exchange))
        assert '"tool_use"' in shown(diff_page(exchange))
    assert "call bash" in shown(diff_page(Exchange("repair", b"", b"", LEAK, repaired(LEAK))))
    asked = shown(request_page(exchange))
    assert "2 messages" in asked and "Messages request" in asked and "Be brief." in asked


def test_a_conversation_is_shown_with_its_calls_and_their_outputs() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "a.txt"}],
    }
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = json.dumps(REQUEST | {"messages": messages}).encode()
    asked = shown(request_page(Exchange("watch", body, body)))
    assert "→ bash" in asked and '{"command":"ls"}' in asked and "a.txt" in asked


def test_a_search_of_the_hosts_is_no_call_of_the_clients() -> None:
    reply = parse_reply(stream(SHAPES["blocks of the host's"]))
    kinds = [part.kind for part in reply.choices[0].parts if isinstance(part, ParsedCall)]
    assert "server_tool_use" in kinds and "function" not in kinds
    assert facts_of(stream(SHAPES["blocks of the host's"])).calls == ()


@pytest.mark.slow
def test_a_recorded_reply_shows_its_api(tmp_path: Path) -> None:
    assert api_of({"input": "x"}, b"") == "responses"
    assert api_of(REQUEST, b"data: {}") == "chat"
    request, reply = tmp_path / "request.json", tmp_path / "turn.log"
    request.write_text(json.dumps(REQUEST))
    for body in (LEAK, json.dumps(document([("text", [K2])])).encode()):
        assert api_of(REQUEST, body) == "messages"
        reply.write_bytes(body)
        command = [sys.executable, "-m", "dragoman", str(reply), "--request", str(request)]
        done = subprocess.run(command, cwd=ROOT / "addon", capture_output=True, check=True)
        assert b'"tool_use"' in done.stdout and b"repaired bash (kimi_k2" in done.stderr
