"""A long conversation through the proxy: each turn upstream begins with the last one's bytes.

Providers cache by prefix, so one byte that changes in the history costs the whole of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.server import Reply
from tests.live.responses import REQUEST, Bridge, to_last_message
from tests.repair.streams import chunk, sse

CALLS = 30
Item = dict[str, Any]


def native(index: int, number: int) -> Item:
    function = {"name": "bash", "arguments": json.dumps({"command": f"echo {number} <é>"})}
    return {"index": index, "id": f"call_{number}", "type": "function", "function": function}


def leaked(number: int) -> str:
    return (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.read:{number}"
        f'<|tool_call_argument_begin|>{{"path": "/{number}"}}<|tool_call_end|>'
        "<|tool_calls_section_end|>"
    )


def replies() -> Iterator[bytes]:
    """What a host says turn by turn: calls of every kind, and now and then only text."""
    number = 0
    while number < CALLS:
        thought = chunk({"role": "assistant", "reasoning_content": f"Thinking of {number}.\n"})
        match number % 6:
            case 0:
                chunks = [thought, chunk({"tool_calls": [native(0, number)]})]
                calls = 1
            case 1:
                calls = 2
                both = [native(index, number + index) for index in range(calls)]
                chunks = [thought, chunk({"content": "Two. "}), chunk({"tool_calls": both})]
            case 3:
                chunks = [thought, chunk({"reasoning_content": leaked(number)})]
                calls = 1
            case 4:
                chunks = [chunk({"content": "Look: " + leaked(number)})]
                calls = 1
            case _:
                chunks = [chunk({"tool_calls": [native(0, number)]})]
                calls = 1
        yield sse([*chunks, chunk({}, "tool_calls")])
        number += calls
        if number % 6 == 0:
            yield sse([thought, chunk({"content": f"So far {number}."}), chunk({}, "stop")])


def answers(output: list[Item]) -> list[Item]:
    """What the client adds to a turn's output: the tools' results, or the next question."""
    calls = [item for item in output if item["type"] == "function_call"]
    if not calls:
        return [
            {"role": "developer", "content": "Stay brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
        ]
    return [
        {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": f"result of {call['arguments']}",
        }
        for call in calls
    ]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("model", ["kimi-k2.5", "kimi-k3", "MiniMax-M2.5", "qwen3.6", "glm-5"])
def test_every_turn_begins_with_the_bytes_of_the_last(
    bridge: Bridge, model: str, stream: bool
) -> None:
    history: list[Item] = [{"role": "user", "content": "Begin."}]
    request = REQUEST | {"model": model, "instructions": "Be brief.", "stream": stream}
    request |= {"store": False, "prompt_cache_key": "one-conversation"}
    sent = []
    for reply in replies():
        exchange = bridge.ask(Reply(reply), request | {"input": history})
        (arrived,) = exchange.sent
        sent.append(arrived)
        response = exchange.story().response if stream else exchange.json
        assert response["status"] == "completed"
        history += [*response["output"], *answers(response["output"])]

    for turn, following in itertools.pairwise(sent):
        before = to_last_message(turn)
        assert following.body.startswith(before)
        assert following.body[len(to_last_message(following)) :] == turn.body[len(before) :]
    check_history(sent[-1].json["messages"], model)


def check_history(messages: list[Item], model: str) -> None:
    """Every call is there once, and its result directly behind it."""
    ids: list[str] = []
    told = [message["role"] for message in messages].count("system")
    assert told == 1 if model in ("MiniMax-M2.5", "qwen3.6") else told > 1
    rest = iter(messages)
    for message in rest:
        assert message["role"] != "tool", "a result without a call"
        calls = message.get("tool_calls", [])
        if calls and model.startswith("kimi"):
            assert "reasoning_content" in message
        for call in calls:
            output = next(rest)
            assert output["role"] == "tool"
            assert output["tool_call_id"] == call["id"]
            assert output["content"] == f"result of {call['function']['arguments']}"
            ids.append(call["id"])
    assert len(ids) >= CALLS - 2
    if model == "kimi-k2.5":
        assert [int(call_id.rpartition(":")[2]) for call_id in ids] == list(range(len(ids)))
        assert {call_id.rpartition(":")[0] for call_id in ids} == {
            "functions.bash",
            "functions.read",
        }
