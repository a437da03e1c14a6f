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
from fixtures.server import FOLDER
from tests.repair.streams import chunk, sse

NOW = 1_700_000_000
BODIES = sorted(
    (*FOLDER.glob("*/upstream.sse"), *FOLDER.glob("*/upstream.json")), key=lambda path: path.parent
)
ROUND: tuple[Api, ...] = ("chat", "messages", "chat", "responses", "messages", "responses")
SHAPES = {"chat": "chat", "responses": "Responses", "messages": "Messages"}


def converted(body: bytes, request: Any, to: Api | None) -> ParsedReply:
    return parse_reply(convert_recorded(body, request, to, Evidence(), NOW))


def gist(reply: ParsedReply) -> dict[str, Any]:
    """What a reply says, whatever its API: texts of the choice that answers, calls of all."""
    parts = [part for choice in reply.choices for part in choice.parts]
    answer = reply.choices[0].parts if reply.choices else ()
    said = [part for part in answer if isinstance(part, Prose)]
    prose = {
        kind: "".join(part.text for part in said if part.kind == kind).strip()
        for kind in ("text", "reasoning")
    }
    calls = [(p.name, _value(p)) for p in parts if isinstance(p, ParsedCall)]
    finishes = {_meaning(choice.finish) for choice in reply.choices}
    finishes = {"failed"} if reply.error is not None else finishes
    usage = (reply.usage.input, reply.usage.output) if reply.usage else None
    return {**prose, "calls": calls, "finishes": finishes, "usage": usage}


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
@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}{path.suffix}")
def test_it_says_the_same(path: Any, to: Api) -> None:
    request = json.loads((path.parent / "request.json").read_bytes())
    body = path.read_bytes()
    repaired = converted(body, request, None)
    reply = converted(body, request, to)
    assert reply.shape.split()[0] == SHAPES[to]
    wanted, got = gist(repaired), gist(reply)
    if wanted["usage"] is None:  # it is estimated
        del wanted["usage"], got["usage"]
    assert got == wanted


@pytest.mark.slow
def test_it_says_the_same_after_all_three() -> None:
    """Each of them from each of the others: all nine pairs, with `test_it_says_the_same`."""
    for path in BODIES:
        request = json.loads((path.parent / "request.json").read_bytes())
        first = body = convert_recorded(path.read_bytes(), request, "responses", Evidence(), NOW)
        for to in ROUND:
            body = convert_recorded(body, {}, to, Evidence(), NOW)
            assert api_of({}, body) == to
        wanted, got = gist(parse_reply(first)), gist(parse_reply(body))
        if wanted["finishes"] != {"failed"}:
            assert got == wanted, path


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
