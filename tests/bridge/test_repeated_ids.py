"""Ids of calls in Responses replies: none that the conversation has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.request.convert import convert_request
from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.turn_context import TurnContext
from dragoman.responses.dialects import OPENAI
from dragoman.responses.repair import ResponsesRepair
from tests.chat.test_call_ids import k2
from tests.repair.streams import NOW, chunk, sse

from .converting import drained
from .grammar import check
from .hosts import OPENAI as OPENAI_HOST
from .native_grammar import check_native
from .replying import new_reply

Json = dict[str, Any]
BASH = {"type": "function", "name": "bash", "parameters": {"type": "object"}}


def call(call_id: str) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "bash", "arguments": "{}"}


def asked(*ids: str) -> Json:
    output = {"type": "function_call_output", "output": "ok"}
    items = [item for each in ids for item in (call(each), output | {"call_id": each})]
    said = {"role": "user", "content": "Go on."}
    return {"model": "kimi-k2.7", "input": [said, *items], "tools": [BASH]}


def ids(output: list[Json]) -> list[str]:
    return [item["call_id"] for item in output if "call_id" in item]


def native(call_id: str) -> Json:
    function = {"name": "bash", "arguments": "{}"}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}


def converted(
    request: Json, earlier: list[Json] | None = None
) -> tuple[TurnContext, DeclaredTools]:
    conversion = drained(
        convert_request(request, unsupported="drop", evidence=Evidence(), earlier=earlier)
    )
    tools = conversion.declared()
    return replace(conversion.turn, called=tools.called), tools


@pytest.mark.parametrize("repairs", [True, False])
@pytest.mark.parametrize(
    ("history", "sent", "client"),
    [
        ([], "functions.bash:0", "functions.bash:0"),
        (["functions.bash:1"], "functions.bash:0", "functions.bash:2"),  # it is sent as :0
        (["functions.bash:0", "functions.bash:1"], "functions.bash:0", "functions.bash:2"),
        (["functions.bash:7"], "functions.bash:7", "functions.bash:8"),
    ],
)
def test_a_bridged_call_has_an_id_of_its_own(
    history: list[str], sent: str, client: str, *, repairs: bool
) -> None:
    deltas = [native(sent)] + [{"content": k2(sent)}] * repairs
    for delta in deltas:
        turn, tools = converted(asked(*history))
        repair = ChatRepair(tools, RepairOptions(), Evidence(), NOW) if repairs else None
        reply = new_reply(Evidence(), OPENAI, turn)
        pipeline = BridgePipeline(reply, repair)
        frames = reply.open() + pipeline.feed(sse([chunk(delta), chunk({}, "stop")]))
        story = check([*frames, *pipeline.close()], OPENAI)
        made = ids(story.response["output"])
        assert made == [client]


def test_items_of_a_stored_conversation_count_as_well() -> None:
    earlier = [call("functions.bash:0"), call("functions.bash:1")]
    reply = new_reply(Evidence(), OPENAI, converted(asked(), earlier)[0])
    pipeline = BridgePipeline(reply, None)
    reply.open()
    pipeline.feed(sse([chunk(native("functions.bash:0")), chunk({}, "stop")]))
    assert ids(reply.response["output"]) == ["functions.bash:2"]


def test_a_leaked_call_of_a_native_reply_has_an_id_of_its_own() -> None:
    for history, client in (
        ([], "functions.bash:0"),
        (["functions.bash:0"], "functions.bash:1"),
        (["functions.bash:1", "functions.bash:0"], "functions.bash:2"),
    ):
        tools = ResponsesTools.of_request(asked(*history))
        repair = ResponsesRepair(tools, RepairOptions(), Evidence(), NOW)
        pipeline = RepairPipeline(repair, Evidence())
        stream = OPENAI_HOST.stream([("text", [k2("functions.bash:0")])])
        events = check_native(pipeline.feed(stream) + pipeline.close())
        assert ids(events[-1]["response"]["output"]) == [client]
