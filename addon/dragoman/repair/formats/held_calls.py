"""The parser of formats that put tags around calls and around each of their arguments.

A call is held from its opening tag to its end (`tagged_call`), and read then (`call_text`).
Around calls the parser reads, by one method each:

- `_read_section`: between calls;
- `_read_header`: after the tag of a call, until it is certain that a call was meant; where the
  name follows the tag, it is in an expression of its own (`TagTable.header`);
- `_read_end`: after a section: what belongs to its end, and nothing else.

A missing tag is assumed where the next one can only follow it; text where only tags are
allowed ends the section.  A call was meant if its tag is followed by what belongs to a call: an
argument, JSON, its end.  The first call of a section may have lost all its tags: then it is the
bare name of a declared tool, and a JSON object, in a fence or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ..declared_tools import DeclaredTools
from ..events import Damaged, Drop, Dropped, Header, NoHeader
from ..schema import properties
from .call_text import CallHead
from .marker_set import HeaderPattern, Missing, ahead, named, optional
from .protocol import WORD, CallArguments, LeakFormat, LeakParser, MarkerMatch
from .tagged_call import TaggedCall
from .tags import PARTS, Follows, Tag, TagKind, TagTable

_NAME = re.compile(WORD)
_FENCE = optional(named("fence", ("```",), r"\w*+\s*+"))
_BARE_CALL = HeaderPattern.of((rf"(?P<name>{WORD}+)", r"\s*+", _FENCE, ahead(r"\{")))


class TaggedFormat(LeakFormat):
    """A format whose calls always begin with a tag."""

    def __init__(self, name: str, beginnings: tuple[str, ...], table: TagTable) -> None:
        self._tags = table.in_text or table.tags
        self._table = table
        super().__init__(name, beginnings, self._tags, partial(HeldCalls, table))

    def meaning(self, found: re.Match[str]) -> MarkerMatch | None:
        tag, table = self._tags.read(found), self._table
        opens_call = tag.kind in (TagKind.SECTION, TagKind.CALL)
        if not (table.strays or opens_call or tag.kind is TagKind.SECTION_END):
            return None
        other = tag.name if tag.kind in (TagKind.OTHER, TagKind.OTHER_END) else None
        name = other or tag.kind.value
        tool = tag.name if tag.kind is TagKind.CALL else None
        kind = table.channels.get(name)
        is_opener, part = opens_call or kind is not None, tag.kind in PARTS
        return MarkerMatch(self, name, tag.start, tag.end, is_opener, tool, kind, part)


class HeldCalls(LeakParser):
    """Parses from after the tag of a section, or of a call."""

    def __init__(
        self, table: TagTable, match: MarkerMatch, header: str, start: int, tools: DeclaredTools
    ) -> None:
        super().__init__(match, header, start, tools)
        self._table = table
        if table.header is not None:
            self.header = table.header
        self._in_section = match.tool is None and table.header is None
        self._thinned = not self._in_section
        """Whether a marker of the section is missing."""
        self._calls = 0
        """Calls that were meant."""
        self._name = ""
        """That of the open call."""
        if self._in_section:
            self._leave_call()
        else:
            self._begin_call(match.tool or "")

    @property
    def in_call(self) -> bool:
        return self._arguments is not None or (self._in_head and self.in_header)

    @property
    def in_header(self) -> bool:
        if self._in_head and (header := self._table.header) is not None:
            begun = header.may_begin(self._buffer, self._at)
            name = begun["name"] if begun else None
            return name is None or self._tools.may_begin(name)
        half = bool(self.rest.strip()) and not self._table.closing.match(self.rest)
        in_section = self._in_section and self._read is HeldCalls._read_section
        return not self._is_over and (self._in_head or (in_section and half))

    @property
    def whole(self) -> bool:
        if self._arguments is not None or self._in_head or self._table.header is not None:
            return super().whole
        return not self._is_over and self._calls > 0 and not self.rest.strip()

    def _finish(self) -> None:
        if self._arguments is not None or self._table.header is not None:
            super()._finish()
        elif self._in_head:
            self._events.append(Damaged(self._name, cut=True))
        else:
            if not self._calls:
                text = bool(self.rest.strip())
                self._events.append(NoHeader() if text else Dropped(Drop.SECTION))
            elif self._table.closing.match(self.rest):
                self._drop_rest()
            self._is_over = True

    # Outside of arguments

    def _read_tag(self, on_tag: Callable[[Tag], None]) -> bool:
        follows, at = self._table.following(self._buffer, self._at)
        match follows:
            case Tag() if not follows.mended:
                on_tag(follows)
                return True
            case Follows.BLANKS:
                return False
            case Follows.HALF_TAG if not (self._ended and self._buffer[at].isalpha()):
                return False
            case Follows.GAP:
                return self._text_follows()
            case _:
                return self._read_text(at)

    def _read_text(self, at: int) -> bool:
        """Read where no tag follows."""
        if self._in_head and self._buffer[at] == "{":
            return self._begin_arguments(at, json=True)
        begun = self._begin_bare_call(at)
        return self._text_follows() if begun is None else begun

    def _text_follows(self) -> bool:
        """What comes is no tag of the section."""
        if self._in_head or not self._calls:
            return self._refuse()
        return self._leave(self._at)

    def _read_section(self) -> bool:
        return self._read_tag(self._on_tag_in_section)

    _read_after = _read_section

    def _on_tag_in_section(self, tag: Tag) -> None:
        ends_call = tag.kind is TagKind.CALL_END or (self._in_section and tag.kind not in PARTS)
        if tag.kind is TagKind.CALL:
            self._thinned = self._thinned or self._buffer[tag.start].isalpha()
            self._at = tag.end
            self._begin_call(tag.name or "")
        elif tag.kind is TagKind.SECTION_END:
            self._at = tag.end
            self._read = type(self)._read_end
            self._is_over = not (self._calls and self._in_section)
            if not self._calls:
                self._events.append(Dropped(Drop.SECTION))
        elif tag.kind in (TagKind.OTHER, TagKind.OTHER_END) and self._calls:
            self._read = type(self)._read_end
        elif tag.kind is TagKind.SECTION:
            self._is_over = self._calls > 0
            self._at = self._at if self._calls else tag.end
        elif self._calls and ends_call:
            self._at = tag.end
            self._events.append(Dropped(Drop.STRAY, tag.kind.value))
        else:
            self._text_follows()

    def _read_end(self) -> bool:
        return self._read_tag(self._on_tag_at_end)

    def _on_tag_at_end(self, tag: Tag) -> None:
        if tag.kind is TagKind.OTHER_END:
            self._at = tag.end
            self._events.append(Dropped(Drop.CHANNEL, "after a section"))
        else:
            self._is_over = True

    # A call

    def _begin_call(self, name: str) -> None:
        self._in_head = True
        self._read = type(self)._read_header
        self._name = name.strip()
        if self._table.header is None and not _NAME.fullmatch(self._name):
            self._refuse()

    def _read_header(self) -> bool:
        if self._table.header is None:
            return self._read_tag(self._on_tag_of_call)
        return super()._read_header()

    def _begin(self, found: re.Match[str]) -> bool:
        self._name = found["name"]
        at = len(self._buffer[: found.start("follows")].rstrip())
        if found.groupdict().get("instead"):  # of the first argument's opening tag
            self._buffer = f"{self._table.key_begin}{self._buffer[found.end() :]}"
            return self._begin_arguments(0)
        if found["follows"] == self._table.key_end:
            return self._begin_key(found.groupdict().get("key"), at)
        return self._begin_arguments(at, json=found["follows"].endswith("{"))

    def _begin_key(self, key: str | None, at: int) -> bool:
        """The first argument's opening tag has lost its start: its name follows the tool's, and
        may be glued to it."""
        found = self._tools.with_key(self._name) if key is None else (self._name, key)
        if found is None or found[1] not in properties(self._tools.schema_of(found[0])):
            return self._refuse()
        self._name, key = found
        self._buffer = f"{self._table.key_begin}{key}{self._buffer[at:]}"
        return self._begin_arguments(0)

    def _on_tag_of_call(self, tag: Tag) -> None:
        if tag.kind in (TagKind.ARGUMENT, TagKind.JSON, TagKind.CALL_END):
            self._begin_arguments(self._at)
        else:
            self._refuse()

    def _begin_bare_call(self, at: int) -> bool | None:
        """Begin a call of which no tag but the section's was written.  False if text to come
        decides whether one begins, None if none does."""
        if self._in_head or self._calls:
            return None
        found = _BARE_CALL.header_at(self._buffer, at)
        if isinstance(found, Missing):
            waits = found is Missing.YET and not self._ended
            so_far = _BARE_CALL.may_begin(self._buffer, at) if waits else None
            return False if so_far and self._tools.may_begin(so_far["name"]) else None
        if found["name"] not in self._tools:
            return None
        self._name = found["name"]
        return self._begin_arguments(found.end(), json=True, fenced=found["fence"] is not None)

    def _begin_arguments(self, at: int, *, json: bool = False, fenced: bool = False) -> bool:
        """The call's arguments begin at this position."""
        self._calls += 1
        section = self._in_section, self._thinned
        head = CallHead(self._table, self._name, self._tools, *section, json, fenced)
        return self._start_call(Header(self._name), TaggedCall(head), at)

    def _arguments_ended(self, arguments: CallArguments) -> None:  # noqa: ARG002
        self._leave_call()

    def _leave_call(self) -> None:
        self._in_head = False
        self._read = type(self)._read_section
        self._is_over = not (self._in_section or self._table.several)
