"""JSON arguments as a table: text in, what they are and what is left; however it is cut."""

from __future__ import annotations

import pytest

from dragoman.repair.events import Damaged, Whole
from dragoman.repair.formats.held_arguments import MAX_AFTER, MAX_PIECES, CallEnds
from dragoman.repair.formats.json_arguments import JsonArguments
from dragoman.repair.formats.marker_set import marker_set

MARKERS = marker_set(("<end>", "<next>"))
MARKED = CallEnds(MARKERS, frozenset(("<end>",)))
UNMARKED = CallEnds(MARKERS)


def read(pieces: list[str], ends: CallEnds = MARKED, *, whole: bool = True) -> tuple[str, str]:
    """The arguments, or what is the matter, and the rest."""
    arguments = JsonArguments("f", ends)
    after = ""
    for piece in pieces:
        if arguments.over:
            after += piece
        else:
            arguments.push(piece)
            arguments.step()
    if not arguments.over:
        arguments.finish(whole=whole)
    (event,) = arguments.take()
    if isinstance(event, Damaged):
        return ("cut" if event.cut else "damaged"), arguments.rest + after
    assert isinstance(event, Whole)
    return "".join(event.pieces) + "…" * event.unmarked, arguments.rest + after


LONG = "x" * (MAX_AFTER + 10)
TABLE: dict[str, tuple[str, tuple[str, str]]] = {
    "an object": ('{"a":1}<end> b', ('{"a":1}', "<end> b")),
    "another marker": ('{"a":1}<next>', ('{"a":1}', "<next>")),
    "blanks": (' \n{"a": 1}\n <end>', ('{"a": 1}', "\n <end>")),
    "nothing": (" <end>", ("{}", "<end>")),
    "control characters in a string": (
        '{\n"a":"\\\\\n\\"\t\0"\n}<end>',
        ('{\n"a":"\\\\\\n\\"\\t\\u0000"\n}', "<end>"),
    ),
    "an object in a string": ('"{\\"a\\": 1}"<end>', ('{"a": 1}', "<end>")),
    "a string": ('"a"<end>', ('"a"', "<end>")),
    "quoted markers": ('{"a":"<end> <next>"}<end>', ('{"a":"<end> <next>"}', "<end>")),
    "no end": ('{"a":1} ', ('{"a":1}…', " ")),
    "half an end": ('{"a":1}<en', ('{"a":1}…', "<en")),
    "text, and no end": ('{"a":1}\n So', ('{"a":1}', "\n So")),
    "text, and the next": ('{"a":1}\n So <next>', ('{"a":1}', "\n So <next>")),
    "text before the end": ('{"a":1}\n So <end>.', ("damaged", ".")),
    "no JSON": ("rm -rf / <end>.", ("damaged", ".")),
    "another bracket": ('{"a":[1}<end>.', ("damaged", ".")),
    "a quotation mark": ('{"a":"echo "}" >> b"}<end>.', ("damaged", ".")),
    "a quotation mark, and a marker": ('{"a":"echo "<next>" >> b"}<end>.', ("damaged", ".")),
    "a marker in it": ('{"a":<next>1}<end>.', ("damaged", ".")),
    "a missing bracket": ('{"a":{"b":1}<end>.', ("damaged", ".")),
    "no end of a string": ('{"a":"b<end> c', ("cut", "")),
    "no end of an object": ('{"a":"b"', ("cut", "")),
    "nothing at all": (" ", ("cut", "")),
}


@pytest.mark.parametrize(("text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_text_becomes_arguments_however_it_is_cut(text: str, wanted: tuple[str, str]) -> None:
    assert read([text]) == wanted
    assert read(list(text)) == wanted
    for at in range(1, len(text)):
        assert read([text[:at], text[at:]]) == wanted


@pytest.mark.parametrize(
    ("after", "whole"),
    [
        (" Done.", True),
        ("\nDone.", True),
        ('\n"}', False),
        ("\nb\n}", False),
        (')") {"}', False),
        (' I ran "ls".', True),
        (" [1] and {x}", True),
        ('" >> a.c"}', False),
        (' foo"', False),
        (" foo}", False),
        (f" {LONG}", True),
    ],
)
def test_where_no_marker_ends_calls_the_line_after_one_closes_nothing(
    after: str, whole: bool
) -> None:
    for text in ('{"a":"echo "}', '{"a":1}'):
        for pieces in ([text + after], [*(text + after)]):
            said, rest = read(pieces, UNMARKED)
            assert (said, rest) == ((text, after) if whole else ("damaged", after))


def test_at_a_limit_a_call_without_its_end_is_cut() -> None:
    assert read(['{"a":1}'], whole=False) == ("cut", "")
    assert read(['{"a":1}<end>'], whole=False) == ('{"a":1}', "<end>")
    assert read(['{"a":1} Done.'], UNMARKED, whole=False) == ('{"a":1}', " Done.")


def test_more_of_a_string_is_taken_at_once_and_its_end_is_not() -> None:
    arguments = JsonArguments("f", MARKED)
    arguments.push('{"a":"b')
    arguments.step()
    assert arguments.take_more(" <end> c")
    assert not arguments.take_more('"}')
    assert arguments.rest == '{"a":"b <end> c', "nothing of it has been given"


@pytest.mark.parametrize("count", [1, 10, MAX_PIECES, 5 * MAX_PIECES])
def test_arguments_leave_in_the_pieces_in_which_they_came_up_to_a_number(count: int) -> None:
    arguments = JsonArguments("f", MARKED)
    pieces = ['{"a":"', *[f"{number} " for number in range(count)], '"}']
    for piece in ["\n ", *pieces, " <end>"]:
        if not arguments.take_more(piece):
            arguments.push(piece)
            arguments.step()
    (event,) = arguments.take()
    assert isinstance(event, Whole)
    assert "".join(event.pieces) == "".join(pieces)
    assert event.pieces == pieces if len(pieces) <= MAX_PIECES else len(event.pieces) <= MAX_PIECES
