"""Native Responses streams: clean ones byte for byte, and leaked calls as items, at every cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.repair.scanner import Scanner
from dragoman.reply.channel import Channel
from dragoman.reply.choice import Choice
from dragoman.reply.event_queue import EventQueue
from dragoman.reply.frame_queue import QueuedRepair
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import at_once
from dragoman.responses.host_reader import HostReader
from dragoman.responses.native_writer import NativeWriter
from dragoman.responses.repair import ResponsesRepair
from dragoman.responses.writer import ResponsesWriter
from dragoman.wire.sse import encode_chunk, split
from tests.bridge.hosts import BRIDGE, HOSTS, OPENAI, SGLANG, USAGE, VLLM, Host, Said
from tests.bridge.native_grammar import check_native

Json = dict[str, Any]
REQUEST: Json = {
    "model": "kimi-k2.7",
    "input": "What is there?",
    "tools": [
        {
            "type": "function",
            "name": "bash",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
        {"type": "custom", "name": "apply_patch"},
        {
            "type": "namespace",
            "name": "mcp__files",
            "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
        },
    ],
}
CALL = '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command":"ls -l"}'
SECTION = f"<|tool_calls_section_begin|>{CALL}<|tool_call_end|><|tool_calls_section_end|>"
DSML = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="bash">\n<｜DSML｜parameter name="command" '
    'string="true">ls -l</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
)


def stage(request: Json = REQUEST, evidence: Evidence | None = None) -> ResponsesRepair:
    tools = ResponsesTools.of_request(request)
    return ResponsesRepair(tools, RepairOptions(), evidence or Evidence(), 1_700_000_000)


def repaired(
    stream: bytes,
    request: Json = REQUEST,
    pieces: Iterable[bytes] = (),
    evidence: Evidence | None = None,
) -> bytes:
    pipeline = RepairPipeline(stage(request, evidence), Evidence())
    out = [pipeline.feed(piece) for piece in pieces or [stream]]
    return b"".join([*out, pipeline.close()])


def told(stream: bytes) -> list[Json]:
    """The items that a client ends up with, without what differs by host."""
    events = check_native(stream)
    assert events[-1]["response"]["usage"] == USAGE
    return shown(events[-1]["response"]["output"])


def shown(output: list[Json]) -> list[Json]:
    names = ("type", "name", "call_id", "arguments", "input", "namespace")
    items = []
    for item in output:
        parts = [*(item.get("content") or []), *(item.get("summary") or [])]
        text = "".join(part["text"] for part in parts)
        items.append({name: item[name] for name in names if name in item} | {"text": text})
    return items


def worded(items: list[Json]) -> list[Json]:
    """Without those that end empty."""
    return [item for item in items if item["text"] or item["type"] not in ("message", "reasoning")]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def at_cuts(stream: bytes) -> Iterable[list[bytes]]:
    yield [stream]
    for size in (1, 7, 64, 1000):
        yield [stream[at : at + size] for at in range(0, len(stream), size)]


THOUGHT, ANSWER = ["Let me ", "look <here>."], ["It is ", "`a < b`, ", "<|tool_", "calls|> I say."]
CLEAN: list[Said] = [
    [("reasoning", THOUGHT), ("text", ANSWER), ("call", ["bash", '{"command":"<|tool_call"}'])],
    [("text", cut("No call: " + "word < other " * 9000, 300))],
]
CALLED = {
    "type": "function_call",
    "name": "bash",
    "call_id": "functions.bash:0",
    "arguments": '{"command":"ls -l"}',
    "text": "",
}


def text(of: str, kind: str = "message") -> Json:
    return {"type": kind, "text": of}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_clean_stream_passes_byte_for_byte(host: Host) -> None:
    for said in CLEAN:
        stream = host.stream(said)
        for pieces in at_cuts(stream) if len(stream) < 20_000 else [[stream]]:
            assert repaired(stream, pieces=pieces) == stream


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_host_s_call_with_the_id_of_a_leaked_one_gets_another(host: Host) -> None:
    native = host.stream([("text", [SECTION]), ("call", ["bash", '{"command":"pwd"}'])])
    (own,) = {item["call_id"] for item in told(native) if "call_id" in item}
    leak = SECTION.replace("functions.bash:0", own)
    stream = host.stream([("text", [leak]), ("call", ["bash", '{"command":"pwd"}'])])
    calls = [item for item in told(repaired(stream)) if item["type"] == "function_call"]
    assert [call["arguments"] for call in calls] == ['{"command":"ls -l"}', '{"command":"pwd"}']
    assert calls[0]["call_id"] != calls[1]["call_id"]


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
@pytest.mark.parametrize("size", [1, 3, 8, 29, 1000])
def test_a_leaked_call_becomes_an_item_however_its_text_is_cut(host: Host, size: int) -> None:
    said = [("reasoning", THOUGHT), ("text", cut(f"Here.{SECTION}Done.", size))]
    evidence = Evidence()
    stream = host.stream([*said, ("text", ["More."])])
    out = repaired(stream, evidence=evidence)
    expected = [
        text("Let me look <here>.", "reasoning"),
        text("Here."),
        CALLED,
        text("Done."),
        text("More."),
    ]
    assert told(out) == expected
    assert (evidence.calls, evidence.refused_calls) == ({"bash": 1}, 0)
    leaked = stream.index(b"Here."[:size])
    begun = stream.rindex(b"\n\n", 0, leaked) + 2
    assert out[:begun] == stream[:begun], "every byte before it is the host's"


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_stream_with_a_leak_gives_the_same_at_every_cut_of_its_bytes(host: Host) -> None:
    stream = host.stream([("reasoning", cut("Now." + SECTION, 11)), ("text", ["Wait."])])
    whole = repaired(stream)
    assert worded(told(whole)) == [text("Now.", "reasoning"), CALLED, text("Wait.")]
    for pieces in at_cuts(stream):
        assert repaired(stream, pieces=pieces) == whole


@pytest.mark.slow
def test_a_leak_after_a_long_text_closes_that_text_whole() -> None:
    pieces = ['"a" < ', "\\ é ", "\n", "ü\u2028", " 𝄞", "word "] * 100
    for host in HOSTS:
        out = repaired(host.stream([("reasoning", pieces), ("text", [*pieces, SECTION, *pieces])]))
        said = text("".join(pieces))
        assert told(out) == [said | {"type": "reasoning"}, said, CALLED, said]


def test_the_item_is_of_the_kind_and_namespace_that_was_declared() -> None:
    patch = (
        '<|tool_call_begin|>functions.apply_patch:0<|tool_call_argument_begin|>{"input":"*** \\n"}'
    )
    read = "<|tool_call_end|><|tool_call_begin|>read:1<|tool_call_argument_begin|>{}"
    leaked = f"<|tool_calls_section_begin|>{patch}{read}<|tool_calls_section_end|>"
    out = told(repaired(OPENAI.stream([("text", cut(leaked, 9))])))
    assert out == [
        text(""),
        {
            "type": "custom_tool_call",
            "name": "apply_patch",
            "call_id": "functions.apply_patch:0",
            "input": "*** \n",
            "text": "",
        },
        {
            "type": "function_call",
            "name": "read",
            "namespace": "mcp__files",
            "call_id": "read:1",
            "arguments": "{}",
            "text": "",
        },
    ]


def test_formats_and_rules_are_those_of_the_model_as_in_chat() -> None:
    deepseek = {**REQUEST, "model": "deepseek-v4"}
    stream = VLLM.stream([("text", cut(DSML, 5))], model="deepseek-v4")
    (empty, call) = told(repaired(stream, deepseek))
    assert (empty["text"], call["name"]) == ("", "bash")
    assert json.loads(call["arguments"]) == {"command": "ls -l"}
    leaked = OPENAI.stream([("text", cut(SECTION, 5))], model="gpt-5.5")
    for request in ({**REQUEST, "model": "gpt-5.5"}, {**REQUEST, "tool_choice": "none"}):
        assert repaired(leaked, request) == leaked
    quoted = VLLM.stream([("text", cut(f"Like:\n```\n{SECTION}\n```\nSo.", 5))])
    assert repaired(quoted) == quoted


def test_a_header_without_its_begin_marker_is_a_call() -> None:
    stripped = 'bash:0<|tool_call_argument_begin|>{"command":"ls -l"}<|tool_calls_section_end|>'
    for size in (3, 200):
        out = told(repaired(SGLANG.stream([("text", cut(stripped, size))])))
        assert out == [text(""), CALLED | {"call_id": "bash:0"}]


def test_a_call_that_the_host_lists_as_well_is_not_listed_twice() -> None:
    events = VLLM.events([("text", cut(SECTION, 9))])
    found = {"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": "bash"}
    found |= {"arguments": '{"command": "ls -l"}', "status": "completed"}
    events[-1]["response"]["output"] = [found]
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    assert told(repaired(stream)) == [text(""), CALLED]


def test_arguments_that_a_tool_refuses_are_counted() -> None:
    for arguments, refused in (('{"command":7}', 1), ("{}", 1), ('{"command":"ls"}', 0)):
        evidence = Evidence()
        leaked = SECTION.replace('{"command":"ls -l"}', arguments)
        repaired(OPENAI.stream([("text", [leaked])]), evidence=evidence)
        assert evidence.refused_calls == refused


def test_a_call_that_is_cut_is_text_and_the_reply_is_incomplete() -> None:
    stream = BRIDGE.stream([("text", ["Now.", SECTION[:-50]])])
    events = [
        json.loads(frame.data or b"{}") for frame in split(repaired(stream)) if not frame.is_done
    ]
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["status"], response["completed_at"]) == ("incomplete", None)
    (item,) = response["output"]
    assert item["content"][0]["text"] == f"Now.{SECTION[:-50]}"


STAGES = [
    *((QueuedRepair, name) for name in ("_continue", "_read", "_release")),
    *((Channel, name) for name in ("add", "place", "end")),
    (Choice, "read"),
    (HostReader, "read"),
    *((ResponsesWriter, name) for name in ("write", "_follow", "_take_over", "_say")),
    *((NativeWriter, name) for name in ("resume", "close_as", "end_as")),
    (Scanner, "feed"),
    (EventQueue, "drain"),
]


@pytest.mark.parametrize(("owner", "name"), STAGES)
def test_after_a_fault_the_reply_passes_or_if_it_has_changed_breaks_off(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_of_it = getattr(owner, name)
    said = [("text", ["One. ", "<|tool", "s|> ", SECTION, " two", " three."]), ("text", ["End."])]
    for stream in (VLLM.stream(said), OPENAI.stream(said[1:])):
        for nth in range(1, 25):
            calls = itertools.count(1)

            def fails(*given: Any, nth: int = nth, calls: Any = calls, **more: Any) -> Any:
                if next(calls) == nth:
                    raise RuntimeError
                return stage_of_it(*given, **more)

            pipeline = RepairPipeline(stage(), Evidence())
            out = []
            with monkeypatch.context() as broken:
                broken.setattr(owner, name, fails)
                for frame in (*split(stream), None):
                    try:
                        out.append(pipeline.feed(frame.raw) if frame else pipeline.close())
                    except RuntimeError:
                        out.append(pipeline.fall_back())
                    if pipeline.ended:
                        break
            ended, wanted = b"".join(out), repaired(stream)
            if pipeline.broken:
                assert wanted.startswith(ended)
            else:
                assert ended in (stream, wanted)


@pytest.mark.parametrize("last", [b"", b"data: [DONE]\n\n", b"event: response.output_text.del"])
def test_a_stream_that_ends_well_within_a_leaked_call_breaks_off(last: bytes) -> None:
    """Wherever that is; and no call is done that is not whole."""
    begins, whole = "I look. ", "I look. " + SECTION
    stream, said = b"", ""
    for frame in split(VLLM.stream([("text", cut(whole, 5))])):
        event = json.loads(frame.data or b"")
        if event["type"] == "response.completed":
            break
        stream += frame.raw
        said += event.get("delta", "")
        pipeline = RepairPipeline(stage(), Evidence())
        out = pipeline.feed(stream + last) + pipeline.close()
        half = bool(last) and not last.endswith(b"\n\n")
        assert bool(pipeline.broken) == (half or len(said) > len(begins)), said
        if not pipeline.broken:
            assert out == stream + last
        elif b"arguments.done" in out:
            assert CALL in said
    assert said == whole


def test_a_native_call_does_not_wait_for_the_rest_of_half_a_marker() -> None:
    said: Said = [("text", ["Look.\n\n", "<｜DSML｜tool_calls"]), ("call", ["bash", "{}"])]
    events = OPENAI.events(said, model="deepseek-v4")
    ends = [each for each in events if ".done" in each["type"] and each["output_index"] == 0]
    overlapping = [each for each in events[:-1] if each not in ends]
    repair = stage(REQUEST | {"model": "deepseek-v4"})
    out = b"".join(frame.raw for event in overlapping for frame in repair.feed(encode_chunk(event)))
    assert b"response.function_call_arguments.done" in out
    assert b"DSML" not in out


NOTE = {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 4}


def annotated(said: Said, after: str) -> bytes:
    """A stream with an annotation after the last delta with this text."""
    events = OPENAI.events(said)
    at = max(n for n, event in enumerate(events) if event.get("delta") == after)
    added = {"type": "response.output_text.annotation.added", "annotation_index": 0}
    where = {name: events[at][name] for name in ("item_id", "output_index", "content_index")}
    events.insert(at + 1, {**added, **where, "annotation": NOTE})
    numbered = [event | {"sequence_number": number} for number, event in enumerate(events)]
    return b"".join(encode_chunk(event).raw for event in numbered)


def test_an_annotation_within_a_marker_is_of_the_text_before_the_call() -> None:
    said: Said = [("text", ["Here.", "<|tool_call", SECTION[11:]])]
    output = check_native(repaired(annotated(said, "<|tool_call")))[-1]["response"]["output"]
    assert output[0]["content"][0]["annotations"] == [NOTE]
    assert shown(output) == [text("Here."), CALLED]


@pytest.mark.parametrize("before", [[], [("text", [SECTION.replace("ls", "pwd")])]])
def test_an_annotation_of_a_text_that_is_a_call_is_dropped_on_record(before: Said) -> None:
    evidence = Evidence()
    stream = annotated([*before, ("text", ["So.", SECTION])], SECTION)
    out = repaired(stream.replace(b"So.", b""), evidence=evidence)
    assert b"url_citation" not in out
    assert "annotation.added of a repaired item" in str(evidence.notes)


def test_of_a_stream_that_breaks_off_nothing_leaves_that_was_held() -> None:
    frames = list(split(OPENAI.stream([("text", ["One. ", SECTION[:9], "x", SECTION[:90]])])))
    for end, text in ((6, "One. "), (8, f"One. {SECTION[:9]}x")):
        pipeline = RepairPipeline(stage(), Evidence())
        out = b"".join(pipeline.feed(frame.raw) for frame in frames[:end])
        out += pipeline.break_off("gone")
        assert pipeline.broken == "gone"
        deltas = [json.loads(frame.data or b"{}") for frame in split(out)]
        said = [each["delta"] for each in deltas if each["type"].endswith("output_text.delta")]
        assert "".join(said) == text


def test_a_whole_response_keeps_the_annotations_of_the_text_before_a_call() -> None:
    response = OPENAI.events([("text", [f"Here.{SECTION}Done."])])[-1]["response"]
    response["output"][0]["content"][0]["annotations"] = [NOTE]
    output = json.loads(at_once(stage().document(json.dumps(response).encode())))["output"]
    assert shown(output) == [text("Here."), CALLED, text("Done.")]
    noted = [item["content"][0]["annotations"] for item in (output[0], output[2])]
    assert noted == [[NOTE], []]
