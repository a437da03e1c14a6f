"""Running the stages in a test: frames and chunks in, what a client would read out."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.bridge.reader_writer_pairs import repair_whole as repaired_whole
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence, ReplyFacts
from dragoman.repair.call_rule import CallRule
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.formats_by_family import ALL
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.repair_options import RepairOptions
from dragoman.repair.scanner import Scanner
from dragoman.wire.sse import Frame, FrameSplitter

NOW = 1_700_000_000
CUTS = 20
RULES = {
    "any": CallRule("any", quoted_last=True),
    "open": CallRule("any"),
    "declared": CallRule("declared"),
    "none": CallRule("none"),
}


def places_to_cut(length: int, name: str) -> range:
    """Where a text of this length is cut in two: everywhere, or at some `CUTS` places.

    Which these are, differs with `name`: in a table of texts each tag is cut everywhere.
    """
    step = length // CUTS + 1
    return range(1 + zlib.crc32(name.encode()) % step, length, step)


def scanner_of(tools: DeclaredTools, rule: str = "any", formats: MarkerSearch = ALL) -> Scanner:
    """A scanner that has the same rule for all formats."""
    return Scanner(tools, lambda _: RULES[rule], formats)


@dataclass
class Read:
    """What a client that follows the stream has read of one choice."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.reasoning + self.content


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk as hosts send it."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "kimi"}
    return {**head, "choices": [choice], **more}


def sse(chunks: list[Any], *, done: bool = True) -> bytes:
    """A stream of chunks."""
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}\n\n" for value in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def repair(
    stream: bytes,
    request: object,
    options: RepairOptions | None = None,
    *,
    pieces: list[bytes] | None = None,
    evidence: Evidence | None = None,
) -> bytes:
    """The whole way of a stream: split, repaired, joined."""
    stage = ChatRepair(
        DeclaredTools.of_request(request),
        options or RepairOptions(),
        evidence or Evidence(),
        now=NOW,
    )
    splitter = FrameSplitter()
    frames: list[Frame] = []
    for piece in pieces if pieces is not None else [stream]:
        for frame in splitter.feed(piece):
            frames += stage.feed(frame)
    for frame in splitter.close():
        frames += stage.feed(frame)
    frames += stage.close()
    return b"".join(frame.raw for frame in frames)


def read(stream: bytes, index: int = 0) -> Read:
    """Read a stream as strictly as the strictest client measured."""
    result = Read()
    splitter = FrameSplitter()
    for frame in [*splitter.feed(stream), *splitter.close()]:
        if frame.data is None or frame.data == b"[DONE]":
            continue
        for choice in json.loads(frame.data).get("choices", []):
            if choice.get("index", 0) == index:
                _read_choice(result, choice)
    return result


def _read_choice(result: Read, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    result.content += delta.get("content") or ""
    reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
    result.reasoning += reasoning
    for call in delta.get("tool_calls") or []:
        if "id" in call:
            assert call["index"] == len(result.calls), "indexes count from 0 without a gap"
            assert call["type"] == "function"
            assert call["function"]["name"]
            result.calls.append({"id": call["id"], **call["function"]})
        else:
            assert call["index"] == len(result.calls) - 1, "one call after the other"
            assert call.keys() == {"index", "function"}
            assert call["function"].keys() == {"arguments"}
            result.calls[-1]["arguments"] += call["function"]["arguments"]
    if choice.get("finish_reason"):
        result.finish.append(choice["finish_reason"])


def repair_whole(
    body: bytes, tools: DeclaredTools, options: RepairOptions, evidence: Evidence, now: int
) -> bytes:
    """A reply that was received whole, repaired at once."""
    return repaired_whole(body, tools, options, evidence, now)


def summarize(body: bytes) -> ReplyFacts:
    """A look at the body of a reply, at once."""
    return read_reply(body).facts
