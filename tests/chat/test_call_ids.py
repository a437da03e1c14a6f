"""The ids of calls: none that the history has, or another call of the reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import split
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse

Json = dict[str, Any]
K3 = (
    '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|><|close|>call<|sep|>'
    "<|close|>tools<|sep|>"
)


def k2(header: str) -> str:
    return f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"


def asked(*ids: str) -> Json:
    """A request in whose history calls have these ids."""
    function = {"name": "bash", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    messages = [{"role": "assistant", "tool_calls": [call]} for call in calls]
    return REQUEST | {"model": "kimi-k3", "messages": messages}


MADE = [f"call_{number}_{NOW}" for number in range(4)]
# The ids of the history, the reply, and the ids that the client gets.
LEAKED: dict[str, tuple[list[str], str, list[str]]] = {
    "none of the history": ([], k2("functions.bash:0"), ["functions.bash:0"]),
    "the next number": (["functions.bash:0"], k2("functions.bash:0"), ["functions.bash:1"]),
    "a number further on": (
        ["functions.bash:0", "functions.bash:1", "functions.bash:3"],
        k2("functions.bash:0") + k2("functions.bash:1"),
        ["functions.bash:2", "functions.bash:4"],
    ),
    "of another form": (["bash:7"], k2("bash:7"), ["bash:8"]),
    "without a number": (["call_a1"], k2("call_a1"), MADE[:1]),
    "twice in the reply": ([], k2("bash:0") * 2, ["bash:0", MADE[1]]),
    "made": ([], K3 * 2, MADE[:2]),
    "made before": (MADE[:1], K3 * 2, MADE[1:3]),
}


@pytest.mark.parametrize("name", LEAKED)
def test_no_leaked_call_has_an_id_of_the_history(name: str) -> None:
    history, text, ids = LEAKED[name]
    request = asked(*history)
    out = read(repair(sse([chunk({"content": text}), chunk({}, "stop")]), request))
    assert [call["id"] for call in out.calls] == ids
    message = {"role": "assistant", "content": text}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    tools = DeclaredTools.of_request(request)
    whole = json.loads(
        repair_whole(json.dumps(body).encode(), tools, RepairOptions(), Evidence(), NOW)
    )
    assert [call["id"] for call in whole["choices"][0]["message"]["tool_calls"]] == ids


@pytest.mark.parametrize(
    ("history", "sent", "client"),
    [
        (["functions.bash:1"], "functions.bash:0", "functions.bash:0"),
        (["functions.bash:0"], "functions.bash:0", "functions.bash:1"),
        (["call_x"], "call_x", MADE[0]),
    ],
)
def test_no_native_call_has_an_id_of_the_history(
    history: list[str], sent: str, client: str
) -> None:
    function = {"name": "bash", "arguments": ""}
    head = {"index": 0, "id": sent, "type": "function", "function": function}
    more = [{"index": 0, "id": sent, "function": {"arguments": piece}} for piece in '{"a":1}']
    for elements in ([head, *more], [head]):
        chunks = [chunk({"tool_calls": [element]}) for element in elements]
        stream = sse([*chunks, chunk({}, "tool_calls")])
        out = repair(stream, asked(*history))
        assert out.count(json.dumps(client).encode()) + out.count(f'"id":"{client}"'.encode())
        assert (out == stream) == (sent == client)
        assert (sent.encode() in out) == (sent == client)
    message = {"role": "assistant", "content": None, "tool_calls": [head]}
    body = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
    tools = DeclaredTools.of_request(asked(*history))
    whole = repair_whole(body, tools, RepairOptions(), Evidence(), NOW)
    assert (whole == body) == (sent == client)
    (call,) = json.loads(whole)["choices"][0]["message"]["tool_calls"]
    assert call == head | {"id": client}


def element(index: int | None, call_id: str, arguments: str, *, begins: bool = False) -> Json:
    function = {"name": "bash"} | {"arguments": arguments} if begins else {"arguments": arguments}
    head = {"type": "function"} if begins else {}
    numbered = {} if index is None else {"index": index}
    return numbered | ({"id": call_id} if call_id else {}) | head | {"function": function}


@pytest.mark.parametrize(
    "elements",
    [
        [
            element(None, "a", "", begins=True),
            element(0, "", '{"command":'),
            element(0, "", '"a"}'),
        ],
        [
            element(None, "a", "", begins=True),
            element(0, "", '{"command":"a"}'),
            element(None, "b", "", begins=True),
            *[element(1, "", piece) for piece in ('{"command":', '"', "b", '"}')],
        ],
        [
            element(0, "a", "", begins=True),
            element(0, "b", "", begins=True),
            *[element(0, "a", piece) for piece in ('{"command":', '"a"}')],
            *[element(0, "b", piece) for piece in ('{"command":', '"', "b", '"}')],
        ],
        [
            element(0, "a", '{"command":"a"}', begins=True),
            element(0, "b", '{"command":', begins=True),
            *[element(0, "", piece) for piece in ('"', "b", '"}')],
        ],
    ],
    ids=["a head without an index", "two of them", "two calls at one index", "one after the other"],
)
def test_what_comes_later_of_a_call_has_the_index_of_its_beginning(elements: list[Json]) -> None:
    chunks = [chunk({"tool_calls": [each]}) for each in elements]
    calls: dict[int, list[str]] = {}
    frames = [frame for frame in split(repair(sse(chunks, done=False), REQUEST)) if frame.json]
    for call in [frame.json["choices"][0]["delta"]["tool_calls"][0] for frame in frames]:
        calls.setdefault(call["index"], [call.get("id")]).append(call["function"]["arguments"])
    got = [(call_id, "".join(pieces)) for call_id, *pieces in calls.values()]
    ids = [each["id"] for each in elements if "type" in each]
    assert got == [(each, f'{{"command":"{each}"}}') for each in ids]


def test_no_id_is_made_for_two_choices() -> None:
    chunks = [chunk({"content": K3}), chunk({"content": K3})]
    chunks[1]["choices"][0]["index"] = 1
    out = repair(sse(chunks), asked())
    assert [call["id"] for index in (0, 1) for call in read(out, index).calls] == MADE[:2]


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ('{"command": "ls"}', "inferred the end of a call"),
        ('{"command": "l', "left as text damaged call of bash, cut off"),
    ],
)
def test_a_call_whose_arguments_are_whole_is_not_noted_as_cut(arguments: str, note: str) -> None:
    evidence = Evidence()
    text = f"<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{arguments}"
    repair(sse([chunk({"content": text})]), REQUEST, evidence=evidence)
    assert note in evidence.lines()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("stop", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "sensitive"),
        ("error", "error"),
    ],
)
def test_a_turn_that_failed_within_a_call_is_told_as_its_host_does(said: str, told: str) -> None:
    text = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "l'
    out = read(repair(sse([chunk({"content": text}), chunk({}, said)]), REQUEST))
    assert (out.calls, out.content, out.finish) == ([], text, [told])
