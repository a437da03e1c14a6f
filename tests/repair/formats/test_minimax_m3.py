"""MiniMax M3's format, as a table: what leaks, and what a client gets of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.call_reader import HELD_LIMIT
from dragoman.repair.formats.minimax_m3 import MINIMAX_M3

from .leaks import Calls, at_any_cut, calls, client, read_back, said

P = "]<]minimax[>["
RUN = '[bash {"command":"ls"}]'


def element(name: str, *inner: str) -> str:
    return f"{P}<{name}>{''.join(inner)}{P}</{name}>"


def call(name: str, *arguments: str) -> str:
    return f'{P}<invoke name="{name}">{"".join(arguments)}{P}</invoke>'


def section(*written: str) -> str:
    return f"{P}<tool_call>\n{''.join(written)}\n{P}</tool_call>"


LS = call("bash", element("command", "ls"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    {
        "a section": (f"Look.\n{section(LS)} Done.", f"Look.\n{RUN} Done."),
        "several calls, with line ends": (
            section(LS, "\n", LS, "\n", call("finish")),
            RUN * 2 + "[finish {}]",
        ),
        "without a section": (f"a {LS} b", f"a {RUN} b"),
        "types": (
            section(
                call(
                    "write",
                    *("\n", element("path", "1"), "\n", element("mode", "7")),
                    *(element("lines", "[1]"), element("x", "a b")),
                )
            ),
            '[write {"path":"1","mode":7,"lines":[1],"x":"a b"}]',
        ),
        "objects and lists": (
            section(
                call(
                    "write",
                    element("lines", "\n", element("item", "1"), "\n", element("item", "b")),
                    element("options", element("force", "true"), element("names", "1")),
                    element("x", element("item", element("y", "1")), element("item", "")),
                    element("z", element("y", "1"), element("item", "2")),
                )
            ),
            '[write {"lines":["1","b"],"options":{"force":true,"names":["1"]},'
            '"x":[{"y":1},""],"z":{"y":1,"item":2}}]',
        ),
        "its first tag without its beginning": (f"<tool_call>\n{LS}{P}</tool_call>.", f"{RUN}."),
        "text between elements": (
            call("write", element("options", element("force", "true"), "and")),
            call("write", element("options", element("force", "true"), "and")),
        ),
        "elements of one name": (
            section(
                call(
                    "write",
                    *(element("lines", "1"), element("lines", "2")),
                    element("options", element("names", "1"), element("names", "2")),
                    *(element("x", "1"), element("x", element("y", "a")), element("x", "b")),
                )
            ),
            '[write {"lines":["1","2"],"options":{"names":["1","2"]},"x":[1,{"y":"a"},"b"]}]',
        ),
        "nothing in them": (
            section(call("write", element("lines"), element("options"), element("text"))),
            '[write {"lines":[],"options":{},"text":""}]',
        ),
        "brackets and tags in a string": (
            section(call("write", element("text", f"a[0] ]] <b>]<]{P} c"))),
            f'[write {{"text":"a[0] ]] <b>]<]{P} c"}}]',
        ),
        "a string twice": (section(call("bash", element("command", "ls") * 2)), RUN),
        "prefixes doubled": (f"{P}{section(LS)}", RUN),
        "the end alone": (f"Done.{P}</initial_wait>{P}\n{P}</tool_call>", "Done."),
        "no ends of elements": (
            f'{P}<tool_call>{P}<invoke name="write">{P}<path>a{P}<mode>7{P}<text>b{P}</invoke>',
            '[write {"path":"a","mode":7,"text":"b"}]',
        ),
        "cut off in a string": (
            f'{P}<invoke name="bash">{P}<command>rm {P[:5]}',
            f'{P}<invoke name="bash">{P}<command>rm {P[:5]}',
        ),
        "cut off in a list": (
            f'{P}<invoke name="write">{P}<lines>{element("item", "a")}{P}<item>b',
            f'{P}<invoke name="write">{P}<lines>{element("item", "a")}{P}<item>b',
        ),
        "no end after an argument": (
            f'{P}<tool_call>{P}<invoke name="write">{element("mode", "7")}{P}</inv',
            '[write {"mode":7}]',
        ),
    }.values(),
)
def test_what_leaks_is_read_as_it_is_meant(text: str, wanted: str) -> None:
    assert at_any_cut(MINIMAX_M3, text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        f"`{P}` begins each, as in `{P}<tool_call>`.",
        f"```\n{section(LS)}\n```\n",
        section(call("rm", element("all", "x"))),
        section(call("write", element("path", "1"), element("lines", "[1"))),
        f"{P}<tool_call> that nothing follows",
        f'{P}<invoke name="bash"> begins one',
        "a[0] ]<] ]<]mini",
    ],
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    assert at_any_cut(MINIMAX_M3, text) == text


def test_a_client_gets_the_calls() -> None:
    out = client(MINIMAX_M3, ["Now. ", *section(LS)])
    assert (out.content, out.finish) == ("Now. ", ["tool_calls"])
    assert [call["arguments"] for call in out.calls] == ['{"command":"ls"}']


def test_a_value_of_elements_that_is_too_long_or_too_deep_is_text() -> None:
    many = [element("item", "x" * 1000)] * (HELD_LIMIT // 1000)
    deep = "".join(f"{P}<a>" for _ in range(5000))
    for value in ("".join(many), deep):
        out = client(MINIMAX_M3, [text := call("write", element("lines", value))])
        assert (out.content, out.calls) == (text, [])


def written(value: object) -> str:
    """A value as elements, if it is made of others."""
    if isinstance(value, dict):
        return "".join(element(key, written(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return "".join(element("item", written(inner)) for inner in value)
    return said(value)


def write(turn: Calls) -> str:
    return section(
        *(
            call(name, *(element(key, written(value)) for key, value in arguments.items()))
            for name, arguments in turn
        )
    )


@given(calls(["]<]mini", "]", "<"], closer=P), st.integers(1, 60))
def test_generated_turns_are_read_back(turn: Calls, size: int) -> None:
    read_back(MINIMAX_M3, write, turn, size)
