"""DSML, MiniMax M2's format and Claude's, as tables: what leaks, and what a client gets of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats.invoke import CLAUDE, DSML, MINIMAX_M2

from .leaks import Calls, at_any_cut, calls, client, dropped, read_back, said

RUN = '[bash {"command":"ls"}]'


def dsml(head: str, section: str = "tool_calls", between: str = "\n") -> str:
    """A call whose tags have this between ``<`` and their word."""
    lines = [
        f"<{head}{section}>",
        f'<{head}invoke name="bash">',
        f'<{head}parameter name="command" string="true">ls</{head}parameter>',
        f"</{head}invoke>",
        f"</{head}{section}>",
    ]
    return between.join(lines)


D = "｜DSML｜"
PATH = f'<{D}parameter name="path" string="true">a'
HEAD = f'<{D}tool_calls>\n<{D}invoke name="write">\n'


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "V4": (f"Look.\n{dsml(D)}\nDone.", f"Look.\n{RUN}\nDone."),
        "V3.2": (dsml(D, "function_calls"), RUN),
        "V4.1, a blank after the bar": (dsml(f"{D} ", "calls"), RUN),
        "without line ends": (f"a{dsml(D, between='')}b", f"a{RUN}b"),
        "doubled bars": (dsml("｜｜DSML｜｜", between=" "), RUN),
        "other bars": (dsml("‖DSML‖"), RUN),
        "ASCII bars": (dsml("|DSML|"), RUN),
        "doubled ASCII bars": (dsml("||DSML||"), RUN),
        "blanks around the bars": (dsml(" | DSML | ", "tool_use"), RUN),
        "another word": (dsml(D, "toolcalls"), RUN),
        "an opener without its end": (dsml(D).replace("calls>", "calls", 1), RUN),
        "no opener": (f"a {dsml(D).partition('>')[2].lstrip()} b", f"a {RUN} b"),
        "a closer alone": (f"Done.</{D}tool_calls>", "Done."),
        "two calls, then a section": (
            dsml(D).replace(f"</{D}t", f"<{D}invoke name=finish></{D}invoke></{D}t") + dsml(D),
            f"{RUN}[finish {{}}]{RUN}",
        ),
        "types": (
            f'{HEAD}{PATH}</{D}parameter><{D}parameter name="mode" string="false">7</{D}parameter>'
            f'<{D}parameter string="false" name="text">{{no</{D}parameter>'
            f'<{D}parameter name="lines">["a"]</{D}parameter></{D}invoke></{D}tool_calls>',
            '[write {"path":"a","mode":7,"text":"{no","lines":["a"]}]',
        ),
        "a value of Python's": (
            f'<{D}invoke name="write"><{D}parameter name="x" string="false">True</{D}parameter>'
            f"</{D}invoke>",
            '[write {"x":true}]',
        ),
        "no end of parameters, nor of calls": (
            f'{HEAD}{PATH}\n<{D}parameter name="text" string="true">b\n<{D}invoke name="bash">\n'
            f'<{D}parameter name="command" string="true">ls\n</{D}tool_calls>',
            f'[write {{"path":"a","text":"b"}}]{RUN}',
        ),
        "a name that fits a declared one": (
            f'<{D}invoke name="functions.write:1"><{D}parameter name="text">1</{D}parameter>'
            f"</{D}invoke>",
            '[write {"text":"1"}]',
        ),
        "no end of the section": (
            f"{dsml(D).removesuffix(f'</{D}tool_calls>')}So.",
            f"{RUN}\nSo.",
        ),
        "markup in a value": (
            f'{HEAD}<{D}parameter name="text" string="true"><b>"1" < 2</b>\n</{D}parameter>'
            f"</{D}invoke>",
            '[write {"text":"<b>\\"1\\" < 2</b>\\n"}]',
        ),
        "cut off in a value": (f"{HEAD}{PATH}</{D}par", f"{HEAD}{PATH}</{D}par"),
        "no end after a value": (f"{HEAD}{PATH}</{D}parameter>\n</{D}inv", '[write {"path":"a"}]'),
        "a bare name and JSON in a fence": (
            f'Look.\n<{D}toolcall>bash\n\n```json\n{{"command":"ls"}}\n``` So.',
            f"Look.\n{RUN} So.",
        ),
        "the same with nothing between": (
            f'<{D}toolcall>bash```json\n{{"command":"ls"}}\n```',
            RUN,
        ),
        "the same with its ends": (
            f'<{D}toolcall>bash ```\n{{"command":"ls"}}```\n</{D}invoke></{D}toolcall>{dsml(D)}',
            RUN * 2,
        ),
        "the same twice": (
            f'<{D}toolcall>bash\n```json\n{{"command":"ls"}}\n```\n' * 2,
            f"{RUN}{RUN}",
        ),
        "the same without a fence, cut off": (
            f'<{D}tool_calls>bash\n{{"command":"l',
            f'<{D}tool_calls>bash\n{{"command":"l',
        ),
        "cut off in a typed value": (
            f'{HEAD}<{D}parameter name="lines" string="false">["a",',
            f'{HEAD}<{D}parameter name="lines" string="false">["a",',
        ),
    }.values(),
)
def test_dsml_is_read_as_it_is_meant(text: str, wanted: str) -> None:
    assert at_any_cut(DSML, text) == wanted


M2_HEAD = "<minimax:tool_call>\n"
M2_TAIL = "\n</minimax:tool_call>"
WRITE = '<invoke name="write"><parameter name="path">a</parameter><parameter name="text">'
LS = '<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>'


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "a section": (f"Look.\n{M2_HEAD}{LS}{M2_TAIL}", f"Look.\n{RUN}"),
        "several calls": (f"{M2_HEAD}{LS}\n{LS}{M2_TAIL}\nDone.", f"{RUN}{RUN}\nDone."),
        "another wrapper": (f"So <function_calls>\n{LS}\n</function_calls>.", f"So {RUN}."),
        "DSML without its tokens": (
            "<tool_calls>" + LS.replace('d">', 'd" string="true">') + "</tool_calls>",
            RUN,
        ),
        "words of wrappers that are text": (
            "<calls>\n<call> </calls> <function_calls> </tool_calls> <tool_calls>\n<inv",
            "<calls>\n<call> </calls> <function_calls> </tool_calls> <tool_calls>\n<inv",
        ),
        "wrappers in a value": (
            f"<calls>{WRITE}<calls></calls></function_calls></parameter></invoke></calls>",
            '[write {"path":"a","text":"<calls></calls></function_calls>"}]',
        ),
        "without a section": (f"a {LS} b", f"a {RUN} b"),
        "without its opener": (f"{LS}{M2_TAIL}", RUN),
        "a closer alone": (f"Done.{M2_TAIL.strip()}", "Done."),
        "other quotes, or none": (
            LS.replace('"bash"', "'bash'").replace('"command"', "command"),
            RUN,
        ),
        "types": (
            '<invoke name="write"><parameter name="path">1</parameter><parameter name="mode">7'
            '</parameter><parameter name="lines">["a"]</parameter><parameter name="x">a b'
            "</parameter></invoke>",
            '[write {"path":"1","mode":7,"lines":["a"],"x":"a b"}]',
        ),
        "markup in a value that is no tag of the call": (
            '<invoke name="bash"><parameter name="command">cat <<X\n<parameter name="z">1\n'
            '<invoke name="rm"> </b> <minimax:tool_call></parameter></invoke>',
            '[bash {"command":"cat <<X\\n<parameter name=\\"z\\">1\\n<invoke name=\\"rm\\"> </b> '
            '<minimax:tool_call>"}]',
        ),
        "no end of a parameter": (
            '<invoke name="write"><parameter name="path">a\n<parameter name="text">b\n</invoke>',
            '[write {"path":"a","text":"b"}]',
        ),
        "cut off": (f"{M2_HEAD}{LS.partition('</')[0]}", f"{M2_HEAD}{LS.partition('</')[0]}"),
        "a call that a value quotes": (
            f"{M2_HEAD}{WRITE}Say {LS.replace(chr(10), '')} so.</parameter></invoke>{M2_TAIL}",
            '[write {"path":"a","text":"Say <invoke name=\\"bash\\"><parameter '
            'name=\\"command\\">ls</parameter></invoke> so."}]',
        ),
        "one that it quotes in lines of its own": (
            f"{M2_HEAD}{WRITE}\n{LS}\n</parameter></invoke>{M2_TAIL}",
            '[write {"path":"a","text":"\\n<invoke name=\\"bash\\">\\n<parameter '
            'name=\\"command\\">ls</parameter>\\n</invoke>\\n"}]',
        ),
        "closing tags alone in a value": (
            f"{M2_HEAD}{WRITE}a</parameter> b</invoke> c{M2_TAIL.strip()} d</parameter></invoke>",
            '[write {"path":"a","text":"a</parameter> b</invoke> c</minimax:tool_call> d"}]',
        ),
        "a parameter that a value quotes": (
            f'{M2_HEAD}{WRITE}<c><parameter name="a">1</parameter></c></parameter></invoke>',
            '[write {"path":"a","text":"<c><parameter name=\\"a\\">1</parameter></c>"}]',
        ),
        "a call after a value without its end": (
            f'{M2_HEAD}<invoke name="bash"><parameter name="command">ls\n{LS}{M2_TAIL}',
            RUN * 2,
        ),
    }.values(),
)
def test_minimax_m2_is_read_as_it_is_meant(text: str, wanted: str) -> None:
    assert at_any_cut(MINIMAX_M2, text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        f"`<{D}tool_calls>` begins them, `</{D}tool_calls>` ends them.",
        f"```xml\n{dsml(D)}\n```\n",
        dsml(D).replace('"bash"', '"rm"'),
        f"A <{D}tool_calls> that nothing follows, and <{D}thing> < | b",
        f'The tag <{D}invoke name="bash"> begins one.',
        f'<{D}toolcall>rm ```json\n{{"command":"ls"}}\n```',
        f"<{D}toolcall>bash ```json [1]",
        f"<{D}toolcall>bash ``",
    ],
)
def test_what_is_no_call_of_dsml_stays_as_it_is(text: str) -> None:
    assert at_any_cut(DSML, text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"```xml\n{M2_HEAD}{LS}{M2_TAIL}\n```\n",
        LS.replace('"bash"', '"rm"'),
        "An <invoke> and an </invoke>, <invoke method='a'>, <parameter name=\"x\"> <minimax:tool",
        'The tag <invoke name="bash"> begins one.',
    ],
)
def test_what_is_no_call_of_minimax_stays_as_it_is(text: str) -> None:
    assert at_any_cut(MINIMAX_M2, text) == text


@pytest.mark.parametrize(
    ("before", "left"),
    {
        "": "",
        "call\n": "",
        "I look.\n\ncourt\n": "I look.\n",
        "I look.\ncount  \n\n": "I look.",
        "Please call\n": "Please call\n",
        "I look.\na court\n": "I look.\na court\n",
        "call it\n": "call it\n",
        "courts\n": "courts\n",
    }.items(),
)
@pytest.mark.parametrize("antml", ["", "antml:"])
@pytest.mark.parametrize("section", [False, True])
def test_a_lone_word_before_a_call_of_claude_goes_with_it(
    before: str, left: str, antml: str, section: bool
) -> None:
    call = LS.replace("<invoke", f"<{antml}invoke").replace("</param", f"</{antml}param")
    if section:
        call = f"<{antml}function_calls>\n{call}\n</{antml}function_calls>"
    assert at_any_cut(CLAUDE, f"{before}{call}\nDone.") == f"{left}{RUN}\nDone."
    assert at_any_cut(CLAUDE, f"{call}\n{before}{call}") == f"{RUN}{left and chr(10)}{left}{RUN}"


@pytest.mark.parametrize(
    "text",
    [
        f"court\n{LS.replace('bash', 'rm')}",
        f"call\n```\n{LS}\n```\nSo.",
        "A call\ncount\n\n of <invokes, <function_calls> and </function_calls>\ncourt",
        "I count\ncount\n<b>",
    ],
)
def test_what_is_no_call_of_claude_stays_as_it_is(text: str) -> None:
    assert at_any_cut(CLAUDE, text) == text


@pytest.mark.parametrize("key", ["content", "reasoning_content"])
def test_a_client_gets_the_calls(key: str) -> None:
    for leak, text in ((DSML, dsml(D)), (MINIMAX_M2, f"{M2_HEAD}{LS}{M2_TAIL}")):
        out = client(leak, ["Now. ", *text, "\n"], key)
        assert out.text == "Now. "
        assert [call["arguments"] for call in out.calls] == ['{"command":"ls"}']
        assert out.finish == ["tool_calls"]


def test_what_was_taken_out_is_recorded() -> None:
    assert dropped(DSML, f"a</{D}tool_calls>") == ["stray section_end"]
    twice = PATH + f"</{D}parameter>"
    assert dropped(DSML, f"{HEAD}{twice}{twice}</{D}invoke>") == ["a second value of an argument"]
    assert dropped(DSML, f"{dsml(D)[:-5]}") == ["unfinished marker"]


def write_dsml(turn: Calls) -> str:
    out = [f"<{D}tool_calls>"]
    for name, arguments in turn:
        out.append(f'<{D}invoke name="{name}">')
        for key, value in arguments.items():
            kind = str(isinstance(value, str)).lower()
            out.append(f'<{D}parameter name="{key}" string="{kind}">{said(value)}</{D}parameter>')
        out.append(f"</{D}invoke>")
    return "\n".join([*out, f"</{D}tool_calls>"])


def write_m2(turn: Calls) -> str:
    out = ["<minimax:tool_call>"]
    for name, arguments in turn:
        out.append(f'<invoke name="{name}">')
        for key, value in arguments.items():
            out.append(f'<parameter name="{key}">{said(value)}</parameter>')
        out.append("</invoke>")
    return "\n".join([*out, "</minimax:tool_call>"])


@given(calls([f"<{D}", f"</{D}invoke", "<"], closer=f"</{D}parameter>"), st.integers(1, 60))
def test_generated_turns_of_dsml_are_read_back(turn: Calls, size: int) -> None:
    read_back(DSML, write_dsml, turn, size)


@given(calls(["<invoke name=", "`</parameter", "<b>"], closer="</parameter>"), st.integers(1, 60))
def test_generated_turns_of_minimax_are_read_back(turn: Calls, size: int) -> None:
    read_back(MINIMAX_M2, write_m2, turn, size)


@pytest.mark.parametrize("end", ["", ">", "\n>", "\n"])
def test_a_section_without_its_end_is_one_at_any_cut(end: str) -> None:
    call = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
    said_ = at_any_cut(MINIMAX_M2, f"So. <tool_calls{end}\n{call}\n</tool_calls>")
    assert said_ == 'So. [bash {"command":"ls"}]'


@pytest.mark.parametrize("tag", ['<invoke name="finish"/>', '<invoke name="finish" />'])
@pytest.mark.parametrize("text", ["{}", "a {} b", "<function_calls>{}{}</function_calls>"])
def test_a_call_in_one_tag_needs_no_section(text: str, tag: str) -> None:
    meant = text.replace("<function_calls>", "").replace("</function_calls>", "")
    said_ = at_any_cut(MINIMAX_M2, text.replace("{}", tag))
    assert said_ == meant.replace("{}", "[finish {}]")
