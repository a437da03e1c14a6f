"""JSON arguments as a table: text in, what is given of it and what is left; however it is cut."""

from __future__ import annotations

import pytest

from dragoman.repair.events import Arguments, CallEnd, Dropped, NoJson
from dragoman.repair.formats.json_arguments import QUOTED_LIMIT, JsonArguments
from dragoman.repair.formats.marker_set import marker_set

MARKERS = marker_set(("<end>", "<next>", "<stray>"))


def read(pieces: list[str]) -> tuple[str, str, str, str]:
    """The arguments, how they ended, by which marker, and the rest."""
    arguments = JsonArguments(MARKERS, {"<stray>": "stray"})
    events: list[Arguments | NoJson | CallEnd | Dropped] = []
    after = ""
    for piece in pieces:
        if arguments.over:
            after += piece
        else:
            arguments.push(piece)
            while not arguments.over and arguments.step():
                pass
            events += arguments.take()
    while not arguments.over:
        if not arguments.step():
            arguments.finish()
        events += arguments.take()
    *given, end = events
    assert isinstance(end, CallEnd)
    ended = f"{'valid' if end.valid else 'invalid'}{', cut' if end.cut else ''}"
    text = "".join(map(gist, given))
    return text, ended, arguments.ended_by, arguments.rest + after


def gist(event: Arguments | NoJson | CallEnd | Dropped) -> str:
    match event:
        case Arguments(text=text):
            return text
        case Dropped(what=what):
            return f"({what})"
        case _:
            return "" if isinstance(event, NoJson) else "(end)"


LONG = "x" * (QUOTED_LIMIT + 10)
TABLE: dict[str, tuple[str, tuple[str, str, str, str]]] = {
    "an object": ('{"a":1}<end> b', ('{"a":1}', "valid", "<end>", "<end> b")),
    "another marker": ('{"a":1}<next>', ('{"a":1}', "valid", "<next>", "<next>")),
    "blanks": (' \n{"a": 1}\n <end>', ('{"a": 1}', "valid", "<end>", "<end>")),
    "control characters in a string": (
        '{\n"a":"\\\\\n\\"\t\0"\n}<end>',
        ('{\n"a":"\\\\\\n\\"\\t\\u0000"\n}', "valid", "<end>", "<end>"),
    ),
    "no JSON": ("rm -rf <x> / <end>", ("rm -rf <x> / ", "invalid", "<end>", "<end>")),
    "a number": ("12<end>", ("12", "valid", "<end>", "<end>")),
    "a quoted marker": (
        '{"a":"<end> <next>"}<end>',
        ('{"a":"<end> <next>"}', "valid", "<end>", "<end>"),
    ),
    "one that was real": ('{"a":"b<end> c', ('{"a":"b', "invalid", "<end>", "<end> c")),
    "a text follows": ('{"a":1}\n So <end>', ('{"a":1}', "valid", "", "\n So <end>")),
    "a stray marker": ('{"a":<stray>1}<end>', ('{"a":(stray stray)1}', "valid", "<end>", "<end>")),
    "cut off": ('{"a":"b', ('{"a":"b', "invalid, cut", "", "")),
    "cut off, whole": ('{"a":1} ', ('{"a":1}', "valid, cut", "", "")),
    "cut off in a marker": ("{<en", ("{", "invalid, cut", "", "")),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_text_becomes_arguments_however_it_is_cut(
    text: str, wanted: tuple[str, str, str, str]
) -> None:
    assert read([text]) == wanted
    assert read(list(text)) == wanted
    for at in range(1, len(text)):
        assert read([text[:at], text[at:]]) == wanted


def test_after_a_quoted_marker_arguments_are_held_up_to_a_limit() -> None:
    arguments = JsonArguments(MARKERS)
    arguments.push(f'{{"a":"<end>{LONG[: QUOTED_LIMIT - 10]}')
    while arguments.step():
        pass
    assert arguments.take() == [Arguments('{"a":"')]
    arguments.push(LONG[QUOTED_LIMIT - 10 :])
    while arguments.step():
        pass
    events = [event for event in arguments.take() if isinstance(event, Arguments)]
    assert "".join(event.text for event in events) == f"<end>{LONG}"


def test_more_of_a_string_is_taken_at_once_and_its_end_is_not() -> None:
    arguments = JsonArguments(MARKERS)
    arguments.push('{"a":"b')
    while arguments.step():
        pass
    assert arguments.take_more(" c") is None, "what was decided has not been taken"
    arguments.take()
    assert arguments.take_more(" c") == " c"
    assert arguments.take_more('", "d": [') == '", "d": ['
    assert arguments.take_more("]}") is None, "it completes the JSON"


def test_arguments_that_were_only_taken_are_no_empty_ones() -> None:
    arguments = JsonArguments(MARKERS, {"<stray>": "stray"})
    arguments.push("<stray>")
    while arguments.step():
        pass
    arguments.take()
    assert arguments.take_more("{") == "{"
    arguments.push("<end>")
    arguments.step()
    assert arguments.take() == [CallEnd(valid=False, cut=False)]
