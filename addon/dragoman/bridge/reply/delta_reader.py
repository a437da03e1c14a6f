"""Reads deltas as parts of items: reasoning, then text, refusal and calls.

Only the start of the text is held back, until it is known whether it is ``<think>``.
"""

from __future__ import annotations

from typing import Any

from ...notes import Evidence
from ...wire import chat_delta
from ...wire.chat_calls import CallDelta, elements, read_delta
from ...wire.chat_delta import SOURCES
from ...wire.sse import Only
from .item_order import PIECE, ItemOrder
from .think_tags import SplitText, ThinkSplitter


class DeltaReader:
    """Reads the deltas of one reply."""

    def __init__(self, items: ItemOrder, evidence: Evidence, *, thinks: bool) -> None:
        """`thinks`: reasoning was asked for."""
        self._items = items
        self._thinks = thinks
        self._evidence = evidence
        self._splitter: ThinkSplitter | None = ThinkSplitter()
        """None once all content is text."""
        self._moved = False
        self._cited: set[str] = set()

    def only(self, said: Only) -> None:
        """A delta that has nothing else."""
        if isinstance(said, CallDelta):
            self.end_content()
            self._items.call(said, whole=False)
        elif said[0] == "text":
            self._content(said[1])
        else:
            self._reasoning(said[1])

    def delta(self, delta: dict[str, Any], index: int, *, whole: bool) -> None:
        content = delta.get("content")
        for kind, text in chat_delta.texts(delta):
            if kind == "text":
                self._content(text, whole=whole and not isinstance(content, list))
            elif kind == "reasoning":
                self._reasoning(text)
            else:
                self.end_content()
                self._items.prose(kind, text)
        if isinstance(content, list) and (others := chat_delta.content_parts(content)[1]):
            self._evidence.note("dropped", "content part that is no text", others)
        if delta.get("annotations"):
            found, unread = chat_delta.url_annotations(delta)
            self._cited.update(annotation["url"] for annotation in found)
            self._items.annotate(found)
            if unread:
                self._evidence.note("dropped", "annotation of an unknown form", unread)
        self.cite(delta)
        if calls := elements(delta):
            self._calls(calls, index, whole=whole)
        if chat_delta.unknown_fields(delta):
            self._evidence.note("ignored", "delta in an unknown field")

    def cite(self, holder: dict[str, Any]) -> None:
        """The sources that hosts list, some again in every chunk."""
        for source in chat_delta.citations(holder) if any(map(holder.get, SOURCES)) else ():
            if source["url"] not in self._cited:
                self._cited.add(source["url"])
                self._items.annotate([source])

    def end_content(self) -> None:
        """Something other than content comes: what was held back is decided now."""
        if self._splitter is not None:
            self._write_split(self._splitter, self._splitter.close())

    def _reasoning(self, text: str) -> None:
        self.end_content()
        self._items.drop_logprobs()
        self._items.prose("reasoning", text)

    def _content(self, content: str, *, whole: bool = False) -> None:
        splitter = self._splitter
        if splitter is None:
            self._items.text(content)
            return
        pieces = (
            splitter.whole(content, asked_for=self._thinks) if whole else splitter.feed(content)
        )
        if splitter.thinking or any(kind == "reasoning" for kind, _ in pieces):
            self._items.drop_logprobs()
        self._write_split(splitter, pieces)

    def _write_split(self, splitter: ThinkSplitter, pieces: list[SplitText]) -> None:
        if splitter.stray:
            splitter.stray = False
            self._evidence.note("dropped", "a closing tag of reasoning that was not opened")
        if splitter.passive:
            self._splitter = None
        for kind, piece in pieces:
            if kind == "text":
                self._items.text(piece)
            else:
                self._items.prose("reasoning", piece)
                if not self._moved:
                    self._evidence.note("moved", "inline <think> to reasoning")
                self._moved = True

    def _calls(self, calls: list[Any], index: int, *, whole: bool) -> None:
        self.end_content()
        for element in calls:
            delta = read_delta(element)
            if delta is None:
                self._items.size += PIECE
                self._evidence.note("skipped", "tool call delta that says nothing")
            else:
                self._items.call(delta, whole=whole, choice=index)
