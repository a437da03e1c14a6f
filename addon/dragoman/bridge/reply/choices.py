"""The choices of a reply as one turn: which of them answers, what the others add, and how they end.

The bridge asks for one choice.  Hosts that answer in several put parts of one turn in them
(GitHub Copilot: text in the first, calls in the others).  So calls count in every choice, but
only one choice is the answer, and one the reasoning before it: the one that first has any.  The
turn has ended when every choice that is part of it has.

Of the text only the start is held back, until it is known whether it is ``<think>``.  A text of
which that changes anything has no log probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...chat.delta import token_logprobs
from ...notes import Evidence
from ...reply.parts_in_order import ITEM, PIECE
from ...reply.words import (
    Arguments,
    CallBegin,
    Cited,
    Delta,
    Kind,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Text,
    Unread,
)
from ...wire.finish_reasons import FINISHES, TurnEnd
from ...wire.json_codec import Json, dumps, quoted
from ...wire.reply_bounds import Budget
from ..request.validation import label
from .think_tags import SplitText, ThinkSplitter

_TEXT = Part("text")
_PARTS: dict[Kind, Part] = {
    "text": _TEXT,
    "reasoning": Part("reasoning"),
    "refusal": Part("refusal"),
}
"""All choices are one turn, and so their texts of a kind are one part."""


class Choices:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._in_turn: set[int] = set()
        self._finishes: dict[int, TurnEnd] = {}
        self._choice_of: dict[str, int] = {}
        """Of the reasoning, and of the text."""
        self.all_finished = False
        """Whether every choice that is part of the turn has its finish reason."""

    def takes(self, kind: Kind, index: int) -> bool:
        """Whether what a choice has more of is part of the turn: a text may be that of another."""
        if kind in ("text", "refusal", "reasoning"):
            of = "reasoning" if kind == "reasoning" else "text"
            if self._choice_of.setdefault(of, index) != index:
                self._evidence.note("dropped", "further choice")
                return False
        self._in_turn.add(index)
        self.all_finished &= index in self._finishes
        return True

    def answers(self, index: int) -> bool:
        """Whether the text of this choice is the answer."""
        return self._choice_of.get("text", index) == index

    def finished(self, index: int, reason: Any) -> TurnEnd | Literal["failed"] | None:
        """Take a choice's finish reason; returns its meaning, None if there is none."""
        if not (isinstance(reason, str) and reason) or (index and index not in self._in_turn):
            return None
        finish = FINISHES.get(reason, "completed")
        if reason not in FINISHES and index not in self._finishes:
            self._evidence.note("unknown finish reason", label(reason))
        if finish != "failed":
            if self._finishes.get(index) in (None, "completed"):  # what was cut stays so
                self._finishes[index] = finish
            self.all_finished = self._in_turn <= self._finishes.keys()
        return finish

    @property
    def finish(self) -> TurnEnd | None:
        found = self._finishes.values()
        return next((each for each in found if each != "completed"), "completed" if found else None)


