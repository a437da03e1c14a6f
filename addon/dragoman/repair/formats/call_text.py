"""Reads the text of one call between tags, which may still grow: what it is, or that its end is
not there yet.

A value may quote tags, and models and hosts lose them, so a tag in a value means nothing by itself.
What decides, from the first reason to the last:

- the opening tag of an argument that the tool declares, and that has not come yet, ends a value;
- of quoted tags one closes the other;
- the value's own closing tag ends it if another tag of the call follows;
- where text follows it, and later the value's own closing tag again, it was quoted;
- the closing tag of the call or section, or at the start of a line the opening tag of another
  call or of an argument that is not declared, is quoted if the value's own closing tag follows,
  and else has ended it.

What does not fit is damage.  It is mended where the schema leaves one reading, and no value holds
a tag, or part of one: a value without its name is that of the one required argument that is
missing.  Else there is no call, and what was written stays text to the end of the call: never are
there fewer arguments than were written, nor part of another argument's tag in a value.

The invariant: more text never changes where a call ends, or what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ...wire.json_codec import loads
from ...wire.json_progress import JsonProgress
from ..declared_tools import DeclaredTools
from ..events import Drop, Dropped
from ..schema import is_open, properties, required
from .argument_values import (
    Argument,
    Damage,
    arguments_json,
    closed_by_name,
    lone_tags,
    object_json,
)
from .held_arguments import ends_call
from .marker_set import TAG_LIMIT
from .tags import ARGUMENT_LEVEL, CALL_LEVEL, LEVELS, OPENING, Follows, Tag, TagKind, TagTable
from .value_types import property_of, type_of

MAX_TAGS = 4096
"""Tags of one call; one with more is too long to be held."""
TEXT_LIMIT = 64 * 1024
"""Characters of text between arguments before the tag to which it belongs."""
DOUBT_LIMIT = 16 * 1024
"""Characters after a tag in doubt up to which others decide on it; after that many it was text."""
DOUBT_TAGS = 64
"""Tags, likewise: where the first was real, they are read again."""
_NEAR = 24
"""Characters in which half a tag is seen where one is missing."""
_FENCE = "```"
_NOT_BLANK = re.compile(r"\S")
_IN_CALL = (
    *(TagKind.ARGUMENT, TagKind.VALUE, TagKind.KEY_END, TagKind.ARGUMENT_END),
    *(TagKind.JSON, TagKind.JSON_END),
)
_AFTER_CALL = (TagKind.CALL, TagKind.SECTION, TagKind.OTHER, TagKind.OTHER_END)


class _NoEndError(Exception):
    """The text ends within the call."""


class _DamageError(Exception):
    """This is no call."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the text of a call is."""

    end: int
    """Where the call ends in it."""
    json: str | None = None
    """The arguments; None: it is damaged."""
    cut: bool = False
    """Whether it has ended within the call."""
    dropped: tuple[Dropped, ...] = ()
    """What was left out."""
    why: str = ""
    """The rule by which it is damaged."""


@dataclass(frozen=True, slots=True)
class CallHead:
    """What is known of a call where its text begins."""

    table: TagTable
    name: str
    tools: DeclaredTools
    in_section: bool = False
    """Whether it ends only with a tag."""
    thinned: bool = False
    """Whether a marker before it is missing: a host that loses one loses more."""
    has_json: bool = False
    """Whether its arguments follow as one JSON object, and whether that is in a fence."""
    fenced: bool = False


