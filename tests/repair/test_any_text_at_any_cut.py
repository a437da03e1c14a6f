"""Whatever a model writes, in whatever order: no text is lost and no marker passes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.reader_writer_pairs import repair_whole
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2 import MARKERS
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.json_codec import dumps, loads
from dragoman.wire.reply_bounds import MAX_AFTER_OPEN
from dragoman.wire.sse import FrameSplitter
from tests.repair.streams import NOW, Read, chunk, read, repair, sse
from tests.repair.turns import REQUEST, cut

SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
FIELD = RepairOptions(text="field")

words = st.sampled_from(
    [" ", "\n", "x" * 300, "a <b> c", "The answer is 42.", "<|", "<", '{"a": "b"}', "12", '"']
)
calls = st.sampled_from(
    [
        f"{CB}functions.bash:1{AB}",
        f"{CB}3{AB}",
        f"{CB}bash{CE}",
        f'{CB}bash:0{AB}{{"a": "{CE}"}}{CE}',
    ]
)
soups = st.lists(words | calls | st.sampled_from([SB, SE, CB, CE]), max_size=8).map("".join)
# What stands behind a call_begin is that call's header, and may be replaced by a name; a
# quotation mark, or an indent, may quote what follows it, and a blank lets a line name it.
unquoted = words.filter(lambda word: word not in ('"', "\n", " "))
soups_without_headers = st.lists(unquoted | calls | st.sampled_from([SB, SE, CE])).map("".join)


def _run(pieces: list[str]) -> Read:
    deltas = [chunk({"content": piece}) for piece in pieces]
    return read(repair(sse([*deltas, chunk({}, "stop")]), REQUEST, FIELD))


@given(st.data(), soups)
def test_any_cutting_reads_the_same(data: st.DataObject, soup: str) -> None:
    whole = _run([soup])
    parts = _run(data.draw(cut(soup)))
    assert (parts.content, parts.calls, parts.finish) == (whole.content, whole.calls, whole.finish)


@given(soups_without_headers)
def test_no_character_is_lost_and_no_marker_is_left_but_of_a_damaged_call(soup: str) -> None:
    evidence = Evidence()
    stream = sse([chunk({"content": soup}), chunk({}, "stop")])
    out = read(repair(stream, REQUEST, FIELD, evidence=evidence))
    lacking = "without an argument that its tool requires"
    text = any("damaged" in line or lacking in line for line in evidence.lines())
    assert text or not any(marker in out.content for marker in MARKERS)
    everything = out.content + "".join(call["arguments"] for call in out.calls)
    for word in ("The answer is 42.", "x" * 300, "a <b> c"):
        assert everything.count(word) == soup.count(word)


@given(soups)
def test_a_whole_message_reads_as_its_stream(soup: str) -> None:
    streamed = _run([soup])
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": soup},
        "finish_reason": "stop",
    }
    body = dumps({"model": "kimi", "choices": [choice]})
    repaired = repair_whole(body, DeclaredTools.of_request(REQUEST), FIELD, Evidence(), NOW)
    result = loads(repaired)["choices"][0]
    message = result["message"]
    assert (message["content"] or "") == streamed.content
    calls = [
        (c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])
    ]
    assert calls == [(c["name"], c["arguments"]) for c in streamed.calls]
    assert [result["finish_reason"]] == streamed.finish


@pytest.mark.parametrize("scalar", ["12", "true", "null", "-1.5e3", '"x"'])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_arguments_that_are_no_object_pass_as_they_are(scalar: str, size: int) -> None:
    text = f"{CB}bash:0{AB} {scalar} {CE}"
    out = _run([text[i : i + size] for i in range(0, len(text), size)])
    assert [call["arguments"] for call in out.calls] == [scalar]


def test_an_empty_finish_reason_is_none() -> None:
    text = f"{SB}{CB}bash:0{AB}{{}}{CE}{SE}"
    chunks = [chunk({"content": text[i : i + 7]}, "") for i in range(0, len(text), 7)]
    out = read(repair(sse([*chunks, chunk({}, "stop")]), REQUEST))
    assert (out.content, len(out.calls), out.finish) == ("", 1, ["tool_calls"])


def test_an_event_cut_off_in_the_middle_does_not_swallow_the_finish() -> None:
    stream = sse([chunk({"content": f'{CB}bash:0{AB}{{"a":'})], done=False)
    out = read(repair(stream + b'data: {"id":"c","cho', REQUEST))
    assert (len(out.calls), out.finish) == (0, ["length"])


def test_a_last_event_without_its_blank_line_is_ended_before_the_finish() -> None:
    stream = sse([chunk({"content": f"{CB}bash:0{AB}{{}}{CE}"}), chunk({})], done=False)
    out = read(repair(stream.rstrip(), REQUEST))
    assert out.finish == ["tool_calls"]


def test_ids_differ_from_those_of_native_calls() -> None:
    native = {"index": 0, "id": "functions.bash:0", "type": "function"}
    native["function"] = {"name": "bash", "arguments": '{"command":"ls"}'}
    leaked = f"{CB}functions.bash:0{AB}{{}}{CE}"
    chunks = [chunk({"tool_calls": [native]}), chunk({"content": leaked}, "stop")]
    out = read(repair(sse(chunks), REQUEST))
    assert [call["id"] for call in out.calls] == ["functions.bash:0", f"call_1_{NOW}"]


def test_what_a_model_wrote_cannot_break_a_log_line() -> None:
    evidence = Evidence()
    text = f"{CB}x\ud83d\x1b[31m\nERROR{AB}{{}}{CE}"
    stream = f"data: {json.dumps(chunk({'content': text}, 'stop'))}\n\n".encode()
    repair(stream, {}, evidence=evidence)
    assert all(line.isprintable() for line in [*evidence.lines(), *evidence.calls])


def test_numbers_too_large_to_read_do_not_stop_repair() -> None:
    stream = sse([chunk({"content": f"{CB}bash:0{AB}{{}}{CE}"}, "stop", score=1)])
    out = repair(stream.replace(b'"score": 1', b'"score": 1e999'), REQUEST)
    assert b'"score":null' in out
    assert len(read(out).calls) == 1


def test_a_choice_without_a_usable_index_is_scanned_all_the_same() -> None:
    value = chunk({"content": f"{CB}bash:0{AB}{{}}{CE}"}, "stop")
    value["choices"][0]["index"] = None
    assert b"<|tool_call" not in repair(sse([value]), REQUEST)


def test_an_undecided_choice_holds_up_another_for_a_while_only() -> None:
    other = chunk({"content": "x"})
    other["choices"][0]["index"] = 1
    stream = sse([chunk({"content": "a <"}), *[other] * 1000], done=False)
    stage = ChatRepair(DeclaredTools({}), RepairOptions(), Evidence(), NOW)
    sent = [out for frame in FrameSplitter().feed(stream) for out in stage.feed(frame)]
    assert len(sent) >= 1000 - 2 * MAX_AFTER_OPEN


def test_details_without_text_are_kept_once() -> None:
    details = [{"type": "reasoning.text", "text": f"a {SB}b{SE} c"}, {"data": "sealed"}]
    for options in (RepairOptions(), FIELD):
        out = repair(sse([chunk({"reasoning_details": details}, "stop")]), REQUEST, options)
        assert out.count(b"sealed") == 1


def test_a_name_is_found_behind_only_where_a_call_header_can_stand() -> None:
    call = f'{AB}{{"path": "x"}}{CE}'
    for pieces in (
        ["hello", " see main.py:12", f"{CB}{call}"],
        ["hello", " see main.py:12", call],
        ["hi", " bash:0", f" and text {call}"],
    ):
        whole, parts = _run(["".join(pieces)]), _run(pieces)
        assert [c["name"] for c in parts.calls] == [c["name"] for c in whole.calls]
        assert parts.calls[0]["name"] not in ("main.py", "bash")


def test_a_header_that_left_as_text_serves_one_call() -> None:
    second = '{"city": "Oslo", "days": 1}'
    out = _run(["hi", " bash:0", f'{AB}{{"command": "x"}}{CE}{AB}{second}{CE}'])
    assert [call["name"] for call in out.calls] == ["bash", "get-weather"]


def test_prose_in_front_of_an_argument_marker_is_kept() -> None:
    prose = "Let me look at the file first. "
    out = _run([f'{SB}{prose}{AB}{{"command": "x"}}{CE}{SE}'])
    assert (out.content.strip(), out.calls[0]["name"]) == (prose.strip(), "bash")


@pytest.mark.parametrize("header", ['{"wordfunctions.bash:2', "word{}A<Bfunctions.bash:0"])
def test_a_header_of_anything_names_no_tool(header: str) -> None:
    assert "bash" not in [call["name"] for call in _run([f"{CB}{header}{SE}"]).calls]


def test_a_native_call_does_not_repeat_the_id_of_a_leaked_one() -> None:
    leaked = f"{CB}functions.bash:0{AB}{{}}{CE}"
    native = {"index": 0, "id": "functions.bash:0", "type": "function"}
    native["function"] = {"name": "bash", "arguments": '{"command":"ls"}'}
    chunks = [chunk({"content": leaked}), chunk({"tool_calls": [native]}), chunk({}, "stop")]
    out = read(repair(sse(chunks), REQUEST))
    assert [call["id"] for call in out.calls] == ["functions.bash:0", f"call_1_{NOW}"]