class OneTurn:
    """Takes the words of one reply; its methods give those of its turn."""

    def __init__(
        self,
        choices: Choices,
        evidence: Evidence,
        budget: Budget,
        *,
        thinks: bool,
        calls: bool = True,
        mixes: bool = True,
    ) -> None:
        """`thinks`: reasoning was asked for.  `calls`: whether the reply may have any.  `mixes`:
        whether its host mixes text, thoughts and calls, as chat hosts do."""
        self._choices = choices
        self._thinks = thinks
        self._takes_calls = calls
        self._evidence = evidence
        self._budget = budget
        self._splitter = ThinkSplitter() if mixes else None
        """None once all content is text."""
        self._moved = False
        self._inputs: set[Part] | None = None if mixes else set()
        """The calls whose input is text and becomes JSON, as far as they have begun."""
        self._callers = {0}
        """The choices with calls."""

    def more(self, part: Part, text: str) -> Sequence[Delta]:
        """More of a text or of the arguments of a call."""
        kind, choices = part.kind, self._choices
        if kind == "call":
            return self.take(Arguments(part, text))
        if part.choice:
            self._budget.size += PIECE
        if not choices.takes(kind, part.choice):
            return ()
        if kind == "text" and self._splitter is None:
            return [Text(_TEXT, text)]
        return self._text(part, text)

    def take(self, delta: Delta) -> Sequence[Delta]:
        """Any delta of a part, or of none."""
        part = getattr(delta, "part", None)
        choice = part.choice if part is not None else 0
        if choice:
            self._budget.size += PIECE
        if isinstance(delta, Text):
            return self._passage(delta)
        if part is not None and not (isinstance(delta, Other) and part.kind == "call"):
            self._choices.takes(part.kind, choice)
        if isinstance(delta, CallBegin | Arguments | PartEnd):
            return self._call(delta) if delta.part.kind == "call" else ()
        if isinstance(delta, Cited):
            self._budget.size += _size(delta.annotations)
            return [delta]
        if isinstance(delta, PartBegin) and delta.part.kind == "other":
            self._evidence.note("dropped", delta.part.type)
        return self._other(delta) if isinstance(delta, Other) else ()

    def _other(self, delta: Other) -> Sequence[Delta]:
        """What the client does not receive."""
        if delta.unread in (Unread.HEAD, Unread.CALL):
            self._budget.size += PIECE
        if delta.unread is not None and delta.unread is not Unread.HEAD:
            what, of = delta.unread.value
            self._evidence.note(what, of, delta.count)
        return self.end_content() if delta.unread in (Unread.HEAD, Unread.CALL) else ()

    # Text

    def end_content(self) -> Sequence[Delta]:
        """Something other than content comes: what was held back is decided now."""
        splitter = self._splitter
        return () if splitter is None else self._split(splitter, splitter.close())

    def _passage(self, delta: Text) -> Sequence[Delta]:
        part, text = delta.part, delta.text
        if delta.repeats:
            return ()
        takes = bool(text) and self._choices.takes(part.kind, part.choice)
        found = self._text(part, text) if takes else ()
        if not delta.logprobs or not self._choices.answers(part.choice):
            return found
        logprobs = token_logprobs(delta.logprobs)
        self._budget.size += _size(logprobs)
        if not text:
            return [Text(_TEXT, "", logprobs)]
        match found:
            case [Text(part=kept, text=left)] if kept is _TEXT and left == text:
                return [Text(_TEXT, text, logprobs)]
        return found

    def _text(self, part: Part, text: str) -> Sequence[Delta]:
        splitter = self._splitter
        if part.kind != "text":
            return [*self.end_content(), Text(_PARTS[part.kind], text)]
        if splitter is None:
            return [Text(_TEXT, text)]
        whole = part.whole
        pieces = splitter.whole(text, asked_for=self._thinks) if whole else splitter.feed(text)
        return self._split(splitter, pieces)

    def _split(self, splitter: ThinkSplitter, pieces: list[SplitText]) -> list[Delta]:
        if splitter.stray:
            splitter.stray = False
            self._evidence.note("dropped", "a closing tag of reasoning that was not opened")
        if splitter.passive:
            self._splitter = None
        if not self._moved and "reasoning" in {kind for kind, _ in pieces}:
            self._evidence.note("moved", "inline <think> to reasoning")
            self._moved = True
        return [Text(_PARTS[kind], text) for kind, text in pieces]

    # Calls

    def _call(self, delta: CallBegin | Arguments | PartEnd) -> Sequence[Delta]:
        if not self._takes_calls:
            if not isinstance(delta, PartEnd):
                self._evidence.note("dropped", "a call beside a summary")
            return ()
        if self._inputs is not None and delta.part.type == "custom":
            return self._custom(self._inputs, delta)
        if isinstance(delta, PartEnd):
            return [delta]
        self._budget.size += len(delta.text)
        if isinstance(delta, CallBegin):
            self._budget.size += len(delta.id) + len(delta.name) + PIECE
        if delta.part.choice not in self._callers:
            self._callers.add(delta.part.choice)
            self._budget.size += ITEM
        return [delta] if self._splitter is None else [*self.end_content(), delta]

    def _custom(self, begun: set[Part], delta: CallBegin | Arguments | PartEnd) -> list[Delta]:
        """A call of a custom tool, as one of a function with its input."""
        part, found = delta.part, list[Delta]()
        if isinstance(delta, CallBegin) and part not in begun:
            begun.add(part)
            found = [CallBegin(part, delta.id, delta.name), Arguments(part, '{"input":"')]
        if isinstance(delta, PartEnd):
            return [delta] if delta.cut else [Arguments(part, '"}'), delta]
        self._budget.size += len(delta.text)
        text = quoted(delta.text)[1:-1].decode()
        return [*found, Arguments(part, text)] if text else found


def _size(entries: list[Json]) -> int:
    """What objects take beside a text: more than their JSON."""
    return 2 * len(dumps(entries))
