"""The input of a custom tool is the JSON string it travels in, live and however it is cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.custom_input import CustomInputReader

anything = st.text(st.characters(codec=None), max_size=30)


def read(fragments: list[str]) -> tuple[str, str]:
    reader = CustomInputReader()
    text = "".join(map(reader.feed, fragments))
    return text + reader.close(), reader.anomaly


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(anything, st.booleans(), st.lists(st.integers(0, 1000), max_size=6))
def test_the_input_is_the_string_however_the_arguments_are_cut(
    text: str, ascii_only: bool, places: list[int]
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    assert read(cut(arguments, places)) == (json.loads(arguments)["input"], "")
    assert read(list(arguments)) == (json.loads(arguments)["input"], "")


@given(anything, st.lists(st.integers(0, 1000), max_size=6))
def test_other_arguments_give_some_input_and_no_error(arguments: str, places: list[int]) -> None:
    text, _ = read(cut(arguments, places))
    assert text == read([arguments])[0]


@given(anything, st.lists(st.integers(0, 1000), max_size=6))
def test_a_broken_string_gives_the_same_input_however_it_is_cut(
    body: str, places: list[int]
) -> None:
    arguments = '{"input":"' + body
    assert read(cut(arguments, places))[0] == read([arguments])[0]


def test_text_is_given_out_as_it_arrives() -> None:
    reader = CustomInputReader()
    fragments = [' { "inp', 'ut" : "a', "b\\", "nc\\ud83d", "\\ude00", "\\u00", 'e9"', " }"]
    assert [reader.feed(fragment) for fragment in fragments] == [
        *("", "a", "b", "\nc", "😀", "", "é", "")
    ]
    assert (reader.close(), reader.anomaly) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"input":"a\nb"}', "a\nb"),
        ('{"input":"f("a", {"b"}) \\"c\\""} "}\n', 'f("a", {"b"}) "c""} '),
        ('{"input":"say "yes""', 'say "yes"'),
        ('{"input":"a", "more": 1} x', "a"),
        ('{"input":"a"}{"input":"b"}', "a"),
        ('{"input":"\\q\\u12zz"}', "\\q\\u12zz"),
        ('{"input":"\\ud83dx"}', "\ud83dx"),
        ('{"input":"\\ud83d', "\ud83d"),
        ('{"input":"a\\', "a\\"),
        ('{"input":"\\ud83d\\ud83d\\ude00"}', "\ud83d😀"),
    ],
)
def test_what_models_write_though_json_forbids_it_is_let_through(
    arguments: str, wanted: str
) -> None:
    assert read([arguments])[0] == wanted
    assert read(list(arguments))[0] == wanted


@pytest.mark.parametrize(
    ("arguments", "wanted", "anomaly"),
    [
        ('{"patch": "a"}', "a", ""),
        ('{"more": 1, "input": "a"}', "a", ""),
        ('{"one": "a", "two": "b"}', '{"one": "a", "two": "b"}', "input that is no string"),
    ],
)
def test_the_one_string_of_an_object_is_the_input_whatever_its_name(
    arguments: str, wanted: str, anomaly: str
) -> None:
    assert read([arguments]) == (wanted, anomaly)
