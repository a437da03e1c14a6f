"""What leaves of a chunk in which something has changed."""

from __future__ import annotations

from tests.repair.streams import chunk, read, repair, sse
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
