"""No text costs much: markers without a call are text after some, and calls after very many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.call_text import MAX_TAGS
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.reply_bounds import MAX_CALLS, MAX_IN_VAIN
from dragoman.wire.sse import encode_chunk, split
from tests.counting import calls_of
from tests.repair.formats.leaks import REQUEST
from tests.repair.streams import NOW, chunk, read, sse

pytestmark = pytest.mark.slow

HEADER = "<|tool_call_begin|>bash:#<|tool_call_argument_begin|>"
K2_CALL = HEADER + '{"command":"ls"}<|tool_call_end|>'
CALL = K2_CALL.replace("#", "0")
K3_CALL = (
    '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|><|open|>argument key="command"'
    ' type="string"<|sep|>ls<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
)
OPENERS = [
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|open|>tools<|sep|>", "<tool_call>"),
    *("<｜DSML｜tool_calls>", "<｜tool▁calls▁begin｜>", "<function=bash>", "<minimax:tool_call>"),
    *("]<]minimax[>[<tool_call>", '<invoke name="bash">', "[TOOL_CALLS]", "<|channel|>commentary"),
    *(
        "<|tool_call>call:bash{command:",
        "<|tool_call_start|>[bash(command=",
        "<tools>{",
        "<TOOLCALL>[{",
    ),
    *('[TOOL_CALL]{tool => "bash", args => {', "[Calling tool: bash(", "<|python_tag|>{"),
]
HOSTILE = {
    "what begins no call": ("commentary to=functions.", "gpt-oss-120b"),
    "a changing header": ("<|tool_call_begin|>z#! ", "kimi-k2"),
    "the same for a model that may write any": ("<|tool_call_begin|>z#! ", "my-model"),
    "all openers": (" ".join(OPENERS) + " # ", "my-model"),
    "ends": ("<|tool_call_end|> # ", "kimi-k2"),
    "channels": ("<|channel|>analysis<|message|># <|end|>", "gpt-oss-120b"),
    "calls of no tool": (K2_CALL.replace("bash", "rm"), "my-model"),
    "calls": (K2_CALL, "kimi-k2"),
    "likenesses": ("<| ", "deepseek-v3"),
    "brackets": ('<|tool_call>call:bash{command:"#"} ', "my-model"),
    "damaged brackets": ("<|tool_call_start|>[bash(command=#)] ", "my-model"),
    "words in brackets": ("<|tool_call>call:bash{a", "my-model"),
    "fences of JSON": ('```json\n{"name": "bash", "arguments": {"#": 1}}\n```\n', "qwen2.5-7b"),
    "fences that begin a call": ('```json\n{"name": "bash", ', "my-model"),
    "an opener without its end": ("[TOOL_CALLS]", "mistral-large"),
    "inline code": ("`a` ``b` ", "my-model"),
    "backticks in a value": ('<tool_call>{"name":"bash","arguments":{"command":"`a', "qwen2.5"),
    "tags in a value": ('<invoke name="bash"><parameter name="command">ls', "minimax-m2"),
    "quoted calls": (f"`{K3_CALL}` ", "kimi-k3"),
    "fences": ("```\n", "my-model"),
    "fences that close nothing": ("~~~ a\n```\n", "my-model"),
    "lists": ("- a\n", "my-model"),
    "blank lines": (" \n`\n\n", "my-model"),
    "signs": ("a <b [c] ", "my-model"),
}


def _texts(what: str, size: int) -> tuple[list[str], str]:
    """A text of about `size` characters, in deltas of 20 kB, and the model that writes it."""
    piece, model = HOSTILE[what]
    count = size // len(piece)
    text = "".join(piece.replace("#", str(number)) for number in range(count))
    return [text[at : at + 20_000] for at in range(0, len(text), 20_000)], model


def _repaired(texts: Iterable[str], model: str, evidence: Evidence | None = None) -> bytes:
    tools = DeclaredTools.of_request({**REQUEST, "model": model})
    repair = ChatRepair(tools, RepairOptions(), evidence or Evidence(), NOW)
    stream = sse([chunk({"content": text}, model=model) for text in texts])
    frames = [done for frame in split(stream) for done in repair.feed(frame)]
    return b"".join(frame.raw for frame in frames + repair.close())


def _python_calls(texts: list[str], model: str) -> int:
    return calls_of(lambda: _repaired(texts, model))


@pytest.mark.parametrize("what", ["all openers", "a changing header", "fences", "quoted calls"])
def test_twice_the_choices_in_one_event_cost_little_more(what: str) -> None:
    (piece, *_), model = _texts(what, 20_000)
    tools = DeclaredTools.of_request({**REQUEST, "model": model})

    def repaired(count: int) -> None:
        choices = [{"index": index, "delta": {"content": piece}} for index in range(count)]
        event = encode_chunk({"model": model, "choices": choices})
        ChatRepair(tools, RepairOptions(), Evidence(), NOW).feed(event)

    repaired(1)
    few, many = (calls_of(lambda n=count: repaired(n)) for count in (60, 120))
    assert many - few < 60 * 600, "some 500 calls a choice, whatever it holds"


@pytest.mark.parametrize("what", HOSTILE)
def test_twice_the_text_takes_little_more_work(what: str) -> None:
    _repaired(*_texts(what, 20_000))  # what is made once is made now
    less, more = (_python_calls(*_texts(what, size)) for size in (350_000, 700_000))
    assert more - less < 10_000, "a call for 35 characters"


HARD = {
    "a header of Kimi's": ("<|tool_call_begin|>a" + ":" * 60 + "!", "kimi-k2.5"),
    "attributes": ("<tool_calls><invoke " + "aaaaaa=" * 200 + "!<", "minimax-m2"),
    "blanks in an attribute": ("]<]minimax[>[<invoke name=" + " " * 3000 + "!", "minimax-m3"),
    "recipients": ("<|channel|>commentary " + "to=functions.a " * 200 + "!", "gpt-oss-120b"),
    "blanks before a member": ("<tool_call>{" + " " * 60_000 + "!", "qwen2.5"),
}
"""What is hard for a regular expression that goes back."""


@pytest.mark.parametrize("what", HARD)
def test_a_text_that_is_nearly_a_call_is_text_after_little_work(what: str) -> None:
    text, model = HARD[what]
    found = read(_repaired([text[:9], text[9:]], model))
    assert (found.calls, found.content[-60:]) == ([], text[-60:])
    assert _python_calls([text[:9], text[9:]], model) < 10_000


@pytest.mark.parametrize("piece", ['\n<use>{"a":', '\n<a>[{"', "\n<a>[[1],"])
def test_what_follows_lines_of_markup_is_not_read_for_each_of_them(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    assert read(_repaired([text], "my-model")).content == text
    assert _python_calls([text], "my-model") < 500_000, "two of some characters"


@pytest.mark.parametrize(
    "piece", ['\ncall:bash{command:<|"|>', '```tool_code\nbash(command="x\n```\n\n']
)
def test_what_follows_half_a_call_that_must_end_its_text_is_read_a_few_times(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    assert read(_repaired([text], "gemma-4")).content == text
    assert _python_calls([text], "gemma-4") < 400_000, "two of some characters, four times"


@pytest.mark.parametrize("joined", [False, True], ids=["in deltas", "in one event"])
def test_after_many_markers_in_vain_those_of_the_format_are_text_on_record(joined: bool) -> None:
    opener, evidence = "<|tool_call_begin|>z! ", Evidence()
    texts = [opener] * (MAX_IN_VAIN + 1)
    texts += [CALL, "\n", K3_CALL]
    found = read(_repaired(["".join(texts)] if joined else texts, "kimi-k2", evidence))
    assert found.content == "".join(texts[:-1])
    assert [call["name"] for call in found.calls] == ["bash"], "of the other format"
    assert "marker of kimi_k2 after too many without a call" in "; ".join(evidence.lines())


def test_before_that_a_call_is_one() -> None:
    found = read(_repaired(["<|tool_call_begin|>z! "] * (MAX_IN_VAIN - 1) + [CALL], "kimi-k2"))
    assert [call["name"] for call in found.calls] == ["bash"]


def test_a_call_makes_up_for_some_markers_in_vain() -> None:
    texts = ["<|tool_call_end|>", "a ", CALL] * (MAX_CALLS - 1)
    assert len(read(_repaired(texts, "kimi-k2")).calls) == MAX_CALLS - 1


@pytest.mark.parametrize("section", [False, True])
def test_after_very_many_calls_the_rest_is_text_on_record(section: bool) -> None:
    evidence = Evidence()
    calls = [K2_CALL.replace("#", str(number)) for number in range(MAX_CALLS + 9)]
    begin = ["<|tool_calls_section_begin|>"] if section else []
    found = read(_repaired(begin + calls, "kimi-k2", evidence))
    assert len(found.calls) == MAX_CALLS
    assert found.content == "".join(calls[MAX_CALLS:])
    assert "after as many calls as a reply may have" in "; ".join(evidence.lines())


def test_a_call_with_very_many_tags_is_text_on_record() -> None:
    evidence = Evidence()
    text = '<invoke name="bash"><parameter name="command">' + "</parameter>a" * (MAX_TAGS + 1)
    found = read(_repaired([text], "minimax-m2", evidence))
    assert (found.content, found.calls) == (text, [])
    assert "call that is too long to be held" in "; ".join(evidence.lines())
