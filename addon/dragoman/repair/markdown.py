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

The rules are CommonMark's, sections 4.4, 4.5, 5.1, 5.2 and 6.1, but for what models get wrong: a
fence may be indented at will and may begin after a text; but no page that a model repeats may end
its own quotation by that.  Of other ways to quote only what follows decides (`Quotation`): models
also leave half a pair of marks, and indent a call's first line only.  Invariant: no cut matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_FENCE_LINES = 2048
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
_ITEMS_BEFORE = 8
"""Likewise before a fence, and list items in its own line."""

_FENCE_RUN = re.compile(r"[`~](?:(?<=`)``|(?<=~)~~)")
_FENCE = re.compile(r"`{3,}+|~{3,}+")
_BEGINS = re.compile(r"((?:[ \t\r>]|[-*+][ \t]|\d{1,9}[.)][ \t]){0,80}+)(`{3,}+|~{3,}+)")
_ENDS = re.compile(r"[`~][ \t]*+[^\s`~]*+[ \t\r]*+\Z")
_CLOSES = re.compile(r"([ \t\r>]{0,80}+)(`{3,}+|~{3,}+)[ \t\r>]*+")
_MAX_INDENT = 3
"""Blanks before a run that is a fence for certain (CommonMark 4.5)."""

_QUOTED_LINE = re.compile(r" {0,3}>(?:[ \t\r]|\Z)")
_BEGUN = re.compile(r"(?:\A|\n)( {0,80}+)[^ \t\r\n]")
"""A line with its blanks, as far as it has more than these."""
_INDENT = re.compile(r"[ \t]*")
_LIST_ITEM = re.compile(
    r"[ \t]*(?:[-*+]|0*+(?:1(?=[.)])|(\d{1,9}))[.)])(?:[ \t]{1,4}(?=[^ \t])|[ \t]|\Z)"
)
"""The beginning of an item; its number if it is not 1, as one that is may follow a paragraph."""
_NO_PARAGRAPH = re.compile(
    r"[ \t]*+(?:#{1,6}(?:[ \t].*)?|([-*_])(?:[ \t]*+\1){2,}+[ \t]*+|=++[ \t]*+|-++[ \t]*+"
    r"|`{3,}+[^`]*|~{3,}+.*|)\Z"
)
"""A line that no line continues: blank, a heading or the line under it, a rule, a fence."""
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
_BLOCK = re.compile(
    r"(<!--)|(-->)|(<!\[CDATA\[)|(\]\]>)|\\(begin|end)\{(verbatim|Verbatim|lstlisting|minted)\*?\}"
    r"|\[(/?)code\b[^\[\]\n]{0,80}\]",
    re.IGNORECASE,
)
"""The beginnings and ends of other blocks that quote: of HTML, XML, LaTeX and forums."""
_ROW = re.compile(r"[ \t]*\|")
"""The beginning of a row of a table."""
_OPENING = re.compile(
    f'["`{"".join([*_MARKS, *_SINGLE_MARKS])}]|<(?:pre|code|!--|!\\[)|\\\\begin|\\[code',
    re.IGNORECASE,
)
_BLOCK_ENDS = ("</", "-->", "]]>", "\\end{", "[/")
"""What the ends of elements and blocks begin with: they need not follow right after."""
_AFTER_WORD = re.compile(r"(?:\S[ \t]+[(\[{*_~\"'“‘„«]{0,3}|\|>[^\w\s<>`]{1,16})\Z")
"""The end of a line, so far, in which a name would follow: a word and a blank, maybe a bracket or a
mark; or punctuation alone after another such name (``<|open|>…<|close|>``)."""
_CLOSING_TAGS = re.compile(r"(?:\s*</[\w:-]{1,40}>)*\s*")
_CLOSING_TAG_SO_FAR = re.compile(r"<(?:/[\w:-]{0,40})?")
AFTER_LIMIT = 2048
"""Characters after a call in which the end of its quotation is looked for."""


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

    def ends_in(self, lines: str) -> bool:
        """Whether what it stands in ends in these lines: the first glance, at a line without
        any ``>``, or in an item one that is indented by fewer blanks."""
        if self.depth:
            return re.search(r"(?:\A|\n)(?! {0,3}>|\Z)", lines) is not None
        return min(map(len, _BEGUN.findall(lines)), default=self.margin) < self.margin

    def ended_before(self, line: str) -> bool:
        """Whether what it stands in, a list item or a quotation, has ended before this line."""
        quotes, rest = _unquoted(line)
        return quotes < self.depth or (bool(rest.strip()) and _width(rest) < self.margin)


