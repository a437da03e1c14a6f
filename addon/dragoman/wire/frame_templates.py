"""Templates of frames that differ only in a text, and in what some hosts change in every chunk.

Nearly all chunks of a stream are the one before with another word in it.  Reading and writing
such a chunk as JSON costs ten times what the word does.  So a frame that was parsed is remembered
without its text (`FrameTemplate`), and a later frame that matches is not parsed; what replaces it
is written from such a template, too.  The invariant: a match gives exactly what JSON would.  When a
template is learned, a probe text is put in its place, and only the values that held the text may
change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Generic, TypeVar

from .json_codec import Json, NotJson, loads, quoted
from .sse import Frame, raw_frames

MAX_FRAME = 4096
MAX_FITTING = 64 * 1024
"""Bytes of a frame that may match: a larger one is worth parsing, and may be refused then."""
MAX_MISSES = 16
"""Templates in a row without a match after which no more are learned: something else changes in
every chunk."""
MAX_KNOWN = 3
"""Templates kept of a stream: for its reasoning, its text, and a call."""
_PROBE = "another text"
VARIED = ("created", "obfuscation", "sequence_number", "usage")
"""Members that some hosts change in every chunk, and that mean nothing, or count."""
_TEXT = b"text"
"""The hole of the text.  Others have the names of `VARIED` members; ``usage.1`` is a count."""
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_INTEGER = rb"(?:0|[1-9][0-9]{0,15})"
_SCALAR = rb'(?:0|[1-9][0-9]{0,15}|"[A-Za-z0-9+/=_-]*")'
"""May replace another value: both are whole JSON values, spelled as `dumps` does."""
_COUNT = rb'(?:"[a-z_]+":[ ]?(?:[0-9]+|null)(?:,[ ]?)?)'
_COUNTS = rb'\{(?:"[a-z_]+":[ ]?\{' + _COUNT + rb"*\}(?:,[ ]?)?|" + _COUNT + rb")+\}"
_MEMBER = re.compile(
    b'"(' + "|".join(VARIED).encode() + rb')":[ ]?(' + _SCALAR + b"|" + _COUNTS + rb")(?=[,}])"
)
_COUNT_IN_MEMBER = re.compile(rb"(?<=[: ])[0-9]+(?=[,}])")

Meaning = TypeVar("Meaning")
Values = dict[bytes, bytes]
"""What is in the holes of a frame, by their names; the text may be among it."""


@dataclass(slots=True)
class FrameTemplate:
    """The literal pieces of a frame.  Between each two is a hole: for its text, which it has once,
    or twice the same, or for something else that may differ."""

    pieces: tuple[bytes, ...]
    holes: tuple[bytes, ...] = (_TEXT,)
    _format: bytes = field(init=False, repr=False, compare=False)
    """For the operator ``%``."""
    _names: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """Of the holes, each once."""
    varies: bool = field(init=False, repr=False, compare=False)
    """Whether more than the text may differ."""
    _whole: re.Pattern[bytes] | None = field(default=None, init=False, repr=False, compare=False)
    """Matches a frame that varies."""
    _found: re.Match[bytes] | None = field(default=None, init=False, repr=False, compare=False)
    """The latest match."""

    def __post_init__(self) -> None:
        self._names = tuple(dict.fromkeys(self.holes))
        self.varies = self._names != (_TEXT,)
        pieces = [piece.replace(b"%", b"%%") for piece in self.pieces]
        self._format = _alternating(pieces, [b"%%(%b)b" % hole for hole in self.holes])

    @classmethod
    def of_written(
        cls, frame: Frame, values: Values, text: tuple[str, bytes] | None = None
    ) -> FrameTemplate | None:
        """The template of a frame that `dumps` has written, in place of one with these `values`;
        `text` is the one member with this name and JSON value.  A single match is that member:
        within a string its quotes would be escaped."""
        raw, name, value = frame.raw, *(text or ("", b""))
        member = quoted(name) + b":"
        pieces = raw.split(member + value) if text else [raw]
        if len(pieces) != 1 + bool(text):
            return None
        template = cls((pieces[0] + member, pieces[1])) if text else cls((raw,), ())
        members = {hole: hole.partition(b".")[0] for hole in values if hole != _TEXT}
        counts = {each: raw.count(b'"%b":' % each) for each in members.values()}
        template = template.without(counts)
        found = [hole for hole in template.holes if hole != _TEXT]
        fits = found == [hole for hole, each in members.items() if counts[each]]
        fits = fits and max(counts.values(), default=0) <= 1
        return template if fits and template.around(value, values) == raw else None

    def without(self, names: Container[bytes]) -> FrameTemplate:
        """The same without the values of these members, each of which is there once."""
        pieces, holes = [], []
        for piece, hole in zip_longest(self.pieces, self.holes):
            begin = 0
            for found in _MEMBER.finditer(piece):
                for name, (start, end) in _differing(found) if found[1] in names else ():
                    pieces.append(piece[begin:start])
                    holes.append(name)
                    begin = end
            pieces.append(piece[begin:])
            holes += [hole] if hole else []
        return FrameTemplate(tuple(pieces), tuple(holes))

    def inner(self, lines: bytes, before: bytes, after: bytes) -> FrameTemplate:
        """The same with these lines at its start, and its text between the other two."""
        at, pieces = self.holes.index(_TEXT), list(self.pieces)
        pieces[at : at + 2] = pieces[at] + before, after + pieces[at + 1]
        pieces[0] = lines + pieces[0]
        return FrameTemplate(tuple(pieces), self.holes)

    def text_in(self, raw: bytes) -> str | None:
        """The text of a frame that matches; None if it does not."""
        if self.varies:
            found = self._match(raw)
            return _string(found["text"]) if found else None
        pieces = self.pieces
        head, tail = pieces[0], pieces[-1]
        if not (raw.startswith(head) and raw.endswith(tail)):
            return None
        literal = raw[len(head) : len(raw) - len(tail)]
        if len(pieces) == 3:
            half, _, literal = literal.partition(pieces[1])
            if half != literal:
                return None
        return _string(literal) if literal[:1] == b'"' else None

    def values_in(self, raw: bytes) -> Values:
        """What is in the holes of a frame that matches; empty if it does not, or if only its text
        may differ."""
        found = self._match(raw) if self.varies else None
        return dict(zip(self._names, found.groups(), strict=True)) if found else {}

    def _match(self, raw: bytes) -> re.Match[bytes] | None:
        """Text and values of a frame are asked for one after the other."""
        if self._found is None or self._found.string is not raw:
            self._whole = self._whole or self._expression()
            self._found = self._whole.fullmatch(raw)
        return self._found

    def _expression(self) -> re.Pattern[bytes]:
        holes = [b"(%b)" % (_SCALAR if b"." not in hole else _INTEGER) for hole in self.holes]
        texts = [at for at, hole in enumerate(self.holes) if hole == _TEXT]
        for again, at in enumerate(texts):
            holes[at] = b"(?P=text)" if again else b"(?P<text>%b)" % _STRING
        return re.compile(_alternating([*map(re.escape, self.pieces)], holes))

    def around(self, literal: bytes, values: Values) -> bytes:
        """The frame with this text, a JSON value, and these values."""
        return self._format % {**values, _TEXT: literal}


def _alternating(pieces: Sequence[bytes], between: Sequence[bytes]) -> bytes:
    return b"".join(map(b"".join, zip_longest(pieces, between, fillvalue=b"")))


def _differing(member: re.Match[bytes]) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """The holes of a member, and where they are: its value, or each count in that."""
    name, value = member[1], member[2]
    if not value.startswith(b"{"):
        yield name, member.span(2)
        return
    for number, count in enumerate(_COUNT_IN_MEMBER.finditer(value)):
        start, end = count.span()
        yield b"%b.%d" % (name, number), (member.start(2) + start, member.start(2) + end)


def _string(literal: bytes) -> str | None:
    """The text of a JSON string; None for anything else."""
    try:
        string = literal.decode()
        text, end = scanstring(string, 1)
    except ValueError:  # of either
        return None
    return text if end == len(string) else None


def learn(
    frame: Frame,
    text: str,
    times: int,
    reads: Callable[[Any], str],
    varied: Iterable[bytes] = (),
) -> FrameTemplate | None:
    """The template of a frame in whose JSON `text` is a value once or twice (`times`), and these
    members may differ; None if it has none.  `reads` gives the text of such a JSON value."""
    raw = frame.raw
    if not text or len(raw) > MAX_FRAME:
        return None
    pieces = raw.split(quoted(text))
    if len(pieces) != times + 1 or times not in (1, 2) or len(pieces[0]) <= len(b"data:"):
        return None
    template = FrameTemplate(tuple(pieces), (_TEXT,) * times)
    probed = Frame(template.around(quoted(_PROBE), {}))
    try:
        original, changed = loads(frame.data or b""), loads(probed.data or b"")
    except NotJson:
        return None
    if _replaced(original, text, changed) != times or reads(changed) != _PROBE:
        return None
    return _varying(template, raw, original, varied)


def learn_counts(frame: Frame, chunk: Json) -> FrameTemplate | None:
    """The template of a frame that has no text, and differs from others in its counts."""
    if len(frame.raw) > MAX_FRAME:
        return None
    names = map(str.encode, VARIED)
    template = _varying(FrameTemplate((frame.raw,), ()), frame.raw, chunk, names)
    return template if template.holes else None


def _varying(
    template: FrameTemplate, raw: bytes, chunk: Any, varied: Iterable[bytes]
) -> FrameTemplate:
    """Without these members of its chunk.  A name that is there once is a member of nothing
    else."""
    names = {each for each in varied if each.decode() in chunk and raw.count(b'"%b"' % each) == 1}
    return template.without(names) if names else template


def _replaced(value: Any, text: str, changed: Any) -> int:
    """How many values are `text` in one and the probe in the other; negative if there is another
    difference."""
    if value == changed:  # read from the same bytes, as is all else that is equal
        return 0
    if isinstance(value, dict) and isinstance(changed, dict) and list(value) == list(changed):
        return sum(_replaced(member, text, changed[name]) for name, member in value.items())
    if isinstance(value, list) and isinstance(changed, list) and len(value) == len(changed):
        return sum(_replaced(one, text, other) for one, other in zip(value, changed, strict=True))
    return 1 if value == text and changed == _PROBE else -1000


@dataclass(slots=True)
class KnownTemplate(Generic[Meaning]):
    """A template, and the meaning of frames that match."""

    pattern: FrameTemplate
    meaning: Meaning


class TemplateCache(Generic[Meaning]):
    """The templates of one stream."""

    __slots__ = ("_misses", "_values", "_varied", "known")

    def __init__(self) -> None:
        self.known: list[KnownTemplate[Meaning]] = []
        """The last match is first."""
        self._misses = 0
        self._values: Values = {}
        """Of the `VARIED` members, in frames that were learned."""
        self._varied: set[bytes] = set()
        """Those that differed."""

    def match(self, frame: Frame) -> tuple[str, KnownTemplate[Meaning]] | None:
        """The text of a frame that matches, and its template; None if none matches."""
        if not frame.whole or len(frame.raw) > MAX_FITTING:
            return None
        for place, known in enumerate(self.known):
            if text := known.pattern.text_in(frame.raw):
                self._misses = 0
                if place:
                    self.known.insert(0, self.known.pop(place))
                return text, known
        return None

    def runs(self, frames: bytes) -> Iterator[tuple[str, Meaning | None, bytes]]:
        """Of whole frames: the texts, joined, of some in a row that match a template, its meaning,
        and the last of them; or else a frame that matches none."""
        run: list[str] = []
        known, last = None, b""
        for raw in filter(None, raw_frames(frames)):
            text = known.pattern.text_in(raw) if known is not None else None
            if not text:
                if known is not None:
                    yield "".join(run), known.meaning, last
                    run = []
                text, known = self.match(Frame(raw)) or ("", None)
            if known is None:
                yield "", None, raw
            else:
                run.append(text)
                last = raw
        if known is not None:
            yield "".join(run), known.meaning, last

    @property
    def latest(self) -> KnownTemplate[Meaning] | None:
        """That which matched last."""
        return self.known[0] if self.known else None

    def matched(self) -> None:
        """The caller has found frames that match the latest template."""
        self._misses = 0

    @property
    def wanted(self) -> bool:
        """Whether more templates are learned."""
        return self._misses < MAX_MISSES

    def learn(
        self, frame: Frame, text: str, times: int, reads: Callable[[Any], str], meaning: Meaning
    ) -> KnownTemplate[Meaning] | None:
        """The template of a frame that was read; None if it cannot have one."""
        self._misses += 1
        if len(frame.raw) <= MAX_FRAME:
            for member in _MEMBER.finditer(frame.raw):
                name, value = member.groups()
                if self._values.setdefault(name, value) != value:
                    self._varied.add(name)
        pattern = learn(frame, text, times, reads, self._varied)
        if pattern is None:
            return None
        self.known.insert(0, KnownTemplate(pattern, meaning))
        del self.known[MAX_KNOWN:]
        return self.known[0]
