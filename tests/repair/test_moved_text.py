"""Where text around calls goes: after one, from reasoning to content; without one, nowhere."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.bridge.reader_writer_pairs import repair_whole
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.json_codec import dumps, loads
from tests.repair.streams import NOW, Read, chunk, read, repair, sse
from tests.repair.turns import REQUEST, cut

SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
SECTION = f'{SB}{CB}bash:0{AB}{{"command":"ls"}}{CE}{SE}'
FIELDS = ["reasoning", "reasoning_content"]


def streamed(pieces: list[str], field: str) -> Read:
    deltas = [chunk({field: piece}) for piece in pieces]
    return read(repair(sse([*deltas, chunk({}, "stop")]), REQUEST))


def whole(text: str, field: str) -> dict[str, object]:
    message = {"role": "assistant", "content": None, field: text}
    reply = {"model": "kimi", "choices": [{"message": message, "finish_reason": "stop"}]}
    body = dumps(reply)
    tools = DeclaredTools.of_request(REQUEST)
    repaired = repair_whole(body, tools, RepairOptions(), Evidence(), NOW)
    return dict(loads(repaired)["choices"][0]["message"])


@pytest.mark.parametrize("field", FIELDS)
def test_blank_deltas_move_with_the_text_around_them(field: str) -> None:
    after = ["Here are", "\n\n", "1.", " One", "\n", "2.", " Two"]
    out = streamed(["Hm.", " ", SECTION, "\n", *after], field)
    assert (out.reasoning, out.content) == ("Hm. ", "\n" + "".join(after))


@given(st.data(), st.sampled_from(["\n\nDone.\n\nYes", "Done \n", "\n", "", " x"]))
def test_a_section_in_reasoning_reads_the_same_at_any_cut(data: st.DataObject, after: str) -> None:
    """Text before the section, in the same event, is said as content: the specification has
    it so, and no other cut can know."""
    pieces = ["Hm.", *data.draw(cut(SECTION + after)), ""]
    out = streamed(pieces, "reasoning")
    text = after if after.strip() else ""
    assert (out.reasoning, out.content) == ("Hm.", text)
    assert [call["name"] for call in out.calls] == ["bash"]
    message = whole("Hm." + SECTION + after, "reasoning")
    assert (message["reasoning"], message["content"] or "") == ("Hm.", text)


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_call_in_a_thought_is_no_answer(field: str) -> None:
    thought = 'Hm. <invoke name="bash"><parameter name="command">ls'
    for thoughts in ([thought], list(thought)):
        for answer in (["So."], list("So.")):
            deltas = [{field: text} for text in thoughts] + [{"content": text} for text in answer]
            out = read(repair(sse([*map(chunk, deltas), chunk({}, "stop")]), REQUEST))
            assert (out.reasoning, out.content, out.calls) == (thought, "So.", [])


@pytest.mark.parametrize("stray", [SB + SE, SE, CE, AB + "1 ", f"{SB} {SE}"])
@pytest.mark.parametrize("field", FIELDS)
def test_without_a_call_nothing_moves(stray: str, field: str) -> None:
    text = ["One", " and ", "two", " and three.", "\n"]
    for at in range(len(text)):
        out = streamed([*text[:at], stray, *text[at:]], field)
        assert out.content == ""
        assert out.reasoning.replace("1 ", "") == "".join(text)
        mixed = streamed([*text[:at], stray + text[at], *text[at + 1 :]], field)
        assert mixed.content == ""
        assert mixed.reasoning.replace("1 ", "") == "".join(text)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        ([f"Hello {SB}world"], "Hello "),
        (["Hm.", f"Hello {SB}wor", "ld"], "Hello "),
        (["Hm.", f"Hello {SB[:9]}", f"{SB[9:]}world"], "Hello "),
        (["Hm.", f"Hello {SB}", f"world{SE}"], "Hello "),
        (["Hm.", "Hello ", f"{SB}world"], ""),
        (["Hm.", f"\n{SB}world"], ""),
        (["Hm.", f"Hello {SB} begins it."], ""),
        (["Hm.", f"`Hello {SB}`"], ""),
    ],
)
def test_text_before_a_section_without_calls_is_content_if_one_event_has_both(
    pieces: list[str], content: str, field: str
) -> None:
    out = streamed(pieces, field)
    said = "".join(pieces)
    said = said if "`" in said or "begins" in said else said.replace(SB, "").replace(SE, "")
    assert (out.content, out.reasoning) == (content, said.replace(content, "") if content else said)
    for options in (RepairOptions(text="field"), RepairOptions().bridged):
        sent = sse([*(chunk({field: piece}) for piece in pieces), chunk({}, "stop")])
        out = read(repair(sent, REQUEST, options))
        assert (out.content, out.reasoning) == ("", said)


@pytest.mark.parametrize("field", ["content", *FIELDS])
@pytest.mark.parametrize("blank", ["\n", " \n\n ", "\n" * 300])
def test_white_space_alone_after_the_last_section_is_dropped(field: str, blank: str) -> None:
    for pieces in ([SECTION + blank], [SECTION, blank], [SECTION, *blank], [*(SECTION + blank)]):
        out = streamed(["Look.", *pieces], field)
        assert (out.text, len(out.calls), out.finish) == ("Look.", 1, ["tool_calls"])
    message = whole("Look." + SECTION + blank, field)
    assert message[field] == "Look."


def test_what_was_touched_or_left_is_on_record() -> None:
    for text, what in (
        (f"a{SE} b", "dropped"),
        (f"a {SE} b", "left as text"),
        (f"`{SE}`", "left as text"),
        (SECTION, "repaired"),
    ):
        evidence = Evidence()
        stream = sse([chunk({"content": text}), chunk({}, "stop")])
        repair(stream, REQUEST, evidence=evidence)
        assert what in [kind for kind, _ in evidence.notes]


def test_markers_that_are_left_as_text_are_counted() -> None:
    evidence = Evidence()
    text = f"`{SB}` and `{CB}`, then `{CB}`."
    for pieces in ([text], list(text)):
        repair(sse([chunk({"content": piece}) for piece in pieces]), REQUEST, evidence=evidence)
    assert evidence.notes["left as text", "call_begin in quoted code"] == 4
    assert evidence.notes["left as text", "section_begin in quoted code"] == 2


CODE = ["```", "`", "~~~", "\n", "- ", "text ", "> ", "js", SECTION, SB, SE, CB, AB]


codes = st.lists(st.sampled_from(CODE), max_size=12).map("".join)


@given(codes.flatmap(lambda text: st.tuples(st.just(text), cut(text))))
@example((f"```{CB}{AB}```{AB}", [f"```{CB}{AB}", f"```{AB}"]))
@example((f"```- {SE}```{SB}", [f"```- {SE}", f"```{SB}"]))
def test_what_passed_unread_counts_as_what_was_read(case: tuple[str, list[str]]) -> None:
    """Frames without a marker are not read when they pass; whether code is open must not
    depend on it."""
    text, pieces = case
    once = streamed([text], "content")
    parts = streamed(pieces, "content")
    single = streamed(list(text), "content")
    assert (parts.content, parts.calls) == (once.content, once.calls)
    assert (single.content, single.calls) == (once.content, once.calls)


def test_a_fence_that_was_opened_long_ago_is_still_open() -> None:
    filler = [f"line {number} of a long program\n" for number in range(3000)]
    for opening, calls in (("```\n", 0), ("", 1)):
        pieces = [opening, *filler, SECTION, "\nThat was it."]
        assert len(streamed(pieces, "content").calls) == calls


def test_inline_code_ends_with_its_line_however_much_passed() -> None:
    filler = ["word " * 10] * 3000
    assert len(streamed(["a `b ", *filler, SECTION, " x`"], "content").calls) == 0
    assert len(streamed(["a `b ", *filler, SECTION, " x"], "content").calls) == 1
    assert len(streamed(["a `b ", *filler, "\n", *filler, SECTION, " x"], "content").calls) == 1
