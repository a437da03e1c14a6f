"""Reads one call of a format with tags: its text in, the call out, or that it is damaged.

A value may quote tags, and models and hosts lose them, so a tag in a value means nothing by itself.
What decides, from the first reason to the last:

- the opening tag of an argument that the tool declares, and that has not come yet, ends a value;
- of quoted tags one closes the other;
- the value's own closing tag ends it if another tag of the call follows;
- where text follows it, and later the value's own closing tag again, it was quoted;
- the closing tag of the call or section, or at the start of a line the opening tag of another
  call or of an argument that is not declared, is quoted if the value's own closing tag follows,
  and else has ended it.

What does not fit is damage.  It is mended where the schema leaves one reading: a value without
its name is that of the one required argument that is missing.  Else there is no call, and what
was written stays text to the end of the call: never are there fewer arguments than were written,
nor is there a tag in a value that its writer closed, nor part of the closing tag of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...wire.json_progress import JsonProgress
from ..declared_tools import DeclaredTools
from ..events import Arguments, CallEnd, Damaged, Dropped
from ..schema import properties, required
from .argument_values import Argument, arguments_json, object_json
from .damaged_values import is_cut, lost_its_end
from .marker_set import TAG_LIMIT
from .protocol import CallArguments
from .quoted_tags import ARGUMENT_LEVEL, CALL_LEVEL, LEVELS, OPENING, QuotedTags, Verdict
from .tags import Follows, Tag, TagKind, TagTable
from .value_types import property_of, type_of

MAX_ARGUMENTS = 10_000
TEXT_LIMIT = 64 * 1024
"""Characters of text between arguments, which is read again with each piece until a tag follows."""
_NEAR = 24
"""Characters in which half a tag is seen where one is missing."""
_FENCE = "```"
_IN_CALL = (
    *(TagKind.ARGUMENT, TagKind.VALUE, TagKind.KEY_END, TagKind.ARGUMENT_END),
    *(TagKind.JSON, TagKind.JSON_END),
)


def read_call(text: str, name: str, table: TagTable, tools: DeclaredTools) -> str | None:
    """The arguments of a call of this tool, as JSON, from the text after its head; None if it is
    damaged, or does not end with the text."""
    call = TaggedCall(table, name, tools)
    call.push(text)
    while not call.over and call.step():
        pass
    if not call.over:
        call.finish()
    events = call.take()
    if any(isinstance(event, Damaged) for event in events) or call.rest.strip():
        return None
    return "".join(event.text for event in events if isinstance(event, Arguments))


@dataclass(slots=True)
class _Value:
    """The value that is open."""

    key: str | None
    tag: Tag
    texts: list[str] = field(default_factory=list)
    size: int = 0
    quoted_ends: list[tuple[int, int]] = field(default_factory=list)
    """Where its own closing tag stands in it, as text."""

    def add(self, text: str) -> None:
        self.texts.append(text)
        self.size += len(text)


class TaggedCall(CallArguments):
    """One call, from after its head.  Nothing of it is given before its end."""

    def __init__(
        self, table: TagTable, name: str, tools: DeclaredTools, *, in_section: bool = False
    ) -> None:
        """`in_section`: whether the call ends only with a tag."""
        super().__init__()
        self._table = table
        self._name = name
        self._tools = tools
        self._schema = tools.schema_of(name)
        self._in_section = in_section
        self._step: Callable[[TaggedCall], bool] = TaggedCall._step_between
        self._values: list[Argument] = []
        self._value: _Value | None = None
        self._doubts = QuotedTags()
        """The tags in the open value."""
        self._searched = 0
        """Characters of text between arguments in which no tag begins."""
        self._meant = False
        """Whether an argument has begun, or its closing tag stood in the place of all: GLM writes
        that for no arguments."""
        self._lone_end = False
        """Whether such a closing tag was read, and no argument has begun."""
        self._json: str | None = None
        """All arguments, if they are written as one JSON object."""
        self._following = JsonProgress()
        self._texts: list[str] = []
        """That object so far."""
        self._fenced = False
        self._depth = [0, 0]
        """Calls and sections that are open in what is damaged."""
        self._ended = False

    @property
    def complete(self) -> bool:
        if self._value is not None:
            return self._doubts.closes
        return (self._meant or self._json is not None) and self._step != TaggedCall._step_damaged

    @property
    def _keys(self) -> set[str | None]:
        return {argument.key for argument in self._values}

    def takes(self, text: str) -> str | None:
        value = self._value
        if value is None or self._at < len(self._buffer):
            return None
        if self._table.in_value.may_begin_in(text):
            return None
        value.add(text)
        self._doubts.text(text)
        return ""

    def step(self) -> bool:
        return self._step(self)

    def begin_json(self, *, fenced: bool = False) -> None:
        """All arguments follow as one JSON object."""
        self._fenced = fenced
        self._meant = True
        self._step = TaggedCall._step_json

    def finish(self, *, whole: bool = True) -> None:
        self._ended = True
        while not self.over and (self.step() or (whole and self._ends_in_doubt())):
            pass
        if self.over:
            return
        half = self.rest.strip()
        closes = not half or self._table.closing.match(half)
        if ">" not in half and self._lone_end and not closes:
            self._end()  # half a tag is text, as no argument has begun
            return
        missing = bool(self._missing)
        cut = self._step != TaggedCall._step_between or not (closes and whole and self._meant)
        self._at = len(self._buffer)
        if half and not cut:
            self._events.append(Dropped("unfinished marker"))
        if cut or (missing and not self._lone_end):
            self.over = True
            self._events.append(Damaged(self._name, cut=True))
        else:
            self._end()

    # Between values

    def _step_between(self) -> bool:
        follows, at = self._table.following(self._buffer, self._at)
        if follows is Follows.BLANKS:
            return False
        if follows is Follows.HALF_TAG and not (self._ended and self._buffer[at].isalpha()):
            return False
        if isinstance(follows, Tag) and self._is_certain(follows):
            self._on_tag(follows)
            return True
        return self._on_text(at)

    def _is_certain(self, tag: Tag) -> bool:
        """Whether a tag, of which part may be missing, is that of an argument that was not there
        yet."""
        return not tag.mended or (tag.name in properties(self._schema) and not self._has(tag.name))

    def _on_tag(self, tag: Tag) -> None:
        self._at = tag.end
        if tag.kind is TagKind.ARGUMENT and self._json is None:
            self._begin(tag)
        elif tag.kind is TagKind.ARGUMENT_END and not self._meant:
            self._meant = self._lone_end = True
        elif tag.kind is TagKind.JSON and not self._meant:
            self.begin_json()
        elif tag.kind is TagKind.JSON_END and self._json is not None:
            pass
        elif tag.kind in _IN_CALL:
            self._damage()
        else:
            self._at = tag.end if tag.kind is TagKind.CALL_END else tag.start
            self._end()

    def _on_text(self, at: int) -> bool:
        """Text follows a value."""
        fence = self._buffer[at : at + len(_FENCE)]
        if self._fenced and _FENCE.startswith(fence) and (fence == _FENCE or not self._ended):
            self._at = at + len(_FENCE) if fence == _FENCE else self._at
            self._fenced = fence != _FENCE
            return fence == _FENCE
        if self._json is not None:
            self._end()
            return True
        match = self._table.in_value.find(self._buffer, max(at, self._at + self._searched))
        if match is None and self._ended:
            self._end()
            return True
        if (match.start() if match else len(self._buffer) - TAG_LIMIT) - at > TEXT_LIMIT:
            self._damage()
            return True
        if match is None:
            self._searched = len(self.rest) - self._table.in_value.unfinished(self.rest)
            return False
        self._searched = 0
        tag = self._table.read(match)
        if tag.kind is TagKind.ARGUMENT_END:
            self._begin(Tag(TagKind.ARGUMENT, self._at, self._at, tag.name, whole=False))
            self._give(tag.start)
            self._end_value(tag)
        elif tag.kind in (TagKind.CALL, TagKind.SECTION, TagKind.OTHER, TagKind.OTHER_END):
            self._end()
        else:
            self._damage()
        return True

    def _begin(self, tag: Tag) -> None:
        """A value begins after this tag."""
        if self._lone_end:
            self._events.append(Dropped(f"stray {TagKind.ARGUMENT_END.value}"))
        self._lone_end = False
        self._meant = True
        self._value, self._doubts = _Value(tag.name, tag), QuotedTags()
        self._step = TaggedCall._step_value

    def _damage(self) -> None:
        """This is no call: what comes is text, up to where the call ends."""
        self._value = None
        self._step = TaggedCall._step_damaged

    def _step_damaged(self) -> bool:
        in_value = self._table.in_value
        while match := in_value.find(self._buffer, self._at):
            tag = self._table.read(match)
            level = LEVELS.get(tag.kind, ARGUMENT_LEVEL)
            self._at = tag.end
            if level == ARGUMENT_LEVEL:
                continue
            if tag.kind in OPENING:
                self._depth[level - 1] += 1
            elif self._depth[level - 1]:
                self._depth[: level - 1] = [0] * (level - 1)
                self._depth[level - 1] -= 1
            else:
                self._at = tag.end if level == CALL_LEVEL else tag.start
                self.over = True
                self._events.append(Damaged(self._name))
                return True
        self._at = len(self._buffer) - in_value.unfinished(self.rest)
        return False

    # In one JSON object

    def _step_json(self) -> bool:
        if not self._texts:
            self._at += len(self.rest) - len(self.rest.lstrip())
        start, end = self._at, len(self._buffer)
        self._at = self._following.follow(self._buffer, start, end)
        if self._following.broken:
            self._damage()
            return True
        self._texts.append(self._buffer[start : self._at])
        if not self._following.complete:
            return False
        self._json = object_json("".join(self._texts))
        self._step = TaggedCall._step_between
        if self._json is None:
            self._damage()
        return True

    # In a value

    def _step_value(self) -> bool:
        start, table, doubts = self._at, self._table, self._doubts
        at = start + doubts.seen
        doubts.waits = False
        while not doubts.waits and (match := table.in_value.find(self._buffer, at)):
            doubts.hold(self._buffer, self._at, at, match.start())
            tag = table.read(match)
            verdict = self._verdict(tag)
            if verdict is Verdict.ENDED:
                self._end_value_in_doubt()
                return True
            if verdict is Verdict.END:
                self._give(match.start())
                self._end_value(tag)
                return True
            if verdict is Verdict.DOUBT and not doubts.in_doubt:
                self._give(match.start())
                doubts.in_doubt = True
            doubts.waits = verdict is Verdict.WAIT
            at = match.start() if doubts.waits else match.end()
        end = (
            at if doubts.waits else len(self._buffer) - table.in_value.unfinished(self._buffer[at:])
        )
        if not doubts.hold(self._buffer, self._at, at, max(at, end)):
            self._give(max(at, end))
        return self._at > start

    def _ends_in_doubt(self) -> bool:
        """Whether the value ended at the first tag in doubt, as the text ends here."""
        if self._value is None or not self._doubts.ended:
            return False
        if self._in_section and not self._doubts.closing:
            return False
        self._end_value_in_doubt()
        return True

    def _end_value_in_doubt(self) -> None:
        match = self._table.in_value.match(self._buffer, self._at)
        assert match is not None
        self._end_value(self._table.read(match))

    def _give(self, end: int) -> None:
        if self._at < end and self._value is not None:
            text = self._buffer[self._at : end]
            self._value.add(text)
            self._doubts.text(text)
            self._at = end

    def _verdict(self, tag: Tag) -> Verdict:
        level = LEVELS.get(tag.kind)
        if level is None:
            return Verdict.TEXT
        if tag.kind in OPENING:
            return self._doubts.opening(level, self._opening(tag))
        text_follows = False
        if tag.kind is TagKind.ARGUMENT_END:
            if self._table.nested and not self._is_own(tag):
                return self._doubts.closing_other(level)
            follows, _ = self._table.following(self._buffer, tag.end)
            if follows in (Follows.BLANKS, Follows.HALF_TAG) and not self._ended:
                return Verdict.WAIT
            text_follows = follows in (Follows.TEXT, Follows.GAP) or (
                isinstance(follows, Tag) and not self._is_certain(follows)
            )
        verdict = self._doubts.closing_tag(level, text_follows=text_follows)
        if text_follows and verdict is Verdict.DOUBT and self._value is not None:
            begin = self._value.size + tag.start - self._at
            if self._doubts.is_own:
                self._value.quoted_ends.append((begin, begin + tag.end - tag.start))
        return verdict

    def _is_own(self, tag: Tag) -> bool:
        return self._value is not None and tag.name == self._value.key

    def _opening(self, tag: Tag) -> Verdict:
        """What an opening tag means, unless it is within a call that the value quotes."""
        name = tag.name or ""
        if tag.kind is TagKind.VALUE:
            return Verdict.TEXT
        if tag.kind is TagKind.ARGUMENT:
            if self._has(name) or self._is_element(name):
                return Verdict.TEXT
            if self._schema is None or name in properties(self._schema):
                return Verdict.END
            has_text = self._doubts.has_text or bool(self._buffer[self._at : tag.start].strip())
            by_line = self._table.trim and self._begins_line(tag)
            doubt = has_text and (self._table.pairs or by_line)
        else:
            doubt = (tag.name is None or self._is_tool(name)) and self._begins_line(tag)
        return Verdict.DOUBT if doubt else Verdict.TEXT

    def _is_tool(self, name: str) -> bool:
        return not self._tools or self._tools.find(name) is not None

    def _has(self, key: str | None) -> bool:
        return key in self._keys or (self._value is not None and key == self._value.key)

    def _is_element(self, name: str) -> bool:
        """Whether the open value may be made of such elements."""
        if not self._table.nested or self._value is None:
            return False
        declared = self._declared(self._value.key)
        made = {"array", "object"} & dict(type_of(declared, self._schema).members).keys()
        return name in properties(declared) or (bool(made) and name not in properties(self._schema))

    def _declared(self, key: str | None) -> object:
        """The schema of an argument."""
        return property_of(self._schema, key or "")

    def _begins_line(self, tag: Tag) -> bool:
        """Whether a line, or the value, begins with this tag."""
        before = self._buffer[tag.start - 1] if tag.start > self._at else self._doubts.last
        return before in ("", "\n")

    def _end_value(self, tag: Tag) -> None:
        """The value ends at this tag."""
        value, self._value = self._value, None
        assert value is not None
        own = tag.kind is TagKind.ARGUMENT_END
        self._at = tag.end if own else tag.start
        self._step = TaggedCall._step_between
        text = "".join(value.texts)
        ends = [(begin, end) for begin, end in value.quoted_ends if end <= len(text)]
        tag_of = value.tag
        read = Argument(value.key, text, tag_of.type, own, tag_of.whole, tuple(ends))
        self._values.append(read)
        wrong_end = own and self._table.nested and value.key not in (None, tag.name)
        cut = not (own and tag.whole) and lost_its_end(read, tag, self._schema, self._table)
        if wrong_end or cut or len(self._values) > MAX_ARGUMENTS or self._is_damaged(value, text):
            self._damage()

    def _is_damaged(self, value: _Value, text: str) -> bool:
        """Whether a value begins with part of the call's own tags."""
        table = self._table
        if (match := table.tags.match(text)) is not None:
            tag = table.read(match)
            doubled = tag.kind is TagKind.ARGUMENT and tag.name == value.key and value.key
            if doubled or tag.kind in (TagKind.VALUE, TagKind.KEY_END):
                return True
        return not value.tag.whole and bool(set("<>") & set(text.lstrip()[:_NEAR]))

    # The end

    @property
    def _missing(self) -> list[str]:
        """Required arguments that are not there."""
        return [key for key in required(self._schema) if key not in self._keys]

    def _end(self) -> None:
        """The call ends at this place."""
        self.over = True
        json = self._json if self._json is not None else self._named()
        if json is None:
            self._events.append(Damaged(self._name))
        else:
            self._events += [Arguments(json), CallEnd(valid=True, cut=False)]

    def _named(self) -> str | None:
        """The arguments as JSON, each with its name; None if that is not certain."""
        values, missing = self._values, self._missing
        if len(missing) == 1 and sum(len(each.quoted_ends) for each in values) == 1:
            values = [part for each in values for part in each.parts()]
        for argument in values:
            if argument.quoted_ends and (
                missing or is_cut(argument, self._keys, self._schema, self._table)
            ):
                return None
        nameless = [argument for argument in values if not argument.key]
        if nameless:
            if len(nameless) > 1 or len(missing) != 1 or set("<>") & set(nameless[0].text):
                return None
            nameless[0].key = missing[0]
        json, twice = arguments_json(values, self._schema, self._table)
        if json is not None and twice:
            self._events.append(Dropped("a second value of an argument"))
        return json
