"""What must hold of any input at all: each function takes one and raises if it does not.

The tests feed them wrong values and generated ones, the fuzzers whatever they find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from dragoman.bridge.reply.bridge_pipeline import answer
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.request.conversion import Conversion
from dragoman.bridge.responses_reply import responses_reply
from dragoman.chat.repair import ChatRepair
from dragoman.inspect.headline import headline
from dragoman.inspect.outcome import outcome_of
from dragoman.notes import Evidence, TurnFacts
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.stage import at_once
from dragoman.reply.turn_context import TurnContext
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.stored.endpoint_bodies import input_items
from dragoman.stored.stored_response import StoredResponse, resolved_items
from dragoman.wire.errors import Refused, error_json, http_error
from dragoman.wire.json_codec import NotJson, dumps, loads
from dragoman.wire.sse import Frame, FrameSplitter
from tests.bridge.converting import convert
from tests.bridge.replying import checked, feed, feed_body
from tests.repair.streams import repair_whole, summarize

Json = dict[str, Any]
NOW = 1_700_000_000
TOOLS: Json = {
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": parameters}}
        for name, parameters in [
            ("bash", {"type": "object", "properties": {"command": {"type": "string"}}}),
            ("read", {"type": "object", "properties": {"path": {"enum": ["x"]}}}),
        ]
    ]
}
MAX_WITH_HEARTBEATS = 1000
"""Frames between which heartbeats are sent: one may hold all that came before."""
ROLES = {"system", "user", "assistant", "tool"}


def split(data: bytes, cuts: Iterable[int] = ()) -> list[bytes]:
    """`data` cut into pieces of these sizes, and what is left."""
    pieces, start = [], 0
    for size in cuts:
        pieces.append(data[start : start + size])
        start += size
    return [piece for piece in [*pieces, data[start:]] if piece]


# The request


def an_input_that_is_kept_can_be_listed(body: Any) -> None:
    """That of a request that was converted."""
    with suppress(NotJson):  # then it is not kept
        items = dumps(resolved_items(body.get("input"), {}))
        kept = StoredResponse({"id": f"resp_{0:032x}", "output": []}, {}, items)
        listed = loads(dumps(input_items([kept], {})))["data"]
        assert all(isinstance(item["id"], str) for item in listed)


def a_request_is_converted_or_refused(
    body: Any, unsupported: Any = "drop", convert: Callable[..., Conversion] = convert
) -> Conversion | None:
    """`convert` gives a chat request that can be sent and answered, or a proper refusal."""
    evidence = Evidence()
    try:
        conversion = convert(body, unsupported=unsupported, evidence=evidence)
    except Refused as refused:
        assert 400 <= refused.status < 500, refused.status
        assert refused.message
        error_json(refused.message, type="x", param=refused.param, code=refused.code).decode()
        return None
    chat = json.loads(dumps(conversion.chat), parse_constant=_none_such)
    assert isinstance(chat["model"], str)
    _check_messages(chat["messages"])
    for tool in chat.get("tools", []):
        assert tool["type"] == "function"
        assert isinstance(tool["function"]["name"], str)
        assert tool["function"]["name"]
    again = convert(body, unsupported=unsupported, evidence=Evidence())
    assert dumps(again.chat) == dumps(conversion.chat)
    for line in evidence.lines():
        assert line.isprintable()
    return conversion


def _none_such(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _check_messages(messages: list[Json]) -> None:
    """What every chat upstream asks of messages."""
    assert messages
    waiting: list[str] = []
    for message in messages:
        assert message["role"] in ROLES
        if waiting:
            assert message["role"] == "tool"
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert message["role"] != "tool"
        assert isinstance(message["content"], str | list)
        for part in message["content"]:
            assert isinstance(part, str) or isinstance(part["type"], str)
        for call in message.get("tool_calls", ()):
            assert call["type"] == "function"
            assert isinstance(call["function"]["name"], str)
            assert isinstance(call["function"]["arguments"], str)
            waiting.append(call["id"])
    assert not waiting


def a_reply_can_answer(conversion: Conversion, dialect: Dialect = OPENAI) -> None:
    """Whatever the request says and the reply echoes, the reply runs to its end.

    What the API would have refused is echoed as it came, so types are not looked at.
    """
    DeclaredTools.of_request(conversion.chat)
    reply = _reply(dialect, conversion.turn)
    frames = reply.open() + reply.heartbeat()
    for value in ({"content": "a"}, {"tool_calls": [_CALL]}):
        frames += feed(reply, _frame({"choices": [{"index": 0, "delta": value}]}))
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    frames += feed(reply, _frame({"choices": [last]}))
    frames += reply.close()
    if dialect.done_marker:
        assert frames.pop().data == b"[DONE]"
    events = [json.loads(frame.data or b"", parse_constant=_none_such) for frame in frames]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    keys = events[-1]["response"].keys() - {"required_action"}  # of one dialect
    assert keys == events[0]["response"].keys()


_CALL = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}}


def _frame(value: Any) -> Frame:
    return Frame(b"data: " + dumps(value) + b"\n\n")


# The reply


def frames_of(pieces: Iterable[bytes], max_frame: int | None = None) -> list[Frame]:
    """Through the splitter: nothing lost, nothing moved."""
    splitter = FrameSplitter(max_frame) if max_frame else FrameSplitter()
    pieces = list(pieces)
    frames = [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.close()
    assert b"".join(frame.raw for frame in frames) == b"".join(pieces)
    assert all(frame.raw for frame in frames)
    return frames


def a_stream_is_repaired(
    pieces: Iterable[bytes], request: object = TOOLS, options: RepairOptions | None = None
) -> list[Frame]:
    """Repair raises nothing, adds nothing that is no JSON, and leaves alone what it may."""
    evidence = Evidence()
    stage = ChatRepair(DeclaredTools.of_request(request), options or RepairOptions(), evidence, NOW)
    came = frames_of(pieces)
    left = [out for frame in came for out in stage.feed(frame)] + stage.close()
    if evidence.empty and not any(b"<" in f.raw or b"\\u003" in f.raw for f in came):
        assert b"".join(f.raw for f in left) == b"".join(f.raw for f in came)
    theirs = {id(frame) for frame in came}
    for frame in left:
        if id(frame) not in theirs and frame.data is not None and frame.data != b"[DONE]":
            loads(frame.data)
    told(evidence)
    return left


def a_stream_is_bridged(
    frames: Iterable[Frame], dialect: Dialect = OPENAI, turn: TurnContext | None = None
) -> None:
    """Whatever the frames, a legal stream comes of them: with one terminal, or none if it breaks
    off."""
    evidence = Evidence()
    reply = _reply(dialect, turn, evidence)
    out = reply.open()
    for frame in frames:
        out += feed(reply, frame)
        if len(out) < MAX_WITH_HEARTBEATS:
            out += reply.heartbeat()
    checked(out + reply.close(), reply, dialect)
    told(evidence)


def a_whole_reply_is_repaired_and_bridged(body: bytes, dialect: Dialect = OPENAI) -> None:
    """The same for a reply in one piece."""
    evidence = Evidence()
    repaired = repair_whole(body, DeclaredTools.of_request(TOOLS), RepairOptions(), evidence, NOW)
    reply = _reply(dialect, None, evidence)
    checked(feed_body(reply, repaired), reply, dialect)
    told(evidence)
    for status in (200, 307, 400, 500):
        given = at_once(answer(_reply(dialect, None), body, status=status, stream=False))
        loads(given.body)
        assert given.status in (status, 502)


def an_error_is_told(status: int, body: bytes) -> None:
    """Whatever an upstream says with an error status, the client gets OpenAI's shape."""
    error = json.loads(http_error(status, body, retry_after="7").body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)


