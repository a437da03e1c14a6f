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

MAX_FENCE_LINES = 4096
"""Lines of one text that open a fence, or may; after so many, all that comes counts as code."""
MAX_TICKS = 256
"""Backticks of one line, likewise."""
_HEAD = 128
"""Characters of a line in which a fence may begin it."""
_LINE_LIMIT = 4096
"""Characters of a line, its beginning and its end, in which runs are looked for."""
_INFO_LIMIT = 80
"""Characters of the word after a fence, which names a language."""
_LINES_BEFORE = 32
"""Lines before an indented one that are looked at."""

_FENCE_RUN = re.compile(r"[`~](?:(?<=`)``|(?<=~)~~)")
_FENCE = re.compile(r"`{3,}+|~{3,}+")
_BEGINS = re.compile(r"(?:[ \t\r>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,80}+(`{3,}+|~{3,}+)")
_ENDS = re.compile(r"[`~][ \t]*+[^\s`~]*+[ \t\r]*+\Z")
_CLOSES = re.compile(r"[ \t\r>]{0,80}+(`{3,}+|~{3,}+)[ \t\r>]*+")

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
_OPENING = re.compile(f'["`{"".join([*_MARKS, *_SINGLE_MARKS])}]|<(?:pre|code)', re.IGNORECASE)
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
    right after, or after closing tags, or, if it ends an HTML element itself, at all."""
    read: bool = False
    """Whether the calls have been compared (`within`)."""

    @property
    def in_element(self) -> bool:
        """Whether an HTML element that quotes is open."""
        return any(mark.startswith("</") for mark in self.closers)

    @property
    def by_lines(self) -> bool:
        """Whether the text of the calls may show that they are quoted, or are not."""
        return not self.read and (self.quotes_line or bool(self.inline))

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
        indent = self.indent if all(_width(line) >= self.indent for line in lines) else 0
        line = self.line and all(_QUOTED_LINE.match(line) for line in lines)
        if over and (indent or line):
            return None
        return Quotation(indent, line, () if others else self.inline, self.closers, over)

    def holds(self, after: str, *, ended: bool) -> bool | None:
        """Whether the calls are quoted by marks, or by the rest of their line, if this text comes
        `after` them; None if more text is needed, unless it has `ended`."""
        bare = after[_CLOSING_TAGS.match(after).end() :]  # type: ignore[union-attr]
        ends = [mark for mark in self.closers if mark.startswith("</")]
        if bare.startswith(self.closers) or any(mark in after.lower() for mark in ends):
            return True
        line, line_end, _ = after.partition("\n")
        line = line if line_end or ended else line.rstrip("`")
        if self.inline and any(len(run) in self.inline for run in _TICKS.findall(line)):
            return True
        waits = bool(ends) or bool(self.inline and not line_end)
        waits = waits or any(mark.startswith(bare) for mark in self.closers)
        waits = waits or (bool(self.closers) and _CLOSING_TAG_SO_FAR.fullmatch(bare) is not None)
        return None if waits and not ended else False


class MarkdownCode:
    """Follows one text; `is_open` and `inline` say whether what comes next is quoted."""

    def __init__(self) -> None:
        self._fence = ""
        """The run that opened the fence in which the line begins."""
        self.fence_lines = 0
        """See `MAX_FENCE_LINES`."""
        self._line = ""
        """The line so far, `_shortened`."""
        self.tail = ""
        """The end of the text, up to `_TAIL` characters."""

    def feed(self, text: str) -> None:
        """More of the text."""
        self.tail = (self.tail + text)[-_TAIL:]
        line = self._line + text
        if "\n" in text:
            lines, _, line = line.rpartition("\n")
            if "```" in lines or "~~~" in lines:
                self._read_lines(f"{lines}\n")
        self._line = line if len(line) <= _LINE_LIMIT else _shortened(line)

    def feed_calls(self, text: str) -> None:
        """Whole calls that are text: a fence that begins in them ends with them."""
        fence = self.fence
        self.feed(text)
        self._fence, self._line = fence, _FENCE.sub("", self._line)

    @property
    def fence(self) -> str:
        """The run that opened the fence that is open here, if any; what follows belongs to no
        run."""
        if not self._fence:
            return _opened(self._line, ended=False)
        return "" if _closes(self._line, self._fence) else self._fence

    def is_open(self) -> bool:
        """Whether code is open here for certain."""
        many = self.fence_lines > MAX_FENCE_LINES or self._line.count("`") > MAX_TICKS
        return many or bool(self.fence)

    @property
    def inline(self) -> tuple[int, ...]:
        """If code is not open for certain: the lengths of the runs one of which opens inline code
        if another closes it in the rest of the line."""
        return () if self._fence or "`" not in self._line else _unclosed(self._line)

    def quotation(self) -> Quotation | None:
        """How calls that begin here may be quoted, if code is not open for certain; None if
        nothing quotes them."""
        line = _QUOTED_LINE.match(f"{self._line}x") is not None
        indent = self._indent() if self._line.startswith((" ", "\t")) else 0
        inline, closers = self.inline, self._closers()
        found = line or indent or inline or closers
        return Quotation(indent, line, inline, closers) if found else None

    def _read_lines(self, lines: str) -> None:
        """Whole lines, some of which may open a fence, or close it."""
        at = 0
        while (run := _FENCE_RUN.search(lines, at)) and self.fence_lines <= MAX_FENCE_LINES:
            begin = max(at, lines.rfind("\n", at, run.start()) + 1)
            at = lines.index("\n", run.end()) + 1
            line = _shortened(lines[begin : at - 1])
            if not self._fence:
                self._fence = _opened(line, ended=True)
            elif _closes(line, self._fence):
                self._fence = ""
            self.fence_lines += 1

    def _indent(self) -> int:
        """Columns by which the line is indented, if it is indented code: four columns beyond the
        text around it, after a blank line or another such."""
        width = _width(self._line)
        if width < 4:
            return 0
        blank = code = False
        margin = 0  # the column at which the text of the last list item begins
        for line in self.tail.split("\n")[-_LINES_BEFORE - 1 : -1]:
            if line.strip():
                code = (blank or code) and _width(line) >= margin + 4
                if item := _LIST_ITEM.match(line):
                    margin = len(item[0].expandtabs(4))
                elif blank and _width(line) < margin:
                    margin = 0
            blank = not line.strip()
        return width if (blank or code) and width >= margin + 4 else 0

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


def _shortened(line: str) -> str:
    """A line, without the middle of a very long one."""
    if len(line) <= _LINE_LIMIT:
        return line
    return f"{line[:_HEAD]} {line[_HEAD + 1 - _LINE_LIMIT :]}"


def _opened(line: str, *, ended: bool) -> str:
    """The run in a line that opens a fence, if any: it begins the line, or `ended` the line, so
    far at least for backticks."""
    if "```" not in line and "~~~" not in line:
        return ""
    begun = _BEGINS.match(line)
    if begun and (begun[1][0] == "~" or "`" not in line[begun.end() :]):
        return begun[1]
    last = _ENDS.search(line)
    if last is None or len(last[0]) > _INFO_LIMIT:
        return ""
    before = line[: last.start() + 1]
    run = before[len(before.rstrip(before[-1])) :]
    opens = ended if run[0] == "~" else _unclosed(line) == (len(run),)
    return run if opens and len(run) >= 3 else ""


def _closes(line: str, fence: str) -> bool:
    """Whether a line, so far, closes the fence that this run has opened."""
    run = _CLOSES.fullmatch(line)
    return run is not None and run[1].startswith(fence)


def _unclosed(line: str) -> tuple[int, ...]:
    """The lengths of the runs that another might close: none of theirs has followed."""
    runs = [len(run) for run in _TICKS.findall(line)]
    last = {length: at for at, length in enumerate(runs)}
    at, unclosed = 0, []
    while at < len(runs):
        length = runs[at]
        if last[length] > at:
            at = runs.index(length, at + 1)
        else:
            unclosed.append(length)
        at += 1
    return tuple(unclosed)


def _width(line: str) -> int:
    """Columns by which a line is indented."""
    indent = _INDENT.match(line)
    return len(indent[0].expandtabs(4)) if indent else 0
