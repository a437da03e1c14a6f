"""What leaks into a native call goes in every API: streamed at every cut, whole, and bridged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import repair_whole, tools_of
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import split
from tests.repair import streams
from tests.repair.streams import chunk, sse

from . import messages_streams, messaging
from .hosts import OPENAI
from .native_grammar import check_native
from .test_leaks_in_every_api import message_parts, output_parts, responses_of

Json = dict[str, Any]
STRING = {"type": "string"}
FUNCTIONS: list[Json] = [
    {
        "name": name,
        "parameters": {
            "type": "object",
            "properties": {"command": STRING, "path": STRING},
            "required": [required],
        },
    }
    for name, required in (("exec_command", "command"), ("read", "path"))
]
REQUESTS: dict[str, Json] = {
    "chat": {"tools": [{"type": "function", "function": each} for each in FUNCTIONS]},
    "responses": {"input": "x", "tools": [{"type": "function", **each} for each in FUNCTIONS]},
    "messages": {
        "tools": [{"name": each["name"], "input_schema": each["parameters"]} for each in FUNCTIONS]
    },
}
MODEL = "glm-5"
LS = '{"command": "ls <b>"}'
EXEC = ("exec_command", {"command": "ls <b>"})
DEFECTS: dict[str, tuple[str, str, tuple[str, Json]]] = {
    "a name that comes twice": ("exec_commandexec_command", LS, EXEC),
    "a marker after the name": ("exec_command<|channel|>commentary", LS, EXEC),
    "a tag before the name": ("<tool_call>exec_command", LS, EXEC),
    "an id for a name": ("functions.exec_command:0", LS, EXEC),
    "a key's end in the key": ("exec_command", '{"command</arg_key>": "ls <b>"}', EXEC),
    "a key's start in the key": ("exec_command", '{"command<arg_key>":"ls <b>"}', EXEC),
    "in the second key": (
        "exec_command",
        '{"command": "ls", "path</arg_key>": "/"}',
        ("exec_command", {"command": "ls", "path": "/"}),
    ),
    "in both keys": (
        "exec_command",
        '{"command</arg_key>": "ls", "path</arg_key>": "/"}',
        ("exec_command", {"command": "ls", "path": "/"}),
    ),
    "in the name and in the key": (
        "exec_commandexec_command",
        '{"command</arg_key>": "ls <b>"}',
        EXEC,
    ),
    "a call in the name": (
        "read<arg_key>path</arg_key><arg_value>/etc</arg_value></tool_call>",
        "{}",
        ("read", {"path": "/etc"}),
    ),
}
AS_IT_CAME = {
    "a name that is no tool's": ("rmrm", LS),
    "a key that is not declared": ("exec_command", '{"command": "ls", "sh</arg_key>": "sh"}'),
    "a key that is there as well": ("exec_command", '{"command": "ls", "command</arg_key>": "l"}'),
    "a tag in a value": ("exec_command", '{"command": "echo </arg_key>"}'),
    "a quoted key in a value": ("exec_command", '{"command": "\\"path</arg_key>\\": x"}'),
    "half a closing tag": ("exec_command", '{"command": "ls</parameter"}'),
    "half a tag in a key": ("exec_command", '{"command": "ls", "path</arg_k": "/"}'),
}
Call = tuple[str, str]


def chat_stream(name: str, pieces: list[str]) -> bytes:
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas = [chunk({"tool_calls": [each]}, model=MODEL) for each in [head, *more]]
    return sse([*deltas, chunk({}, "tool_calls", model=MODEL)])


def repaired(body: bytes, api: str, evidence: Evidence) -> bytes:
    tools = tools_of(REQUESTS[api] | {"model": MODEL}, api)
    return repair_whole(body, tools, RepairOptions(), evidence, 7)


def chat(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    calls = streams.read(repaired(chat_stream(name, pieces), "chat", evidence)).calls
    return [(call["name"], call["arguments"]) for call in calls]


def chat_whole(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    function = {"name": name, "arguments": "".join(pieces)}
    message = {"role": "assistant", "content": None}
    message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    body = json.dumps({"model": MODEL, "choices": choices}).encode()
    (choice,) = json.loads(repaired(body, "chat", evidence))["choices"]
    calls = [each["function"] for each in choice["message"]["tool_calls"]]
    return [(call["name"], call["arguments"]) for call in calls]


def responses(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    sent = OPENAI.stream([("text", ["So."]), ("call", [name, *pieces])], model=MODEL)
    events = check_native(repaired(sent, "responses", evidence))
    done = next(each for each in events if each["type"].endswith("arguments.done"))
    assert done["name"] == events[-1]["response"]["output"][1]["name"]
    return [*output_parts(events[-1]["response"]["output"])][1:]


def responses_whole(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    sent = OPENAI.events([("call", [name, *pieces])], model=MODEL)[-1]["response"]
    got = repaired(json.dumps(sent).encode(), "responses", evidence)
    return [*output_parts(json.loads(got)["output"])]


def responses_without_deltas(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    events = OPENAI.events([("call", [name, *pieces])], model=MODEL)
    events = [each for each in events if not each["type"].endswith("arguments.delta")]
    sent = "".join(f"data: {json.dumps(each)}\n\n" for each in events).encode()
    got = [frame.json for frame in split(repaired(sent, "responses", evidence))]
    output = [*output_parts(got[-1]["response"]["output"])]
    done = next(each for each in got if each["type"].endswith("arguments.done"))
    item = next(each for each in got if each["type"] == "response.output_item.done")["item"]
    assert [(item["name"], item["arguments"])] == output
    assert done["arguments"] == item["arguments"]
    return output


def messages(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    sent = messages_streams.stream([("tool_use", (name, pieces))], "tool_use", MODEL)
    got = messages_streams.read(repaired(sent, "messages", evidence))
    return [*message_parts(got.blocks)]


def messages_whole(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    sent = messages_streams.document([("tool_use", (name, pieces))], "tool_use")
    got = json.loads(repaired(json.dumps(sent).encode(), "messages", evidence))
    return [(block["name"], json.dumps(block["input"])) for block in got["content"]]


def messages_at_its_start(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    """The input of the call comes with the beginning of its block."""
    events = messages_streams.events([("tool_use", (name, []))], "tool_use", MODEL)
    (start,) = [each for each in events if each["type"] == "content_block_start"]
    start["content_block"]["input"] = json.loads("".join(pieces))
    got = repaired(b"".join(map(messages_streams.event, events)), "messages", evidence)
    values = [frame.json for frame in split(got)]
    (block,) = [each["content_block"] for each in values if "content_block" in each]
    deltas = [each["delta"].get("partial_json", "") for each in values if "delta" in each]
    return [(block["name"], "".join(deltas) or json.dumps(block["input"]))]


def bridged_to_responses(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    return [
        *output_parts(
            responses_of(chat_stream(name, pieces), REQUESTS["chat"], MODEL, evidence)["output"]
        )
    ]


def bridged_to_messages(name: str, pieces: list[str], evidence: Evidence) -> list[Call]:
    del evidence
    names = [each["name"] for each in FUNCTIONS]
    run = messaging.run_bytes(
        [chat_stream(name, pieces)], turn_=messaging.turn(names), asked=REQUESTS["chat"]
    )
    return [*message_parts(run.read.blocks)]


Way = Callable[[str, list[str], Evidence], list[Call]]
WHOLE: tuple[Way, ...] = (
    chat_whole,
    responses_whole,
    responses_without_deltas,
    messages_whole,
    messages_at_its_start,
)
WAYS: tuple[Way, ...] = (chat, responses, messages, bridged_to_responses, bridged_to_messages)


def read(calls: list[Call]) -> list[tuple[str, Json]]:
    return [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("defect", DEFECTS)
def test_what_leaked_into_a_call_goes_however_it_is_cut(way: Way, defect: str) -> None:
    name, arguments, wanted = DEFECTS[defect]
    cuts = [[arguments[:at], arguments[at:]] for at in range(1, len(arguments))]
    for pieces in ([arguments], [*arguments], *cuts):
        assert read(way(name, pieces, Evidence())) == [wanted], pieces


@pytest.mark.parametrize("way", WHOLE, ids=lambda way: way.__name__)
@pytest.mark.parametrize("defect", DEFECTS)
def test_it_goes_from_a_call_that_comes_whole(way: Way, defect: str) -> None:
    name, arguments, wanted = DEFECTS[defect]
    assert read(way(name, [arguments], Evidence())) == [wanted]


@pytest.mark.parametrize("way", [*WAYS, *WHOLE], ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", AS_IT_CAME)
def test_a_call_of_which_nothing_is_certain_is_as_it_came(way: Way, name: str) -> None:
    called, arguments = AS_IT_CAME[name]
    cuts = [[arguments[:at], arguments[at:]] for at in range(1, len(arguments))]
    for pieces in ([arguments], *(cuts if way in WAYS else [])):
        assert read(way(called, pieces, Evidence())) == [(called, json.loads(arguments))], pieces


@pytest.mark.parametrize(
    "way", [chat, responses, messages, chat_whole, responses_whole, messages_whole]
)
def test_half_a_tag_that_stays_is_on_record(way: Way) -> None:
    evidence = Evidence()
    way(*AS_IT_CAME["half a closing tag"][:1], [AS_IT_CAME["half a closing tag"][1]], evidence)
    assert evidence.lines() == ["left half a tag in the arguments of a native call"]
