"""What is written of a response that its host has begun, in the shapes that hosts really send:
fields left out, indexes that count otherwise, items that overlap, text that no delta says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.wire.sse import split
from tests.bridge.hosts import OPENAI, SGLANG, VLLM, Host
from tests.bridge.native_grammar import check_native
from tests.responses.test_repair import CALLED, SECTION, cut, repaired, shown, text, worded

Json = dict[str, Any]
OTHER = CALLED | {"call_id": "call_1"}
OTHER_TEXT = "Other."


def said(host: Host, leaked: str, size: int) -> list[Json]:
    return host.events([("reasoning", ["Hm."]), ("text", cut(leaked, size))])


def growing(leaked: str, size: int) -> list[Json]:
    """vLLM until early 2026: the content index counts deltas."""
    events, index = said(VLLM, leaked, size), 0
    for event in events:
        index = 0 if "item" in event else index + event["type"].endswith(".delta")
        if "content_index" in event:
            event["content_index"] = index
    return events


def counting(leaked: str, size: int) -> list[Json]:
    """vLLM and SGLang with Harmony: it counts items; a reasoning part is added as a text part."""
    events = said(VLLM, leaked, size)
    for event in events:
        if "content_index" in event:
            event["content_index"] = event["output_index"]
        if event["type"] == "response.reasoning_part.added":
            event["type"] = "response.content_part.added"
            event["part"] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return events


def llama_cpp(leaked: str, size: int) -> list[Json]:
    """No indexes, no numbers, a call without an id; all items end at the end."""
    events = SGLANG.events(
        [
            ("reasoning", ["Hm."]),
            ("text", cut(leaked, size)),
            ("call", ["bash", '{"command":"id"}']),
        ]
    )
    for event in events:
        for name in ("output_index", "content_index", "sequence_number"):
            event.pop(name, None)
        if (item := event.get("item")) and item["type"] == "function_call":
            del item["id"]
        if event["type"].startswith("response.function_call"):
            event["item_id"] = "call_2"
    ends = [event for event in events if event["type"].endswith("done")]
    return [*(event for event in events[:-1] if event not in ends), *ends, events[-1]]


def routed(leaked: str, size: int) -> list[Json]:
    """SGLang's router: no item is done, and the last snapshot has the message alone."""
    events = [e for e in said(OPENAI, leaked, size) if e["type"] != "response.output_item.done"]
    message = {"id": "msg", "type": "message", "role": "assistant"}
    events[-1]["response"]["output"] = [message | {"content": [{"type": "text", "text": leaked}]}]
    return events


def one_off(leaked: str, size: int) -> list[Json]:
    """The first output index is 1."""
    return [
        event | ({"output_index": event["output_index"] + 1} if "output_index" in event else {})
        for event in said(OPENAI, leaked, size)
    ]


def without(*endings: str) -> Callable[[str, int], list[Json]]:
    """Events that a host does not send of a message."""

    def shape(leaked: str, size: int) -> list[Json]:
        events = said(OPENAI, leaked, size)
        return [
            event
            for event in events
            if event.get("output_index") != 1 or not event["type"].endswith(endings)
        ]

    return shape


PARTS = ("part.added", "part.done")
SHAPES: dict[str, Callable[[str, int], list[Json]]] = {
    "growing content index": growing,
    "counting content index": counting,
    "router": routed,
    "one off": one_off,
    "no text done": without("text.done"),
    "text done alone": without("text.delta"),
    "part done alone": without("text.delta", "text.done"),
    "item alone": without("text.delta", "text.done", *PARTS),
    "item done alone": without("text.delta", "text.done", *PARTS, "item.added"),
    "item added alone": without("text.delta", "text.done", *PARTS, "item.done"),
    "terminal alone": without("text.delta", "text.done", *PARTS, "item.done", "item.added"),
    "text without an item": without("item.added", "item.done", *PARTS),
    "text done without an item": without("text.delta", "item.added", "item.done", *PARTS),
}


def written(events: list[Json]) -> bytes:
    frames = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(frames).encode()


def read(stream: bytes) -> list[Json]:
    return [json.loads(frame.data or b"") for frame in split(stream)]


def output_of(stream: bytes) -> list[Json]:
    """What the last snapshot lists, but for items that had no text yet when a call was found: they
    end empty.  The calls are those of the events."""
    events = read(stream)
    output = worded(shown(events[-1]["response"]["output"]))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    calls = [item for item in shown(done) if item["type"] == "function_call"]
    assert calls == [item for item in output if item["type"] == "function_call"]
    return output


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_leak_is_found_in_any_shape(shape: Callable[[str, int], list[Json]]) -> None:
    expected = [text("Hm.", "reasoning"), text("Here."), CALLED, text("Done.")]
    for size in (4, 1000):
        out = repaired(written(shape(f"Here.{SECTION}Done.", size)))
        assert b"<|" not in out
        assert output_of(out) == expected
        clean = written(shape("Here is <|tool_calls|>, no call.", size))
        assert repaired(clean) == clean
        if shape not in (routed, one_off) and "without" not in shape.__qualname__:
            check_native(out)


