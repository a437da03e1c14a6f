"""Finds the places of a Markdown text that are in code, which it quotes.

A model that explains a format writes its markers inside a fence or inline code, and there they are
text.  `MarkdownCode` follows one text, and tells at any place whether code is open:

- A fence is three or more backticks or tildes that begin their line (after any blanks,
  ``>`` and list markers), or that end their line with at most one word after them.  It is
  closed by a bare run of the same character, at least as long, in a line of its own.
- Inline code is any other run of backticks; it is closed by a run of the same length in
  its line, and ends with its line.

The rules are CommonMark's, sections 4.4, 4.5, 5.1 and 6.1, but for what models get wrong: a
fence may be indented at will and may begin after a text.  Of other ways to quote only what
follows decides (`Quotation`), as models also leave a mark without its other half, and indent the
first line of a call only.  The invariant: only the text matters, not how it was cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX_LIMIT = 80
"""Characters in front of a fence; a line that begins with more begins with none."""
_INFO_LIMIT = 80
"""Characters of the word after a fence, which names a language."""

_OPENS = re.compile(r"(?:[ \t\r>]|[-*+][ \t]|\d{1,9}[.)][ \t])*\Z")
_CLOSES = re.compile(r"[ \t\r>]*\Z")
_INFO = re.compile(r"[ \t]*+[^\s`]*+[ \t\r]*+\Z")
_TOKENS = re.compile(r"(?<=\n)(?:[^\s`~*+\d-][^`~\n]*+\n)++|`+|~+|\n|[^`~\n]+")
"""Plain lines are one token: they begin with a letter or the like, and have no run."""

_QUOTED_LINE = re.compile(r" {0,3}>(?:[ \t\r]|\Z)")
_INDENT = re.compile(r"[ \t]*")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]{1,4}(?=[^ \t])|[ \t])")
_TAIL = 512
"""Characters before a place in which the opening mark of a quotation is looked for."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_CODE = re.compile(
    r"(?<!`)(?:(`{3,})(?!`).*?\1`*|(`{1,2})(?!`)(?:(?!\n[ \t\r]*\n).)*?(?<!`)\2(?!`))", re.DOTALL
)
_TICKS = re.compile("`+")
_AFTER_TAG = re.compile("(?<=>)`+")
_HTML = re.compile(r"<(/?)(pre|code)\b[^<>]{0,80}>(?![ \t]+\w)", re.IGNORECASE)
"""A tag of an element that quotes; before a blank and a word it is only mentioned."""
_MARKS = {"“": "”", "„": "“", "«": "»", "「": "」", "『": "』"}
_QUOTED = re.compile(r'(?<![0-9])"(?=\S|\s*\Z)[^"]*("?)')
"""What begins with a mark that opens, and its other half: after a digit it means inches, and
before a blank it closes."""
_OPENING_MARK = re.compile(r"""(?:^|[\s(\[{:=,–—-])(['‘‹])\Z""")
_SINGLE_MARKS = {"'": "'", "‘": "’", "‹": "›"}
_OPENING = re.compile(f'["`<{"".join([*_MARKS, *_SINGLE_MARKS])}]')
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
    inline: int = 0
    """The length of a run that opens inline code in this line, if another closes it there."""
    closers: tuple[str, ...] = ()
    """Marks whose other half is before the place: the calls are quoted if one of them follows
    right after, or after closing tags, or, if it ends an HTML element itself, at all."""
    read: bool = False
    """Whether the calls have been compared (`within`)."""

    def __bool__(self) -> bool:
        return self.by_lines or self.inline > 0 or bool(self.closers)

    @property
    def in_element(self) -> bool:
        """Whether an HTML element that quotes is open."""
        return any(mark.startswith("</") for mark in self.closers)

    @property
    def by_lines(self) -> bool:
        """Whether the text of the calls may show that they are quoted, or are not."""
        return not self.read and (self.indent > 0 or self.line or self.inline > 0)

    def within(self, calls: str, *, over: bool) -> Quotation | None:
        """How the calls may still be quoted if this is their text, or, if they are not `over`, its
        beginning.  None if it shows that they are: each of its lines is quoted or indented as the
        first is, or the run that closes inline code follows a tag, which is then quoted alone."""
        first, *others = calls.split("\n")
        first = first if others or over else first.rstrip("`")
        if self.inline and any(len(run) == self.inline for run in _AFTER_TAG.findall(first)):
            return None
        lines = [line for line in others if line.strip()]
        indent = self.indent if all(_width(line) >= self.indent for line in lines) else 0
        line = self.line and all(_QUOTED_LINE.match(line) for line in lines)
        if over and (indent or line):
            return None
        return Quotation(indent, line, 0 if others else self.inline, self.closers, over)

    def holds(self, after: str, *, ended: bool) -> bool | None:
        """Whether the calls are quoted by marks, or by the rest of their line, if this text comes
        `after` them; None if more text is needed, unless it has `ended`."""
        bare = after[_CLOSING_TAGS.match(after).end() :]  # type: ignore[union-attr]
        ends = [mark for mark in self.closers if mark.startswith("</")]
        if bare.startswith(self.closers) or any(mark in after.lower() for mark in ends):
            return True
        line, line_end, _ = after.partition("\n")
        line = line if line_end or ended else line.rstrip("`")
        if self.inline and any(len(run) == self.inline for run in _TICKS.findall(line)):
            return True
        waits = bool(ends) or (self.inline > 0 and not line_end)
        waits = waits or any(mark.startswith(bare) for mark in self.closers)
        waits = waits or (bool(self.closers) and _CLOSING_TAG_SO_FAR.fullmatch(bare) is not None)
        return None if waits and not ended else False