_Fences = tuple[Fence | None, Fence | None, Fence | None]
"""The fence that is open if a run that may open one does; if it does not; and if it does not and
fences end with what they stand in, as CommonMark has it."""


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
        indent = self.indent if all(_width(line) >= self.indent for line in lines) else 0
        line = self.line and all(_QUOTED_LINE.match(line) for line in lines)
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
        if self.inline and any(len(run) in self.inline for run in _TICKS.findall(line)):
            return True
        if self.row and (line_end or ended) and line.rstrip().endswith("|"):
            return True
        waits = bool(ends) or (self.in_line and not line_end)
        waits = waits or any(mark.startswith(bare) for mark in self.closers)
        waits = waits or (bool(self.closers) and _CLOSING_TAG_SO_FAR.fullmatch(bare) is not None)
        return None if waits and not ended else False


class MarkdownCode:
    """Follows one text; `is_open` and `inline` say whether what comes next is quoted."""

    def __init__(self) -> None:
        self._fences: _Fences = None, None, None
        """Those in which the line begins."""
        self.fence_lines = 0
        """See `MAX_FENCE_LINES`."""
        self._line = ""
        """The line so far, `_shortened`."""
        self._above: tuple[str, ...] = ()
        """The beginnings of the lines before it, of `_LINES_BEFORE`."""
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
            self._above = _above(self._above, lines)
        self._line = line if len(line) <= _LINE_LIMIT else _shortened(line)

    def feed_calls(self, text: str) -> None:
        """Whole calls that are text: a fence that begins in them ends with them."""
        fences = self._after(self._line, self._above, ended=False)
        self.feed(text)
        self._fences, self._line = fences, _FENCE.sub("", self._line)

    def add_call(self) -> None:
        """A call is here, which leaves as one: a word of a line of text."""
        self._call_indent = _width(self._line)
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
        many = self.fence_lines > MAX_FENCE_LINES or self._line.count("`") > MAX_TICKS
        return many or any(self._after(self._line, self._above, ended=False))

    @property
    def inline(self) -> tuple[int, ...]:
        """If code is not open for certain: the lengths of the runs one of which opens inline code
        if another closes it in the rest of the line."""
        return () if any(self._fences) or "`" not in self._line else _unclosed(self._line)

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
        block that begins between the two."""
        indent = self._indent() if self._line.startswith((" ", "\t")) else 0
        if after_call:
            return Quotation(indent) if indent and _width(self._line) > self._call_indent else None
        line = _QUOTED_LINE.match(f"{self._line}x") is not None
        inline, closers, row = self.inline, self._closers(), _ROW.match(self._line) is not None
        found = line or indent or inline or closers or row
        return Quotation(indent, line, inline, closers, row) if found else None

    def _read_lines(self, lines: str) -> None:
        """Whole lines, some of which may open a fence, close it, or end what it stands in."""
        at, above = 0, self._above
        while (run := _FENCE_RUN.search(lines, at)) and self.fence_lines <= MAX_FENCE_LINES:
            begin = max(at, lines.rfind("\n", at, run.start()) + 1)
            if begin > at:
                self._end_items(lines[at:begin])
                above = _above(above, lines[at : begin - 1])
            at = lines.index("\n", run.end()) + 1
            line = _shortened(lines[begin : at - 1])
            self._fences = self._after(line, above, ended=True)
            above = _above(above, line)
            self.fence_lines += 1
        self._end_items(lines[at:])

    def _end_items(self, lines: str) -> None:
        """Lines without a run."""
        may_open, opens, strictly = self._fences
        if strictly and strictly.ends_in(lines):
            self._fences = may_open, opens, None

    def _after(self, line: str, above: tuple[str, ...], *, ended: bool) -> _Fences:
        """The fences that are open after a line, of which no more comes if it has `ended`."""
        if "```" not in line and "~~~" not in line:
            return self._fences
        opened = _opened(line, above, ended=ended)
        may_open, opens, strictly = self._fences
        if strictly and strictly.ended_before(line):
            strictly = None
        fences = may_open, opens, strictly
        may_open, opens, strictly = (
            new if fence is None else None if _closes(line, fence, limit) else fence
            for fence, new, limit in zip(fences, opened, (0, 0, _MAX_INDENT), strict=True)
        )
        return may_open, opens, strictly

    def _indent(self) -> int:
        """The columns by which lines of the code are indented in which this line is, if it is in
        such: four beyond the text around it, where it continues no paragraph."""
        width = _width(self._line)
        if width < 4:
            return 0
        margins, paragraph = _context(self._above)
        indent = 4 + max((margin for margin in margins if margin <= width), default=0)
        return indent if width >= indent and not paragraph else 0

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
        return (*closers, *_open_blocks(tail))


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


def _shortened(line: str) -> str:
    """A line, without the middle of a very long one."""
    if len(line) <= _LINE_LIMIT:
        return line
    return f"{line[:_HEAD]} {line[_HEAD + 1 - _LINE_LIMIT :]}"


def _above(above: tuple[str, ...], lines: str) -> tuple[str, ...]:
    """The beginnings of the lines above the next one, after these."""
    new = lines.rsplit("\n", _LINES_BEFORE)[-_LINES_BEFORE:]
    return (*above, *(line[:_HEAD] for line in new))[-_LINES_BEFORE:]


def _unquoted(line: str) -> tuple[int, str]:
    """How many ``>`` begin a line, and what it is without them."""
    depth = 0
    while _QUOTED_LINE.match(line) or (depth and line.lstrip(" ").startswith(">")):
        line, depth = line.partition(">")[2].removeprefix(" "), depth + 1
    return depth, line


def _context(above: tuple[str, ...]) -> tuple[list[int], bool]:
    """The columns at which the text of the list items begins that are open after these lines, and
    whether a paragraph is."""
    margins, paragraph, of_depth = list[int](), False, 0
    for line in above:
        depth, text = _unquoted(line)
        begins = depth > 0 or _NO_PARAGRAPH.match(text) is not None
        if not text.strip() and not depth:
            paragraph = False
            continue
        width = 0 if depth else _width(text)
        inside = [margin for margin in margins if margin <= width]
        indent = width - (inside[-1] if inside else 0)
        item = _LIST_ITEM.match(text) if not begins or depth else None
        if indent >= 4:
            margins = margins if paragraph else inside
            continue
        continues = paragraph and len(inside) == len(margins) and depth >= of_depth
        if item and not (continues and (item[1] or not text[item.end() :].strip())):
            rest = text[item.end() :]
            margins = margins if depth else [*inside, len(item[0].expandtabs(4))]
            paragraph = _NO_PARAGRAPH.match(rest) is None and _width(rest) < 4
            of_depth = depth
            continue
        if begins or not paragraph:
            margins, of_depth = inside, depth
        paragraph = _NO_PARAGRAPH.match(text) is None
    return margins, paragraph


def _opened(line: str, above: tuple[str, ...], *, ended: bool) -> _Fences:
    """The fence that a run in a line may open, or one that it opens for certain: it begins the
    line, or may, `ended`, end the line, so far at least for backticks; and CommonMark's."""
    begun = _BEGINS.match(line)
    if begun and (begun[2][0] == "~" or "`" not in line[begun.end() :]):
        fence = Fence.at(begun[2], begun[1])
        certain = fence.indent <= _MAX_INDENT or not begun[1].isspace()
        return fence, fence if certain else None, _strictly(fence, begun[1], above)
    last = _ENDS.search(line)
    if last is None or len(last[0]) > _INFO_LIMIT:
        return None, None, None
    before = line[: last.start() + 1]
    run = before[len(before.rstrip(before[-1])) :]
    opens = ended if run[0] == "~" else _unclosed(line) == (len(run),)
    return Fence(run, 0) if opens and len(run) >= 3 else None, None, None


