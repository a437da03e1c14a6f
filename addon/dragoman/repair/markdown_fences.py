"""Which lines of a Markdown text open a fence, and which close it (CommonMark, 4.5).

Where a run of backticks or tildes could open a fence or be nothing, three readings differ: see
`Fences`.  `markdown.py` follows a text with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .markdown_containers import LIST_ITEM, MAX_NESTED, Containers, unquoted, width
from .quotation import TICKS

MAX_INDENT = 3
"""Blanks before a run that is a fence for certain (CommonMark 4.5)."""
_INFO_LIMIT = 80
"""Characters of the word after a fence, which names a language."""
_BEGINS = re.compile(r"((?:[ \t\r>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,80}+)(`{3,}+|~{3,}+)")
_ENDS = re.compile(r"[`~][ \t]*+[^\s`~]*+[ \t\r]*+\Z")
_CLOSES = re.compile(r"([ \t\r>]{0,80}+)(`{3,}+|~{3,}+)[ \t\r>]*+")
_BEGUN = re.compile(r"(?:\A|\n)( {0,80}+)[^ \t\r\n]")
"""A line with its blanks, as far as it has more than these."""
_UNQUOTED = re.compile(r"(?:\A|\n)(?! {0,3}>|\Z)")


@dataclass(frozen=True, slots=True)
class Fence:
    """One that is open."""

    run: str
    indent: int
    """Columns before it, after the last ``>``."""
    depth: int = 0
    """How many ``>`` are before it."""
    margin: int = 0
    """The column at which the text of its list item begins, after the last ``>``; 0 for none."""
    of_call: bool = False
    """Whether the header of a call opened it that is text: ``<``, with which tokens of the call
    begin, may follow the run that closes it."""

    @classmethod
    def at(cls, run: str, before: str) -> Fence:
        """The run after this beginning of its line."""
        *quotes, rest = before.split(">")
        rest = rest.expandtabs(4)
        return cls(run, len(rest) - bool(quotes and rest.startswith(" ")), len(quotes))

    def end_in(self, lines: str) -> int | None:
        """Where what it stands in ends in these lines, if it does: the first glance, at a line
        without any ``>``, or in an item one that is indented by fewer blanks."""
        if self.depth:
            found = _UNQUOTED.search(lines)
            return found.end() if found else None
        if min(map(len, _BEGUN.findall(lines)), default=self.margin) >= self.margin:
            return None
        return next(line.start(1) for line in _BEGUN.finditer(lines) if len(line[1]) < self.margin)

    def ended_before(self, line: str) -> bool:
        """Whether what it stands in, a list item or a quotation, has ended before this line."""
        quotes, rest = unquoted(line)
        return quotes < self.depth or (bool(rest.strip()) and width(rest) < self.margin)


Fences = tuple[Fence | None, Fence | None, Fence | None]
"""The fence that is open if a run that may open one does; if it does not; and if it does not and
fences end with what they stand in, as CommonMark has it."""


def opened(line: str, above: Containers, *, ended: bool) -> Fences:
    """The fence that a run in a line may open, or one that it opens for certain: it begins the
    line, or may, `ended`, end the line, so far at least for backticks; and CommonMark's."""
    begun = _BEGINS.match(line)
    if begun and (begun[2][0] == "~" or "`" not in line[begun.end() :]):
        fence = Fence.at(begun[2], begun[1])
        certain = fence.indent <= MAX_INDENT or not begun[1].isspace()
        return fence, fence if certain else None, _strictly(fence, begun[1], above)
    last = _ENDS.search(line)
    if last is None or len(last[0]) > _INFO_LIMIT:
        return None, None, None
    before = line[: last.start() + 1]
    run = before[len(before.rstrip(before[-1])) :]
    opens = ended if run[0] == "~" else unclosed(line) == (len(run),)
    return Fence(run, 0) if opens and len(run) >= 3 else None, None, None


def _strictly(fence: Fence, before: str, above: Containers) -> Fence | None:
    """The fence by CommonMark, if it is one: indented by at most three columns in its list item,
    and in no block of HTML."""
    depth, rest = unquoted(before)
    above = Containers() if depth else above
    column = width(rest)
    margin, paragraph = above.margin_at(column), above.paragraph
    same = margin == max(above.margins, default=0)
    if above.html and same:
        return None
    for _ in range(MAX_NESTED):
        if (item := LIST_ITEM.match(rest)) is None:
            break
        continues = paragraph and same
        if column - margin > MAX_INDENT or (continues and item[1]):
            return None
        rest, paragraph = rest[item.end() :], False
        margin = len(before.expandtabs(4)) - len(rest.expandtabs(4))
        column = margin + width(rest)
    return replace(fence, margin=margin) if column - margin <= MAX_INDENT else None


def closes(line: str, fence: Fence, beyond: int) -> bool:
    """Whether a line, so far, closes this fence; `beyond`: how far it may be indented in the list
    item of the fence."""
    found = _CLOSES.match(line)
    if found is None or not found[2].startswith(fence.run):
        return False
    follows = line[found.end() :]
    if follows and not (fence.of_call and follows.startswith("<")):
        return False
    run = Fence.at(found[2], found[1])
    limit = fence.margin + beyond if beyond else max(MAX_INDENT, fence.indent)
    return run.indent <= limit and run.depth <= fence.depth


def unclosed(line: str) -> tuple[int, ...]:
    """The lengths of the runs that another might close: none of theirs has followed."""
    runs = [len(run) for run in TICKS.findall(line)]
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
