"""The choices of a reply, which are one turn, and how they end.

The bridge asks for one choice.  Hosts that answer in several put parts of one turn in them
(GitHub Copilot: text in the first, calls in the others).  So calls count in every choice, but
only one choice is the answer, and one the reasoning before it: the first of all, else the first
that has any.  The turn has ended when every choice that is part of it has.
"""

from __future__ import annotations

from typing import Any, Literal

from ...notes import Evidence
from ...reply.words import Kind
from ...wire.finish_reasons import FINISHES, TurnEnd
from ..request.validation import label


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
            if not index:
                self._choice_of[of] = 0
            elif self._choice_of.setdefault(of, index) != index:
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
