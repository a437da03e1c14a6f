"""What leaks is the same call in every API: repaired in chat, bridged to Responses and Messages,
and repaired in replies of hosts that speak these themselves, streamed and whole."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import api_of, tools_of
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.turn_context import Tool
from tests.repair.formats import test_rare_formats, test_unknown_shape, wild_shapes
from tests.repair.streams import chunk, read, repair, repair_whole, sse
from tests.responses.test_repair import repaired

from . import messages_streams, messaging, replying
from .hosts import OPENAI
from .native_grammar import check_native

MODELS = {
    "rare: atem": "muse-spark",
    "rare: atem, a thought": "muse-spark",
    "wild: muse, an answer": "muse-spark",
    "wild: invoke after a lone line": "claude-like",
    **{f"rare: {name}": "gemma-4-e4b" for name in test_rare_formats.GEMMA},
}
"""Those that are not unknown: channels are taken out of the model's own format."""
LEAKS = {
    f"{name}: {shape}": (module.REQUEST, text, wanted)
    for name, module in (("rare", test_rare_formats), ("unknown", test_unknown_shape))
    for shape, (text, wanted) in module.SHAPES.items()
} | {
    f"rare: {shape}": (test_rare_formats.REQUEST, text, wanted)
    for shape, (text, wanted) in test_rare_formats.GEMMA.items()
}
LEAKS |= {
    f"wild: {shape}": (test_rare_formats.REQUEST, text, wanted.replace(wild_shapes.TEXT, text))
    for shape, (text, wanted) in wild_shapes.WILD.items()
}


def chat_stream(pieces: list[str], model: str) -> bytes:
    deltas = [{"content": piece} for piece in pieces]
    return sse([*(chunk(each, model=model) for each in deltas), chunk({}, "stop", model=model)])


def shown(parts: Iterable[tuple[str, str]]) -> str:
    """Texts, thoughts as ``«…»`` and calls as ``[name arguments]``, without white space."""
    marks = {"reasoning": "«{}»", "text": "{}"}
    out = "".join(marks.get(kind, f"[{kind} {{}}]").format(text) for kind, text in parts)
    return "".join(out.split())


def in_chat(pieces: list[str], request: Any, model: str) -> str:
    got = read(repair(chat_stream(pieces, model), request))
    calls = [(call["name"], call["arguments"]) for call in got.calls]
    return shown(
        [*(("reasoning", each) for each in [got.reasoning] if each), ("text", got.content), *calls]
    )


