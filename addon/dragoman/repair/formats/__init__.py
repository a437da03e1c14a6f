"""The registry of leak formats, and which of them are looked for.

A new one is a file here that keeps the promises of `protocol`, and a row below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ..model_family import VENDORS, families_of
from .active import ActiveFormats
from .deepseek import DEEPSEEK
from .glm import GLM
from .harmony import HARMONY, HARMONY_STRIPPED
from .hermes import HERMES
from .invoke import DSML, MINIMAX_M2
from .kimi_k2 import KIMI_K2
from .kimi_k3 import KIMI_K3
from .minimax_m3 import MINIMAX_M3
from .mistral import MISTRAL
from .protocol import LeakFormat
from .qwen import QWEN

REGISTRY: dict[LeakFormat, frozenset[str]] = {
    KIMI_K2: frozenset({"kimi"}),
    KIMI_K3: frozenset({"kimi"}),
    DSML: frozenset({"deepseek"}),
    DEEPSEEK: frozenset({"deepseek"}),
    HERMES: frozenset({"hermes", "qwen"}),
    QWEN: frozenset({"qwen"}),
    GLM: frozenset({"glm"}),
    MINIMAX_M2: frozenset({"minimax", "deepseek"}),
    MINIMAX_M3: frozenset({"minimax"}),
    HARMONY: frozenset({"gpt-oss"}),
    HARMONY_STRIPPED: frozenset({"gpt-oss"}),
    MISTRAL: frozenset({"mistral"}),
}
"""Each format with the model families that write it (`model_family`)."""
FORMATS: tuple[LeakFormat, ...] = tuple(REGISTRY)
NAMES = tuple(dict.fromkeys(each.name for each in FORMATS))
MARKERS = re.compile("|".join(each.shown for each in FORMATS))
"""Any marker of any format, for those who only show or cut texts."""
BEGINNINGS = "|".join(re.escape(text) for each in FORMATS for text in each.beginnings)
"""An expression for the beginnings of all markers."""

_STARTS = re.compile(f"(?={BEGINNINGS})")
_LONGEST = max(len(text) for each in FORMATS for text in each.beginnings)
_WINDOW = 64 * 1024
_ALWAYS = frozenset({"kimi"})
"""Families whose formats are looked for whatever the model: routers rename it."""
_WITH_FORMAT = frozenset().union(*REGISTRY.values())


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """Which formats the user wants to be looked for."""

    formats: tuple[LeakFormat, ...] | None = None
    """None: those of the model."""

    @classmethod
    def of(cls, words: str) -> FormatChoice | None:
        """From ``auto``, ``all``, or names joined by commas; None for anything else."""
        names = [name.strip().lower() for name in words.split(",")]
        if names == ["auto"]:
            return cls()
        if names == ["all"]:
            return cls(FORMATS)
        if not set(names) <= set(NAMES):
            return None
        return cls(tuple(each for each in FORMATS if each.name in names))

    @property
    def words(self) -> str:
        """The inverse of `of`."""
        if self.formats is None:
            return "auto"
        if self.formats == FORMATS:
            return "all"
        return ",".join(dict.fromkeys(each.name for each in self.formats))

    @property
    def widest(self) -> ActiveFormats:
        """All that may be looked for, whatever the model."""
        return _active(FORMATS if self.formats is None else self.formats)

    def active(self, requested: str, replied: str = "") -> ActiveFormats:
        """The formats that are looked for if the request and the reply name these models: those of
        the families of either.  A model whose family has no format of its own, and is no
        vendor's, may write any."""
        if self.formats is not None:
            return _active(self.formats)
        families = families_of(requested)
        if not families & (_WITH_FORMAT | VENDORS):
            return ALL
        families |= families_of(replied) | _ALWAYS
        return _active(tuple(each for each, own in REGISTRY.items() if own & families))


AUTO = FormatChoice()


@cache
def _active(formats: tuple[LeakFormat, ...]) -> ActiveFormats:
    return ActiveFormats(formats)


ALL = _active(tuple(each for each in FORMATS if each is not HARMONY_STRIPPED))
"""The formats that are looked for if the model is not known."""


def begins_with_marker(text: str) -> bool:
    """Whether a marker may begin at the start of a text."""
    return _STARTS.match(text) is not None


def at_markers(text: str, at_least: int = 1) -> Iterator[str]:
    """A text in pieces of `at_least` so many characters, each marker at the start of one; where
    there is none, pieces that take a millisecond to search."""
    begin, at = 0, 1
    while at < len(text):
        found = _STARTS.search(text, at, at + _WINDOW + _LONGEST)
        cut = found.start() if found else at + _WINDOW
        if cut - begin >= at_least and cut < len(text):
            yield text[begin:cut]
            begin = cut
        at = cut + 1 if found else cut
    if begin < len(text):
        yield text[begin:]
