"""What formats have in common that `TaggedCalls` reads: nothing of a call stands before its
own tag, and a tag that a text holds says all that the parser has to know."""

from __future__ import annotations

from dataclasses import dataclass

from ..declared_tools import DeclaredTools
from .protocol import LeakParser, MarkerMatch
from .tagged_calls import TaggedCalls
from .tags import Tag, TagSyntax


@dataclass(frozen=True, slots=True)
class TagMatch(MarkerMatch):
    """A marker that is a tag."""

    tag: Tag


class TaggedFormat:
    """See `LeakFormat`: what nothing has to be known for but the syntax of the tags."""

    look_back = 0
    syntax: TagSyntax

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return False

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        return ""

    def begins_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:  # noqa: ARG002
        return False

    def parser(
        self,
        match: MarkerMatch,
        header: str,  # noqa: ARG002
        start: int,  # noqa: ARG002
        tools: DeclaredTools,
    ) -> LeakParser:
        assert isinstance(match, TagMatch)
        return TaggedCalls(self.syntax, tools, match.tag)
