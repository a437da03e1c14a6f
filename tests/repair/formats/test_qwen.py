"""Qwen's format as a table, and turns written in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.enclosed_json import HERMES
from dragoman.repair.formats.glm import GLM
from dragoman.repair.formats.qwen import QWEN
from tests.repair.formats.leaks import dropped
from tests.repair.formats.turns import Turn, assert_reads_back, read_at_any_cut, streamed, turns
from tests.repair.turns import cut

LS = "<parameter=command>\nls\n</parameter>"
BASH = f"<function=bash>\n{LS}\n<parameter=timeout>\n15\n</parameter>\n</function>"
MEANT = '[bash {"command":"ls","timeout":15}]'
SHORT = '[bash {"command":"ls"}]'
OPENED = "<function=bash>\n<parameter=command>\nls"
QUOTED = f"<tool_call>\n{OPENED}</parameter></function>\n</tool_call> so"
TABLE = {
    "a call": (f"Look.\n<tool_call>\n{BASH}\n</tool_call>", f"Look.\n{MEANT}"),
    "several": (f"<tool_call>{BASH}</tool_call>\n" * 2 + "Done.", f"{MEANT * 2}\nDone."),
    "several in one": (f"<tool_call>\n{BASH}\n{BASH}\n</tool_call>.", f"{MEANT * 2}."),
    "no opening tag": (f"Look.\n\n{BASH}\n</tool_call>", f"Look.\n\n{MEANT}"),
    "no tag at all": (f"{BASH}\n{BASH} Done.", f"{MEANT * 2} Done."),
    "no line ends": (
        "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>",
        SHORT,
    ),
    "blanks in tags": (BASH.replace("=", " = "), MEANT),
    **{
        f"a call after another, {tag}": (f"{BASH}\n{tag}\n</function>.", f"{MEANT}[finish {{}}].")
        for tag in ("<function finish>", "<function 'finish'>", "<function = finish>")
    },
    "a sign too many": ("<function==finish></function>.", "[finish {}]."),
    "the tag of a call without its sign in a value": (
        BASH.replace("ls", "ls\n<function finish>\n</p>"),
        MEANT.replace("ls", r"ls\n<function finish>\n</p>"),
    ),
    "a parameter after the call": (
        f"<tool_call>{BASH}<parameter=x></tool_call>.",
        f"{MEANT}<parameter=x></tool_call>.",
    ),
    "line ends of Windows": (BASH.replace("\n", "\r\n"), MEANT),
    "a word for a number": (BASH.replace("15", "soon"), MEANT.replace("15", '"soon"')),
    "a sign of markup in it": (BASH.replace("15", "x < 5"), "="),
    "no end of a parameter": (BASH.replace("</parameter>\n", ""), MEANT),
    "a parameter that the tool has not": (
        f"<function=bash>\n{LS.replace('ls', '<parameter=x>')}\n</function>",
        '[bash {"command":"<parameter=x>"}]',
    ),
    "one that it has got, and half a tag": (
        f"<function=bash>{LS.replace('ls', '<parameter=command> <parameter=')}</function>",
        '[bash {"command":"<parameter=command> <parameter="}]',
    ),
    "no end of a value before a parameter that the tool has not": (
        f"<function=bash>\n{OPENED[16:]}\n<parameter=x>\n1\n</parameter>\n</function>",
        "=",
    ),
    "no end of the function": (f"<function=bash>{LS}</tool_call>.", f"{SHORT}."),
    "no end of the function, text": (f"<function=bash>{LS}\nDone.", f"{SHORT}\nDone."),
    "a call after one without its end": (f"<tool_call><function=bash>{LS}\n" * 2, SHORT * 2),
    "no arguments": ("<tool_call>\n<function=finish>\n</function>\n</tool_call>", "[finish {}]"),
    "JSON": (
        '<tool_call><function=bash>\n{"command":"</function>"}\n</function>\n</tool_call>.',
        '[bash {"command":"</function>"}].',
    ),
    "only two line ends are trimmed": (
        "<function=bash><parameter=command>\n\n ls </p>\n\n</parameter></function>",
        r'[bash {"command":"\n ls </p>\n"}]',
    ),
    "a call that a value quotes": (
        f"<tool_call>\n<function=bash>\n{LS.replace('ls', QUOTED)}\n</function>\n</tool_call>",
        f'[bash {{"command":{json.dumps(QUOTED)}}}]',
    ),
    **{
        f"{tag} alone in a value": (
            f"<tool_call>{BASH.replace('ls', f'ls {tag} x')}</tool_call>.",
            f"{MEANT.replace('ls', f'ls {tag} x')}.",
        )
        for tag in ("</parameter>", "</function>", "</tool_call>")
    },
    "a closing tag in a value, and no end": (
        f"<function=bash>\n{LS.replace('ls', 'ls </function> x')}\n",
        '[bash {"command":"ls </function> x"}]',
    ),
    "text after a value without its end": (
        f"<function=bash>{LS.partition('</')[0]}</function>\nDone.",
        f"{SHORT}\nDone.",
    ),
    "a call and a closing tag that a value quotes": (
        f"<tool_call>\n<function=bash>\n{LS.replace('ls', f'{QUOTED} </parameter> x')}"
        "\n</function>\n</tool_call>",
        f'[bash {{"command":{json.dumps(f"{QUOTED} </parameter> x")}}}]',
    ),
    "calls of which a value and the call have no end": (
        f"<tool_call>\n{OPENED}\n<tool_call>\n{OPENED}\n</parameter></function></tool_call>",
        SHORT * 2,
    ),
    "cut off in a call that a value quotes": (
        f"<function=bash><parameter=command>{QUOTED}",
        "=",
    ),
    "cut off": ("<function=bash><parameter=command>\nls </para", "="),
    "cut off after a parameter": (f"<function=bash>{LS}\n</func", SHORT),
    "cut off after the function": (f"<tool_call>{BASH}\n</tool_", MEANT),
    "in code": (f"`<function=bash>` and\n```\n<tool_call>{BASH}</tool_call>\n```\n", "="),
    "in prose": ("Write <function=bash> and then <parameter=command>, <function = x.", "="),
    "undeclared": (f"<tool_call>{BASH.replace('bash', 'rm')}</tool_call> x", "="),
    "another element": ("<functional> <function> <functions=x>", "="),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_what_a_text_says_however_it_is_cut(text: str, wanted: str) -> None:
    assert read_at_any_cut(text, GLM, HERMES, QWEN) == (text if wanted == "=" else wanted)


def test_nothing_is_taken_out_of_a_section_but_its_call() -> None:
    assert dropped(QWEN, f"<tool_call>{BASH}</tool_call>.") == []
    assert dropped(QWEN, f"<tool_call>{BASH}</function></tool_call>.") == ["stray call_end"]


@pytest.mark.parametrize(("finish", "called"), [("length", 0), ("stop", 2)])
def test_a_call_in_a_value_without_its_end_is_one_and_nothing_is_where_the_reply_was_cut_there(
    finish: str, called: int
) -> None:
    text = f"{OPENED}\n<tool_call>\n{OPENED}\n</parameter>\n</function>\n</tool_call>"
    assert len(streamed([text], QWEN, finish=finish).calls) == called


@given(st.data(), turns(), st.sampled_from(["", "\n"]), st.booleans())
def test_a_turn_is_read_back(
    data: st.DataObject,
    turn: Turn,
    line_end: str,
    opened: bool,
) -> None:
    text = turn.before
    for name, arguments in turn.calls:
        parameters = "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n"
            f"</parameter>{line_end}"
            for key, value in arguments.items()
        )
        call = f"<function={name}>{line_end}{parameters}</function>{line_end}"
        text += f"<tool_call>{line_end}{call}</tool_call>" if opened else call
    assert_reads_back(turn, data.draw(cut(text + turn.after)), HERMES, QWEN, GLM)
