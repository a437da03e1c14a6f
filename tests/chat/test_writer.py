"""What leaves of a chunk in which something has changed."""

from __future__ import annotations

import json
from typing import Any

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.json_codec import dumps
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse
from tests.repair.turns import REQUEST

LEAK = (
    "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|>'
)
TOKENS = {"content": [{"token": "t", "logprob": -1, "bytes": [1], "top_logprobs": []}]}


def test_of_thoughts_with_log_probabilities_a_leaked_call_is_made() -> None:
    leaked = chunk({"reasoning_content": LEAK})
    leaked["choices"][0]["logprobs"] = TOKENS
    out = repair(sse([leaked, chunk({}, "stop")]), REQUEST)
    assert [each["name"] for each in read(out).calls] == ["bash"]
    assert b'"token"' not in out


def test_a_call_in_the_old_field_stays_there_beside_text_that_has_changed() -> None:
    marker, function = "Look.<|tool_call_end|>", {"name": "bash", "arguments": "{}"}
    called: dict[str, Any] = {"content": marker, "function_call": function}
    out = repair(sse([chunk(called), chunk({}, "function_call")]), REQUEST)
    assert b'"Look."' in out and b"tool_calls" not in out
    assert out.count(b'"function_call": {') + out.count(b'"function_call":{') == 1
    choice = {"index": 0, "message": called, "finish_reason": "function_call"}
    whole = {"model": "kimi", "choices": [choice]}
    tools = DeclaredTools.of_request(REQUEST)
    body = repair_whole(dumps(whole), tools, RepairOptions(), Evidence(), NOW)
    message = json.loads(body)["choices"][0]["message"]
    assert message == {"content": "Look.", "function_call": function}