class CallText:
    """The text of a call after its head, and the tags that a value may hold, in their order."""

    def __init__(
        self, text: str, tags: Sequence[Tag], head: CallHead, *, ended: bool, whole: bool
    ) -> None:
        """`ended`: whether no more text comes; `whole`: whether none was cut off."""
        self.text = text
        self._tags = tags
        self._head, self._table = head, head.table
        self._schema = head.tools.schema_of(head.name)
        self._ended, self._whole = ended, whole
        self._at = self._passed = 0
        """Up to here the text, and the tags, have been read."""
        self._arguments: list[Argument] = []
        self._gaps: list[str] = []
        """What stands before the call's tags, where none is missing."""
        self._opener: Tag | None = None
        """That of the open value."""
        self._json: str | None = None
        """All arguments, if they are written as one JSON object."""
        self._fenced = head.fenced
        self._meant = head.has_json
        """Whether an argument has begun, or its closing tag stood in the place of all: GLM writes
        that for no arguments."""
        self._lone_end = False
        """Whether such a closing tag was read, and no argument has begun."""
        self._mended = False
        """Whether a tag of one of its arguments is missing, or part of it."""
        self._closed = False
        """Whether it has its own closing tag."""
        self._dropped: list[Dropped] = []
        self._why = ""
        """See `Reading`."""
        self.may_lack_end = False
        """Whether the last value may, if the model has ended there."""
        self._lacks_end = False
        self.waits = False
        """Whether any text to come may be read, and not only a tag."""
        self.after: int | None = None
        """Where the line goes on that decides (`ends_call`), if that is all it waits for."""

    def read(self) -> Reading | None:
        """What it is; None if its end is not there yet."""
        try:
            self._read_arguments()
        except _DamageError:
            return self._damaged()
        except _NoEndError:
            return self._cut()
        json = self._json if self._json is not None else self._named()
        if self._lacks_end and (json is None or self._head.tools.refuses(self._head.name, json)):
            return self._cut()
        return Reading(self._at, json, dropped=tuple(self._dropped), why=self._why)

    def whole(self) -> str | None:
        """The arguments of the call, which ends with the text; None if it does not, or is none."""
        reading = self.read()
        return reading.json if reading and not self.text[reading.end :].strip() else None

    def _cut(self) -> Reading | None:
        return Reading(len(self.text), cut=True) if self._ended else None

    def _read_arguments(self) -> None:
        """Read up to the end of the call."""
        if self._head.has_json:
            self._read_object()
        while (tag := self._next_tag()) is not None:
            begin, self._at = self._at, tag.end
            self._mended = self._mended or tag.mended
            if not self._arguments or self._arguments[-1].closed:
                self._gaps.append(self.text[begin : tag.start])
            if tag.kind is TagKind.ARGUMENT and self._json is None:
                self._read_value(tag)
            elif tag.kind is TagKind.ARGUMENT_END and self.text[begin : tag.start].strip():
                self._read_value(Tag(TagKind.ARGUMENT, begin, begin, tag.name, whole=False), tag)
            elif tag.kind is TagKind.ARGUMENT_END and not self._meant:
                self._meant = self._lone_end = True
            elif tag.kind is TagKind.JSON and not self._meant:
                self._read_object()
            elif tag.kind is TagKind.JSON_END and self._json is not None:
                pass
            elif tag.kind in _IN_CALL:
                raise _DamageError
            else:
                if self._json is not None:
                    self._read_after_object(tag)
                self._closed = tag.kind is TagKind.CALL_END
                self._at = tag.end if self._closed else tag.start
                if self._closed and not self._meant:
                    self._read_after_nothing()
                return

    def _next_tag(self) -> Tag | None:
        """The next tag between arguments: the end of one, if there is text before it; None if the
        call ends here."""
        follows, at = self._table.following(self.text, self._at)
        if isinstance(follows, Tag) and self._is_certain(follows):
            return follows
        half = follows is Follows.HALF_TAG and not (self._ended and self.text[at].isalpha())
        if half or follows is Follows.BLANKS:
            self._end_with_text()
            return None
        if self._fenced and self.text.startswith(_FENCE, at):
            self._fenced, self._at = False, at + len(_FENCE)
            return self._next_tag()
        if self._fenced and _FENCE.startswith(self.text[at:]) and not self._ended:
            raise _NoEndError
        tag = next(self._tags_from(at), None)
        if (tag.start if tag else len(self.text) - TAG_LIMIT) - at > TEXT_LIMIT:
            raise _DamageError
        if tag is None and not self._ended:
            raise _NoEndError
        if self._json is not None and tag is None and not self._missing:
            return None
        if self._json is None and (tag is None or tag.kind in _AFTER_CALL):
            return None
        if tag is None or self._json is not None or tag.kind is not TagKind.ARGUMENT_END:
            raise _DamageError
        return tag

    def _is_certain(self, tag: Tag) -> bool:
        """Whether a tag, of which part may be missing, is that of an argument that was not there
        yet."""
        return not tag.mended or (tag.name in properties(self._schema) and not self._has(tag.name))

    def _has(self, key: str | None) -> bool:
        given = loads(self._json) if self._json else [each.key for each in self._arguments]
        return key in given or (self._opener is not None and key == self._opener.name)

    def _tags_from(self, at: int) -> Iterator[Tag]:
        """The tags from this place on, which is not before that of an earlier look."""
        while self._passed < len(self._tags) and self._tags[self._passed].start < at:
            self._passed += 1
        for index in range(self._passed, len(self._tags)):
            yield self._tags[index]

    def _read_after_nothing(self) -> None:
        """Read what follows the end of a call without arguments, which may be these."""
        follows, _ = self._table.following(self.text, self._at)
        if isinstance(follows, Tag) and follows.kind in _IN_CALL:
            raise _DamageError
        self.waits = follows in (Follows.BLANKS, Follows.HALF_TAG) and not self._ended
        if self.waits:
            raise _NoEndError

    def _read_after_object(self, closer: Tag) -> None:
        """Read what follows the closing tag of a call with JSON: it may stand in a string."""
        ends = ends_call(self.text, closer.end, ended=self._ended)
        self.waits = ends is None
        if self.waits:
            self.after = closer.end
            raise _NoEndError
        if not ends:
            self._at = closer.start
            raise _DamageError

    def _read_object(self) -> None:
        """Read all arguments, which are one JSON object."""
        self._meant = True
        found, progress = _NOT_BLANK.search(self.text, self._at), JsonProgress()
        begin = found.start() if found else len(self.text)
        self._at = progress.follow(self.text, begin, len(self.text))
        if not (progress.complete or progress.broken):
            raise _NoEndError
        self._json = None if progress.broken else object_json(self.text[begin : self._at])
        if self._json is None:
            raise _DamageError

    # A value

    def _read_value(self, opener: Tag, closer: Tag | None = None) -> None:
        """Read the value after its opening tag; `closer` ends it, if that is known."""
        if self._lone_end:
            self._dropped.append(Dropped(Drop.STRAY, TagKind.ARGUMENT_END.value))
        self._lone_end, self._meant = False, True
        self._opener = opener
        end = closer or self._end_of(opener)
        self._opener = None
        own = end.kind is TagKind.ARGUMENT_END
        self._at = end.end if own else end.start
        start, text = opener.end, self.text[opener.end : end.start]
        if not (own or self._table.nested) and opener.name:
            closes = closed_by_name(text, opener.name)
            own, text = closes is not None, text[:closes]
        tags = tuple(takewhile(lambda tag: tag.start < end.start, self._tags_from(start)))
        self._mended = self._mended or not (own and end.whole and opener.whole)
        written = self.text[opener.start : opener.end]
        half = own and not end.whole
        argument = Argument(
            opener.name, text, opener.type, own, half, opener.whole, written, start, tags
        )
        self._arguments.append(argument)
        wrong = own and self._table.nested and opener.name not in (None, end.name)
        wrong = wrong or not (end.whole or text.strip()) or self._begins_with_tag(argument)
        if wrong or len(self._arguments) > MAX_TAGS:
            raise _DamageError

    def _begins_with_tag(self, argument: Argument) -> bool:
        """Whether a value begins with part of the call's own tags."""
        table, text = self._table, argument.text.lstrip()
        if (tag := table.tags.tag_at(text, 0)) is not None:
            again = tag.kind is TagKind.ARGUMENT and tag.name == argument.key is not None
            if tag.kind in (TagKind.VALUE, TagKind.KEY_END) or (again and text == argument.text):
                return True
        return not argument.opened and bool({"<", ">", table.closer[:1]} & set(text[:_NEAR]))

    def _end_of(self, opener: Tag) -> Tag:
        """The tag that ends a value."""
        open_tags = [0, 0, 0]
        """Quoted tags of each level that are not closed."""
        doubt: Tag | None = None
        """The first tag that has ended the value, unless a later one shows that it is quoted."""
        closing = closed = False
        """Whether the tag in doubt was real if no later one decides; whether the last closed a call
        or a section."""
        last, count = opener.end, 0
        for tag in self._tags_from(opener.end):
            level = LEVELS.get(tag.kind)
            if doubt and (tag.start - doubt.start > DOUBT_LIMIT or count > DOUBT_TAGS):
                doubt, closing = None, False
            if level is None:
                continue
            text_before = bool(self.text[last : tag.start].strip())
            last, count = tag.end, count + 1 if doubt else 1
            if tag.kind in OPENING:
                closed = False
                if not any(open_tags[CALL_LEVEL:]):
                    if self._is_next_argument(tag):
                        return doubt or tag
                    if self._may_be_real(tag, opener):
                        doubt = doubt or tag
                open_tags[level] += 1
            elif self._table.nested and level == ARGUMENT_LEVEL and tag.name != opener.name:
                open_tags[level] = max(0, open_tags[level] - 1)
            else:
                closed = level > ARGUMENT_LEVEL
                if open_tags[level]:
                    open_tags[: level + 1] = [*[0] * level, open_tags[level] - 1]
                elif level == ARGUMENT_LEVEL:
                    if not self._text_follows(tag):
                        return tag
                    doubt, closing = None, True  # all before was text
                elif doubt and not (closing and text_before):
                    return doubt
                else:
                    closing = closing or doubt is None
                doubt = doubt or tag
        if doubt and self._ended and self._whole:
            rest = self.text[last:]
            settled = rest[: len(rest) - self._table.in_value.unfinished(rest)].strip()
            may_end = closed and not settled and not self._head.in_section
            if len(self.text) - doubt.start <= DOUBT_LIMIT and (closing or may_end):
                return doubt
        if self.may_lack_end and last == opener.end and not self._missing:
            self._lacks_end = True
            return Tag(TagKind.CALL_END, len(self.text), len(self.text))
        raise _NoEndError

    def _is_next_argument(self, tag: Tag) -> bool:
        """Whether an opening tag is that of an argument which the tool declares, and which has not
        come yet."""
        if tag.kind is not TagKind.ARGUMENT or self._has(name := tag.name or ""):
            return False
        known = is_open(self._schema) or name in properties(self._schema)
        return known and not self._is_element(name)

    def _may_be_real(self, tag: Tag, opener: Tag) -> bool:
        """Whether the opening tag of a call or section may have ended the value."""
        begins_line = tag.start == opener.end or self.text[tag.start - 1] == "\n"
        if LEVELS[tag.kind] == ARGUMENT_LEVEL or not begins_line:
            return False
        return (
            tag.name is None or not (tools := self._head.tools) or tools.find(tag.name) is not None
        )

    def _is_element(self, name: str) -> bool:
        """Whether the open value may be made of such elements."""
        if not self._table.nested or self._opener is None:
            return False
        declared = property_of(self._schema, self._opener.name or "")
        kinds = {kind for kind, _ in type_of(declared, self._schema).members}
        made = not kinds or bool(kinds & {"array", "object"})
        return name in properties(declared) or (made and name not in properties(self._schema))

    def _text_follows(self, closer: Tag) -> bool:
        """Whether text follows the value's own closing tag, not another tag of the call."""
        follows, _ = self._table.following(self.text, closer.end)
        if isinstance(follows, Tag):
            return not self._is_certain(follows)
        if follows in (Follows.TEXT, Follows.GAP):
            return True
        if not self._ended:
            raise _NoEndError
        return False

    # The end

    def _end_with_text(self) -> None:
        """The text ends where a tag belongs, or in one: so does the call, if it may."""
        if not self._ended:
            raise _NoEndError
        half = self.text[self._at :].strip()
        closes = not half or self._table.closing.match(half)
        if self._lone_end and ">" not in half and not closes:
            return  # half a tag is text, as no argument has begun
        lacks = bool(self._missing) and not self._lone_end
        if lacks or not (closes and self._whole and self._meant):
            raise _NoEndError
        if half:
            self._dropped.append(Dropped(Drop.HALF, "marker"))
        self._at = len(self.text)

    def _damaged(self) -> Reading | None:
        """What comes is text, up to where the call ends."""
        lone = lone_tags(self._tags_from(self._at))
        tag = next((tag for tag in lone if LEVELS[tag.kind] and tag.kind not in OPENING), None)
        if tag is None:
            return self._cut()
        return Reading(tag.end if tag.kind is TagKind.CALL_END else tag.start)

    @property
    def _missing(self) -> list[str]:
        """Required arguments that are not there."""
        return [key for key in required(self._schema) if not self._has(key)]

    def _named(self) -> str | None:
        """The arguments as JSON, each with its name; None if that is not certain."""
        values, missing, schema = self._arguments, self._missing, self._schema
        if self._lacks_end:
            values = [replace(each, text=each.text.strip(" ")) for each in values]
        if len(missing) == 1 and not self._table.nested:
            lone = [(each, tag) for each in values for tag in lone_tags(each.tags)]
            ends = [pair for pair in lone if pair[1].kind is TagKind.ARGUMENT_END]
            if len(ends) == 1:
                values = _split(values, *ends[0])
                self._mended = True
        nameless = [each for each in values if not each.key]
        if nameless:
            if len(nameless) > 1 or len(missing) != 1 or set("<>") & set(nameless[0].text):
                return None
            values = [each if each.key else replace(each, key=missing[0]) for each in values]
        table, keys = self._table, {each.key for each in values}
        halves = sum(each.half_closed + each.opener[:1].isalpha() for each in values)
        thinned = self._head.thinned or halves > 1
        damage = Damage(schema, table, keys, self._mended, self._closed, thinned)
        doubtful = self._mended or not (self._closed or self._lone_end)
        if doubtful and not keys.issuperset(required(schema)):
            return None
        self._why = next((why for each in values if (why := damage.found_in(each))), "")
        if self._why:
            return None
        gaps = self._gaps[not table.strays :]
        if gaps and not any("\n" in gap for gap in gaps):  # a line end is the value's
            values = [replace(each, opened=True, closed=True) for each in values]
        json, twice = arguments_json(values, schema, table)
        if twice:
            self._dropped.append(Dropped(Drop.VALUE))
        return None if twice and doubtful else json


def _split(values: list[Argument], split: Argument, closer: Tag) -> list[Argument]:
    """These arguments, of which one is two: its closing tag stands in its text."""
    at, end = closer.start - split.start, closer.end - split.start
    first = replace(split, text=split.text[:at], closed=True, tags=())
    second = Argument(None, split.text[end:], None, closed=split.closed, opened=False)
    return [part for each in values for part in ([first, second] if each is split else [each])]