def a_headline_is_found(body: bytes) -> None:
    """What is told of a reply is one printable line, whatever is in it."""
    seen = TurnFacts(summarize(body), summarize(body))
    line = headline(outcome_of(seen, Evidence()), "repair", seen, Evidence())
    assert line.isprintable() and len(line) < 2000


def told(evidence: Evidence) -> None:
    """What is noted fits into a log line."""
    lines = [*evidence.lines(), *evidence.calls]
    assert all(line.isprintable() for line in lines)
    assert sum(map(len, lines)) < 200_000


def _reply(
    dialect: Dialect, turn: TurnContext | None, evidence: Evidence | None = None
) -> ReplyConverter:
    return responses_reply(
        turn or TurnContext({"model": "m", "input": "x"}, "m", True, {}),
        dialect,
        evidence or Evidence(),
        response_id="resp_1",
        created_at=NOW,
        clock=lambda: NOW + 1.5,
    )


def encoded(values: Iterable[Any]) -> bytes:
    """A chat stream of these chunks, of which some could not be sent as JSON."""
    texts = []
    for value in values:
        try:
            texts.append(json.dumps(value))
        except (RecursionError, ValueError):
            texts.append("[" * 100_000)
    return "".join(f"data: {text}\n\n" for text in [*texts, "[DONE]"]).encode()
