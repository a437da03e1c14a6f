"""Reads deltas in words: reasoning, then text, refusal and calls.

Only the start of the text is held back, until it is known whether it is ``<think>``.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ...notes import Evidence
from ...reply.in_order import ITEM, PIECE
from ...reply.words import Arguments, CallBegin, Cited, Delta, Part, PartEnd, Text
from ...wire import chat_delta
from ...wire.chat_calls import Call, CallAssembler, CallDelta, elements, read_delta
from ...wire.chat_delta import SOURCES
from ...wire.json_codec import Json, dumps
from ...wire.sse import Only
from .think_tags import SplitText, ThinkSplitter

_TEXT, _REASONING, _REFUSAL = Part("text"), Part("reasoning"), Part("refusal")
_PARTS = {"text": _TEXT, "reasoning": _REASONING, "refusal": _REFUSAL}
"""All choices are one turn, and so their texts of a kind are one part."""


class DeltaReader:
    """Reads the deltas of one reply; its methods give what they say."""

    def __init__(
        self, names: Set[str], evidence: Evidence, *, thinks: bool, calls: bool = True
    ) -> None:
        """`names`: those that a call may have.  `thinks`: reasoning was asked for.  `calls`:
        whether the reply may have any."""
        self._names = names
        self._thinks = thinks
        self._takes_calls = calls
        self._evidence = evidence
        self.size = 0
        """Bytes that calls and further choices take, about."""
        self.entries = 0
        """Bytes that log probabilities and annotations take."""
        self._logprobs: list[Json] = []
        """Of the text that comes next."""
        self._splitter: ThinkSplitter | None = ThinkSplitter()
        """None once all content is text."""
        self._moved = False
        self._cited: set[str] = set()
        self._assemblers = {0: CallAssembler(names)}
        """By their choice: each numbers its own."""
        self._calls: dict[Call, tuple[Part, str, str]] = {}
        """The part of each call, with its id and name as they were given."""
        self._whole: set[Part] = set()
        """The calls whose arguments are complete."""

    def only(self, said: Only) -> list[Delta]:
        """A delta that has nothing else."""
        if isinstance(said, CallDelta):
            found = self._call(said)
            return found if self._splitter is None else [*self.end_content(), *found]
        if said[0] != "text":
            return self._reasoning(said[1])
        if self._splitter is None and not self._logprobs:
            return [Text(_TEXT, said[1])]
        return self._content(said[1])

    def delta(self, delta: Json, index: int, *, whole: bool) -> list[Delta]:
        """The delta of a choice; `whole`: it is a whole message."""
        found: list[Delta] = []
        content = delta.get("content")
        for kind, text in chat_delta.texts(delta):
            if kind == "text":
                found += self._content(text, whole=whole and not isinstance(content, list))
            elif kind == "reasoning":
                found += self._reasoning(text)
            else:
                found += [*self.end_content(), Text(_REFUSAL, text)]
        if isinstance(content, list) and (others := chat_delta.content_parts(content)[1]):
            self._evidence.note("dropped", "content part that is no text", others)
        if delta.get("annotations"):
            annotations, unread = chat_delta.url_annotations(delta)
            self._cited.update(annotation["url"] for annotation in annotations)
            found += self._annotated(annotations)
            if unread:
                self._evidence.note("dropped", "annotation of an unknown form", unread)
        found += self.cited(delta)
        if calls := elements(delta):
            found += self._elements(calls, index, whole=whole)
        if chat_delta.unknown_fields(delta):
            self._evidence.note("ignored", "delta in an unknown field")
        return found

    def logprobs(self, logprobs: list[Json]) -> None:
        """Log probabilities of the text that comes next."""
        self.entries += _size(logprobs)
        self._logprobs += logprobs

    def cited(self, holder: Json) -> list[Delta]:
        """The sources that hosts list, some again in every chunk."""
        found: list[Json] = []
        for source in chat_delta.citations(holder) if any(map(holder.get, SOURCES)) else ():
            if source["url"] not in self._cited:
                self._cited.add(source["url"])
                found.append(source)
        return self._annotated(found)

    def _annotated(self, annotations: list[Json]) -> list[Delta]:
        if not annotations:
            return []
        self.entries += _size(annotations)
        return [Cited(annotations)]

    # Text

    def end_content(self) -> list[Delta]:
        """Something other than content comes: what was held back is decided now."""
        splitter = self._splitter
        return [] if splitter is None else self._split(splitter, splitter.close())

    def _reasoning(self, text: str) -> list[Delta]:
        found = self.end_content()
        self._logprobs.clear()
        return [*found, Text(_REASONING, text)]

    def _content(self, content: str, *, whole: bool = False) -> list[Delta]:
        splitter = self._splitter
        if splitter is None:
            return [self._text(content)]
        pieces = (
            splitter.whole(content, asked_for=self._thinks) if whole else splitter.feed(content)
        )
        if splitter.thinking or any(kind == "reasoning" for kind, _ in pieces):
            self._logprobs.clear()
        return self._split(splitter, pieces)

    def _text(self, text: str) -> Text:
        logprobs, self._logprobs = self._logprobs, []
        return Text(_TEXT, text, logprobs)

    def _split(self, splitter: ThinkSplitter, pieces: list[SplitText]) -> list[Delta]:
        if splitter.stray:
            splitter.stray = False
            self._evidence.note("dropped", "a closing tag of reasoning that was not opened")
        if splitter.passive:
            self._splitter = None
        if not self._moved and any(kind == "reasoning" for kind, _ in pieces):
            self._evidence.note("moved", "inline <think> to reasoning")
            self._moved = True
        return [
            self._text(text) if kind == "text" else Text(_REASONING, text) for kind, text in pieces
        ]

    # Calls

    def _elements(self, calls: list[Any], index: int, *, whole: bool) -> list[Delta]:
        found = self.end_content()
        for element in calls:
            delta = read_delta(element)
            if delta is None:
                self.size += PIECE
                self._evidence.note("skipped", "tool call delta that says nothing")
            else:
                found += self._call(delta, index, whole=whole)
        return found

    def _call(self, delta: CallDelta, choice: int = 0, *, whole: bool = False) -> list[Delta]:
        """A delta of a call, or if `whole` a complete call."""
        if not self._takes_calls:
            self._evidence.note("dropped", "a call beside a summary")
            return []
        self.size += len(delta.arguments) + len(delta.id) + len(delta.name)
        self.size += PIECE if delta.id or delta.name else 0
        if choice not in self._assemblers:
            self.size += ITEM
            self._assemblers[choice] = CallAssembler(self._names)
        call, _ = self._assemblers[choice].take(delta, new=whole)
        if call.repeated is not None:
            return []
        part, *known = self._calls.get(call) or (Part("call", choice), "", "")
        found: list[Delta] = []
        if known != [call.id, call.name] or call not in self._calls:
            self._calls[call] = part, call.id, call.name
            found.append(CallBegin(part, call.id, call.name, delta.arguments))
        elif delta.arguments:
            found.append(Arguments(part, delta.arguments))
        if call.forget() and part not in self._whole:
            self._whole.add(part)
            found.append(PartEnd(part))
        return found

    def end_calls(self) -> None:
        """No more calls begin."""
        if repeated := sum(each.take_repeated() for each in self._assemblers.values()):
            self._evidence.note("skipped", "head of a call like the one before", repeated)


def _size(entries: list[Json]) -> int:
    """What objects take beside a text: more than their JSON."""
    return 2 * len(dumps(entries))