def _strictly(fence: Fence, before: str, above: tuple[str, ...]) -> Fence | None:
    """The fence by CommonMark, if it is one: indented by at most three columns in its list item."""
    depth, rest = _unquoted(before)
    if not rest:
        return fence
    above = () if depth else above[-_ITEMS_BEFORE:]
    has_items = any(map(_LIST_ITEM.match, above)) or _LIST_ITEM.match(rest)
    if not has_items:
        return fence if fence.indent <= _MAX_INDENT else None
    margins, paragraph = _context(above)
    margin = max((margin for margin in margins if margin <= _width(rest)), default=0)
    column = _width(rest)
    for _ in range(_ITEMS_BEFORE):
        if (item := _LIST_ITEM.match(rest)) is None:
            break
        continues = paragraph and margins[-1:] in ([], [margin])
        if column - margin > _MAX_INDENT or (continues and item[1]):
            return None
        rest, paragraph = rest[item.end() :], False
        margin = len(before.expandtabs(4)) - len(rest.expandtabs(4))
        column = margin + _width(rest)
    return replace(fence, margin=margin) if column - margin <= _MAX_INDENT else None


def _closes(line: str, fence: Fence, beyond: int) -> bool:
    """Whether a line, so far, closes this fence; `beyond`: how far it may be indented in the list
    item of the fence."""
    found = _CLOSES.match(line)
    if found is None or not found[2].startswith(fence.run):
        return False
    follows = line[found.end() :]
    if follows and not (fence.of_call and follows.startswith("<")):
        return False
    run = Fence.at(found[2], found[1])
    limit = fence.margin + beyond if beyond else max(_MAX_INDENT, fence.indent)
    return run.indent <= limit and run.depth <= fence.depth


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
