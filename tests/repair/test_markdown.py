"""Where code is open in a Markdown text: the place is marked by `^` in each text."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.formats import enclosed_json
from dragoman.repair.formats.marker_search import MarkerSearch
from dragoman.repair.markdown import MAX_FENCE_LINES, MarkdownCode
from tests.repair.formats.turns import events_of, gist

FENCE = "```"
OPEN = {
    "fence": "```\n^",
    "fence with a language": "Look:\n```python\nx = 1\n^",
    "fence, in its own line": "```^",
    "info word behind": "``` js^",
    "tildes": "~~~\na\n^",
    "indented": "   \t ```\n^",
    "in a list": "- a\n  - ```\n^",
    "in a numbered list": "1. ```\n^",
    "quoted": "> ```\n> ^",
    "fence after a text": "Here it is: ```\n^",
    "fence after a text, with a language": "Here it is: ```text\n^",
    "tildes after a text": "Here: ~~~\n^",
    "longer fence, shorter run": "````\n```\n^",
    "backticks in tildes": "~~~\n```\n^",
    "a run with a word closes nothing": "```\n```js\n^",
    "a run after a text closes nothing": "```\nfoo ```\n^",
    "inline": "a `^",
    "inline, two backticks": "a ``b ` c ^",
    "inline, three backticks": "a ```b c ^",
    "opened again": "`a` `b^",
    "a fence that its list item ended": "- ```\n  a\nb\n```\n^",
    "by a line of the item above": "- a\n\n  ```\n  b\nc\n  ```\n^",
    "by a line indented by less": "1. a\n   ~~~\n b\n~~~\n^",
    "a fence that its quotation ended": "> ```\n> a\n\n```\n^",
    "right by the next fence": "> ```\n> a\n```\n^",
    "by another item": "- ```\n  a\n- b\n  ```\n^",
    "a run indented by four blanks closes none": "```\na\n    ```\n^",
    "a quoted run closes no fence outside": "```\na\n> ```\n^",
    "a text may have opened one, or not": "So: ```\na\n```\n^",
    "tildes after a text, likewise": "So: ~~~\na\n~~~\n^",
    "an indented run, likewise": "a\n    ```\n```\n^",
    "a fence in a block of HTML is none": "<div>\n```\n</div>\n\n```\n^",
    "in a comment, over blank lines": "<!-- a\n\n```\n\n-->\n```\n^",
    "in a block that ends with its tag": "a\n<pre>\n~~~\n\nb</pre>\n~~~\n^",
    "in a tag that is alone in its line": "a\n\n<b>\n~~~\n\n~~~\n^",
    "in HTML in a list item": "- <table>\n  ```\n\n  ```\n^",
    "HTML that its list item ended": "- <!--\n\n```\n^",
    "a fence whose list item began far above": "- a\n" + "  b\n" * 99 + "  ```\nc\n```\n^",
    "an item and HTML within a fence are none": "```\n<div>\n- a\n```\n  ```\nb\n^",
    "fence opened again": "```\na\n```\n```\n^",
    "fence after a closed one in a line": "```a``` and ```\n^",
}
CLOSED = {
    "nothing": "^",
    "text": "a ~ b ~~ c\n^",
    "fence": "```\na\n```\n^",
    "fence, closed where the line goes on with a token": "```\na\n```^",
    "fence, closed by a longer one": "```\na\n`````\n^",
    "fence, closed after blanks": "```\na\n  ```  \n^",
    "a fence in a block of HTML": "<div>\n```\na\n```\n^",
    "and after it": "<div>\n\n```\na\n```\n</div>\n^",
    "in a comment of one line": "<!-- a -->\n```\n\n```\n^",
    "a tag of a model is no HTML": "<think>\n```\na\n\nb\n```\n</think>\n^",
    "a tag in a paragraph begins no block": "a\n<b>\n```\n\n```\n^",
    "an item within a fence": "```\n- a\n```\n  ```\nb\n  ```\n^",
    "a fence of a list item": "1. a\n\n    ```\n    b\n    ```\n^",
    "indented by as much as the fence": "10. ```\n    a\n    ```\n^",
    "quoted fence": "> ```\n> a\n> ```\n^",
    "a fence of an item, and blank lines": "- a\n\n  ```\n\n  b\n\n  ```\n^",
    "of an item of an item": "- a\n  - ```\n    b\n    ```\n- c\n^",
    "before and after an item": "```\na\n```\n- b\n\n```\nc\n```\n^",
    "indented, but in no item": "a\n\n  ```\nb\n  ```\n^",
    "tildes": "~~~ x\na\n~~~\n^",
    "inline": "a `b` ^",
    "inline, two backticks": "a ``b ` c`` ^",
    "inline, ended by its line": "a `b\n^",
    "inline, three in a line": "a ```b``` c\n^",
    "a fence of one line": "```a``` ^",
    "three backticks and a sentence": "a ```b c d\n^",
    "two tildes": "~~a~~\n^",
    "tildes in a text": "about ~~~ five or six\n^",
}
CASES = [(text, True) for text in OPEN.values()] + [(text, False) for text in CLOSED.values()]
NAMES = [f"open: {name}" for name in OPEN] + [f"closed: {name}" for name in CLOSED]


def is_open(pieces: list[str]) -> bool:
    code = MarkdownCode()
    for piece in pieces:
        code.feed(piece)
    return code.is_open() or bool(code.inline)


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=NAMES)
def test_code_is_open_or_closed(text: str, wanted: bool) -> None:
    before = text.removesuffix("^")
    assert is_open([before]) is wanted
    assert is_open(list(before)) is wanted
    for at in range(len(before)):
        assert is_open([before[:at], before[at:]]) is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("```\n" * MAX_FENCE_LINES, False),
        ("```\n" * MAX_FENCE_LINES + "```\n```\n", True),
        ("`a` " * 1000 + "``b``", False),
        ("```" + "x" * 9000 + "```\n", False),
        ("x " * 9000 + "`a", True),
    ],
)
def test_after_very_much_code_all_counts_as_code(text: str, wanted: bool) -> None:
    for size in (len(text), 1000, 7):
        assert is_open([text[at : at + size] for at in range(0, len(text), size)]) is wanted


@given(st.data(), st.text(alphabet=st.sampled_from("`~\n a->1."), max_size=60))
def test_the_cutting_changes_nothing(data: st.DataObject, text: str) -> None:
    points = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    edges = [0, *points, len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    assert is_open(pieces) is is_open([text])


@pytest.mark.parametrize(
    ("before", "what", "after", "quoted"),
    [
        ("a\n\n    ", "x\n    y", "", True),
        ("a\n\n\t", "x", "", True),
        ("a\n\n    ", "x\ny", "", False),
        ("a\n    ", "x", "", False),
        ("- a\n\n    ", "x", "", False),
        ("- a\n\n      ", "x", "", True),
        ("    ", "x", "", True),
        ("    ", "x\n    y", "", True),
        ("    ", "x\ny", "", False),
        ("# a\n    ", "x", "", True),
        ("a\n---\n    ", "x", "", True),
        ("* * *\n\t", "x", "", True),
        ("```\na\n```\n      ", "x\n    y", "", True),
        ("> a\n    ", "x", "", False),
        ("> # a\n    ", "x", "", True),
        (">     a\n    ", "x", "", True),
        ("> a\n>     b\n    ", "x", "", False),
        ("<!-- a -->\n    ", "x", "", True),
        ("<div>\n    ", "x", "", False),
        ("<div>\n\n    ", "x", "", True),
        ("- a\n# b\n    ", "x", "", True),
        ("- a\n    ", "x", "", False),
        ("- # a\n    ", "x", "", False),
        ("a\n14. b\n\n    ", "x", "", True),
        ("> ", "x\n> y", "", True),
        ("> ", "x\n>\n> y", "", True),
        ("> ", "x\ny", "", False),
        ("- > ", "x\n  > y", "", True),
        ("- > ", "x\n  y", "", False),
        ("10. a\n\n    > ", "x", "", True),
        (">> ", "x\n> > y", "", True),
        (">- ", "x", "", True),
        (">", "x", "", False),
        ("-> ", "x", "", False),
        ("-     ", "x\n      y", "", True),
        ("-     ", "x\ny", "", False),
        ("10. \t", "x", "", True),
        ("-    ", "x", "", False),
        ("- a     ", "x", "", False),
        ("># a\n    ", "x", "", True),
        ('a "b ', "x", '"', True),
        ('a "b" ', "x", '"', False),
        ('5" and ', "x", '"', False),
        ('`"` “`” ', "x", '"', False),
        ("`<pre>` ", "x", "</pre>", False),
        ("it's ", "x", "'", False),
        ("so ‘", "x", "’", True),
        ("`a\n", "x", "\n</b>`", True),
        ("`a\n\n", "x", "`", False),
        ("<pre class=a>\n", "x", "\nmore\n</pre>", True),
        ("<pre>a</pre>\n", "x", "</pre>", False),
        ("<!-- a\n", "x\ny", "\nb -->", True),
        ("<!-- a -->\n", "x", "-->", False),
        ("<!-- a\n", "x", "b", False),
        ("<a><![CDATA[", "x", "]]></a>", True),
        ("| a | ", "x", " | b |\n", True),
        ("  | ", "x", "|", True),
        ("| a | ", "x\ny", " |", False),
        ("| a ", "x", " b\n|", False),
        ("a | ", "x", " |", False),
        ("\\begin{verbatim}\n", "x\ny", "\n\\end{verbatim}", True),
        ("\\begin{verbatim}a\\end{verbatim}\n", "x", "\\end{verbatim}", False),
        ("[code]", "x", "\n[/code]", True),
        ("[CODE=python]\n", "x", "\n[/CODE]", True),
    ],
)
def test_what_follows_tells_what_is_quoted(
    before: str, what: str, after: str, quoted: bool
) -> None:
    for pieces in ([before], list(before)):
        code = MarkdownCode()
        for piece in pieces:
            code.feed(piece)
        quotation, holds = code.quotation(), False
        if quotation is not None:
            left = quotation.within(what, over=True)
            holds = left is None or bool(left.holds(after, ended=True))
        assert holds is quoted


CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "%d"}}\n</tool_call>'
LINES = ["text", "", "a `b` c", "So: ```", "like this:```json", "it is ~~~", "- a", "x ``y`` z"]
INDENTS = ["", "", "", " ", "   ", "    ", "      ", "\t"]


def generated(pick: random.Random, *, plain: bool) -> tuple[str, set[int], set[int]]:
    """A text, and the numbers of the calls in it that CommonMark quotes, and of the others.  One
    that is `plain` leaves nothing in doubt."""
    lines: list[str] = []
    fence, numbers = "", (set(), set())
    for number in range(pick.randrange(4, 20)):
        indent = pick.choice(INDENTS[: 4 if plain and fence else 5] if plain else INDENTS)
        match pick.randrange(5):
            case 0:
                lines.append(pick.choice(LINES[:3] if plain else LINES))
            case 1:
                run = pick.choice("`~") * pick.randrange(3, 5)
                run = fence if fence and (plain or pick.random() < 0.6) else run
                info = "" if plain and fence else pick.choice(["", "", "json", " py"])
                lines.append(f"{indent}{run}{info}")
                if len(indent) <= 3 and indent != "\t":
                    closes = fence and run.startswith(fence) and not info
                    fence = "" if closes else fence or run
            case 2:
                numbers[not fence].add(number)
                lines += (CALL % number).split("\n")
            case 3:
                numbers[0].add(number)
                lines += ["", *(f"      {line}" for line in (CALL % number).split("\n"))]
            case _:
                lines += ["", "More."]
    return "\n".join([*lines, "The end."]), *numbers


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("size", [7, 9999])
def test_what_commonmark_quotes_is_not_run(plain: bool, size: int) -> None:
    pick, quoted = random.Random(f"{plain}{size}"), 0
    for _ in range(400):
        text, in_code, real = generated(pick, plain=plain)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events = events_of(pieces, MarkerSearch((enclosed_json.HERMES,)))
        calls = re.findall(r'\{"command": "(\d+)"\}\]', gist(events))
        run = set(map(int, calls))
        assert not run & in_code, text
        assert run == real if plain else run <= real, text
        quoted += len(in_code)
    assert quoted > 400
