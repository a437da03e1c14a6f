"""Templates of frames that differ only in a text.

Nearly all chunks of a stream are the one before with another word in it.  Reading and writing
such a chunk as JSON costs ten times what the word does.  So a frame that was parsed is remembered
without its text (`FrameTemplate`), and a later frame that matches is not parsed.  The invariant:
a match gives exactly what JSON would.  When a template is learned, a probe text is put in its
place, and only the values that held the text may change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Generic, TypeVar

from .json_codec import NotJson, loads, quoted
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
_CALL_INDEX = re.compile(
    rb'(.*"tool_calls":[ ]?\[\{"index":[ ]?)(0|[1-9][0-9]{0,8})'
    rb'(,(?:[ ]?"(?:id|type)":[ ]?(?:null|""|"function"),)*'
    rb'[ ]?"function":[ ]?\{(?:"name":[ ]?(?:null|""),)?[ ]?"arguments":[ ]?)',
    re.DOTALL,
)
"""Up to the arguments of a call; its groups 1 and 3 are around the call's index."""
_INDEX = re.compile(rb"(?:0|[1-9][0-9]{0,8})(?=,)")

Meaning = TypeVar("Meaning")


@dataclass(slots=True)
class FrameTemplate:
    """A frame without its text, which it had once, or twice the same."""

    head: bytes
    between: bytes | None
    tail: bytes

    def text_in(self, raw: bytes) -> str | None:
        """The text of a frame that matches; None if it does not."""
        if not (raw.startswith(self.head) and raw.endswith(self.tail)):
            return None
        literal = raw[len(self.head) : len(raw) - len(self.tail)]
        if self.between is not None:
            half = literal[: (len(literal) - len(self.between)) // 2]
            if literal != half + self.between + half:
                return None
            literal = half
        return _string(literal) if literal[:1] == b'"' else None

    def of_another_call(self, raw: bytes, index: int) -> tuple[FrameTemplate, int] | None:
        """Of a template with arguments of the call with this `index`: the template of another frame
        that differs in the index, and that index.  By its place it is certainly the call's."""
        head = _CALL_INDEX.fullmatch(self.head) if b'"index"' not in self.tail else None
        found = _INDEX.match(raw, head.end(1)) if head else None
        if head is None or found is None or int(head[2]) != index:
            return None
        template = FrameTemplate(head[1] + found[0] + head[3], self.between, self.tail)
        return None if template.text_in(raw) is None else (template, int(found[0]))

    def around(self, literal: bytes) -> bytes:
        if self.between is None:
            return b"".join((self.head, literal, self.tail))
        return b"".join((self.head, literal, self.between, literal, self.tail))


VARIED = ("created", "obfuscation", "sequence_number", "usage")
"""Members that some hosts change in every chunk, and that mean nothing, or count."""
_INTEGER = rb"(?:0|[1-9][0-9]{0,15})"
_SCALAR = rb'(?:0|[1-9][0-9]{0,15}|"[A-Za-z0-9+/=_-]*")'
"""May replace another value: both are whole JSON values, spelled as `dumps` does."""
_COUNT = rb'(?:"[a-z_]+":[ ]?(?:[0-9]+|null)(?:,[ ]?)?)'
_COUNTS = rb'\{(?:"[a-z_]+":[ ]?\{' + _COUNT + rb"*\}(?:,[ ]?)?|" + _COUNT + rb")+\}"
_IN_COUNTS = re.compile(rb"(?<=[: ])[0-9]+(?=[,}])")


@dataclass(frozen=True, slots=True)
class LooseTemplate:
    """A frame without its text and the values of `VARIED` members."""

    whole: re.Pattern[bytes]
    names: tuple[bytes, ...]

    @classmethod
    def of(cls, frame: Frame, pattern: FrameTemplate) -> LooseTemplate | FrameTemplate:
        """`pattern`, learned from `frame`, without the values of these members of its chunk. A name
        that occurs once in the frame is a member of nothing else."""
        once = [name for name in VARIED if frame.raw.count(b'"%b"' % name.encode()) == 1]
        chunk = loads(frame.data or b"") if once else {}
        member = _members([name for name in once if name in chunk])
        if member is None:
            return pattern
        names: list[bytes] = []

        def loose(part: bytes) -> bytes:
            pieces, values = _split_at_members(member, part, names)
            expression = re.escape(pieces[0])
            for value, piece in zip(values, pieces[1:], strict=True):
                expression += b"(" + _replacement_of(value) + b")" + re.escape(piece)
            return expression

        head = loose(pattern.head)
        again = b"" if pattern.between is None else loose(pattern.between) + b"(?P=text)"
        text = rb'(?P<text>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")'
        whole = head + text + again + loose(pattern.tail)
        return cls(re.compile(whole), tuple(names)) if names else pattern

    def text_in(self, raw: bytes) -> str | None:
        """As `FrameTemplate.text_in`."""
        found = self.whole.fullmatch(raw)
        return _string(found["text"]) if found else None

    def values_in(self, raw: bytes) -> dict[bytes, bytes]:
        """The values of the members in a frame that matches."""
        found = self.whole.fullmatch(raw)
        assert found is not None
        at = self.whole.groupindex["text"] - 1
        values = found.groups()
        return dict(zip(self.names, values[:at] + values[at + 1 :], strict=True))


@dataclass(frozen=True, slots=True)
class LooseFrame:
    """A frame of ours without its text and the values of `VARIED` members."""

    pieces: tuple[bytes, ...]
    names: tuple[bytes, ...]
    """Between the pieces; ``text`` for the text."""

    @classmethod
    def of(cls, template: FrameTemplate, names: tuple[bytes, ...]) -> LooseFrame | None:
        """`template`, written by `dumps`, without the values of these members; None if one of them
        does not occur once."""
        member = _members([name.decode() for name in names])
        assert member is not None and template.between is None
        found: list[bytes] = []
        head, _ = _split_at_members(member, template.head, found)
        found.append(b"text")
        tail, _ = _split_at_members(member, template.tail, found)
        whole = template.head + template.tail
        once = all(whole.count(b'"%b"' % name) == 1 for name in names)
        if not once or sorted(found) != sorted((*names, b"text")):
            return None
        return cls((*head, *tail), tuple(found))

    def around(self, literal: bytes, values: dict[bytes, bytes]) -> bytes:
        out = [self.pieces[0]]
        for name, piece in zip(self.names, self.pieces[1:], strict=True):
            out += (literal if name == b"text" else values[name], piece)
        return b"".join(out)


def _string(literal: bytes) -> str | None:
    """The text of a JSON string; None for anything else."""
    try:
        string = literal.decode()
        text, end = scanstring(string, 1)
    except ValueError:  # of either
        return None
    return text if end == len(string) else None


def _members(names: list[str]) -> re.Pattern[bytes] | None:
    """Matches a member with one of these names, and its value."""
    any_name = "|".join(map(re.escape, names)).encode()
    value = b"(" + _SCALAR + b"|" + _COUNTS + b")"
    expression = rb'"(' + any_name + rb')":[ ]?' + value + rb"(?=[,}])"
    return re.compile(expression) if names else None


def _split_at_members(
    member: re.Pattern[bytes], part: bytes, names: list[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """The pieces of a part of a frame around the values of members, and these values; the members'
    names are added to `names`."""
    pieces, values, begin = [], [], 0
    for found in member.finditer(part):
        names.append(found[1])
        values.append(found[2])
        pieces.append(part[begin : found.start(2)])
        begin = found.end(2)
    return [*pieces, part[begin:]], values


def _replacement_of(value: bytes) -> bytes:
    """Matches what may replace this value: for counts, other counts."""
    if not value.startswith(b"{"):
        return _SCALAR
    return _INTEGER.join(map(re.escape, _IN_COUNTS.split(value)))


def template_of_written(frame: Frame, name: str, text: str) -> FrameTemplate | None:
    """The template of a frame written by `dumps`, in which member `name` is `text`; None if there
    is more than one such member. A single match is that member: within a string its quotes would be
    escaped."""
    member = quoted(name) + b":"
    pieces = frame.raw.split(member + quoted(text))
    return FrameTemplate(pieces[0] + member, None, pieces[1]) if text and len(pieces) == 2 else None


def learn(frame: Frame, text: str, times: int, reads: Callable[[Any], str]) -> FrameTemplate | None:
    """The template of a frame in whose JSON `text` is a value once or twice (`times`); None if it
    has none. `reads` gives the text of such a JSON value."""
    raw = frame.raw
    if not text or len(raw) > MAX_FRAME:
        return None
    pieces = raw.split(quoted(text))
    if len(pieces) != times + 1 or times not in (1, 2):
        return None
    head, tail = pieces[0], pieces[-1]
    pattern = FrameTemplate(head, pieces[1] if times == 2 else None, tail)
    probed = Frame(pattern.around(quoted(_PROBE)))
    try:
        original, changed = loads(frame.data or b""), loads(probed.data or b"")
    except NotJson:
        return None
    fits = _replaced(original, text, changed) == times and reads(changed) == _PROBE
    return pattern if fits and len(head) > len(b"data:") else None


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

    pattern: FrameTemplate | LooseTemplate
    meaning: Meaning


class TemplateCache(Generic[Meaning]):
    """The templates of one stream."""

    __slots__ = ("_misses", "_varies", "known")

    def __init__(self) -> None:
        self.known: list[KnownTemplate[Meaning]] = []
        """The last match is first."""
        self._misses = 0
        self._varies = False
        """Whether `VARIED` members differ in this stream."""

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
        pattern = learn(frame, text, times, reads)
        if pattern is None:
            return None
        self._varies |= self._misses > MAX_KNOWN
        return self.add(LooseTemplate.of(frame, pattern) if self._varies else pattern, meaning)

    def add(
        self, pattern: FrameTemplate | LooseTemplate, meaning: Meaning
    ) -> KnownTemplate[Meaning]:
        """A template that is certain."""
        self.known.insert(0, KnownTemplate(pattern, meaning))
        del self.known[MAX_KNOWN:]
        return self.known[0]