class MarkdownCode:
    """Follows one text; `is_open` says whether what comes next is quoted."""

    def __init__(self) -> None:
        self._fence = ""
        """The run that opened the fence we are in."""
        self._inline = 0
        """The length of the run that opened the inline code we are in."""
        self._run = ""
        """The run of one character in which the text ends, which may still grow."""
        self._line = ""
        """How the line begins, as far as that matters."""
        self._length = 0
        """Characters of the line so far, up to a limit."""
        self._mark = ""
        """A run that opened a fence if its line ends well, or closes one if it ends bare."""
        self._after = ""
        """What followed that run."""
        self.tail = ""
        """The end of the text, up to `_TAIL` characters."""
        self._blank = self._indented = False
        """Whether the line before was blank, or indented code."""
        self._margin = 0
        """The column at which the text of the last list item begins."""

    def feed(self, text: str) -> None:
        """More of the text."""
        self.tail = (self.tail + text)[-_TAIL:]
        if not ("`" in text or "~" in text or "\n" in text):
            if text and (self._run or self._mark or self._length <= _PREFIX_LIMIT):
                self._words(text)
            return
        for token in _TOKENS.findall(text):
            if token[-1] == "\n":
                if len(token) == 1:
                    self._end_line()
                else:
                    self._plain_lines()
            elif token[0] in "`~":
                if self._run and self._run[0] != token[0]:
                    self._end_run()
                self._run += token
            else:
                self._words(token)

    def is_open(self) -> bool:
        """Whether code is open here; what follows belongs to no run."""
        self._end_run()
        if self._fence:
            return not (self._mark and _CLOSES.match(self._after))
        return self._inline > 0

    @property
    def inline(self) -> int:
        """The length of the run that opened inline code, if the rest of its line decides whether it
        is any; else 0."""
        self._end_run()
        fence = self._fence or (self._mark and _INFO.match(self._after))
        return 0 if fence else self._inline

    def quotation(self, *, marks: bool = True) -> Quotation:
        """How calls that begin here may be quoted, if code is not open for certain; without
        `marks`, only by what their line tells."""
        indent = _width(self._line) if self._is_indented() else 0
        line = _QUOTED_LINE.match(f"{self._line}x") is not None
        return Quotation(indent, line, self.inline, self._closers() if marks else ())

    def _closers(self) -> tuple[str, ...]:
        """The other halves of the marks that are open here."""
        if _OPENING.search(self.tail) is None:
            return ()
        tail = _CODE.sub("", self.tail)
        paragraph = _BLANK_LINE.split(tail)[-1]
        closers = [mark for mark in _MARKS if paragraph.rfind(mark) > paragraph.rfind(_MARKS[mark])]
        closers = [_MARKS[mark] for mark in closers]
        closers += ['"'] if "" in _QUOTED.findall(paragraph) else []
        closers += [_SINGLE_MARKS[mark] for mark in _OPENING_MARK.findall(paragraph)]
        closers += _TICKS.findall(paragraph)[:1]
        elements = {name.lower(): end for end, name in _HTML.findall(tail)}
        closers += [f"</{name}>" for name, end in elements.items() if not end]
        return tuple(closers)

    def _is_indented(self) -> bool:
        """Whether the line is indented code: four columns beyond the text around it."""
        return (self._blank or self._indented) and _width(self._line) >= self._margin + 4

    def _words(self, text: str) -> None:
        if self._run:
            self._end_run()
        if self._mark and len(self._after) <= _INFO_LIMIT:
            self._after += text[: _INFO_LIMIT + 1]
        if self._length <= _PREFIX_LIMIT:
            self._grow(text)

    def _grow(self, text: str) -> None:
        if self._length <= _PREFIX_LIMIT:
            self._line += text[: _PREFIX_LIMIT + 1]
            self._length = len(self._line)

    def _end_run(self) -> None:
        run, self._run = self._run, ""
        if not run:
            return
        if self._fence:
            self._run_in_fence(run)
        elif len(run) >= 3 and self._length <= _PREFIX_LIMIT and _OPENS.match(self._line):
            self._fence = run
            self._mark = ""
            self._inline = len(run) if run[0] == "`" else 0
        elif run[0] == "`":
            self._run_in_line(run)
        elif len(run) >= 3:
            self._mark, self._after = run, ""
        self._grow(run)

    def _run_in_fence(self, run: str) -> None:
        if self._inline and run[0] == "`":  # in the line that opened it: it was inline code
            self._fence = ""
            self._inline = 0 if len(run) == self._inline else self._inline
            return
        begins = self._length <= _PREFIX_LIMIT and _CLOSES.match(self._line) is not None
        closes = begins and run[0] == self._fence[0] and len(run) >= len(self._fence)
        self._mark, self._after = (run, "") if closes else ("", "")

    def _run_in_line(self, run: str) -> None:
        self._mark = ""
        if not self._inline:
            self._inline = len(run)
            if len(run) >= 3:
                self._mark, self._after = run, ""
        elif self._inline == len(run):
            self._inline = 0

    def _end_line(self) -> None:
        self._end_run()
        if self._mark and self._fence:
            if _CLOSES.match(self._after):
                self._fence = ""
        elif self._mark and len(self._after) <= _INFO_LIMIT and _INFO.match(self._after):
            self._fence = self._mark
        self._end_indented()
        self._inline = 0
        self._line = self._mark = self._after = ""
        self._length = 0

    def _plain_lines(self) -> None:
        """Lines, from the start of one, that open and close nothing, and are no list items."""
        if self._blank:
            self._margin = 0
        self._blank = self._indented = False

    def _end_indented(self) -> None:
        """Whether the next line may be indented code."""
        blank = not self._line.strip()
        if not blank:
            self._indented = self._is_indented()
            if item := _LIST_ITEM.match(self._line):
                self._margin = len(item[0].expandtabs(4))
            elif self._blank and _width(self._line) < self._margin:
                self._margin = 0
        self._blank = blank


def _width(line: str) -> int:
    """Columns by which a line is indented."""
    indent = _INDENT.match(line)
    return len(indent[0].expandtabs(4)) if indent else 0