def test_the_end_of_a_text_may_be_in_its_item_alone() -> None:
    """Its other part is another text, and some hosts count parts in ways of their own."""
    for shape in (counting, growing, without()):
        events = shape(f"Here.{SECTION}", 9)
        deltas = [n for n, event in enumerate(events) if "output_text.delta" in event["type"]]
        ends = [
            n for n, event in enumerate(events) if event["type"].endswith(("text.done", *PARTS[1:]))
        ]
        gone = {*deltas[-4:], *ends}
        left = [event for n, event in enumerate(events) if n not in gone]
        left = [event | {"sequence_number": n} for n, event in enumerate(left)]
        out = repaired(written(left))
        assert output_of(out) == [text("Hm.", "reasoning"), text("Here."), CALLED]
        assert b"<|" not in out


def test_text_that_only_the_end_says_comes_as_whole_items() -> None:
    for name in ("item done alone", "terminal alone", "part done alone", "text done alone"):
        events = SHAPES[name](f"Here.{SECTION}Done.", 1000)
        numbered = [event | {"sequence_number": n} for n, event in enumerate(events)]
        check_native(repaired(written(numbered)))
    failed = [*numbered[:-1], numbered[-1] | {"type": "response.failed"}]
    only = written([failed[0], failed[-1]])
    assert repaired(only) == only, "what has failed calls nothing"


def test_a_call_in_a_thought_without_an_index_comes_once() -> None:
    for dropped in ((), ("text.done",), ("text.delta", "text.done", "item.added")):
        events = OPENAI.events([("reasoning", cut(f"Hm.{SECTION}", 9))])
        events = [event for event in events if not event["type"].endswith(dropped or "-")]
        for event in events:
            event.pop("summary_index", None)
        out = repaired(written(events))
        assert output_of(out) == [text("Hm.", "reasoning"), CALLED]
        assert b"<|" not in out


@pytest.mark.parametrize("size", [4, 1000])
def test_events_without_id_and_index_are_of_the_latest_item(size: int) -> None:
    """Some gateways write only the text."""
    events = OPENAI.events([("text", cut(f"Here.{SECTION}Done.", size))])
    for event in events:
        for name in ("item_id", "output_index", "content_index"):
            if "item" not in event:
                event.pop(name, None)
    out = repaired(written([event for event in events if "part" not in event]))
    assert output_of(out) == [text("Here."), CALLED, text("Done.")]
    assert {event.get("content_index", 0) for event in read(out)} == {0}
    assert b"<|" not in out


def test_thoughts_that_were_changed_do_not_have_the_hosts_sealed_form() -> None:
    events = OPENAI.events([("reasoning", cut(f"Hm.{SECTION}So.", 9))])
    done = next(event for event in events if event["type"] == "response.output_item.done")
    done["item"]["encrypted_content"] = "sealed"
    assert b"sealed" not in repaired(written(events))


def test_a_refusal_is_not_read() -> None:
    said = json.dumps(OPENAI.events([("text", cut(SECTION, 5))]))
    for name in ("response.output_text.", '"type": "output_text"', '"text":'):
        said = said.replace(name, name.replace("output_text", "refusal").replace("text", "refusal"))
    stream = written(json.loads(said))
    assert b"response.refusal.delta" in stream and repaired(stream) == stream


def test_a_refusal_beside_a_leak_is_sent_once() -> None:
    where = {"item_id": "msg_0", "output_index": 0}
    item: Json = {"id": "msg_0", "type": "message", "role": "assistant", "content": []}
    parts = [{"type": "refusal", "refusal": "Not that."}, {"type": "output_text", "text": SECTION}]
    for order in (parts, parts[::-1]):
        events = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
        for index, part in enumerate(order):
            kind = "refusal" if "refusal" in part else "text"
            name = "response.refusal" if kind == "refusal" else "response.output_text"
            at = where | {"content_index": index}
            added = {"type": "response.content_part.added", **at, "part": part | {kind: ""}}
            delta = {"type": f"{name}.delta", **at, "delta": part[kind]}
            done = {"type": f"{name}.done", **at, kind: part[kind]}
            events += [
                added,
                delta,
                done,
                {"type": "response.content_part.done", **at, "part": part},
            ]
        whole = item | {"content": order}
        events.append({"type": "response.output_item.done", "output_index": 0, "item": whole})
        clean = OPENAI.events([("text", ["A."])])
        first, last = (
            clean[:2],
            clean[-1] | {"response": clean[-1]["response"] | {"output": [whole]}},
        )
        stream = [event | {"sequence_number": n} for n, event in enumerate([*first, *events, last])]
        out = repaired(written(stream))
        output = read(out)[-1]["response"]["output"]
        refused = [
            part for each in output for part in each.get("content") or () if "refusal" in part
        ]
        assert [part["refusal"] for part in refused] == ["Not that."]
        deltas = [each["delta"] for each in read(out) if each["type"] == "response.refusal.delta"]
        assert deltas == ["Not that."]
        assert [each["type"] for each in output].count("function_call") == 1


