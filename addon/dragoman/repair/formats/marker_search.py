"""The formats that are looked for in a reply (`FormatChoice.looked_for`), together.

Nearly all text has none of their markers, and to find that out must be cheap.  The invariant: a
doubt counts as a yes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from .marker_set import TAG_LIMIT, Find, by_first, tree
from .protocol import LeakFormat, MarkerMatch


class MarkerSearch:
    """One or more formats: the marker that comes first, of whichever of them, counts."""

    def __init__(self, formats: Sequence[LeakFormat]) -> None:
        self._formats = tuple(formats)
        self._beginnings = {text for each in formats for text in each.beginnings}
        self._begun_by: dict[str, dict[LeakFormat, None]] = {}
        """The formats whose markers may begin with what it finds."""
        for each in formats:
            for text in each.beginnings:
                for size in range(1, len(text) + 1):
                    self._begun_by.setdefault(text[:size], {})[each] = None
        self.looking_back = [each for each in formats if each.look_back]
        """Formats of which a call's beginning may have been stripped."""
        self.alone = [each for each in formats if each.alone]
        """Formats of which a call may be all of a text."""
        self.of_lines = next((each for each in formats if each.line_begins), None)
        """The format of which a call may begin a line."""
        begins = self.of_lines.line_begins if self.of_lines else ""
        self.line_begins = tuple(begins)
        self.line_begin = re.compile(
            rf"\n[ \t]*+(?=[{re.escape(begins)}])" if begins else "(?!)"
        ).search
        """Finds the beginning of a line where that may be."""
        self.look_back = max((each.look_back for each in formats), default=0)
        """See `LeakFormat.look_back`."""

    @cached_property
    def _in_text(self) -> list[tuple[str, Find]]:
        """What finds a beginning, or the start of one at the end, by its first character."""
        # An expression that begins with one literal is searched several times faster.
        return [(first, re.compile(begun).search) for first, begun in self._begun_by_first()]

    @cached_property
    def _begun(self) -> re.Pattern[str]:
        """Finds the shortest beginning, or the start of one at the end; they overlap."""
        begun = "|".join(begun for _, begun in self._begun_by_first())
        return re.compile(f"(?=({begun or '(?!)'}))")

    def _begun_by_first(self) -> Iterator[tuple[str, str]]:
        for first, rest in by_first(self._beginnings):
            yield first, re.escape(first) + tree(rest, r"\Z")

    def compile(self) -> None:
        """See `marker_set.compile_all`."""
        _ = self._in_text, self._begun

    def __contains__(self, other: object) -> bool:
        return other in self._formats

    def __iter__(self) -> Iterator[LeakFormat]:
        return iter(self._formats)

    def without(self, *others: LeakFormat) -> MarkerSearch:
        """All but these."""
        return search_for(tuple(each for each in self._formats if each not in others))

    def without_alone(self) -> MarkerSearch:
        """All but those of which a call may be all of a text: the turn has more."""
        return self.without(*self.alone) if self.alone else self

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker, or the start of one, could be in `text`."""
        for first, search in self._in_text:  # noqa: SIM110
            if first in text and search(text) is not None:
                return True
        return False

    def begins_at(self, text: str, start: int = 0) -> int:
        """Before which place none does, from `start` on; `text` is searched for the beginnings of
        all once."""
        at = len(text)
        for first, search in self._in_text:
            if text.find(first, start) >= 0 and (found := search(text, start, at)) is not None:
                at = found.start()
        return at

    def find(
        self, text: str, start: int = 0, *, likenesses: defaultdict[object, int] | None = None
    ) -> MarkerMatch | None:
        """The first marker from `start` on; of two at one place that of the first format.  The
        beginnings before it that are those of no marker are added to `likenesses`."""
        for began in self._begun.finditer(text, start):
            at = began.start()
            formats = self._begun_by[began[1]] if began[1] in self._beginnings else {}
            for each in formats:
                if (marker := each.match(text, at)) is not None:
                    return marker
            if likenesses is not None:
                for each in formats:
                    likenesses[each] += 1
        return None

    def find_all(self, text: str) -> Iterator[MarkerMatch]:
        found = self.find(text)
        while found is not None:
            yield found
            found = self.find(text, found.end)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text`, which holds no marker, may be the start of
        one."""
        end = text[-TAG_LIMIT:]
        begin = len(text) - len(end) + self.begins_at(end)
        if begin == len(text):
            return 0
        begun = set(self._begun.findall(text, begin))
        formats = {each: None for one in begun for each in self._begun_by[one]}
        return max([each.markers.unfinished(text, begin) for each in formats], default=0)


@lru_cache(maxsize=256)
def search_for(formats: tuple[LeakFormat, ...]) -> MarkerSearch:
    """These formats; those that were asked for before are compiled."""
    return MarkerSearch(formats)
