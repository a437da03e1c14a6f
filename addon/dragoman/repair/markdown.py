"""Finds the places of a Markdown text that are in code, which it quotes.

A model that explains a format writes its markers inside a fence or inline code, and there they are
text.  `MarkdownCode` follows one text, and tells at any place whether code is open:

- A fence is three or more backticks or tildes that begin their line (after any blanks,
  ``>`` and list markers).  It is closed by a bare run of the same character, at least as long, in
  a line of its own, which is indented by at most three blanks, or as far as the fence.
- A run that ends a line of text, with at most one word after it, or begins it behind four blanks,
  could open a fence or be nothing; a fence in a list item or a quotation may end with that, as
  CommonMark has it, or go on.  Three readings are kept, and code is open if it is in any.
- Inline code is any other run of backticks; it is closed by a run of the same length in
  its line, and ends with its line.

The rules are CommonMark's, sections 4.4 to 4.6, 5.1, 5.2 and 6.1, but for what models get wrong: a
fence may be indented at will and may begin after a text; but no page that a model repeats may end
its own quotation by that.  Of other ways to quote only what follows decides (`Quotation`): models
also leave half a pair of marks, and indent a call's first line only.  Invariant: no cut matters.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .markdown_containers import FEW_LINES, MAY_HOLD, Containers, nested, width
from .markdown_fences import MAX_INDENT, Fences, closes, opened, unclosed
from .quotation import OPENING, ROW, Quotation, closing_marks

MAX_FENCE_LINES = 2048
"""Lines of one text that open a fence, or may; after so many, all that comes counts as code."""
_HEAD = 128
"""Characters of a line in which a fence may begin it."""
_END = 32
"""Characters at the end of a line above that are kept: they may end a block of HTML."""
_LINE_LIMIT = 4096
"""Characters of a line, its beginning and its end, in which runs are looked for."""
_MAX_LINES = 8192
"""Lines of one text that are looked at for lists, quotations and HTML; then the last few count."""
_MOST_ABOVE = 2 * FEW_LINES
"""Lines that are kept until it must be known what is open after them."""

_FENCE_RUN = re.compile(r"[`~](?:(?<=`)``|(?<=~)~~)")
_FENCE = re.compile(r"`{3,}+|~{3,}+")
_TAIL = 512
"""Characters before a place in which the opening mark of a quotation is looked for."""
_OPENS_NAME = r"[(\[{*_~\"'“‘„«]"
_AFTER_WORD = re.compile(
    rf"(?:\S[ \t]+{_OPENS_NAME}{{0,3}}|\A[ \t]*{_OPENS_NAME}{{1,3}}|[，、（「『《“‘]"
    r"|\|>[^\w\s<>`]{1,16})\Z"
)
"""The end of a line, so far, in which a name would follow: a word and a blank, maybe a bracket or a
mark, or such a mark that begins the line; what Chinese writes before a word, without a blank; or
punctuation alone after another such name (``<|open|>…<|close|>``)."""


class MarkdownCode:
    """Follows one text; `is_open` and `inline` say whether what comes next is quoted."""

    def __init__(self) -> None:
        self._fences: Fences = None, None, None
        """Those in which the line begins."""
        self.fence_lines = 0
        """See `MAX_FENCE_LINES`."""
        self._line = ""
        """The line so far, `_shortened`."""
        self._containers = Containers()
        """Those that are open before the lines of `_above`."""
        self._lines = 0
        """How many were looked at for them."""
        self._above: tuple[str, ...] = ()
        """The beginnings of the lines before it, without those in fences, as CommonMark has it."""
        self.tail = ""
        """The end of the text, up to `_TAIL` characters."""
        self._call_indent = 0
        """The columns by which the line of the last call is indented."""

    def feed(self, text: str) -> None:
        """More of the text."""
        self.tail = (self.tail + text)[-_TAIL:]
        line = self._line + text
        if "\n" in text:
            lines, _, line = line.rpartition("\n")
            few = self.fence_lines <= MAX_FENCE_LINES
            if few and ("```" in lines or "~~~" in lines or self._fences[-1]):
                self._read_lines(f"{lines}\n")
            elif few:
                self._add_above(lines)
        self._line = line if len(line) <= _LINE_LIMIT else _shortened(line)

    def feed_calls(self, text: str) -> None:
        """Whole calls that are text: a fence that begins in them ends with them."""
        fences = self._after(self._line, ended=False)
        self.feed(text)
        self._fences, self._line = fences, _FENCE.sub("", self._line)

    def add_call(self) -> None:
        """A call is here, which leaves as one: a word of a line of text."""
        self._call_indent = width(self._line)
        if self._call_indent and self._indent():
            self._line = ""
        self.feed("x")

    def end_header(self, before: MarkdownCode) -> None:
        """What was fed since `before` is the header of a call that is text: a fence that began in
        it is the call's."""
        may_open, opens, strictly = (
            replace(new, of_call=True) if new and not old else new
            for old, new in zip(before._fences, self._fences, strict=True)
        )
        self._fences = may_open, opens, strictly

    def is_open(self) -> bool:
        """Whether code is open here for certain."""
        many = self.fence_lines > MAX_FENCE_LINES
        return many or any(self._after(self._line, ended=False))

    @property
    def inline(self) -> tuple[int, ...]:
        """If code is not open for certain: the lengths of the runs one of which opens inline code
        if another closes it in the rest of the line."""
        return () if any(self._fences) or "`" not in self._line else unclosed(self._line)

    @property
    def names(self) -> bool:
        """Whether a line of text comes here to a place where it may name something."""
        return _AFTER_WORD.search(self._line, max(0, len(self._line) - _HEAD)) is not None

    def in_element(self, name: str) -> bool:
        """Whether the end of the text has a tag of this name that none closes."""
        return self.tail.rfind(f"<{name}") > self.tail.rfind(f"</{name}")

    def quotation(self, *, after_call: bool = False) -> Quotation | None:
        """How calls that begin here may be quoted, if code is not open for certain; None if
        nothing quotes them.  What comes right `after_call` is as that was, but for an indented
        block that begins between the two; calls that are indented alike are all real, or none."""
        line, indent = nested(self._line) if MAY_HOLD.match(self._line) else (False, 0)
        if self._line.startswith((" ", "\t")):
            indent = indent or self._indent()
        if after_call:
            alike = width(self._line) == self._call_indent
            return Quotation(indent) if indent and not alike else None
        inline, row = self.inline, ROW.match(self._line) is not None
        closers = closing_marks(self.tail) if OPENING.search(self.tail) else ()
        found = line or indent or inline or closers or row
        return Quotation(indent, line, inline, closers, row) if found else None

    def _read_lines(self, lines: str) -> None:
        """Whole lines, some of which may open a fence, close it, or end what it stands in."""
        at = 0
        while (run := _FENCE_RUN.search(lines, at)) and self.fence_lines <= MAX_FENCE_LINES:
            begin = max(at, lines.rfind("\n", at, run.start()) + 1)
            if begin > at:
                self._read_others(lines[at : begin - 1])
            at = lines.index("\n", run.end()) + 1
            line = _shortened(lines[begin : at - 1])
            strictly, self._fences = self._fences[-1], self._after(line, ended=True)
            if strictly is None or strictly is not self._fences[-1]:
                self._add_above(line)
            self.fence_lines += 1
        if at < len(lines):
            self._read_others(lines[at:-1])

    def _read_others(self, lines: str) -> None:
        """Lines without a run."""
        may_open, opens, strictly = self._fences
        if strictly:
            end = strictly.end_in(lines)
            if end is None:
                return
            self._fences, lines = (may_open, opens, None), lines[end:]
        self._add_above(lines)

    def _add_above(self, lines: str) -> None:
        """Lines that are in no fence."""
        new = [line[:_HEAD] + line[_HEAD:][-_END:] for line in lines.split("\n")]
        self._above = (*self._above, *new)
        if len(self._above) <= _MOST_ABOVE:
            return
        if self._lines < _MAX_LINES:
            self._lines += len(self._above)
            self._containers, self._above = self._containers.after_last(self._above)
        else:
            self._containers, self._above = Containers(), self._above[-FEW_LINES:]

    def _open_containers(self) -> Containers:
        """The blocks that are open where the line begins."""
        if self._above:
            self._containers, self._above = self._containers.after(self._above), ()
        return self._containers

    def _after(self, line: str, *, ended: bool) -> Fences:
        """The fences that are open after a line, of which no more comes if it has `ended`."""
        if "```" not in line and "~~~" not in line:
            return self._fences
        now = opened(line, self._open_containers(), ended=ended)
        may_open, opens, strictly = self._fences
        if strictly and strictly.ended_before(line):
            strictly = None
        fences = may_open, opens, strictly
        may_open, opens, strictly = (
            new if fence is None else None if closes(line, fence, limit) else fence
            for fence, new, limit in zip(fences, now, (0, 0, MAX_INDENT), strict=True)
        )
        return may_open, opens, strictly

    def _indent(self) -> int:
        """The columns by which lines of the code are indented in which this line is, if it is in
        such: four beyond the text around it, where it continues no paragraph."""
        columns = width(self._line)
        if columns < 4:
            return 0
        containers = self._open_containers()
        indent = 4 + containers.margin_at(columns)
        text = containers.paragraph or containers.html
        return indent if columns >= indent and not text else 0


def _shortened(line: str) -> str:
    """A line, without the middle of a very long one."""
    if len(line) <= _LINE_LIMIT:
        return line
    return f"{line[:_HEAD]} {line[_HEAD + 1 - _LINE_LIMIT :]}"