def test_a_terminal_event_without_a_response_is_the_last_one() -> None:
    for kind in ("response.completed", "response.failed"):
        events = OPENAI.events([("text", [f"Here.{SECTION}"])])[:-1]
        out = read(repaired(written([*events, {"type": kind, "sequence_number": len(events)}])))
        assert [event["sequence_number"] for event in out] == list(range(len(out)))
        assert out[-1] == {"type": kind, "sequence_number": len(out) - 1}


def test_a_text_that_only_its_end_has_is_of_an_item_that_was_added() -> None:
    events = OPENAI.events([("text", [f"Here.{SECTION}"])])
    kept = ("created", "in_progress", "text.done", "completed")
    events = [event for event in events if event["type"].endswith(kept)]
    for event in events:
        event.pop("item_id", None)
    out = [
        *filter(lambda each: each["type"].endswith("item.added"), read(repaired(written(events))))
    ]
    assert [event["item"]["type"] for event in out] == ["message", "function_call"]
    assert all(event["item"]["id"] for event in out)


def test_a_message_that_only_the_terminal_event_has_does_not_repeat_another() -> None:
    """vLLM lists items under other ids than it streamed them."""
    events = VLLM.events([("text", ["A."]), ("text", cut(f"B.{SECTION}", 9))])
    events = [event for event in events if event.get("output_index") != 0]
    assert output_of(repaired(written(events))) == [text("B."), CALLED, text("A.")]


@pytest.mark.parametrize("size", [4, 1000])
def test_items_that_overlap_without_indexes(size: int) -> None:
    out = repaired(written(llama_cpp(f"Here.{SECTION}Done.", size)))
    native = CALLED | {"call_id": "call_2", "arguments": '{"command":"id"}'}
    said = [text("Hm.", "reasoning"), text("Here."), CALLED, text("Done."), native]
    assert output_of(out) == said
    clean = written(llama_cpp("Clean.", size))
    assert repaired(clean) == clean


def overlapping(order: str, texts: list[list[str]]) -> bytes:
    """Two messages: a figure in `order` is the next delta of one, a letter begins it."""
    events = OPENAI.events([("text", deltas) for deltas in texts])
    of_item = [[e for e in events if e.get("output_index") == place] for place in range(2)]
    deltas = [[e for e in each if e["type"].endswith(".delta")] for each in of_item]
    first = [of_item[0][:2], of_item[1][:2]]
    chosen = [*events[:2]]
    for each in order:
        place = "ab01".index(each) % 2
        chosen += first[place] if each in "ab" else [deltas[place].pop(0)]
    for place in range(2):
        chosen += [*deltas[place], *of_item[place][-3:]]
    chosen.append(events[-1])
    return written([event | {"sequence_number": n} for n, event in enumerate(chosen)])


@pytest.mark.parametrize("size", [5, 37, 1000])
@pytest.mark.parametrize("order", ["ab" + "01" * 60, "ab" + "10" * 60, "a0b10", "a00b0010", "a0b1"])
def test_calls_in_items_that_overlap(order: str, size: int) -> None:
    """Each becomes an item, whole, wherever the other item's text comes between."""
    leaks = [f"One.{SECTION}1", f"Two.{SECTION.replace(':0', ':1')}2"]
    for of in ([leaks[0], leaks[1]], [leaks[0], "Two."], ["One.", leaks[1]]):
        texts = [cut(each, size) for each in of]
        left, kept = {"a": 1, "b": 1, "0": len(texts[0]), "1": len(texts[1])}, ""
        for each in order:
            if left[each] > 0:
                left[each] -= 1
                kept += each
        stream = overlapping(kept, texts)
        out = repaired(stream)
        output = output_of(out)
        numbers = [event["sequence_number"] for event in read(out)]
        assert numbers == list(range(len(numbers)))
        ids = [f"functions.bash:{n}" for n, each in enumerate(of) if "<|" in each]
        calls = [item for item in output if item["type"] == "function_call"]
        assert sorted(call["call_id"] for call in calls) == ids
        assert {call["arguments"] for call in calls} == {CALLED["arguments"]}
        for item in output:  # each has the text of one of the host's
            assert not (set(item["text"]) & set("One1") and set(item["text"]) & set("Two2"))
        texts_left = "".join(item["text"] for item in output)
        assert sorted(texts_left) == sorted(
            "".join(of).replace(SECTION, "").replace(SECTION.replace(":0", ":1"), "")
        )
        places: dict[int, str] = {}
        for event in read(out):
            if event["type"] == "response.output_item.added":
                assert event["output_index"] == len(places)
                places[event["output_index"]] = event["item"]["id"]
            elif "item_id" in event:
                assert places[event["output_index"]] == event["item_id"]
