"""The blocks of a Markdown text that hold other lines: list items, quotations, HTML.

`Containers` are those that are open after some lines, as CommonMark has them (4.6, 5.1, 5.2).  A
line is code if it is indented by four columns more than they are, and continues no paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_QUOTE = re.compile(r" {0,3}>")
_QUOTES = re.compile(r"[ \t]*>(?:[ \t\r]|(?=[ \t]*>)|(?=(?:[-*+]|\d{1,9}[.)])[ \t])|\Z)")
"""A ``>`` that quotes, however far its line is indented, as list items may hold it."""
LIST_ITEM = re.compile(
    r"[ \t]*(?:[-*+]|0*+(?:1(?=[.)])|(\d{1,9}))[.)])(?:[ \t]{1,4}(?=[^ \t])|[ \t]|\Z)"
)
"""The beginning of an item; its number if it is not 1, as one that is may follow a paragraph."""
MAY_HOLD = re.compile(r"[ \t]*(?:[-*+>]|\d{1,9}[.)]|<[a-z/!?])", re.IGNORECASE)
"""What begins a line after which more may be open than a paragraph."""
MAX_NESTED = 8
"""List items and quotations that may begin in one line."""
FEW_LINES = 32
"""Lines before an indented one that are looked at where no list, quotation or HTML is."""
_NO_PARAGRAPH = re.compile(
    r"[ \t]*+(?:#{1,6}(?:[ \t].*)?|([-*_])(?:[ \t]*+\1){2,}+[ \t]*+|=++[ \t]*+|-++[ \t]*+"
    r"|`{3,}+[^`]*|~{3,}+.*|)\Z"
)
"""A line that no line continues: blank, a heading or the line under it, a rule, a fence."""
_HTML_BLOCK = re.compile(
    r"[ \t]*+<(?:(pre|script|style|textarea)(?=[ \t\r>]|\Z)|(!--)|(\?)|(!\[CDATA\[)|(![a-z])|(/?(?:"
    r"address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details"
    r"|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head"
    r"|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p"
    r"|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
    r")(?=[ \t\r]|/?>|\Z))|(/?(?:a|b|button|code|del|em|i|img|input|ins|kbd|label|mark|q|s|samp"
    r"|small|span|strong|sub|sup|svg|u|var|video)(?:[ \t][^<>]*+)?>[ \t\r]*+\Z))",
    re.IGNORECASE,
)
"""The beginning of a block of HTML, its seven kinds; the last is a tag alone in
its line, which continues a paragraph.  That is one of HTML's here: ``<think>`` is a model's."""


_BLANK = re.compile(r"[ \t\r]*+\Z")
_NEVER = re.compile("(?!)")
_HTML_ENDS = (
    re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE),
    *(re.compile("-->"), re.compile(r"\?>"), re.compile("]]>"), re.compile(">")),
    *(_NEVER, _NEVER),
)
"""What the last line of each kind has; the last two end before a blank one."""
_TAG_ALONE = len(_HTML_ENDS)


@dataclass(frozen=True, slots=True)
class Containers:
    """The blocks that are open after some lines."""

    margins: tuple[int, ...] = ()
    """The columns at which the text of the list items begins."""
    depth: int = 0
    """In how many quotations the last block is."""
    paragraph: bool = False
    """Whether the last block is one, which a line may continue."""
    html: re.Pattern[str] | None = None
    """What ends the block of HTML in which the lines end."""

    @property
    def hold(self) -> bool:
        """Whether more is open than a paragraph."""
        return bool(self.margins or self.depth or self.html)

    def margin_at(self, column: int) -> int:
        """Where the text begins of the item that a line with this indentation continues."""
        return max((margin for margin in self.margins if margin <= column), default=0)

    def after_last(self, lines: tuple[str, ...]) -> tuple[Containers, tuple[str, ...]]:
        """As much of these lines as need not be known: those that are open after the first, and
        the others.  Where nothing holds other lines, the last few show whether a paragraph is."""
        if self.hold or any(map(MAY_HOLD.match, lines)):
            return self.after(lines), ()
        return Containers(), lines[-FEW_LINES:]

    def after(self, lines: Iterable[str]) -> Containers:
        """Those that are open after these lines."""
        margins, of_depth, paragraph, html = self.margins, self.depth, self.paragraph, self.html
        for line in lines:
            depth, text = unquoted(line) if ">" in line else (0, line)
            if _BLANK.match(text):
                paragraph, html = False, None if html is _NEVER else html
                if not depth:
                    continue
            column = 0 if depth else width(text)
            outer = margins and column < margins[-1]
            inside = tuple([each for each in margins if each <= column]) if outer else margins
            if html and not outer and depth == of_depth:
                html = None if html.search(text) else html
                continue
            html = None
            if column - (inside[-1] if inside else 0) >= 4:  # code, or more of a paragraph
                margins = margins if paragraph else inside
                continue
            begins = depth > 0 or _NO_PARAGRAPH.match(text) is not None
            item = LIST_ITEM.match(text) if depth or not begins else None
            rest, deeper = text, depth > of_depth
            if item and paragraph and not outer and depth >= of_depth:
                item = None if item[1] or _BLANK.match(text, item.end()) else item
            if item:
                rest, paragraph, of_depth = text[item.end() :], False, depth
                margins = margins if depth else (*inside, len(item[0].expandtabs(4)))
            elif begins or not paragraph:
                margins, of_depth = inside, depth
            block = _HTML_BLOCK.match(rest) if "<" in rest and width(rest) < 4 else None
            if block and block.lastindex and not (block.lastindex == _TAG_ALONE and paragraph):
                end = _HTML_ENDS[block.lastindex - 1]
                html = None if end.search(rest, block.end()) else end
                margins, of_depth, paragraph = margins if item else inside, depth, False
                continue
            is_code = (depth or item) and width(rest) >= 4 and not (paragraph and not deeper)
            paragraph = _NO_PARAGRAPH.match(rest) is None and not is_code
        return Containers(margins, of_depth, paragraph, html)


def unquoted(line: str) -> tuple[int, str]:
    """How many ``>`` begin a line, and what it is without them."""
    depth = 0
    while _QUOTE.match(line):
        line, depth = line.partition(">")[2].removeprefix(" "), depth + 1
    return depth, line


def nested(line: str) -> tuple[bool, int]:
    """What begins in this beginning of a line and holds what comes next: whether a quotation does;
    and the columns by which that is indented, if it is code that begins its list item."""
    line = f"{line.expandtabs(4)}x"
    rest, is_quoted, margin = line, False, 0
    for _ in range(MAX_NESTED):
        if found := _QUOTES.match(rest):
            rest, is_quoted, margin = rest[found.end() :], True, 0
        elif item := LIST_ITEM.match(rest):
            rest = rest[item.end() :]
            margin = len(line) - len(rest)
        else:
            break
    is_code = margin and rest.lstrip() == "x" and width(rest) >= 4
    return is_quoted, margin + 4 if is_code else 0


def width(line: str) -> int:
    """Columns by which a line is indented."""
    if not line.startswith((" ", "\t")):
        return 0
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blanks.expandtabs(4))
