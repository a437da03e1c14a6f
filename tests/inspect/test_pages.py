"""What a person is shown of real turns."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.host_requirements import family_of
from dragoman.inspect.exchange import Exchange, Step, Timing
from dragoman.inspect.outcome import RUNNING
from dragoman.inspect.pages.diff import MAX_COMPARED, diff_page, full_diff_page
from dragoman.inspect.pages.page import stats_page
from dragoman.inspect.pages.request import request_page
from dragoman.inspect.pages.turn import turn_page
from dragoman.inspect.pages.upstream import SUMMARY, upstream_page
from dragoman.inspect.parse.frames import gap
from dragoman.responses.dialects import CODEX
from fixtures.server import FOLDER
from tests.bridge.replying import chunk, sse
from tests.bridge.replying import text as says
from tests.inspect.exchanges import bridged, cured, noted, of_fixture, same, text, whole


def in_order(page: str, *phrases: str) -> None:
    """The phrases follow one another in the page."""
    at = 0
    for phrase in phrases:
        at = page.find(phrase, at)
        assert at >= 0, f"{phrase!r} is not there, or not in its place, in:\n{page}"


def test_a_repaired_turn_at_a_look() -> None:
    exchange = of_fixture("kimi_specification")
    page = turn_page(exchange)
    in_order(
        text(page),
        "✓ 2 calls bash, read · moonshotai/Kimi-K2.5-TEE\ntool_calls",
        "repaired",
        "── Repaired ",
        "• 2 calls made of leaked text: bash, read",
        "── Reasoning ",
        "  │ I need to look at the headers first.",
        "── Call 1: bash · ",
        '    "command": "ls -la /usr/include | grep asm"',
        "── Call 2: read · ",
        "── Usage and timing ",
        "43,206 in · 133 out · ",
        "first byte 0.50 s · first token 1.00 s\n",
        "             longest silence 0.50 s · total 20.50 s",
    )
    assert max(len(line.text) for line in page[1:]) <= 64
    assert page[0].style == "highlight"


def test_a_bridged_turn_at_a_look() -> None:
    page = turn_page(bridged(CODEX))
    assert max(len(line.text) for line in page) <= 64
    in_order(
        text(page),
        "✓ 1 call apply_patch · some-org/chat-model\nincomplete, waits for its calls",
        "bridged",
        "── Converted ",
        "1 call made of leaked text: apply_patch",
        "── Request converted ",
        "dropped tool web_search",
        "── Call 1: apply_patch (custom) · ",
        "  *** Begin Patch\n  *** Add File: hello.txt\n",
        "── Response ",
        "id         resp_1",
        "Responses stream",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "clean"),
        ({"job": "watch"}, "passed"),
        ({"job": "bridge"}, "bridged"),
        ({"evidence": cured("x")}, "cured"),
        ({"evidence": noted("not cured: it is too large")}, "clean"),
        ({"evidence": noted("dropped x", reply=True)}, "repair"),
        ({"outcome": RUNNING}, "repair"),
    ],
)
def test_a_turn_without_a_leak_says_what_the_headline_of_its_flow_says(
    change: dict[str, Any], said: str
) -> None:
    page = turn_page(replace(of_fixture("clean_text"), **change))
    headline = " · ".join(line.text for line in page if line.style == "highlight")
    assert said in headline.split(" · ")


def test_arguments_of_several_lines_are_shown_as_lines() -> None:
    arguments = json.dumps({"path": "a.py", "content": "one\ntwo\n"})
    element = {"index": 0, "id": "c", "function": {"name": "write", "arguments": arguments}}
    page = text(turn_page(same(sse([chunk({"tool_calls": [element]})]))))
    assert '  "path": "a.py"\n  "content": |\n    one\n    two\n' in page


def test_a_stream_that_still_runs_is_shown_as_far_as_it_has_come() -> None:
    exchange = of_fixture("kimi_specification")
    cut = exchange.client_reply.index(b"grep asm")
    running = replace(exchange, client_reply=exchange.client_reply[:cut], outcome=RUNNING)
    page = text(turn_page(running))
    in_order(page, "… running · ", "── Call 1: bash", "1 frame that cannot be read")


def test_choices_are_shown_apart() -> None:
    page = text(turn_page(of_fixture("kimi_two_choices")))
    in_order(page, "2 choices", "── Choice 0 · ", "── Choice 1 · ")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"error":{"message":"Slow down.","code":"rate_limit"}}', "── Error: rate_limit "),
        (b"<html>Bad gateway</html>", "  <html>Bad gateway</html>"),
        (b"", "Nothing of the reply is here"),
    ],
)
def test_an_error_is_shown_whatever_its_shape(body: bytes, shown: str) -> None:
    request = b'{"model": "kimi-k2.5", "messages": []}'
    page = turn_page(same(body, status=429, request=request))
    in_order(text(page), "kimi-k2.5 · HTTP 429", shown)
    assert page[0].style == "error"


def test_an_error_stands_before_what_was_done() -> None:
    exchange = same(b'{"error": {"message": "Slow down."}}', status=429)
    page = turn_page(replace(exchange, evidence=noted("dropped a thing")))
    in_order(text(page), "── Error: HTTP 429", "• dropped a thing")


def test_a_long_text_is_cut_with_a_count() -> None:
    element = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}
    page = turn_page(same(sse([says("x" * 100_000), chunk({"tool_calls": [element]})])))
    in_order(text(page), "── Call 1: bash", "── Text ", "… 34,464 characters are left out here …")
    assert max(len(line.text) for line in page) <= 60


def test_upstream_frames_are_numbered_timed_and_unchanged() -> None:
    exchange = of_fixture("kimi_specification")
    page = text(upstream_page(exchange))
    frames = exchange.upstream_reply.decode().split("\n\n")[:-1]
    for number, frame in enumerate(frames, 1):
        line = rf"^{number:>6}{number * 0.5:>8.3f} s  .{{{SUMMARY}}}  {re.escape(frame)}$"
        assert re.search(line, page, re.MULTILINE)
    assert ' "I need"  ' in page


def test_every_line_of_an_upstream_frame_is_shown() -> None:
    page = text(upstream_page(same(b": hi\nevent: a\ndata: 1\ndata: 2\n\ndata: 3")))
    assert [line.strip() for line in page.split("\n")[2:]] == [
        *("1".ljust(49) + ": hi", "event: a", "data: 1", "data: 2"),
        "2".ljust(49) + "data: 3",
    ]


def test_an_untouched_reply_has_no_difference() -> None:
    page = diff_page(of_fixture("clean_text"))
    assert [line.text for line in page] == ["Both sides are the same: 1,213 bytes, untouched."]


def test_every_frame_that_differs_is_shown_once_and_no_other() -> None:
    exchange = of_fixture("kimi_specification")
    lines = [line.text for line in diff_page(exchange)]
    upstream = exchange.upstream_reply.split(b"\n\n")[:-1]
    client = exchange.client_reply.split(b"\n\n")[:-1]
    removed = [int(line[1:7]) for line in lines[2:] if line[0] == "-"]
    added = [int(line[1:7]) for line in lines[2:] if line[0] == "+"]
    assert removed == [n for n, raw in enumerate(upstream, 1) if raw not in client]
    assert added == [n for n, raw in enumerate(client, 1) if raw not in upstream]
    assert "  … 5 identical frames …" in lines


def test_frames_that_carry_the_same_text_stand_side_by_side() -> None:
    lines = [line.text for line in full_diff_page(bridged())[2:]]
    assert lines[0][7:17] == "   0.500 s"
    says_ = [line[19 : 19 + SUMMARY].strip() for line in lines]
    at = says_.index('"A new file. "')
    assert says_[at : at + 6] == [
        '"A new file. "',
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        '"A new file. "',
    ]
    at = says_.index('"dd File: he"')
    assert says_[at + 6] == '"dd File: he"'
    assert says_[-1] == "completed"
    short = text(diff_page(bridged()))
    assert '  "A new file. "' not in short
    assert "  … 1 reworded frame …" in short


def of_texts(texts: list[str], more: str = "") -> bytes:
    """A stream in which each of them is a delta."""
    deltas = ({"choices": [{"delta": {"content": text}}]} for text in texts)
    return "".join(f"data: {json.dumps(delta)}{more}\n\n" for delta in deltas).encode()


sequences = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20)


@given(sequences, sequences, st.sampled_from(["", " "]))
def test_all_frames_are_shown_once_and_in_order(
    left: list[str], right: list[str], more: str
) -> None:
    exchange = replace(same(of_texts(left)), client_reply=of_texts(right, more))
    lines = [line.text for line in diff_page(exchange)[2:]]
    identical = sum(int(line.split()[1]) for line in lines if "identical" in line)
    for sign, texts in (("-", left), ("+", right)):
        shown = [(int(line[1:7]), line[20:21]) for line in lines if line.startswith(sign)]
        expected = list(enumerate(texts, 1))
        assert shown == [numbered for numbered in expected if numbered in shown]
        assert left == right or len(shown) + identical == len(texts)


def test_what_is_too_much_to_be_compared_is_said() -> None:
    texts = [f"{n} " for n in range(3_000)]
    exchange = replace(same(of_texts(texts)), client_reply=of_texts([*texts[:500], *"ab" * 1_500]))
    lines = [line.text for line in diff_page(exchange)]
    assert "  … 500 identical frames …" in lines
    assert sum(line.startswith("- ") for line in lines[2:]) == MAX_COMPARED
    assert f"… {2_500 - MAX_COMPARED:,} further frames of the upstream are not compared …" in lines


def test_a_difference_at_the_end_of_all_that_is_kept_by_default_is_shown() -> None:
    """Events as short as hosts send them: those of the Messages API."""
    delta = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}'
    event = f"event: content_block_delta\ndata: {delta}\n\n".encode()
    body = event * (8_000_000 // len(event))
    exchange = replace(same(body + b"data: 1\n\n"), client_reply=body + b"data: 2\n\n")
    in_order(text(diff_page(exchange)), "identical frames", "data: 1", "data: 2")


@pytest.mark.parametrize("more", ["", "+"], ids=["a stream", "a text"])
def test_a_difference_far_behind_in_a_long_text_is_shown(more: str) -> None:
    upstream, client = (of_texts(["x" * 5_000 + end]) for end in ("here", "there"))
    exchange = replace(same(more.encode() + upstream), client_reply=more.encode() + client)
    page = text(diff_page(exchange))
    in_order(page, "\n- ", "…xxx", 'here"', "\n+ ", "…xxx", 'there"')


def test_a_whole_reply_is_compared_line_by_line() -> None:
    folder = FOLDER / "kimi_whole_message"
    request, answer = (folder / "request.json").read_bytes(), (folder / "upstream.json")
    repaired = (folder / "chat.json").read_bytes()
    exchange = Exchange("repair", request, request, answer.read_bytes(), repaired)
    lines = [line.text for line in diff_page(exchange)]
    assert any(line.startswith("- ") and "<|tool_calls_section_begin|>" in line for line in lines)
    assert any(line.startswith("+ ") and '"tool_calls"' in line for line in lines)


def test_a_whole_bridged_reply_is_read_and_compared() -> None:
    request = (FOLDER / "bridge_sdk_plain" / "request.json").read_bytes()
    message = {"role": "assistant", "content": "Hello."}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    exchange = whole(request, json.dumps(answer).encode())
    in_order(text(turn_page(exchange)), "completed", "── Text ", "  Hello.")
    assert "+ " in text(diff_page(exchange))


def test_a_bridged_request_says_what_was_asked_and_what_became_of_it() -> None:
    in_order(
        text(request_page(replace(bridged(), client_path="/v1/responses?a=b"))),
        "some-org/chat-model · 9 messages · 4 tools · streamed\nchat request, converted",
        "── Converted ",
        "• dropped tool web_search",
        "── Before: what the client sent ",
        "some-org/chat-model · 10 items · 4 tools · streamed\n",
        "Responses request · /v1/responses · 4,848 bytes\n",
        "── 1 developer ",
        "── 5 custom_tool_call · call_1 ",
        "  → apply_patch",
        "    *** Begin Patch",
        "── 6 custom_tool_call_output · call_1 ",
        "  Success. Added a.txt",
        "── 8 tool_search_output · call_2 ",
        '"name": "list_events"',
        "exec_command  apply_patch  tool_search  web_search",
        "── After: what the upstream received ",
        "── 1 system ",
        "  You are a coding agent.",
        "── 4 assistant ",
        "  │ The file needs a line.",
        "  → apply_patch",
        "      *** Begin Patch",
        "── 5 tool · call_1 ",
        "── Tools · 4 ",
        "exec_command  apply_patch  tool_search\n  mcp__calendar__list_events",
        "── Settings ",
        '"prompt_cache_key": "thread-1"',
    )


def test_outputs_that_are_submitted_are_shown_as_what_the_client_asked() -> None:
    outputs = [{"tool_call_id": "call_1", "output": "done"}]
    request = json.dumps({"tool_outputs": outputs}).encode()
    page = text(request_page(replace(bridged(), client_request=request)))
    in_order(page, " · 1 item · ", "── 1 tool output · call_1 ", "  done", "── After: ")


def test_a_request_that_was_refused_is_shown_once() -> None:
    request = json.dumps({"model": "m", "input": "Hi.", "background": True}).encode()
    refused = replace(same(b"", request=request), job="bridge", evidence=noted("refused: x"))
    page = text(request_page(refused))
    in_order(page, f"{len(request)} bytes", "── Converted ", "• refused: x", "  Hi.")
    assert ("After: " in page, page.count("Hi.")) == (False, 1)


def test_a_cured_request_says_what_was_changed_in_it() -> None:
    user, temperature = {"role": "user", "content": "Hi."}, {"temperature": 0.2}
    calls = [{"id": "functions.a:0", "function": {"name": "a", "arguments": "{}"}}]
    said = {"role": "assistant", "content": "So.", "tool_calls": calls}
    tools = [
        {"type": "function", "function": {"name": "a", "parameters": {"x": x}}} for x in (1, 2)
    ]
    asked = {"model": "kimi-k3", "messages": [user, said], **temperature, "top_k": 1}
    renamed = family_of("kimi-k3").sent_tool_name("b.c")
    asked["tools"] = [tools[0], {"type": "search"}, {"type": "function", "name": "b.c"}]
    sent = asked | {"messages": [user, said | {"reasoning_content": "Hm."}]}
    sent["tools"] = [tools[1], {"type": "function", "name": renamed}]
    del sent["temperature"]
    exchange = replace(
        same(b"", request=json.dumps(asked).encode()),
        upstream_request=json.dumps(sent).encode(),
        evidence=cured("put back remembered reasoning"),
    )
    page = text(request_page(exchange))
    in_order(page, "chat request, cured", "── Cured ", "• put back remembered reasoning")
    in_order(page, "── Before: what the client sent ", "… 1 unchanged …", "── 2 assistant ")
    in_order(page, "── Tool a ", '"x": 1', "── sent as ", '"x": 2', "── Tool search ", "(left out)")
    in_order(page, "── Tool b.c ", "── sent as ", renamed, "── Settings ", '"temperature": 0.2')
    in_order(page, "── After: what the upstream received ", "── 1 user", "  │ Hm.", '"top_k": 1')
    assert (page.count("Hi."), page.count('"top_k"')) == (1, 1)
    in_order(text(turn_page(exchange)), "── Request cured ", "remembered reasoning")


def test_a_native_responses_request_is_readable_too() -> None:
    request = (FOLDER / "bridge_codex_second_turn" / "request.json").read_bytes()
    in_order(text(request_page(same(b"", request=request))), "Responses request", " user ")


def test_a_request_of_the_client_that_cannot_be_read_is_said_to_be_so() -> None:
    page = text(request_page(replace(bridged(), client_request=b"{")))
    in_order(page, "── Before: ", "cannot be read", "── After: ", "── 1 system ")


def test_texts_are_whole_and_images_are_named_with_their_size() -> None:
    url = f"data:image/png;base64,{'iVBORw0KGgo' * 100}"
    parts = [
        {"type": "text", "text": "天" * 400},
        {"type": "text", "text": "x" * 400, "cache_control": {}},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]
    user, silent = {"role": "user", "content": parts}, {"role": "assistant", "refusal": "No."}
    request = json.dumps({"model": "m", "messages": [user, silent]}).encode()
    page = text(request_page(same(b"", request=request)))
    assert (page.count("天"), page.count("x" * 50)) == (400, 7), "in lines of 54"
    in_order(page, '{"type":"image_url","image_url":{"url":"', f"[{len(url):,}", '"detail":"low"}}')
    in_order(page, "── 2 assistant ", '  "refusal": "No."')


SEALED = "gAAAA" + "Zm9v" * 200


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (
            {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": "Go."},
            ["agent_message", "  Go.", '"author": "/root"', '"recipient": "/root/a"'],
        ),
        (
            {"type": "unknown", "text": "a", "other": 0, "content": "b"},
            ["unknown", "  b", '"text": "a"', '"other": 0'],
        ),
        (
            {"type": "unknown", "role": "user", "call_id": "c", "name": "n", "content": "b"},
            ["user · c", "  b", '"type": "unknown"', '"name": "n"'],
        ),
        (
            {"type": "compaction", "summary": "So far.", "encrypted_content": SEALED},
            ["compaction", "So far.", '"encrypted_content": "[805 characters]"'],
        ),
        (
            {"role": "user", "content": {"text": "a", "k": "b"}},
            ["user", '{"text":"a","k":"b"}'],
        ),
        (
            {"type": "apply_patch_call_output", "status": "failed", "output": "No."},
            ["apply_patch_call_output", "  No.", '"status": "failed"'],
        ),
        (
            {"type": "function_call", "name": "list", "namespace": "mcp__a", "arguments": "{}"},
            ["function_call", "  → list", '"namespace": "mcp__a"'],
        ),
    ],
)
def test_what_an_item_has_besides_its_text_is_shown(item: dict[str, Any], shown: list[str]) -> None:
    request = json.dumps({"model": "m", "input": [item]}).encode()
    in_order(text(request_page(same(b"", request=request))), "── 1 ", *shown)


def test_members_that_say_nothing_are_not_shown() -> None:
    part = {"type": "output_text", "text": "Hi.", "annotations": []}
    item = {"type": "message", "role": "assistant", "content": [part]}
    usual = {"id": "msg_1", "status": "completed", "phase": None}
    request = json.dumps({"model": "m", "input": [item | usual]}).encode()
    assert text(request_page(same(b"", request=request))).rstrip().endswith("\n  Hi.")


def test_a_long_conversation_shows_its_ends() -> None:
    messages = [{"role": "user", "content": f"number {n}"} for n in range(1, 201)]
    request = json.dumps({"model": "m", "messages": messages}).encode()
    page = text(request_page(same(b"", request=request)))
    in_order(page, "number 4", "… 136 messages are not shown here …", "number 141", "number 200")
    assert "number 5\n" not in page


def test_what_was_not_kept_is_a_gap_and_times_are_right_behind_it() -> None:
    body = b"data: 1\n\n" + gap(1000) + b"data: 2\n\ndata: 3\n\n"
    steps = (Step(0.1, 9, 9), Step(0.5, 1009, 1009), Step(0.6, 1018, 1018), Step(0.7, 1027, 1027))
    exchange = replace(same(body), upstream_missing=1000, timing=Timing(steps, 1.0, 0.1))
    page = text(upstream_page(exchange))
    assert ": 1000 bytes were not kept" in page
    times = {line[-1]: line.split()[1] for line in page.splitlines() if "data:" in line}
    assert times == {"1": "0.100", "2": "0.600", "3": "0.700"}


def test_an_earlier_dragoman_kept_the_first_bytes_alone() -> None:
    page = text(upstream_page(replace(same(b"data: 1\n\n"), upstream_missing=1000)))
    assert page.rstrip().endswith("that came then were not kept …")


def test_statistics_fit_half_a_window() -> None:
    times = "p50 0.02 s · p95 0.03 s · max 0.03 s"
    figures = (
        "flows 2 · tokens in 43206 · tokens out 133 · turns with tools 1 · leaked 2 (2 kimi_k2)"
    )
    page = stats_page([["flows", "12"], ["first token", times], ["api.moonshot.ai k", figures]])
    in_order(
        text(page),
        "   12  flows",
        "first token",
        times.split(" · ", maxsplit=1)[0],
        "── api.moonshot.ai k ",
        "leaked 2",
    )
    assert max(len(line.text) for line in page) <= 64
