"""What a headline says is what a full reading would find."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.headline import headline
from dragoman.inspect.outcome import Job, outcome_of
from dragoman.inspect.parse.frames import gap
from dragoman.notes import Evidence, ReplyFacts, TurnFacts
from dragoman.wire.reply_bounds import MAX_PARTS
from tests.repair.streams import chunk, sse, summarize

NATIVE = {"index": 0, "id": "c1", "function": {"name": "bash", "arguments": ""}}
USAGE = {"prompt_tokens": 7, "completion_tokens": 131}


def stream(*deltas: dict[str, Any], usage: object = USAGE) -> bytes:
    return sse([*(chunk(delta) for delta in deltas), {**chunk({}, "stop"), "usage": usage}])


def test_a_chat_stream() -> None:
    argument = {"index": 0, "function": {"name": "", "arguments": '{"name": "x"}'}}
    second = {"index": 1, "id": "c2", "function": {"name": "read_file", "arguments": "{}"}}
    seen = summarize(
        stream(
            {"role": "assistant", "content": ""},
            {"content": "Hi"},
            *({"tool_calls": [call]} for call in (NATIVE, argument, second)),
        )
    )
    assert seen.parsed
    assert seen.calls == ("bash", "read_file")
    assert (seen.input_tokens, seen.output_tokens) == (7, 131)
    assert not seen.error_code


def test_the_first_token_is_where_text_begins() -> None:
    body = stream({"role": "assistant", "content": ""}, {"reasoning": "Hm"}, {"content": "Hi"})
    first = summarize(body).first_token
    assert first is not None
    assert body[:first].endswith(b"}")
    assert body[:first].count(b"data:") == 2


def test_text_that_looks_like_json_is_not_mistaken_for_it() -> None:
    quoted = json.dumps({"name": "evil", "usage": {"completion_tokens": 9}, "error": {"code": "x"}})
    seen = summarize(stream({"content": quoted}))
    assert (seen.calls, seen.output_tokens, seen.error_code) == ((), 131, "")


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error": {"message": "m", "code": "overloaded"}}\n\n',
        b'data: {"type": "response.failed", "response": {"error": {"code": "overloaded"}}}\n\n',
        b'{"error": {"message": "m", "type": "overloaded"}}',
    ],
)
def test_an_error_is_a_reply_that_failed(error: bytes) -> None:
    seen = summarize(error)
    assert (seen.parsed, seen.error_code) == (True, "overloaded")


def test_a_chunk_that_reports_an_error_beside_its_choices_failed() -> None:
    broken = {**chunk({"content": ""}, "error"), "error": {"code": 502, "type": "overloaded"}}
    assert summarize(sse([chunk({"content": "Hi"}), broken])).error_code == "overloaded"
    broken = chunk({"content": ""}, "error")
    broken["choices"][0]["error"] = {"code": 502, "message": "Provider disconnected."}
    assert summarize(sse([chunk({"content": "Hi"}), broken])).error_code == "error 502"


def test_a_responses_stream() -> None:
    call = {"type": "function_call", "id": "fc_1", "name": "bash", "arguments": ""}
    usage = {"input_tokens": 3, "output_tokens": 4}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"model": "m", "tools": [{"name": "other"}]}},
        {"type": "response.output_item.added", "item": call},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
        {"type": "response.output_item.done", "item": call},
        {"type": "response.completed", "response": {"output": [call], "usage": usage}},
    ]
    body = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )
    seen = summarize(body)
    assert (seen.model, seen.calls, seen.input_tokens, seen.output_tokens) == ("m", ("bash",), 3, 4)


def test_whole_replies() -> None:
    message = {"content": None, "tool_calls": [NATIVE]}
    chat = {"model": "m", "choices": [{"message": message}], "usage": USAGE}
    assert summarize(json.dumps(chat).encode()).calls == ("bash",)
    output = [{"type": "custom_tool_call", "name": "apply_patch"}, {"type": "local_shell_call"}]
    response = {"object": "response", "output": output, "usage": {"output_tokens": 5}}
    seen = summarize(json.dumps(response).encode())
    assert (seen.calls, seen.output_tokens) == (("apply_patch", "local_shell"), 5)


def test_the_end_of_a_body_that_was_not_kept_whole_still_has_its_usage() -> None:
    body = stream({"content": "Hi"}, {"content": "x" * 1000})
    assert summarize(body[:300] + gap(10) + body[-300:]).output_tokens == 131


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_streams_are_read_whatever_their_line_ends(end: bytes) -> None:
    body = b"\xef\xbb\xbf" + stream({"content": "Hi"}, {"tool_calls": [NATIVE]})
    assert summarize(body.replace(b"\n", end)) == replace(
        summarize(body), first_token=summarize(body.replace(b"\n", end)).first_token
    )
    assert summarize(body).calls == ("bash",)
    assert summarize(body).parsed


def test_comments_while_the_upstream_is_silent_are_no_lines_of_a_reply() -> None:
    seen = summarize(b": PROCESSING\n\n" * 1000 + stream({"content": "Hi"}))
    assert (seen.parsed, seen.model, seen.output_tokens) == (True, "kimi", 131)
    assert seen.first_token is not None


def test_what_is_no_reply_is_not_parsed() -> None:
    for body in (b"", b"<html>name", b'{"detail": []}', b"[1]", b"data: hello\n\n", b"\0" * 50):
        assert summarize(body) == ReplyFacts() or not summarize(body).parsed


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "tool_calls", "function", "name", "usage", "error", "response",
             "item", "type", "output", "message", "model", "object", "id", "index", "content"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON_VALUES | st.binary(max_size=20)), st.booleans())
def test_nothing_that_can_come_is_an_error(values: list[object], streamed: bool) -> None:
    lines = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    body = b"".join(b"data: " + line + b"\n\n" for line in lines) if streamed else b"".join(lines)
    assert " · bridge" in line("bridge", summarize(body), Evidence())


def line(job: Job, seen: ReplyFacts, evidence: Evidence, **known: Any) -> str:
    """The headline of a flow that has ended, of whose reply both sides are the same."""
    turn = TurnFacts(seen, seen)
    return headline(outcome_of(turn, evidence), job, turn, evidence, **known)


def test_the_headline_of_the_readme() -> None:
    seen = ReplyFacts(
        parsed=True,
        model="kimi-k2.5",
        calls=("bash", "read_file"),
        output_tokens=131,
        first_token=9,
    )
    told = line("bridge", seen, Evidence(), first=0.41)
    assert told == "✓ 2 calls bash, read_file · bridge · kimi-k2.5 · 131 tok · first 0.4 s"


def test_the_headline_tells_repaired_calls_from_others() -> None:
    seen = ReplyFacts(parsed=True, model="m", calls=("bash", "bash", "read"))
    told = line("repair", seen, Evidence(calls=Counter({"bash": 1, "read": 1})))
    assert told == "✓ 3 calls bash ×2, read · repair · m · 2 repaired"
    evidence = Evidence()
    evidence.call("read", "dsml", "plain name")
    evidence.call("bash", "glm", "a")
    told = line("repair", seen, evidence)
    assert told == "✓ 3 calls bash ×2, read · repair · m · 2 repaired from dsml, glm"
    # Calls of a reply that failed, or was cut, are among its figures.
    cut = replace(seen, finishes=("length",))
    assert line("bridge", cut, Evidence()) == "✂ max tokens · bridge · m · 3 calls bash ×2, read"


def test_the_headline_names_markers_that_were_left_once_and_the_status_of_a_refusal() -> None:
    seen = ReplyFacts(parsed=True, answered="text")
    evidence = Evidence()
    for _ in range(2):
        evidence.leave("a marker", "", quoted=False)
    assert line("repair", seen, evidence) == "⚠ text · 2 markers left · repair"
    seen = replace(seen, calls=("bash",), error_code="overloaded")
    assert line("repair", seen, evidence, status=400).count("2 markers left") == 1
    assert "HTTP 400" in line("repair", seen, evidence, status=400)


@pytest.mark.parametrize(("changed", "done"), [(True, "cured"), (False, "clean")])
def test_only_a_request_that_was_changed_is_cured(changed: bool, done: str) -> None:
    evidence, made = Evidence(), Evidence()
    made.note("dropped", "field top_p")
    if changed:
        evidence.cure(made)
    else:
        evidence.note("not cured:", "field top_p")
    evidence.request_left()
    seen = ReplyFacts(parsed=True, model="m", answered="text")
    assert line("repair", seen, evidence) == f"✓ text · {done} · m"


def test_a_headline_names_a_few_calls_only() -> None:
    seen = ReplyFacts(calls=tuple(f"tool{n}" for n in range(9)))
    told = line("watch", seen, Evidence())
    assert told == "✓ 9 calls tool0, tool1, tool2, tool3, tool4, 4 more · passed"


def test_every_call_of_a_long_reply_is_counted() -> None:
    calls = {"role": "assistant", "tool_calls": [NATIVE] * (MAX_PARTS - 1)}
    choice = {"index": 0, "message": calls, "finish_reason": "tool_calls"}
    assert summarize(json.dumps({"choices": [choice]}).encode()).calls == ("bash",) * (
        MAX_PARTS - 1
    )
