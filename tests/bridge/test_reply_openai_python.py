"""openai-python itself reads the streams: its parser, and its strict `stream()` helper."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from dragoman.notes import Evidence
from dragoman.responses.dialects import DIALECTS, OPENAI, Dialect
from dragoman.wire.error_codes import _CODES_BY_STATUS, _EXACT, _KNOWN, official_code
from dragoman.wire.sse import Frame

from .replying import call, calls, chunk, ended, feed, new_reply, run, sse, text

openai = pytest.importorskip("openai", reason="it cannot live beside mitmproxy 11")
httpx = pytest.importorskip("httpx2")
ResponseError = pytest.importorskip("openai.types.responses").ResponseError

TURN = [
    chunk({"reasoning_content": "why"}),
    text("Let me "),
    text("see."),
    calls(call(0, '{"city":"Z"}', name="weather", call_id="c0")),
    calls(call(1, '{"input":"a\\nb"}', name="apply", call_id="c1")),
    *ended("tool_calls"),
]


def client(body: bytes) -> Any:
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body))
    return openai.OpenAI(
        api_key="k", base_url="http://x", http_client=httpx.Client(transport=transport)
    )


def with_heartbeats(values: list[Any], dialect: Dialect) -> bytes:
    reply = new_reply(Evidence(), dialect)
    frames = reply.open() + reply.heartbeat()
    for value in values:
        frames += feed(reply, Frame(sse([value], done=False))) + reply.heartbeat()
    frames += reply.close()
    return b"".join(frame.raw for frame in frames)


def test_the_stream_helper_follows_a_turn_with_heartbeats_to_its_final_response() -> None:
    with client(with_heartbeats(TURN, OPENAI)).responses.stream(model="m", input="i") as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()
    assert events.count("response.in_progress") > 1
    assert final.output_text == "Let me see."
    assert [item.type for item in final.output] == [
        *("reasoning", "message", "function_call", "custom_tool_call")
    ]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_the_plain_stream_gives_every_event_in_every_dialect(dialect: Dialect) -> None:
    body = with_heartbeats(TURN, dialect)
    stream = client(body).responses.create(model="m", input="i", stream=True)
    types = [event.type for event in stream]
    assert types[-1] == "response.completed"
    assert len(types) == body.count(b"event: ")


def test_the_response_object_is_the_body_of_a_reply_that_is_not_streamed() -> None:
    body = json.dumps(run(TURN).response).encode()
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, content=body, headers={"content-type": "application/json"})
    )
    http = httpx.Client(transport=transport)
    response = openai.OpenAI(api_key="k", base_url="http://x", http_client=http).responses.create(
        model="m", input="i"
    )
    assert response.output_text == "Let me see."
    assert response.usage is not None
    assert response.usage.total_tokens == 18


ENDS: dict[str, list[Any]] = {
    "failed": [{"error": {"message": "no", "code": 429}}],
    "overflow": [{"error": {"message": "prompt is too long", "code": 400}}],
    "incomplete": ended("length"),
}
OPEN: dict[str, list[Any]] = {
    "text": TURN[:2],
    "reasoning": TURN[:1],
    "call": [*TURN[:3], calls(call(0, '{"city"', name="weather", call_id="c0"))],
    "head": [*TURN[:3], calls(call(0, "", name="weather", call_id="c0"))],
    "custom call": [calls(call(0, '{"input":"rm', name="exec", call_id="c0"))],
    "calls": [
        calls(call(0, '{"city"', name="weather", call_id="c0")),
        calls(call(1, '{"city":1}', name="weather", call_id="c1")),
        text("so"),
    ],
}


@pytest.mark.parametrize("what", OPEN)
@pytest.mark.parametrize("end", ENDS)
def test_the_stream_helper_reads_what_was_cut(what: str, end: str) -> None:
    body = with_heartbeats([*OPEN[what], *ENDS[end]], OPENAI)
    if end != "incomplete":
        with pytest.raises(openai.APIError), stream_of(body) as stream:
            stream.until_done()
        body = without_error(body)  # at which it stops; others read on
    with stream_of(body) as stream:
        last = list(stream)[-1]
    if end == "incomplete":
        assert last.type == "response.incomplete"
    else:
        assert last.type == "response.failed"
        assert last.response.output[-1].status == "incomplete"
    done = body.count(b"event: response.output_item.done")
    assert done == sum(item.status == "completed" or _closed(item, end) for item in output(last))


def stream_of(body: bytes) -> Any:
    return client(body).responses.stream(model="m", input="i")


def without_error(body: bytes) -> bytes:
    frames = body.split(b"\n\n")
    return b"\n\n".join(frame for frame in frames if not frame.startswith(b"event: error"))


def output(event: Any) -> list[Any]:
    return list(event.response.output)


def _closed(item: Any, end: str) -> bool:
    """Whether an incomplete item was told to its end all the same."""
    return end == "incomplete" and item.type in ("message", "reasoning")


def test_every_code_of_a_failed_response_is_of_the_official_list() -> None:
    official = set(get_args(ResponseError.model_fields["code"].annotation))
    codes = {known.code for known in _KNOWN} | {*_CODES_BY_STATUS.values(), *_EXACT, "new_code"}
    assert {official_code(code) for code in codes} <= official
    assert all(official_code(code) == code for code in codes & official)
