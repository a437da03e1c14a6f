"""Lines of text for a person.

Models, hosts and clients may write anything. `clean` makes visible what would steer a terminal,
hide or reorder text, and `cut` leaves out the middle of long texts.  Styles are names of
mitmproxy's palette.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ...wire.json_codec import NotJson, loads
from ..exchange import Exchange

Style = Literal["text", "header", "highlight", "error", "key"]

WIDTH = 58
"""Characters of a line in half a window of 1024 pixels."""
MAX_TEXT = 64 * 1024
"""Characters of a text that is all of a page, or the answer."""
MAX_SHOWN = 8_000
"""Characters of a line, a tool or the last message; frames of a stream."""
MAX_BRIEF = 2_000
"""Characters of a text that others follow."""
MAX_LISTED = 400
"""Tools, parts of a reply."""
MAX_PRETTY = 512 * 1024
"""Characters of JSON that is shown with a member a line."""
_NAME = 13
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LINE_END = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page; `text` holds no line end."""

    text: str = ""
    style: Style = "text"


Page = list[Line]


def clean(text: str) -> str:
    """Shows unprintable characters as their codes; line ends become LF."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_code, _LINE_END.sub("\n", text))


def _code(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """A long text without its middle: three quarters of the limit are its start."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    left_out = len(text) - limit
    return f"{text[: limit - tail]}\n… {left_out:,} characters are left out here …\n{text[-tail:]}"


def one_line(text: str, limit: int = 80) -> str:
    short = " ".join(clean(text[: 4 * limit]).split())
    return short if len(short) <= limit else f"{short[: limit - 1]}…"


def heading(title: str, style: Style = "header") -> Line:
    return Line(f"── {title} ".ljust(WIDTH, "─"), style)


def section(title: str, lines: Iterable[Line], style: Style = "header") -> Page:
    """Lines under a heading, after an empty line; nothing without lines."""
    page = list(lines)
    return [Line(), heading(title, style), *page] if page else []


def nothing(missing: int, whose: str) -> Line:
    """In place of a missing body."""
    if missing:
        return Line(
            f"{size(missing)} of {whose} were not kept: see the option dragoman_keep.", "key"
        )
    return Line(f"Nothing of {whose} is here.", "key")


def block(text: str, limit: int = MAX_TEXT, *, mark: str = "  ") -> Page:
    """The lines of a text, each after a mark that sets it off from the page's own."""
    lines = clean(cut(text, limit)).rstrip("\n").split("\n")
    return [Line(f"{mark}{line}".rstrip()) for line in lines]


def prose(text: str, mark: str, limit: int = MAX_TEXT, *, width: int = WIDTH) -> Page:
    """Text with long lines wrapped at words, for a window of `width` characters."""
    lines = (line.text for line in block(text, limit, mark=""))
    return [Line(f"{mark}{piece}".rstrip()) for line in lines for piece in _wrapped(line, width)]


def _wrapped(line: str, width: int = WIDTH) -> list[str]:
    if len(line) <= width - 4:
        return [line]
    return textwrap.wrap(line, max(width, WIDTH) - 4, break_on_hyphens=False)


def pretty(text: str, limit: int = MAX_TEXT) -> Page:
    """A JSON text laid out; other or too large texts as they are."""
    if len(text) <= MAX_PRETTY:
        with suppress(NotJson):
            return pretty_value(loads(text), limit)
    return block(text, limit)


def pretty_value(value: Any, limit: int) -> Page:
    """Indented JSON; string members with several lines (a script, a patch) as those lines, since
    nobody can read them escaped."""
    if not (isinstance(value, dict) and any(map(_is_long_text, value.values()))):
        return block(json.dumps(value, indent=2, ensure_ascii=False), limit)
    page: Page = []
    for name, member in value.items():
        key = json.dumps(name, ensure_ascii=False)
        if _is_long_text(member):
            page += block(f"{key}: |") + block(member, limit, mark="    ")
        else:
            page += block(f"{key}: {json.dumps(member, indent=2, ensure_ascii=False)}", limit)
    return page


def _is_long_text(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def count(number: int, name: str) -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """A number of bytes."""
    return count(number, "byte") if number < 10_000 else f"{number / 1000:,.0f} kB"


def figures(name: str, *phrases: str) -> Page:
    """The non-empty phrases after a name, in as many lines as needed."""
    lines = filled(WIDTH - _NAME, *phrases)
    return [Line(f"  {'' if n else name:<{_NAME - 2}}{text}") for n, text in enumerate(lines)]


def filled(width: int, *phrases: str) -> list[str]:
    """The phrases that say something, in as many lines of a width as it takes."""
    lines: list[str] = []
    for phrase in filter(None, phrases):
        if lines and len(more := joined(lines[-1], phrase)) <= width:
            lines[-1] = more
        else:
            lines.append(phrase)
    return lines


def notes(lines: Iterable[str]) -> Page:
    page: Page = []
    for line in lines:
        first, *more = _wrapped(one_line(line, 200))
        page += [Line(f"  • {first}"), *(Line(f"    {rest}") for rest in more)]
    return page


def request_notes(exchange: Exchange) -> Page:
    """What was done to a request; the heading above says whether it was cured or converted."""
    return notes(exchange.evidence.request_lines())


def stats_page(rows: list[list[str]]) -> Page:
    """The table of all flows so far: a count comes before what it counts, as names are long."""
    page: Page = []
    for name, value in rows:
        line = f"{value:>10}  {name}" if value.isdecimal() else f"{'':12}{name}: {value}"
        if len(line) <= WIDTH:
            page.append(Line(line))
        else:
            phrases = filled(WIDTH - 2, *value.split(" · "))
            page += [Line(), heading(name), *(Line(f"  {text}") for text in phrases)]
    return page


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def joined(*phrases: str) -> str:
    """The non-empty phrases in a line."""
    return " · ".join(filter(None, phrases))
