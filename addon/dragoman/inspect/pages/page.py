"""Lines of text for a person: cleaned, cut to a bearable length, each with a style.

What the models, hosts and clients wrote may hold anything.  `clean` makes what would
steer a terminal, hide or reorder text visible, and `cut` leaves the middle out of what
nobody reads to its end, saying how much.  Styles are names of mitmproxy's palette.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from ...wire.json_codec import NotJson, loads
from ..stats import aligned

Style = Literal["text", "header", "highlight", "error", "key"]

WIDTH = 76
"""Columns of headings and of wrapped prose."""
MAX_TEXT = 64 * 1024
"""Characters of one text that are shown."""
MAX_PRETTY = 512 * 1024
"""Characters of a JSON text that is laid out."""

_NAME = 13
"""Columns of the name of a figure."""
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LINE_END = re.compile(r"\r\n?")
_WRAPPED = re.compile(rf"(\S.{{0,{WIDTH - 5}}})(?:\s+|$)|(\S{{{WIDTH - 4}}})")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page; `text` holds no line end."""

    text: str = ""
    style: Style = "text"


Page = list[Line]


def clean(text: str) -> str:
    """The text with every character that is not to be printed shown as its code, and LF
    line ends."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_code, _LINE_END.sub("\n", text))


def _code(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """The text, or three quarters of the limit from its start and one from its end."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    left_out = len(text) - limit
    return f"{text[: limit - tail]}\n… {left_out:,} characters are left out here …\n{text[-tail:]}"


def one_line(text: str, limit: int = 80) -> str:
    """A name or a message within a line."""
    short = " ".join(clean(text[: 4 * limit]).split())
    return short if len(short) <= limit else f"{short[: limit - 1]}…"


def heading(title: str, style: Style = "header") -> Line:
    """The line above a section."""
    return Line(f"── {title} ".ljust(WIDTH, "─"), style)


def nothing(missing: int, whose: str) -> Line:
    """In place of a body that is not there."""
    if missing:
        return Line(
            f"{size(missing)} of {whose} were not kept: see the option dragoman_keep.", "key"
        )
    return Line(f"Nothing of {whose} is here.", "key")


def block(text: str, limit: int = MAX_TEXT, *, mark: str = "  ", style: Style = "text") -> Page:
    """The lines of a text behind a mark each, which tells them from the page's own."""
    lines = clean(cut(text, limit)).rstrip("\n").split("\n")
    return [Line(f"{mark}{line}".rstrip(), style) for line in lines]


def prose(text: str, mark: str, limit: int = MAX_TEXT) -> Page:
    """Text that is nothing but words: its long lines are wrapped."""
    lines = clean(cut(text, limit)).rstrip("\n").split("\n")
    return [Line(f"{mark}{piece}".rstrip()) for line in lines for piece in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    if len(line) <= WIDTH - 4:
        return [line]
    return [match[1] or match[2] for match in _WRAPPED.finditer(line)]


def pretty(text: str, limit: int = MAX_TEXT) -> Page:
    """A JSON text laid out; as it is if it is none, or too large."""
    if len(text) <= MAX_PRETTY:
        with suppress(NotJson, RecursionError, ValueError):
            return list(_laid_out(loads(text), limit))
    return block(text, limit)


def pretty_value(value: Any, limit: int = MAX_TEXT) -> Page:
    """A JSON value laid out."""
    try:
        return list(_laid_out(value, limit))
    except (RecursionError, ValueError):
        return [Line("  (nested too deeply to be shown)", "error")]


def _laid_out(value: Any, limit: int) -> Iterator[Line]:
    """JSON with two spaces; the members of an object that are texts of several lines (a
    script, a patch) as those lines, since escaped in one line nobody can read them."""
    if not (isinstance(value, dict) and any(map(_is_long_text, value.values()))):
        yield from block(json.dumps(value, indent=2, ensure_ascii=False), limit)
        return
    for name, member in value.items():
        key = json.dumps(name, ensure_ascii=False)
        if _is_long_text(member):
            yield from block(f"{key}: |")
            yield from block(member, limit, mark="    ")
        else:
            yield from block(f"{key}: {json.dumps(member, indent=2, ensure_ascii=False)}", limit)


def _is_long_text(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def count(number: int, name: str) -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """A number of bytes."""
    return count(number, "byte") if number < 10_000 else f"{number / 1000:,.0f} kB"


def figures(name: str, *phrases: str) -> Page:
    """The phrases that say something, behind a name: in as many lines as it takes."""
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
    """What was done, one line of evidence after another."""
    page: Page = []
    for line in lines:
        first, *more = _wrapped(one_line(line, 200))
        page += [Line(f"  • {first}"), *(Line(f"    {rest}") for rest in more)]
    return page


def stats_page(rows: list[list[str]]) -> Page:
    """The table of all flows so far."""
    return [Line(line) for line in aligned(rows).split("\n")]


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def joined(*phrases: str) -> str:
    """The phrases that say something, in a line."""
    return " · ".join(filter(None, phrases))
