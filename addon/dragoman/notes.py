"""What was done to one flow: counted, and written in one line; and the facts of its reply.

Every stage that repairs, drops, renames, infers or downgrades something notes it here; `proxy` logs
the line when the flow ends.  Nothing that a person wrote and no credential is ever noted: only
names of tools and fields, forms and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field

MAX_DETAIL = 100
"""Characters of a note."""
MAX_KINDS = 200
"""Different notes, and names of calls, of one flow; further ones are counted together."""
OTHERS = "others"
LEFT = "left as text"
"""What is noted of each marker of a leak that stays in the text."""
CURED = "cured:"
"""The first word of the line of each of `Evidence.cures`."""
LITERAL = "literal header"
"""The form of a call that names no tool."""
REPAIRED = "repaired"
"""What is noted of each call that was made of text."""


def printable(text: str, limit: int = MAX_DETAIL) -> str:
    """`text` as it may be in a log line: what a model wrote may hold anything."""
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


@dataclass(slots=True)
class Evidence:
    """The notes of one flow, in the order in which each kind was first noted."""

    calls: Counter[str] = field(default_factory=Counter)
    """Tool calls that repair made of text, by tool name."""
    forms: Counter[tuple[str, str]] = field(default_factory=Counter)
    """These calls by their format, and how their name was found."""
    refused_calls: int = 0
    """Calls whose arguments are not JSON, or refused by their tool's schema: those that repair
    made, and when the reply has ended those of the host's own."""
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often something was done: (what was done, to what)."""
    of_request: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The notes on the request."""
    left: int = 0
    """How many markers stay in the text, beside those that it quotes."""
    cures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What was changed in a request that is not bridged; it is in no other of these."""
    changed: bool = False
    """Whether repair has changed the reply otherwise than by making a call."""
    lost: bool = False
    """Whether another addon took the stream of the reply."""

    def note(self, what: str, detail: str = "", count: int = 1) -> None:
        """Record e.g. ``note("dropped", "tool web_search")``; `what` is our own word."""
        key = what, printable(detail)
        if key not in self.notes and len(self.notes) >= MAX_KINDS:
            key = key[0], OTHERS
        self.notes[key] += count

    def change(self, what: str, detail: str = "") -> None:
        """Record what repair changes in a reply, other than to make a call."""
        self.note(what, detail)
        self.changed = True

    def call(self, name: str, leaked_as: str, form: str) -> None:
        """Record a tool call that repair made of text of the format `leaked_as`; `form` says how
        its name was found."""
        self.note(REPAIRED, f"{name} ({leaked_as}, {form})")
        if form == LITERAL:
            self.note("kept the literal header of a call that names no tool")
        self.forms[leaked_as, form] += 1
        name = printable(name)
        if name not in self.calls and len(self.calls) >= MAX_KINDS:
            name = OTHERS
        self.calls[name] += 1

    def cure(self, done: Evidence) -> None:
        """Record what was done to a request that is not bridged."""
        self.cures += done.notes

    def leave(self, marker: str, why: str, *, quoted: bool) -> None:
        """Record a marker of a leak that stays in the text; `quoted`: that shows it as code."""
        self.note(LEFT, f"{marker} {why}".rstrip())
        self.left += not quoted

    @property
    def leaked(self) -> Counter[str]:
        """The calls that repair made, by their format."""
        leaked: Counter[str] = Counter()
        for (leaked_as, _), count in self.forms.items():
            leaked[leaked_as] += count
        return leaked

    @property
    def empty(self) -> bool:
        return not (self.calls or self.notes or self.cures)

    def request_left(self) -> None:
        """Further notes are about the reply."""
        self.of_request = self.notes.copy()

    def lines(self) -> list[str]:
        """One phrase for each kind of note: ``inferred bash from a bare counter ×2``."""
        return [*(f"{CURED} {line}" for line in _phrases(self.cures)), *_phrases(self.notes)]

    def request_lines(self, of: Container[str] | None = None) -> list[str]:
        """The phrases of the request; `of`: what was done that they are about, if not anything."""
        notes = self.cures + self.of_request
        if of is not None:
            notes = Counter({key: count for key, count in notes.items() if key[0] in of})
        return _phrases(notes)

    def reply_lines(self) -> list[str]:
        return _phrases(self.notes - self.of_request)


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """What the headline, the log and the statistics need of one side of a reply."""

    parsed: bool = False
    """Whether it is an LLM's: a chunk, an event, a reply, an error."""
    model: str = ""
    calls: tuple[str, ...] = ()
    """Names of the calls."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_token: int | None = None
    """Bytes up to the end of the first event with a token; of what the client receives it is only
    known by its bytes."""
    error_code: str = ""
    """Its code or type, if it is an error."""
    error_message: str = ""
    """Never shown as it is: hosts repeat in it what they were sent, credentials too."""
    error_param: str = ""
    """The field of the request that it names."""
    finishes: tuple[str, ...] = ()
    """The finish reason of each choice; of a response, its status or why it is incomplete."""
    answered: str = ""
    """What there is to continue with, beside calls: ``text``, other than blanks, ``compaction``;
    empty for nothing."""
    early: bool = False
    """Whether it is a stream without its end."""
    ended: bool = False
    """Whether its last event has come: in chat ``[DONE]`` after a finish reason."""

    @property
    def is_turn(self) -> bool:
        """Whether it is an LLM's, and no error."""
        return self.parsed and not (self.error_code or self.error_message)


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """Both sides of a reply: the upstream's has the figures, the client's what the turn came to."""

    upstream: ReplyFacts = ReplyFacts()
    client: ReplyFacts = ReplyFacts()

    @property
    def model(self) -> str:
        return self.upstream.model or self.client.model


def _phrases(notes: Counter[tuple[str, str]]) -> list[str]:
    return [
        f"{what} {detail}".rstrip() + (f" ×{count}" if count > 1 else "")
        for (what, detail), count in notes.items()
    ]
