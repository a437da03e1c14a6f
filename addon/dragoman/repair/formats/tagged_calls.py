"""Formats that put tags around calls and around each of their arguments, and their parser.

The parser reads, by one method each:

- `_read_section`: between calls;
- `_read_header`: after the tag of a call, until it is certain that a call was meant; where the
  name follows the tag, it is in an expression of its own (`TagSyntax.header`);
- `_read_after`: after arguments that are one JSON text: their closing tag and the call's;
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
from ..events import Dropped, Header, NoHeader
from ..tool_fit import schema_for, tool_of
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT
from .protocol import WORD, CallArguments, LeakFormat, LeakParser, MarkerMatch
from .tagged_arguments import TaggedArguments
from .tags import Follows, Tag, TagKind, TagSyntax

_NAME = re.compile(WORD)
_BARE_CALL = re.compile(rf"(?P<name>{WORD})\s*(?P<fence>```\w*\s*)?(?=\{{)")
_FENCE = "```"
_BARE_CALL_SO_FAR = re.compile(rf"(?P<name>{WORD})\s*(?:`{{1,2}}|```\w*\s*)?\Z")


def tagged(name: str, beginnings: tuple[str, ...], shown: str, syntax: TagSyntax) -> LeakFormat:
    """A format whose calls always begin with a tag."""

    def meaning(leak_format: LeakFormat, found: re.Match[str]) -> MarkerMatch | None:
        tag = syntax.read(found)
        is_opener = tag.kind in (TagKind.SECTION, TagKind.CALL)
        if syntax.plain and not is_opener and tag.kind is not TagKind.SECTION_END:
            return None
        other = tag.name if tag.kind in (TagKind.OTHER, TagKind.OTHER_END) else None
        name = other or tag.kind.value
        kind = syntax.text_kinds.get(name)
        tool = tag.name if tag.kind is TagKind.CALL else None
        is_opener = is_opener or kind is not None
        return MarkerMatch(leak_format, name, tag.start, tag.end, is_opener, tool, kind)

    markers, parser = syntax.in_text or syntax.tags, partial(TaggedCalls, syntax)
    return LeakFormat(name, beginnings, markers, parser, meaning, shown=shown)


class TaggedCalls(LeakParser):
    """Parses from after the tag of a section, or of a call."""

    def __init__(
        self, syntax: TagSyntax, match: MarkerMatch, header: str, start: int, tools: DeclaredTools
    ) -> None:
        super().__init__(match, header, start, tools)
        self._syntax = syntax
        self._in_section = match.tool is None and syntax.header is None
        self._calls = 0
        """Calls that were meant."""
        self._name = ""
        """That of the open call."""
        self._fenced = False
        """Whether its JSON is in a fence that has not ended."""
        if self._in_section:
            self._leave_call()
        else:
            self._begin_call(match.tool or "")

    @property
    def in_call(self) -> bool:
        return self._arguments is not None or (self._in_head and self.in_header)

    @property
    def in_header(self) -> bool:
        if self._in_head and (header := self._syntax.header) is not None:
            if "word" not in header.begun.groupindex:
                return True
            begun = header.begun.fullmatch(self._buffer, self._at)
            word = begun["word"] if begun else None
            return word is None or self._tools.may_begin(word)
        half = bool(self.rest.strip()) and not self._syntax.closing.match(self.rest)
        in_section = self._in_section and self._reader is TaggedCalls._read_section
        return not self._is_over and (self._in_head or (in_section and half))

    @property
    def whole(self) -> bool:
        if self._syntax.header is not None:
            return super().whole
        inside = self._in_head or self._arguments or self._reader is TaggedCalls._read_after
        return not (inside or self._is_over) and self._calls > 0 and not self.rest.strip()

    def _finish(self) -> None:
        if self._syntax.header is not None:
            super()._finish()
        elif self._arguments is not None:
            super()._finish()
            self._is_over = True
        elif self._in_head:
            self._begin_arguments(self._at)
        else:
            if not self._calls:
                text = bool(self.rest.strip())
                self._events.append(NoHeader() if text else Dropped("empty section"))
            elif self._syntax.closing.match(self.rest):
                self._events.append(Dropped("unfinished marker"))
                self._at = len(self._buffer)
            self._is_over = True

    # Outside of arguments

    def _read_tag(self, on_tag: Callable[[Tag], None]) -> bool:
        follows, at = self._syntax.following(self._buffer, self._at)
        match follows:
            case Tag():
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
            return self._begin_json(at)
        rest = self._buffer[at : at + len(_FENCE)]
        if self._fenced and rest == _FENCE:
            self._at = at + len(_FENCE)
            self._fenced = False
            return True
        if self._fenced and _FENCE.startswith(rest) and not self._ended:
            return False
        begun = self._begin_bare_call(at)
        return self._text_follows() if begun is None else begun

    def _text_follows(self) -> bool:
        """What comes is no tag of the section."""
        if self._in_head or not self._calls:
            return self._refuse()
        return self._leave(self._at)

    def _read_section(self) -> bool:
        return self._read_tag(self._on_tag_in_section)

    def _on_tag_in_section(self, tag: Tag) -> None:
        if tag.kind is TagKind.CALL:
            self._at = tag.end
            self._begin_call(tag.name or "")
        elif tag.kind is TagKind.SECTION_END:
            self._at = tag.end
            self._read = self._read_end
            self._is_over = not (self._calls and self._in_section)
            if not self._calls:
                self._events.append(Dropped("empty section"))
        elif tag.kind in (TagKind.OTHER, TagKind.OTHER_END) and self._calls:
            self._read = self._read_end
        elif tag.kind is TagKind.SECTION and self._calls:
            self._is_over = True
        elif tag.kind is TagKind.SECTION or (
            self._calls and (self._in_section or tag.kind is TagKind.CALL_END)
        ):
            self._at = tag.end
            self._events.append(Dropped(f"stray {tag.kind.value}"))
        else:
            self._text_follows()

    def _read_end(self) -> bool:
        return self._read_tag(self._on_tag_at_end)

    def _on_tag_at_end(self, tag: Tag) -> None:
        if tag.kind is TagKind.OTHER_END:
            self._at = tag.end
            self._events.append(Dropped("channel marker after a section"))
        else:
            self._is_over = True

    # A call

    def _begin_call(self, name: str) -> None:
        self._in_head = True
        self._read = self._read_header
        self._name = name.strip()
        if self._syntax.header is None and not _NAME.fullmatch(self._name):
            self._refuse()

    def _read_header(self) -> bool:
        if self._syntax.header is None:
            return self._read_tag(self._on_tag_of_call)
        found = self._syntax.header.header_at(self._buffer, self._at)
        if isinstance(found, bool):
            return not found and self._refuse()
        self._name, self._fenced = found["name"], _FENCE in found[0]
        at, is_json = found.start("follows"), found["follows"].endswith("{")
        return self._begin_json(at) if is_json else self._begin_arguments(at)

    def _on_tag_of_call(self, tag: Tag) -> None:
        if tag.kind is TagKind.ARGUMENT:
            self._begin_arguments(tag.end, tag)
        elif tag.kind is TagKind.JSON:
            self._begin_json(tag.end)
        elif tag.kind is TagKind.CALL_END:
            self._begin_arguments(tag.start)
        else:
            self._refuse()

    def _begin_bare_call(self, at: int) -> bool | None:
        """Begin a call of which no tag but the section's was written.  False if text to come
        decides whether one begins, None if none does."""
        if self._in_head or self._calls:
            return None
        found = _BARE_CALL.match(self._buffer, at)
        if found is None:
            so_far = _BARE_CALL_SO_FAR.match(self._buffer, at)
            waits = so_far and len(self._buffer) - at < HEADER_LIMIT and not self._ended
            return False if waits and so_far and self._tools.may_begin(so_far["name"]) else None
        if found["name"] not in self._tools:
            return None
        self._name, self._fenced = found["name"], found["fence"] is not None
        return self._begin_json(found.end())

    def _begin_arguments(self, at: int, tag: Tag | None = None) -> bool:
        """The arguments begin at this position, after the tag of the first."""
        schema = schema_for(self._name, self._tools)
        syntax = self._syntax.in_call or self._syntax
        arguments = TaggedArguments(syntax, schema, self._is_tool, in_section=self._in_section)
        if tag is not None:
            arguments.begin(tag)
        return self._start(arguments, at)

    def _begin_json(self, at: int) -> bool:
        syntax = self._syntax.in_call or self._syntax
        return self._start(JsonArguments(syntax.in_json or syntax.in_value), at)

    def _start(self, arguments: CallArguments, at: int) -> bool:
        self._calls += 1
        return self._start_call(Header(self._name, self._name), arguments, at)

    def _is_tool(self, name: str) -> bool:
        return not self._tools or tool_of(name, self._tools) is not None

    def _take_arguments(self, arguments: CallArguments) -> None:
        # Where a tag is certain, the end of a value leaves with what follows it: one delta fewer.
        certain = self._syntax.header is None and isinstance(arguments, TaggedArguments)
        if arguments.over or not (certain and arguments.complete):
            super()._take_arguments(arguments)

    def _arguments_ended(self, arguments: CallArguments) -> None:
        if not isinstance(arguments, JsonArguments):
            self._leave_call()

    def _read_after(self) -> bool:
        return self._read_tag(self._on_tag_after_json)

    def _on_tag_after_json(self, tag: Tag) -> None:
        if tag.kind in (TagKind.JSON_END, TagKind.CALL_END):
            self._at = tag.end
        if tag.kind is not TagKind.JSON_END:
            self._leave_call()

    def _leave_call(self) -> None:
        self._in_head = False
        self._read = self._read_section
        self._is_over = not (self._in_section or self._syntax.several)
