"""The choices of a reply, which are one turn, and how they end.

The bridge asks for one choice.  Hosts that answer in several put parts of one turn in them
(GitHub Copilot: text in the first, calls in the others).  So calls count in every choice, but
only one choice is the answer, and one the reasoning before it: the first of all, else the first
that has any.  The turn has ended when every choice that is part of it has.
"""

from __future__ import annotations

from typing import Any, Literal

from ...notes import Evidence
from ...wire.chat_end import FINISHES, Finish
from ...wire.chat_text import FIELDS_OF
from ...wire.sse import Only
from ..request.validation import label


class Choices:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._in_turn: set[int] = set()
        self._finishes: dict[int, Finish] = {}
        self._choice_of: dict[str, int] = {}
        """Of the reasoning, and of the text."""
        self.all_finished = False
        """Whether every choice that is part of the turn has its finish reason."""

    def part_of_turn(self, delta: dict[str, Any], index: int) -> dict[str, Any]:
        """What counts of the delta of a choice."""
        for kind, names in FIELDS_OF.items():
            if delta.keys().isdisjoint(names) or not any(map(delta.get, names)):
                continue
            if not index:
                self._choice_of[kind] = 0
            elif self._choice_of.setdefault(kind, index) != index:
                delta = {name: value for name, value in delta.items() if name not in names}
                self._evidence.note("dropped", "further choice")
        if any(map(delta.get, delta.keys() - {"role"})):
            self._in_turn.add(index)
            self.all_finished &= index in self._finishes
        return delta

    def continue_first(self, only: Only) -> None:
        """The first choice has more of a text or of a call, and nothing else."""
        if isinstance(only, tuple):
            self._choice_of[only[0]] = 0
        self._in_turn.add(0)
        self.all_finished &= 0 in self._finishes

    def answers(self, index: int) -> bool:
        """Whether the text of this choice is the answer."""
        return self._choice_of.get("text", index) == index

    def finished(self, index: int, reason: Any) -> Finish | Literal["failed"] | None:
        """Take a choice's finish reason; returns its meaning, None if there is none."""
        if not (isinstance(reason, str) and reason) or (index and index not in self._in_turn):
            return None
        finish = FINISHES.get(reason, "completed")
        if reason not in FINISHES and index not in self._finishes:
            self._evidence.note("unknown finish reason", label(reason))
        if finish != "failed":
            self._finishes[index] = finish
            self.all_finished = self._in_turn <= self._finishes.keys()
        return finish

    @property
    def finish(self) -> Finish | None:
        found = self._finishes.values()
        return next((each for each in found if each != "completed"), "completed" if found else None)
