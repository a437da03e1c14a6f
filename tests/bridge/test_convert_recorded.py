"""A recorded reply says the same in each of the three APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.convert_recorded import convert_recorded
from dragoman.bridge.reader_writer_pairs import APIS, Api, api_of
from dragoman.inspect.parse.reply import parse_reply
from dragoman.inspect.parse.values import ParsedCall, ParsedReply, Prose
from dragoman.notes import Evidence
from dragoman.wire.finish_reasons import FINISHES
from dragoman.wire.sse import is_event_stream
from fixtures.server import FOLDER
from tests.repair.streams import chunk, sse

from . import messages_streams
from .recorded import BODIES, joined_up, request_of

NOW = 1_700_000_000
SHAPES = {"chat": "chat", "responses": "Responses", "messages": "Messages"}


def converted(body: bytes, request: Any, to: Api | None) -> ParsedReply:
    return parse_reply(convert_recorded(body, request, to, Evidence(), NOW))


def gist(reply: ParsedReply) -> dict[str, Any]:
    """What a reply says, whatever its API: texts of the choice that answers, calls of all."""
    answer = reply.choices[0].parts if reply.choices else ()
    said = [part for part in answer if isinstance(part, Prose)]
    prose = {
        kind: "".join(part.text for part in said if part.kind == kind).strip()
        for kind in ("text", "reasoning")
    }
    called = [(each.name, _value(each)) for each in calls(reply)]
    finishes = {_meaning(choice.finish) for choice in reply.choices}
    finishes = {"failed"} if reply.error is not None else finishes
    usage = (reply.usage.input, reply.usage.output) if reply.usage else None
    return {**prose, "calls": called, "finishes": finishes, "usage": usage}


def calls(reply: ParsedReply) -> list[ParsedCall]:
    parts = [part for choice in reply.choices for part in choice.parts]
    return [part for part in parts if isinstance(part, ParsedCall)]


def _value(call: ParsedCall) -> Any:
    try:
        return json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments


def _meaning(finish: str) -> str:
    """A finish reason, or the status of a response and why."""
    status, _, reason = finish.partition(": ")
    return FINISHES.get(reason or status, reason or status)


@pytest.mark.parametrize("to", APIS)
@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_says_the_same(path: Any, to: Api) -> None:
    request = request_of(path)
    body = path.read_bytes()
    repaired = converted(body, request, None)
    reply = converted(body, request, to)
    assert reply.shape.split()[0] == SHAPES[to]
    wanted, got = gist(repaired), gist(reply)
    if wanted["usage"] is None:  # it is estimated
        del wanted["usage"], got["usage"]
    assert got == wanted


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_all_nine_pairs_say_the_same(whole: bool) -> None:
    for path in BODIES:
        request = request_of(path)
        for of in APIS:
            body = convert_recorded(path.read_bytes(), request, of, Evidence(), NOW)
            if whole:
                body = joined_up(body, of)
            if not body or is_event_stream(body) == whole:
                continue  # the fixture is not, or an error
            assert api_of({}, body) == of
            wanted = gist(parse_reply(body))
            failed = wanted["finishes"] == {"failed"}  # its usage came after its error, if any
            for to in APIS:
                got = gist(converted(body, {}, to))
                if failed or wanted["usage"] is None:
                    got["usage"] = wanted["usage"]
                assert got == wanted, (path, of, to)


def test_a_custom_call_is_one_of_a_function() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a\n"b'}
    response = {"object": "response", "status": "completed", "model": "m", "output": [call]}
    for to in ("chat", "messages"):
        reply = converted(json.dumps(response).encode(), {"input": "x"}, to)
        assert gist(reply)["calls"] == [("patch", {"input": 'a\n"b'})]


@pytest.mark.parametrize("to", APIS)
@pytest.mark.parametrize("of", APIS)
def test_a_reply_that_failed_fails(of: Api, to: Api) -> None:
    error = {"message": "no more of it", "type": "server_error", "code": "server_error"}
    chat = sse([chunk({"content": "a"}), {"error": error}])
    body = convert_recorded(chat, {}, of, Evidence(), NOW)
    reply = converted(body, {}, to)
    assert gist(reply)["text"] == "a"
    assert "no more of it" in str(reply.error)


@pytest.mark.parametrize("to", ["chat", "responses"])
def test_what_has_no_place_in_the_other_api_is_noted(to: Api) -> None:
    body = messages_streams.stream([("redacted_thinking", {"data": "x"}), ("text", ["Hi"])])
    evidence = Evidence()
    assert b"Hi" in convert_recorded(body, {}, to, evidence, NOW)
    assert evidence.lines() == ["dropped redacted_thinking"]


def test_the_same_api_is_the_repaired_reply() -> None:
    body = (FOLDER / "clean_text" / "upstream.sse").read_bytes()
    assert convert_recorded(body, {}, "chat", Evidence(), NOW) == body
    assert api_of({}, body) == "chat"


def test_what_a_text_says_is_no_api() -> None:
    for said in ("message_start", '"type":"message"', '{"object":"response"}'):
        assert api_of({}, sse([chunk({"content": said}), chunk({}, "stop")])) == "chat"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    created = b'data: {"type": "response.created", "response": {}}\n\n'
    assert api_of({}, ping + created) == "responses"
    assert api_of({}, b"<html>") == api_of(None, b"data: [1]\n\n") == "chat"
