"""Harmony as a table, and turns written in it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.harmony import HARMONY, HARMONY_ROLE, HARMONY_STRIPPED
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, streamed, turns
from tests.repair.turns import cut

LS = '{"command":"ls"}'
MEANT = f"[bash {LS}]"
CALL = f"<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{LS}<|call|>"
HEAD = "<|channel|>commentary to=functions.bash <|constrain|>json"
WORDS = "commentary to=functions.bash"
TABLE: dict[str, tuple[str, str | None]] = {
    "a call": (f"Look. {CALL}", f"Look. {MEANT}"),
    "several": (f"{CALL}<|start|>assistant{CALL} Done.", f"{MEANT}{MEANT} Done."),
    "recipient before the channel": (
        f"<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{LS}<|call|>",
        MEANT,
    ),
    "no constraint, no prefix": (f"<|channel|>commentary to=bash<|message|>{LS}<|call|>", MEANT),
    "no channel": (f"<|start|>assistant to=functions.bash<|message|>{LS}<|call|>", MEANT),
    "no channel, no message token": (f"<|start|>assistant to=functions.bash{LS}<|call|>", MEANT),
    "no channel, no JSON": ("<|start|>assistant to=functions.bash<|message|>ls<|call|>", "="),
    "thoughts call": (f"<|channel|>analysis to=functions.bash code<|message|>{LS}", MEANT),
    "no message token": (f"<|channel|>commentary to=functions.bash json{LS}<|call|>.", f"{MEANT}."),
    "no end": (f"{CALL.removesuffix('<|call|>')}{CALL}", MEANT * 2),
    "no arguments": ("<|channel|>commentary to=functions.finish<|message|><|call|>", "[finish {}]"),
    "no name": (f"<|channel|>commentary<|message|>{LS}<|end|>", MEANT),
    "no name, and what no tool declares": (
        '<|channel|>commentary<|message|>{"command":"ls","x":1}<|end|>',
        "=",
    ),
    "a constraint as recipient": (
        f"<|channel|>commentary to=<|constrain|>json<|message|>{LS}<|call|>",
        MEANT,
    ),
    "channels": (
        "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final<|message|>"
        "Hello.<|return|>",
        "«I see.»Hello.",
    ),
    "thoughts, then a call": (f"<|channel|>analysis<|message|>So.{CALL}", f"«So.»{MEANT}"),
    "a preamble": ("<|channel|>commentary<|message|>I look.<|end|>", "I look."),
    "an answer in JSON": (f"<|channel|>final<|message|>{LS}<|return|>", LS),
    "thoughts cut off": ("<|channel|>analysis<|message|>I s", "«I s»"),
    "ended by its token": (f"{CALL[:-10]}<|call|>.", "="),
    "a glued name": (CALL.replace("bash <|constrain|>json", "bashjson"), MEANT),
    "a glued name, no tool": (CALL.replace("bash <|constrain|>json", "rmjson"), "="),
    "in a string": (CALL.replace(LS, json.dumps(LS)), MEANT),
    "a header after it": (f"{CALL}<|start|>assistant{HEAD}", MEANT),
    "headers after it": (f"{CALL}{HEAD}{HEAD}\n<|start|>assistant<|channel|>comm", MEANT),
    "a header after it, then a call": (f"{CALL}{HEAD}{CALL}", MEANT * 2),
    "words of headers after it": (f"{CALL}{WORDS} json", MEANT),
    "a header after it, then text": (f"{CALL}{HEAD}<|end|>Done.", f"{MEANT}Done."),
    "another message after it": (f"{CALL}<|start|>user<|message|>Hi", None),
    "prose about it after it": (f"{CALL}The token <|channel|> names it.", None),
    "a header after it, and half of one": (f"{CALL}{HEAD}<|chan", MEANT),
    "words of channels around headers after it": (
        f"{CALL}commentary{HEAD}<|channel|>commentary",
        MEANT,
    ),
    "many headers after it": (
        f"{CALL}commentary" + "<|channel|>commentary to=functions.readfile" * 40,
        MEANT,
    ),
    "many headers after it, then a call": (
        f"{CALL}{'<|channel|>commentary ' * 5}{CALL} Done.",
        f"{MEANT}{MEANT} Done.",
    ),
    "a word of channels after it, then a call": (f"{CALL}commentary{CALL}", MEANT * 2),
    "a word of channels after it": (f"{CALL}commentary", MEANT),
    "the word in an answer": (f"{CALL}commentary of mine", f"{MEANT}commentary of mine"),
    "the word before text": (f"{CALL}commentary{HEAD} is it", f"{MEANT}commentary{HEAD} is it"),
    "a recipient alone, and no JSON": (
        "<|start|>assistant to=bash<|message|><atem:function_calls>ls</atem:function_calls><|eom|>",
        "=",
    ),
    "a recipient alone, and nothing": ("<|start|>assistant to=bash<|message|>", "="),
    "a recipient alone, and JSON": (f"<|start|>assistant to=bash<|message|>\n{LS}<|call|>", MEANT),
    "a recipient and a type": (f"<|start|>assistant to=bash code<|message|>{LS}", MEANT),
    "cut off": (f"{CALL[:-12]}", "="),
    "stray tokens": ("So<|end|> it <|constrain|>is.<|return|>", "So it is."),
    "a user's message": ("<|start|>user<|message|>Hi", "="),
    "in code": (f"`<|channel|>` and\n```\n{CALL}\n```\n", "="),
    "a token in prose": ("The token <|channel|> names a channel.", "="),
    "an undeclared tool": (CALL.replace("bash", "rm") + " x", "="),
    "other tokens": ("<|im_start|>assistant<|channels|>", "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str | None) -> None:
    wanted = text if wanted == "=" else wanted or text.replace(CALL, MEANT)
    assert read_at_any_cut(text, HARMONY) == wanted


CHANNELS = ("<|channel|>commentary", "<|channel|>analysis", "<|channel|> final")
TYPES = ("", " <|constrain|>json", "<|constrain|> json", " json", " code")
HEADERS = [
    header
    for channel, type_, between in itertools.product(CHANNELS, TYPES, (" ", "\n"))
    for header in (
        f"{channel}{between}to=functions.bash{type_}",
        f"<|start|>assistant{channel}{between}to=functions.bash{type_}",
        f"<|start|>assistant{between}to=functions.bash{channel}{type_}",
        f"<|start|>{between}assistant{between}to=functions.bash{type_}{channel}",
    )
]


@pytest.mark.parametrize(
    ("recipient", "end"), [("to=functions.bash", "<|message|>"), ("to=bash", " ")]
)
def test_a_header_has_its_parts_in_any_order_and_comes_in_any_pieces(
    recipient: str, end: str
) -> None:
    for header in HEADERS:
        text = f"{header.replace('to=functions.bash', recipient)}{end}{LS}<|call|>Done."
        assert read_at_any_cut(text, HARMONY) == f"{MEANT}Done.", header


def test_a_turn_ends_as_the_host_says_though_a_header_is_repeated() -> None:
    repeated = "commentary<|channel|>commentary to=functions.readfile" * 300
    for junk in (f"<|start|>assistant{HEAD}", WORDS, HEAD * 2, repeated, f"commentary{HEAD}"):
        for pieces in ([CALL + junk], list(CALL + junk)):
            out = streamed(pieces, HARMONY)
            assert (out.content, len(out.calls), out.finish) == ("", 1, ["tool_calls"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"Look. commentary to=functions.bash json{LS}", f"Look. {MEANT}"),
        (f"commentary to=functions.bash {LS}\nDone.", f"{MEANT}\nDone."),
        ("It writes commentary to=functions.bash first.", "="),
        (f"commentary to=functions.rm json{LS}", "="),
        (f"Look.\nassistant to=functions.bash {LS}", f"Look.\n{MEANT}"),
        (f"assistant to=functions.bash\n{LS}", MEANT),
        (f"assistant to=functions.bashcommentary json{LS}", "="),
        ("It writes assistant to=functions.bash first.", "="),
        (f"`assistant to=functions.bash {LS}` is one.", "="),
    ],
    ids=[
        *("a call", "text after it", "prose", "an undeclared tool", "a role", "a role and a line"),
        *("a role and a glued channel", "a role in prose", "a role in code"),
    ],
)
def test_what_is_left_of_a_call_without_its_tokens(text: str, wanted: str) -> None:
    formats = HARMONY_STRIPPED, HARMONY_ROLE, HARMONY
    assert read_at_any_cut(text, *formats) == (text if wanted == "=" else wanted)


@given(st.data(), turns())
def test_a_turn_is_read_back(data: st.DataObject, turn: Turn) -> None:
    calls = "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
        f"{json.dumps(arguments)}<|call|>"
        for name, arguments in turn.calls
    )
    text = f"{turn.before}{calls}{turn.after}"
    assert_reads_back(turn, data.draw(cut(text)), HARMONY, HARMONY_STRIPPED)
