"""Streams of the Messages API as hosts send them, and what a client reads in one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.bridge.reader_writer_pairs import repair_whole, tools_of
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.sse import split

Json = dict[str, Any]
K2 = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls -la"}<|tool_call_end|><|tool_calls_section_end|>'
)
BASH = {
    "name": "bash",
    "description": "Runs a command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
}
REQUEST: Json = {
    "model": "kimi-k2.5",
    "max_tokens": 1024,
    "stream": True,
    "messages": [{"role": "user", "content": "List the files."}],
    "tools": [BASH],
}
USAGE = {"input_tokens": 10, "output_tokens": 1}
Block = tuple[str, Any]
"""`text` or `thinking` and its pieces, `tool_use` and (name, pieces of its input), or any other
type and its fields."""


def event(value: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), json.dumps(value).encode())


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def block_events(index: int, kind: str, said: Any) -> Iterable[Json]:
    begun: Json = {"type": kind}
    deltas: list[Json] = []
    if kind == "tool_use":
        name, said = said
        begun |= {"id": f"toolu_host{index}", "name": name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in said]
    elif kind in ("text", "thinking"):
        begun |= {kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        deltas = [{"type": f"{kind}_delta", kind: piece} for piece in said]
        deltas += [{"type": "signature_delta", "signature": "c2ln"}] if kind == "thinking" else []
    else:
        begun |= said
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def events(blocks: Sequence[Block], stop: str = "end_turn", model: str = "kimi-k2.5") -> list[Json]:
    message = {
        **{"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []},
        **{"stop_reason": None, "stop_sequence": None, "usage": USAGE},
    }
    ends = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        *(each for at, block in enumerate(blocks) for each in block_events(at, *block)),
        {"type": "message_delta", "delta": ends, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]


def stream(blocks: Sequence[Block], stop: str = "end_turn", model: str = "kimi-k2.5") -> bytes:
    return b"".join(map(event, events(blocks, stop, model)))


def document(blocks: Sequence[Block], stop: str = "end_turn") -> Json:
    """The same message, not streamed."""
    content: list[Json] = []
    for kind, said in blocks:
        if kind == "tool_use":
            given = json.loads("".join(said[1]))
            call_id = f"toolu_host{len(content)}"
            content.append({"type": kind, "id": call_id, "name": said[0], "input": given})
        elif kind in ("text", "thinking"):
            more = {"signature": "c2ln"} if kind == "thinking" else {}
            content.append({"type": kind, kind: "".join(said), **more})
        else:
            content.append({"type": kind, **said})
    message = events([], stop)[0]["message"]
    return {**message, "content": content, "stop_reason": stop}


@dataclass
class Read:
    """A reply as a strict client reads it: it fails on what breaks one of the measured clients."""

    blocks: list[Json] = field(default_factory=list)
    stop_reason: str | None = None
    others: list[str] = field(default_factory=list)
    """Types of events that are in no order: pings, errors."""

    @property
    def gist(self) -> str:
        """Texts and calls in their order, thoughts between slashes."""
        shown = []
        for block in self.blocks:
            if block["type"] == "tool_use":
                shown.append(f"[{block['name']} {block['input']}]")
            elif block["type"] in ("text", "thinking"):
                mark = "/" if block["type"] == "thinking" else ""
                shown.append(f"{mark}{block[block['type']].strip()}{mark}")
            else:
                shown.append(f"({block['type']})")
        return " ".join(shown)


def read(body: bytes, *, broken: bool = False) -> Read:
    """Read a whole stream, or one that has `broken` off."""
    reply, open_index, state, cut = Read(), -1, "new", False
    for frame in split(body):
        value = json.loads(frame.data or b"null")
        kind = value["type"]
        assert frame.raw.startswith(b"event: %b\n" % kind.encode())
        if kind in ("ping", "error"):
            reply.others.append(kind)
            continue
        if kind == "message_start":
            assert state == "new"
            state = "begun"
        elif kind == "content_block_start":
            assert (state, open_index) == ("begun", -1)
            open_index = len(reply.blocks)
            assert value["index"] == open_index
            block = dict(value["content_block"])
            if block["type"] == "tool_use":
                assert block["input"] == {} and block["id"] and block["name"]
                block["input"] = ""
            reply.blocks.append(block)
        elif kind.startswith("content_block"):
            assert value["index"] == open_index >= 0
            if kind == "content_block_stop":
                assert block["type"] != "tool_use" or block["input"]
                open_index = -1
                continue
            delta = value["delta"]
            name = {"input_json_delta": "input"}.get(delta["type"], delta["type"][: -len("_delta")])
            block[name] = block.get(name, "") + next(v for k, v in delta.items() if k != "type")
        elif kind == "message_delta":
            cut = open_index >= 0
            assert state == "begun"
            assert not cut or block["type"] == "tool_use"  # which nobody runs
            assert "output_tokens" in value["usage"]
            reply.stop_reason, state = value["delta"]["stop_reason"], "ended"
        else:
            assert (kind, state) == ("message_stop", "ended")
            state = "stopped"
    assert broken or state == "stopped"
    called = [block for block in reply.blocks if block["type"] == "tool_use"]
    assert len({block["id"] for block in called}) == len(called)
    if not broken and reply.stop_reason in ("tool_use", "end_turn"):
        assert (reply.stop_reason == "tool_use") == (len(called) > cut)
    return reply


def repaired(
    body: bytes, request: Json = REQUEST, *, evidence: Evidence | None = None, **options: Any
) -> bytes:
    tools = tools_of(request, "messages")
    return repair_whole(body, tools, RepairOptions(**options), evidence or Evidence(), 7)
