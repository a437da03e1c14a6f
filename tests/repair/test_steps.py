"""A long reply is read in steps, so that other flows run in between: none of them is more work,
however long the reply is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import repair_in_steps, tools_of
from dragoman.bridge.reply.bridge_pipeline import answer
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import Steps
from dragoman.wire.reply_bounds import STEP
from tests.bridge.replying import new_reply
from tests.counting import calls_of
from tests.repair.formats.leaks import REQUEST
from tests.repair.streams import NOW, chunk, sse

Json = dict[str, Any]
TEXTS = {
    "plain": "The quick brown fox jumps over it.\n",
    "markers": "<|tool_call_begin|>z! <tool_call> <function=bash> [TOOL_CALLS] ",
    "ends": "<|tool_call_end|> # ",
    "fences in lists": "- ```\n  a\n",
}
MOST = 200_000
"""Calls of a step: what is hard is so only for some text, all of which one step may have."""
TOOLS = DeclaredTools.of_request(REQUEST)


def _chat(text: str) -> Json:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


def _response(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    return {"object": "response", "id": "r", "status": "completed", "output": [item]}


def _message(text: str) -> Json:
    said = [{"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "content": said, "stop_reason": "end_turn"}


def _repaired(body: Json, api: str) -> Steps[bytes]:
    tools = tools_of(REQUEST, api)
    return repair_in_steps(json.dumps(body).encode(), tools, RepairOptions(), Evidence(), NOW)


def _bridged(text: str) -> Steps[object]:
    repair = ChatRepair(TOOLS, RepairOptions(), Evidence(), NOW)
    body, reply = json.dumps(_chat(text)).encode(), new_reply(Evidence())
    return answer(reply, body, status=200, stream=False, repair=repair)


def _streamed(text: str) -> Steps[object]:
    """One event of a stream."""
    pipeline = RepairPipeline(ChatRepair(TOOLS, RepairOptions(), Evidence(), NOW), Evidence())
    pipeline.feed(sse([chunk({"content": text})]))
    while pipeline.waits:
        yield
        pipeline.feed(b"")
    return pipeline.close()


def _of_small_events(text: str) -> Steps[bytes]:
    """A stream that came whole."""
    events = [chunk({"content": text[at : at + 200]}) for at in range(0, len(text), 200)]
    return repair_in_steps(sse(events), TOOLS, RepairOptions(), Evidence(), NOW)


WAYS: dict[str, Callable[[str], Steps[object]]] = {
    "chat": lambda text: _repaired(_chat(text), "chat"),
    "responses": lambda text: _repaired(_response(text), "responses"),
    "messages": lambda text: _repaired(_message(text), "messages"),
    "bridged": _bridged,
    "an event": _streamed,
    "a stream": _of_small_events,
}


def _costs(steps: Steps[object]) -> Iterator[int]:
    """The calls of each step."""
    more = True

    def step() -> None:
        nonlocal more
        more = next(steps, "end") is None

    while more:
        yield calls_of(step)


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_longer_reply_takes_more_steps_and_none_is_more_work(way: str, what: str) -> None:
    piece, made = TEXTS[what], WAYS[way]
    list(made(piece))  # what is made once is made now
    less, more = (list(_costs(made(piece * (n * STEP // len(piece))))) for n in (8, 24))
    assert len(more) >= len(less) + 15
    assert max(more) <= 1.5 * max(less) + 100
    assert max(more) < MOST
