"""What waits in repair is bounded, in frames and in bytes, whoever makes it wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import MAX_KINDS, Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply import frame_queue as queue
from dragoman.reply.stage import at_once
from dragoman.wire.reply_bounds import MAX_HELD_BYTES, STEP
from dragoman.wire.sse import Frame, split
from tests.counting import calls_of
from tests.repair.streams import NOW, chunk, read, repair, sse
from tests.repair.turns import REQUEST

pytestmark = pytest.mark.slow

CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"


def frame(delta: dict[str, Any], index: int = 0, **more: Any) -> Frame:
    value = chunk(delta, **more)
    value["choices"][0]["index"] = index
    return Frame(b"data: " + json.dumps(value).encode() + b"\n\n")


@pytest.fixture
def evidence() -> Evidence:
    return Evidence()


@pytest.fixture
def stage(evidence: Evidence) -> ChatRepair:
    return ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), evidence, NOW)


def test_large_frames_that_wait_are_let_out(stage: ChatRepair, evidence: Evidence) -> None:
    padding = "x" * (MAX_HELD_BYTES // 16)
    frames = [frame({"content": "<"}, index, padding=padding) for index in range(20)]
    frames.append(frame({"content": "|tool_call_begin|>"}))
    sent = [out for each in frames for out in stage.feed(each)] + stage.close()
    assert b"".join(out.raw for out in sent) == b"".join(each.raw for each in frames)
    assert "gave up repair too much to hold back" in evidence.lines()
    assert stage.unsent() == [], "what has left is not sent again"


def test_many_frames_that_wait_are_let_out(
    stage: ChatRepair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every choice has a call in a fence, which may be quoted, letter by letter."""
    assert queue.MAX_HELD == 16 * 1024
    most_held = 4096
    monkeypatch.setattr(queue, "MAX_HELD", most_held)
    opening = f'```\n{CB}bash:0{AB}{{"a": "'
    letters = [opening, *"x" * (most_held // 100)]
    frames = [frame({"content": letter}, index) for letter in letters for index in range(120)]
    assert len(frames) > most_held
    held = most = 0
    out: list[Frame] = []
    for each in frames:
        sent = stage.feed(each)
        out += sent
        held += 1 - len(sent)
        most = max(most, held)
    assert most_held - 500 < most <= most_held + 1
    out += stage.close()
    assert sorted(f.raw for f in out) == sorted(f.raw for f in frames)


def test_a_text_that_is_read_in_steps_is_not_lost_where_repair_gives_up(
    stage: ChatRepair, evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_HELD", 10)
    leak, long = f'{CB}bash:0{AB}{{"command": "ls"}}{CE}', "x" * 3 * STEP
    held = [frame({"content": "<"}, index) for index in range(10)]
    sent = [out for each in (frame({"content": leak}), *held) for out in stage.feed(each)]
    sent += at_once(stage.steps(frame({"content": long}))) + stage.close()
    assert "gave up repair too much to hold back" in evidence.lines()
    assert long in b"".join(out.raw for out in sent).decode()


def test_a_call_that_is_open_where_repair_gives_up_goes_on_as_itself(
    stage: ChatRepair, evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_HELD", 10)
    leak = f'{CB}bash:0{AB}{{"command": "ls"}}{CE}'
    function = {"name": "bash", "arguments": '{"command": '}
    begin = {"index": 0, "id": "call_host", "type": "function", "function": function}
    end = {"index": 0, "function": {"arguments": '"pwd"}'}}
    doubtful = [frame({"content": "<"}, index) for index in range(1, 12)]
    frames = [frame({"content": leak}), frame({"tool_calls": [begin]}), *doubtful]
    frames.append(frame({"tool_calls": [end]}))
    sent = [out.json for each in frames for out in stage.feed(each)]
    sent += [out.json for out in stage.close()]
    assert "gave up repair too much to hold back" in evidence.lines()
    arguments = ["", ""]
    for value in sent:
        for choice in value["choices"]:
            for element in choice["delta"].get("tool_calls", ()):
                arguments[element["index"]] += element["function"].get("arguments", "")
    assert arguments == ['{"command": "ls"}', '{"command": "pwd"}']


def test_undecided_choices_cost_little(stage: ChatRepair) -> None:
    def calls(rounds: int) -> int:
        frames = [frame({"content": "f"}, index) for index in range(100)] * rounds
        return calls_of(lambda: [stage.feed(each) for each in frames])

    calls(1)
    few = calls(1)
    calls(40)
    assert calls(1) <= 2 * few


def test_a_large_chunk_is_no_pattern_for_others() -> None:
    """What is added at the end looks like the chunks before it, but for a huge one."""
    begin = chunk({"content": f'{CB}bash:0{AB}{{"command":"ls"}}{CE}'})
    large = chunk({"content": "<"}, padding="x" * 1_000_000)
    out = repair(sse([begin, large], done=False), REQUEST)
    assert out.count(b"padding") == 1
    assert read(out).finish == ["tool_calls"]
    out = repair(sse([begin | {"padding": "x" * 1_000_000}], done=False), REQUEST)
    assert read(out).finish == ["tool_calls"]


@pytest.mark.parametrize("index", [10**4299, -1, 2**31, True, 1.0])
def test_an_index_that_is_none_does_not_count(index: Any) -> None:
    native = {"index": index, "id": "a", "type": "function"}
    native["function"] = {"name": "bash", "arguments": '{"command":"ls"}'}
    leaked = chunk({"content": f"{CB}bash:0{AB}{{}}{CE}"}, "stop")
    out = repair(sse([chunk({"tool_calls": [native]}), leaked]), REQUEST)
    assert b'"tool_calls":[{"index":0,' in out
    assert json.dumps(native).encode() in out


def test_the_notes_of_a_flow_are_bounded() -> None:
    evidence = Evidence()
    for number in range(10 * MAX_KINDS):
        evidence.note("read", f"name{number}")
        evidence.call(f"name{number}", "glm", "plain name")
    assert len(evidence.calls) == MAX_KINDS + 1
    assert evidence.calls.total() == 10 * MAX_KINDS
    assert len(evidence.notes) == MAX_KINDS + 2
    assert evidence.notes.total() == 20 * MAX_KINDS


SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
BROKEN_OFF = {
    "a call without a name": [f'{CB}3{AB}{{"pa', 'th":"w1w', f" w2w {CE}"],
    "a marker that is quoted": [f'{CB}3{AB}{{"path":"w1w {SB}', ' w2w"', f"}}{CE} w3w"],
    "JSON that breaks": [f'{CB}3{AB}{{"pat', f'h":"w1w`{SE} w2w', " w3w`", f"{CB}bash:", f"0{AB}"],
    "a header": ["w1w ", SB, f"{CB}func", "tions.bash", f":0{AB}", '{"command":', f'"w2w"}}{CE}'],
    "code": ["```\n", f"w1w {SB}", f'{CB}bash:0{AB}{{"command":"w2w"}}{CE}', f"{SE}\n", "w3w"],
}


@pytest.mark.parametrize("texts", BROKEN_OFF.values(), ids=list(BROKEN_OFF))
def test_nothing_of_a_call_is_there_wherever_a_reply_breaks(texts: list[str]) -> None:
    """By the upstream's end, and after an error of its own."""
    text_before = "".join(texts).partition("<|")[0]
    frames = [frame({"content": text}) for text in texts]
    failure = Frame(b'data: {"error": {"message": "no more", "code": 500}}\n\n')
    for place in range(len(frames)):
        before = frames[:place]
        for ends_well in (True, False):
            stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
            out = [done for each in before for done in stage.feed(each)]
            out += stage.break_off() if ends_well else [*stage.feed(failure), *stage.close()]
            got = read(b"".join(each.raw for each in out if each is not failure))
            assert got.content == "".join(texts[:place])[: len(text_before)]


def test_no_half_marker_follows_a_call_where_a_reply_breaks() -> None:
    """Some clients would run the call, and ask again all the same."""
    leak = f'{SB}{CB}bash:0{AB}{{"command":"ls"}}{CE}{SE}'
    for end in range(len(leak)):
        stage = ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)
        out = [*stage.feed(frame({"content": leak[:end]})), *stage.break_off()]
        got = read(b"".join(each.raw for each in out))
        assert got.content == (leak[:end] if end < 3 else "")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_text_after_a_call_that_was_in_doubt_leaves_after_the_call(size: int) -> None:
    text = 'a "b<tool_call>bash\n</tool_call>\n\n<c'
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    out = repair(sse([chunk({"content": piece}) for piece in pieces]), REQUEST)
    order = ""
    for frame in split(out):
        if frame.data and not frame.is_done:
            delta = json.loads(frame.data)["choices"][0]["delta"]
            order += delta.get("content") or ""
            order += "".join(
                f"[{call['function']['arguments']}]" for call in delta.get("tool_calls", [])
            )
    assert order == 'a "b[][{}]\n\n<c'


def test_a_call_that_is_text_after_all_keeps_its_field_where_the_next_field_begins() -> None:
    damaged = "<tool_call>\n<function=sh>\n<paramete", "r=command>on>\n</tool_call>."
    texts = "<function=bash>\n<parameter=command>\nls\n</par", "ameter>\n it.\n" + damaged[0]
    deltas = [{"reasoning_content": text} for text in (*texts, damaged[1])]
    chunks = [chunk(delta, model="qwen3-coder") for delta in (*deltas, {"content": "done"})]
    result = read(repair(sse(chunks), {**REQUEST, "model": "qwen3-coder"}))
    assert len(result.calls) == 1
    assert result.text == "\n it.\n" + "".join(damaged) + "done"


def test_a_call_after_one_in_which_an_error_came_has_its_own_arguments() -> None:
    begun = '<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{"command": "'
    error = {"error": {"message": "Try again."}}
    rest = 'ls"}<|tool_call_end|>'
    chunks = [chunk({"content": begun}), error, chunk({"content": begun}), chunk({"content": rest})]
    out = repair(sse(chunks, done=False), REQUEST)
    values = [json.loads(line[6:]) for line in out.split(b"\n\n") if line]
    deltas = [value["choices"][0]["delta"] for value in values if "choices" in value]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    said = [(call["index"], call["function"]["arguments"]) for call in calls]
    assert said == [(0, ""), (0, '{"command": "'), (0, 'ls"}')]
