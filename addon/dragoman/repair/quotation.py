"""How calls may be quoted other than by code: what is read after their beginning decides.

Models leave half a pair of marks, and indent a call's first line only.  So a `Quotation` only says
how calls may be quoted by what stands before them; the text of the calls themselves, or what
follows them, shows whether they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .markdown_containers import width

TICKS = re.compile("`+")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_CODE = re.compile(
    r"(?<!`)(?:(`{3,})(?!`).*?\1`*|(`{1,2})(?!`)(?:(?!\n[ \t\r]*\n).)*?(?<!`)\2(?!`))", re.DOTALL
)
_AFTER_TAG = re.compile("(?<=>)`+")
_HTML = re.compile(r"<(/?)(pre|code)\b[^<>]{0,80}>(?![ \t]+\w)", re.IGNORECASE)
"""A tag of an element that quotes; before a blank and a word it is only mentioned."""
_MARKS = {"“": "”", "„": "“", "«": "»", "「": "」", "『": "』"}
_QUOTED = re.compile(r'(?<![0-9])"(?=\S|\s*\Z)[^"]*("?)')
"""What begins with a mark that opens, and its other half: after a digit it means inches, and
before a blank it closes."""
_OPENING_MARK = re.compile(r"""(?:^|[\s(\[{:=,–—-])(['‘‹])\Z""")
_SINGLE_MARKS = {"'": "'", "‘": "’", "‹": "›"}
_BLOCK = re.compile(
    r"(<!--)|(-->)|(<!\[CDATA\[)|(\]\]>)|\\(begin|end)\{(verbatim|Verbatim|lstlisting|minted)\*?\}"
    r"|\[(/?)code\b[^\[\]\n]{0,80}\]",
    re.IGNORECASE,
)
"""The beginnings and ends of other blocks that quote: of HTML, XML, LaTeX and forums."""
ROW = re.compile(r"[ \t]*\|")
"""The beginning of a row of a table."""
OPENING = re.compile(
    f'["`{"".join([*_MARKS, *_SINGLE_MARKS])}]|<(?:pre|code|!--|!\\[)|\\\\begin|\\[code',
    re.IGNORECASE,
)
_BLOCK_ENDS = ("</", "-->", "]]>", "\\end{", "[/")
"""What the ends of elements and blocks begin with: they need not follow right after."""
_CLOSING_TAGS = re.compile(r"(?:\s*</[\w:-]{1,40}>)*\s*")
_CLOSING_TAG_SO_FAR = re.compile(r"<(?:/[\w:-]{0,40})?")
AFTER_LIMIT = 2048
"""Characters after a call in which the end of its quotation is looked for."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """How the calls at a place in a text may be quoted, where code is not open for certain."""

    indent: int = 0
    """Columns by which the line is indented, if it follows a blank one: code, if all lines of the
    calls are indented as much."""
    line: bool = False
    """Whether the line is quoted (``>``), as the calls are if all their lines are."""
    inline: tuple[int, ...] = ()
    """The lengths of runs in this line one of which opens inline code, if another closes it."""
    closers: tuple[str, ...] = ()
    """Marks whose other half is before the place: the calls are quoted if one of them follows
    right after, or after closing tags, or, if it ends an element or a block itself, at all."""
    row: bool = False
    """Whether the line may be a row of a table, if a ``|`` ends it."""
    read: bool = False
    """Whether the calls have been compared (`within`)."""

    @property
    def in_element(self) -> bool:
        """Whether an element or a block that quotes is open."""
        return any(mark.startswith(_BLOCK_ENDS) for mark in self.closers)

    @property
    def in_line(self) -> bool:
        """Whether the rest of the line may show that the calls in it are quoted."""
        return self.row or bool(self.inline)

    @property
    def by_lines(self) -> bool:
        """Whether the text of the calls may show that they are quoted, or are not."""
        return not self.read and (self.quotes_line or self.in_line)

    @property
    def quotes_line(self) -> bool:
        """Whether the line is quoted, and what is in no other."""
        return self.line or self.indent > 0

    def within(self, calls: str, *, over: bool) -> Quotation | None:
        """How the calls may still be quoted if this is their text, or, if they are not `over`, its
        beginning.  None if it shows that they are: each of its lines is quoted or indented as the
        first is, or the run that closes inline code follows a tag, which is then quoted alone."""
        first, *others = calls.split("\n")
        first = first if others or over else first.rstrip("`")
        if self.inline and any(len(run) in self.inline for run in _AFTER_TAG.findall(first)):
            return None
        lines = [line for line in others if line.strip()]
        indent = self.indent if all(width(line) >= self.indent for line in lines) else 0
        line = self.line and all(line.lstrip().startswith(">") for line in lines)
        if over and (indent or line):
            return None
        inline, row = () if others else self.inline, self.row and not others
        return Quotation(indent, line, inline, self.closers, row, over)

    def holds(self, after: str, *, ended: bool) -> bool | None:
        """Whether the calls are quoted by marks, or by the rest of their line, if this text comes
        `after` them; None if more text is needed, unless it has `ended`."""
        bare = after[_CLOSING_TAGS.match(after).end() :]  # type: ignore[union-attr]
        ends = [mark for mark in self.closers if mark.startswith(_BLOCK_ENDS)]
        if bare.startswith(self.closers) or any(mark in after.lower() for mark in ends):
            return True
        line, line_end, _ = after.partition("\n")
        line = line if line_end or ended else line.rstrip("`")
        if self.inline and any(len(run) in self.inline for run in TICKS.findall(line)):
            return True
        if self.row and (line_end or ended) and line.rstrip().endswith("|"):
            return True
        waits = bool(ends) or (self.in_line and not line_end)
        waits = waits or any(mark.startswith(bare) for mark in self.closers)
        waits = waits or (bool(self.closers) and _CLOSING_TAG_SO_FAR.fullmatch(bare) is not None)
        return None if waits and not ended else False


def closing_marks(text: str) -> tuple[str, ...]:
    """The other halves of the marks that are open after this end of a text."""
    tail = _CODE.sub("", text)
    paragraph = _BLANK_LINE.split(tail)[-1]
    closing = [mark for mark in _MARKS if paragraph.rfind(mark) > paragraph.rfind(_MARKS[mark])]
    closing = [_MARKS[mark] for mark in closing]
    closing += ['"'] if "" in _QUOTED.findall(paragraph) else []
    closing += [_SINGLE_MARKS[mark] for mark in _OPENING_MARK.findall(paragraph)]
    closing += TICKS.findall(paragraph)[:1]
    elements = {name.lower(): end for end, name in _HTML.findall(tail)}
    closing += [f"</{name}>" for name, end in elements.items() if not end]
    return (*closing, *_open_blocks(tail))


def _open_blocks(text: str) -> Iterator[str]:
    """The ends of the blocks that are open after a text, in small letters."""
    blocks: dict[str, bool] = {}
    for comment, comment_end, data, data_end, latex, name, forum in _BLOCK.findall(text):
        if comment or comment_end:
            blocks["-->"] = bool(comment)
        elif data or data_end:
            blocks["]]>"] = bool(data)
        elif latex:
            blocks[f"\\end{{{name.lower()}"] = latex == "begin"
        else:
            blocks["[/code]"] = not forum
    return (end for end, is_open in blocks.items() if is_open)
