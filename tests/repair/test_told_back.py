"""A model that tells a document about the tokens calls nothing, and loses no character."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import repair_whole
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.json_codec import dumps, loads
from tests.repair.streams import NOW, chunk, read, repair, sse
from tests.repair.turns import REQUEST

pytestmark = pytest.mark.slow

DOCUMENTS = sorted((Path(__file__).parents[1] / "documents").glob("*.txt"))
MODELS = ["gpt-5.5", "kimi-k2.5", "my-model"]
TOKENS = re.compile(r"<\|\w+\|>|\s*\w{1,5}|\s+|[^\w\s]{1,3}")

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
every_model = pytest.mark.parametrize("model", MODELS)
every_cut = pytest.mark.parametrize(
    ("model", "cut"),
    [*itertools.product(MODELS, ["whole", "tokens"]), ("kimi-k2.5", "characters")],
)


def cuts(text: str, cut: str) -> list[str]:
    if cut == "whole":
        return [text]
    return TOKENS.findall(text) if cut == "tokens" else list(text)


def test_the_documents_are_there_and_tokens_lose_nothing() -> None:
    assert len(DOCUMENTS) == 5
    assert any("<|tool_calls_section_begin|>" in path.read_text() for path in DOCUMENTS)
    assert all("".join(cuts(p.read_text(), "tokens")) == p.read_text() for p in DOCUMENTS)


@every_document
@every_cut
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_streamed_document_is_forwarded_byte_for_byte(
    document: Path, model: str, cut: str, field: str
) -> None:
    deltas = [chunk({field: piece}) for piece in cuts(document.read_text(), cut)]
    chunks = [chunk({"role": "assistant"}), *deltas, chunk({}, "stop")]
    stream = sse([{**value, "model": model} for value in chunks])
    evidence = Evidence()
    assert repair(stream, REQUEST | {"model": model}, evidence=evidence) == stream
    told = any(what == "left as text" for what, _ in evidence.notes)
    assert told == ("<|tool_call" in document.read_text())
    assert not evidence.calls


@every_document
@every_model
def test_a_whole_document_is_left_as_it_came(document: Path, model: str) -> None:
    message = {"role": "assistant", "content": document.read_text()}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    body = dumps({"model": model, "choices": [choice]})
    tools = DeclaredTools.of_request(REQUEST | {"model": model})
    evidence = Evidence()
    assert repair_whole(body, tools, RepairOptions(), evidence, NOW) == body
    assert ("left as text" in str(evidence.notes)) == ("<|tool_call" in document.read_text())


@every_document
def test_a_real_call_after_a_document_is_still_a_call(document: Path) -> None:
    call = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
        '<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>'
    )
    text = document.read_text() + "\n\nNow I list the files.\n" + call
    for cut in ("whole", "tokens"):
        deltas = [chunk({"content": piece}) for piece in cuts(text, cut)]
        out = read(repair(sse([*deltas, chunk({}, "stop")]), REQUEST | {"model": "kimi-k2.5"}))
        assert out.content == text.removesuffix(call)
        assert [made["name"] for made in out.calls] == ["bash"]
        assert out.finish == ["tool_calls"]


def test_a_told_document_is_the_same_value() -> None:
    """What is compared above is what a client would parse."""
    stream = sse([chunk({"content": DOCUMENTS[1].read_text()})], done=False)
    assert loads(stream[6:])["choices"][0]["delta"]["content"] == DOCUMENTS[1].read_text()