def output_parts(output: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    for item in output:
        if item["type"] == "function_call":
            yield item["name"], item["arguments"]
        else:
            kind = "reasoning" if item["type"] == "reasoning" else "text"
            said = item.get("content") or item.get("summary") or []
            yield kind, "".join(part["text"] for part in said)


def responses_of(chat: bytes, request: Any, model: str, evidence: Evidence) -> dict[str, Any]:
    """The response that a client of the bridge gets of a chat stream."""
    tools = {
        each["function"]["name"]: Tool("function", each["function"]["name"])
        for each in request["tools"]
    }
    turn = replying.turn()
    reply = replying.new_reply(evidence, turn_=type(turn)({}, model, True, tools))
    stage = ChatRepair(DeclaredTools.of_request(request), RepairOptions().bridged, evidence, 7)
    assert [*reply.open(), *BridgePipeline(reply, stage).convert(chat)]
    return reply.response


def bridged_to_responses(pieces: list[str], request: Any, model: str) -> str:
    response = responses_of(chat_stream(pieces, model), request, model, Evidence())
    return shown(output_parts(response["output"]))


def message_parts(blocks: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    for block in blocks:
        if block["type"] == "tool_use":
            yield block["name"], block["input"]
        else:
            yield ("text" if block["type"] == "text" else "reasoning"), block[block["type"]]


def bridged_to_messages(pieces: list[str], request: Any, model: str) -> str:
    names = [each["function"]["name"] for each in request["tools"]]
    run = messaging.run_bytes(
        [chat_stream(pieces, model)], turn_=messaging.turn(names), asked=request
    )
    return shown(message_parts(run.read.blocks))


def native_responses(pieces: list[str], request: Any, model: str) -> str:
    tools = [{"type": "function", **each["function"]} for each in request["tools"]]
    sent = OPENAI.stream([("text", pieces)], model=model)
    events = check_native(repaired(sent, {"model": model, "tools": tools}))
    return shown(output_parts(events[-1]["response"]["output"]))


def native_messages(pieces: list[str], request: Any, model: str) -> str:
    functions = [each["function"] for each in request["tools"]]
    tools = [{"name": each["name"], "input_schema": each["parameters"]} for each in functions]
    sent = messages_streams.stream([("text", pieces)], model=model)
    got = messages_streams.repaired(sent, {"model": model, "tools": tools})
    return shown(message_parts(messages_streams.read(got).blocks))


def whole_chat(pieces: list[str], request: Any, model: str) -> str:
    message = {"role": "assistant", "content": "".join(pieces)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    said = repaired_document({"model": model, "choices": choices}, request | {"model": model})
    message = said["choices"][0]["message"]
    calls = [each["function"] for each in message.get("tool_calls") or []]
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    return shown(
        [
            *(("reasoning", each) for each in [thoughts] if each),
            ("text", message["content"] or ""),
            *((call["name"], call["arguments"]) for call in calls),
        ]
    )


def whole_responses(pieces: list[str], request: Any, model: str) -> str:
    tools = [{"type": "function", **each["function"]} for each in request["tools"]]
    sent = OPENAI.events([("text", pieces)], model=model)[-1]["response"]
    said = repaired_document(sent, {"model": model, "input": "x", "tools": tools})
    return shown(output_parts(said["output"]))


def whole_messages(pieces: list[str], request: Any, model: str) -> str:
    functions = [each["function"] for each in request["tools"]]
    tools = [{"name": each["name"], "input_schema": each["parameters"]} for each in functions]
    sent = messages_streams.document([("text", pieces)]) | {"model": model}
    said = repaired_document(sent, {"model": model, "max_tokens": 9, "tools": tools})
    blocks = [
        block | {"input": json.dumps(block.get("input"), separators=(",", ":"))}
        for block in said["content"]
    ]
    return shown(message_parts(blocks))


def repaired_document(body: dict[str, Any], request: dict[str, Any]) -> Any:
    sent = json.dumps(body).encode()
    tools = tools_of(request, api_of(request, sent))
    return json.loads(repair_whole(sent, tools, RepairOptions(), Evidence(), 7))


STREAMED = (in_chat, bridged_to_responses, bridged_to_messages, native_responses, native_messages)
WHOLE = (whole_chat, whole_responses, whole_messages)


def cuts(text: str, way: str) -> list[list[str]]:
    """The text in small pieces, and in two, cut at a place that is another in each way: each place
    is asked of each format in its own tests."""
    at = zlib.crc32(f"{way} {text}".encode()) % len(text)
    return [[text[:at], text[at:]], [text[at : at + 5] for at in range(0, len(text), 5)]]


@pytest.mark.parametrize("way", [*STREAMED, *WHOLE], ids=lambda way: way.__name__)
@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_the_same_call(way: Callable[[list[str], Any, str], str], leak: str) -> None:
    request, text, wanted = LEAKS[leak]
    wanted, model = "".join(wanted.split()), MODELS.get(leak, "my-model")
    if way in (bridged_to_responses, bridged_to_messages):
        ends = "»" if "<think>" in wanted else ""
        wanted = wanted.replace("<think>", "«").replace("</think>", ends)
    for pieces in ([text], *(cuts(text, way.__name__) if way in STREAMED else [])):
        assert way(pieces, request, model) == wanted, json.dumps(pieces)


def test_each_line_of_shapes_that_were_seen_has_its_rows() -> None:
    rows = [row for rows in wild_shapes.LINES.values() for row in rows]
    assert not set(rows) - LEAKS.keys()
