"""Native Responses streams of random shape: with a leak the same items at every cut, streamed or
whole, as openai-python's own accumulator reads them; without one the very bytes."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    from openai import omit
    from openai._models import construct_type_unchecked
    from openai.lib.streaming.responses._responses import ResponseStreamState
    from openai.types.responses import ResponseStreamEvent
except ImportError:  # it cannot be installed beside mitmproxy 11
    ResponseStreamState = None  # type: ignore[assignment, misc]
from dragoman.wire.sse import split
from fixtures.regenerate import expected, is_clean, native_fixtures
from tests.bridge.hosts import HOSTS, Host
from tests.bridge.test_reader_writer_pairs import repaired as repaired_whole
from tests.live.clients import SCRIPTS, need, node
from tests.responses.test_repair import cut, repaired

pytestmark = pytest.mark.slow

Json = dict[str, Any]
CALL = (
    "<|tool_calls_section_begin|>{}<|tool_call_begin|>functions.bash:{}<|tool_call_argument_begin|>"
    '{{"command":"ls {}"}}<|tool_call_end|><|tool_calls_section_end|>'
)
WORDS = ["Look ", "at ", "it. ", "a < b ", "é𝄞 ", "<|tool", " x ", "`code` ", "\n\n"]
ITEMS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "search": (
        {"type": "web_search_call", "action": {"type": "search", "query": "q"}},
        ("response.web_search_call.in_progress", "response.web_search_call.completed"),
    ),
    "sealed": ({"type": "reasoning", "summary": [], "encrypted_content": "AAAA"}, ()),
    "image": ({"type": "image_generation_call", "result": "x"}, ()),
}
"""Items that are no text, and the events between their begin and their end."""


def plan(chosen: random.Random, *, leaks: bool) -> list[tuple[str, str]]:
    """What a turn says: kinds of items, with their texts."""
    said, calls = [], 0
    for _ in range(chosen.randrange(1, 6)):
        kind = chosen.choice(["reasoning", "text", "text", "parts", "refusal", "call", *ITEMS])
        text = "".join(chosen.choices(WORDS, k=chosen.randrange(1, 6))) + "so."
        if kind == "call":
            text = json.dumps({"command": f"ls {chosen.randrange(3)}"})
        elif leaks and kind != "refusal" and kind not in ITEMS and chosen.random() < 0.6:
            inside = chosen.choice(["", "Inside, before the call. "])
            text += CALL.format(inside, calls, chosen.randrange(3)) + chosen.choice(["", "After."])
            calls += 1
        said.append((kind, text))
    return said


def message(place: int, texts: list[tuple[str, str]], size: int) -> Iterator[Json]:
    """The events of a message with several parts, each a text or a refusal; the first is annotated
    if it is a text."""
    item: Json = {
        "id": f"msg_p{place}",
        "type": "message",
        "role": "assistant",
        "phase": "final_answer",
    }
    at: Json = {"item_id": item["id"], "output_index": place}
    yield added(place, item | {"content": []})
    parts: list[Json] = []
    for number, (kind, text) in enumerate(texts):
        name = "response.refusal" if kind == "refusal" else "response.output_text"
        part: Json = {"type": "refusal"} if kind == "refusal" else {"type": "output_text"}
        part |= {} if kind == "refusal" else {"annotations": [], "logprobs": []}
        of_part = at | {"content_index": number}
        yield {"type": "response.content_part.added", **of_part, "part": part | {kind: ""}}
        for delta in cut(text, size):
            yield {"type": f"{name}.delta", **of_part, "delta": delta}
        if number == 0 and kind == "text":
            part["annotations"] = [{"type": "url_citation", "url": "u"}]
            note = {"annotation_index": 0, "annotation": part["annotations"][0]}
            yield {"type": "response.output_text.annotation.added", **of_part, **note}
        yield {"type": f"{name}.done", **of_part, kind: text}
        parts.append(part | {kind: text})
        yield {"type": "response.content_part.done", **of_part, "part": parts[-1]}
    yield done(place, item | {"content": parts})


def added(place: int, item: Json) -> Json:
    item = item | {"status": "in_progress"}
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(place: int, item: Json) -> Json:
    item = item | {"status": "completed"}
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def stream(host: Host, said: list[tuple[str, str]], size: int) -> bytes:
    """A turn as this host streams it, in deltas of this size."""
    *_, last = first = host.events([])
    events, listed = first[:2], []
    for place, (kind, text) in enumerate(said):
        if kind in ITEMS:
            item, between = ITEMS[kind]
            item = item | {"id": f"{kind}_{place}"}
            where = {"item_id": item["id"], "output_index": place}
            of_item = [{"type": each, **where} for each in between]
            events += [added(place, item), *of_item, done(place, item)]
        elif kind in ("parts", "refusal"):
            first_part = ("refusal", "Not that.") if kind == "refusal" else ("text", "First. ")
            events += message(place, [first_part, ("text", text)], size)
        elif kind == "call":
            events += host._item(place, kind, ["bash", text])
        else:
            events += host._item(place, kind, cut(text, size))
        listed.append(events[-1]["item"])
    events.append({**last, "response": last["response"] | {"output": listed}})
    numbered = [event | {"sequence_number": n} for n, event in enumerate(events)]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in numbered).encode()


def items_of(repaired: bytes) -> list[Json]:
    """The items as the events give them: one after the other, and listed so at the end."""
    items: list[Json] = []
    opened: Json | None = None
    events = [json.loads(frame.data or b"") for frame in split(repaired)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        if event["type"].endswith("item.added"):
            assert opened is None and event["output_index"] == len(items)
            opened = event["item"]
        elif event["type"].endswith("item.done"):
            assert opened is not None and event["item"]["id"] == opened["id"]
            items.append(event["item"])
            opened = None
        elif "output_index" in event:
            assert opened is not None and event["item_id"] == opened["id"]
            assert event["output_index"] == len(items)
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["output"] == items
    assert len({item["id"] for item in items}) == len(items)
    return items


def accumulate(stream: bytes) -> None:
    """As openai-python does; it raises where identities change, or items are missing."""
    if ResponseStreamState is None:
        return
    state = ResponseStreamState(input_tools=omit, text_format=omit)
    for frame in split(stream):
        if not frame.is_done:
            event = construct_type_unchecked(type_=ResponseStreamEvent, value=frame.json)  # type: ignore[arg-type]
            state.handle_event(event)
    assert state._completed_response is not None


def gist(items: list[Json]) -> list[Json]:
    """What does not depend on where a stream was cut; an item that had no text yet when a call was
    found ends empty."""
    names = ("type", "status", "name", "call_id", "arguments", "encrypted_content", "phase")
    shown = []
    for item in items:
        parts = [*(item.get("content") or []), *(item.get("summary") or [])]
        text = "".join(part.get("text", part.get("refusal")) for part in parts)
        notes = [note for part in parts for note in part.get("annotations") or []]
        if text or item["type"] not in ("message", "reasoning") or "encrypted_content" in item:
            shown.append({"text": text, "notes": notes} | {n: item[n] for n in names if n in item})
    return shown


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_leaking_stream_gives_the_same_items_however_it_is_cut(host: Host) -> None:
    for seed in range(8):
        said = plan(random.Random(seed), leaks=True)
        streams = [stream(host, said, size) for size in (1000, 1, 5, 17)]
        if not any("tool_calls_section_begin" in text for _, text in said):
            assert [repaired(each) for each in streams] == streams
            continue
        outs = [repaired(each) for each in streams]
        whole, *cuts = [gist(items_of(out)) for out in outs]
        assert cuts == [whole] * 3, said
        for out in outs:
            accumulate(out)
        answer = json.loads(repaired_whole(split_last(streams[0])))
        # What was streamed of an item before its call stays; a whole one with only a call is that.
        assert gist(answer["output"]) == whole, said


def split_last(stream: bytes) -> bytes:
    """The response that ends a stream, as it is where none is asked for."""
    *_, last = split(stream)
    return json.dumps(last.json["response"]).encode()


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_without_a_leak_the_very_bytes_pass(host: Host) -> None:
    for seed in range(40):
        clean = stream(host, plan(random.Random(seed), leaks=False), 5)
        assert repaired(clean, pieces=[clean[at : at + 99] for at in range(0, len(clean), 99)]) == (
            clean
        )


FILES = [file for folder in native_fixtures() if (file := folder / "upstream.sse").exists()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_accumulator_of_openai_python_reads_each_fixture(file: Path) -> None:
    """But of the clean one: the host changes ids at its end."""
    if not is_clean(file.parent):
        accumulate(expected(file.parent))


ACCUMULATE = """
import { readFileSync } from "node:fs";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
const accumulate = (file) => {
  const lines = readFileSync(file, "utf8").split("\\n").filter((line) => /^data: {/.test(line));
  const events = lines.map((line) => JSON.parse(line.slice(6)));
  try {
    events.reduce((response, event) => accumulateResponse(event, response), undefined);
  } catch ({ message }) {
    return message;
  }
};
console.log(JSON.stringify(process.argv.slice(1).map((file) => accumulate(file) ?? "")));
"""


def test_the_accumulator_of_openai_node_reads_each_fixture_as_it_reads_the_hosts(
    tmp_path: Path,
) -> None:
    """It throws at some hosts' own events, which we pass on."""
    need(SCRIPTS / "node_modules" / "openai", "`make test` sets up the Node clients")
    repaired_files = [tmp_path / file.parent.name for file in FILES]
    for file, result in zip(FILES, repaired_files, strict=True):
        result.write_bytes(expected(file.parent))
    command = [node(), "--input-type=module", "-e", ACCUMULATE, *FILES, *repaired_files]
    done = subprocess.run(command, cwd=SCRIPTS, check=True, capture_output=True, timeout=60)
    faults = json.loads(done.stdout)
    of_hosts, ours = faults[: len(FILES)], faults[len(FILES) :]
    assert "" in ours
    assert all(each in ("", of_host) for each, of_host in zip(ours, of_hosts, strict=True))
