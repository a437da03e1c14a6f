"""What a reply says, in the words of no API.

    reader   frames of one API -> words; `Said` is a frame with its words
    repair   other words in the slots of some
    writer   words -> frames of one API

| word      | Chat Completions            | Responses              | Messages                   |
|-----------|-----------------------------|------------------------|----------------------------|
| Part      | the fields of a choice      | a part of an item      | a block                    |
| PartBegin | –                           | output_item.added      | content_block_start        |
| Text      | content, reasoning_content… | output_text.delta …    | text_delta, thinking_delta |
| Cited     | annotations, citations …    | …annotation.added      | –                          |
| CallBegin | tool_calls with a name      | output_item.added      | content_block_start        |
| Arguments | tool_calls without one      | …_arguments.delta      | input_json_delta           |
| PartEnd   | arguments are complete      | output_item.done       | content_block_stop         |
| Other     | what has no word here       | searches, annotations… | signatures, citations …    |
| Finish    | finish_reason               | completed, incomplete  | message_delta.stop_reason  |
| Failed    | error                       | error, response.failed | error                      |
| Done      | [DONE]                      | –                      | message_stop               |

A usage has no word: `wire.usage.counts` reads it in the value of a frame of any API.  What a word
has beside its fields stays in its `raw`, which only the room of its API opens: no field of a host's
is lost, and no word has to be invented for it.

Untouched means identical: a `Said` all of whose slots are the same, and whose numbers are the
client's, leaves as its frame, if reader and writer are of one API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol

from ..wire.errors import ErrorObject
from ..wire.json_codec import Json
from ..wire.sse import Frame

Kind = Literal["text", "reasoning", "refusal", "call", "other"]

# Not frozen, as one is made for nearly every frame.


@dataclass(slots=True, eq=False)
class Part:
    """One text, or one call, of a choice; known by its identity, as hosts number them wrongly."""

    kind: Kind
    choice: int = 0
    place: Any = None
    """What its reader and its writer know of it: fields of a delta, an item, an index."""
    type: str = ""
    """What its host calls a call that is no function (``custom``), or what is of no other kind
    (``web_search``, ``compaction``)."""
    name: str = ""
    """Of a call that is of no other kind: the host runs it, or its arguments are no text."""
    whole: bool = False
    """Whether it came in one piece, in a message."""
    fixed: bool = False
    """Whether repair leaves it as it came: a refusal, a thought in the list of a content."""
    namespace: str = ""
    """That of a call's tool."""
    item: Part | None = None
    """The item that holds it, if that is a part of its own."""
    begun: Json = field(default_factory=dict)
    """What its host said of it at its beginning; not to be changed."""
    leaked: bool = False
    """Whether repair has made it."""
    mended: str | None = None
    """The arguments of a call, whole, where repair has changed them; known from their end on."""
    channel: Any = None
    """The text in which repair reads it; only repair looks at it."""


@dataclass(slots=True, eq=False)
class PartBegin:
    part: Part
    raw: Json


@dataclass(slots=True, eq=False)
class Text:
    """More of a text.  An empty one says that its part begins, or has log probabilities of a text
    that follows."""

    part: Part
    text: str
    logprobs: Sequence[Json] = ()
    """Of its tokens, as the host sent them."""
    repeats: bool = False
    """Whether it says again what another text of its frame says; repair reads it all the same."""


@dataclass(slots=True, eq=False)
class Cited:
    """What the text of the answer rests on, in the form of the Responses API."""

    annotations: list[Json]
    part: Part | None = None
    raw: Any = None


@dataclass(slots=True, eq=False)
class CallBegin:
    """A call begins, perhaps with arguments; or more of its name or its id has come: both are as
    far as they have come.  A writer may set the id to that of the client's call."""

    part: Part
    id: str
    name: str
    text: str = ""
    raw: Any = None


@dataclass(slots=True, eq=False)
class Arguments:
    part: Part
    text: str
    raw: Any = None


@dataclass(slots=True, eq=False)
class PartEnd:
    """A part is complete; or, if it is `cut`, it is a call that ends within its arguments, and may
    not run."""

    part: Part
    cut: bool = False
    raw: Any = None


class Unread(Enum):
    """What an `Other` is of which nothing can be read: what is done with it, and its name."""

    CONTENT = "dropped", "content part that is no text"
    ANNOTATION = "dropped", "annotation of an unknown form"
    FIELD = "ignored", "delta in an unknown field"
    CHOICE = "skipped", "choice that is no object"
    CALL = "skipped", "tool call delta that says nothing"
    HEAD = "joined", "deltas of a call that each look like its first"
    """The head of a call again: it begins another one if arguments follow."""
    TOKEN = "took out", "a token in the name of a call"
    """Tokens after the name of a call, in the name of a delta of their own."""


@dataclass(slots=True, eq=False)
class Other:
    """Of a part, or of the whole reply."""

    part: Part | None
    raw: Any
    ends_text: bool = False
    """Whether no more text, or no more arguments, of its part follow."""
    unread: Unread | None = None
    count: int = 1
    """How many of these."""
    text: str = ""
    """More of the input of a call that the host runs."""


class Status(NamedTuple):
    """How a response has ended, by its own fields."""

    name: str
    """``completed``, ``incomplete``, ``failed``, ``cancelled`` …"""
    reason: str = ""
    """Why it is incomplete."""
    waits: bool = False
    """Whether it waits for the outputs of its calls: its turn is whole, whatever its name."""

    @property
    def finish(self) -> str:
        """As a finish reason."""
        if self.waits:
            return "tool_calls"
        return self.reason if self.name == "incomplete" and self.reason else self.name


@dataclass(slots=True, eq=False)
class Finish:
    choice: int
    reason: Any
    """A reason of `finish_reasons.FINISHES`, or whatever the host says."""
    raw: Any = None
    status: Status | None = None
    """Of a response, which says that in other words."""
    stopped_by: str = ""
    """The sequence at which the turn stopped, where the host says so."""
    added: bool = False
    """Whether repair has added it, to a reply that has ended without one."""


@dataclass(slots=True, eq=False)
class Failed:
    """The reply has failed, or one choice of it.  Words of the same frame may follow."""

    raw: Any
    error: ErrorObject | None = None
    """As the host wrote it."""
    status: Status | None = None


@dataclass(slots=True, eq=False)
class Done:
    """Nothing follows."""

    raw: Any = None


Delta = PartBegin | Text | Cited | CallBegin | Arguments | PartEnd | Other | Finish | Failed | Done
More = tuple[Part, str]
"""More of a text, or of the arguments of a call: what a `Text` or `Arguments` says."""


@dataclass(slots=True, eq=False)
class Slot:
    """A word of a frame, and what leaves in its place."""

    said: Said
    delta: Delta | None
    """None: a slot of our own, after all that came."""
    out: list[Delta] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    """Where its text is in that of its channel."""
    stays: bool = False
    """Whether its text stays in its part beside a call."""
    in_pieces: bool = False
    """Whether a long text is being read: what leaves of it is joined at its end."""

    @property
    def same(self) -> bool:
        """Texts are compared, not words: one that was in doubt comes back as another word."""
        out, delta = self.out, self.delta
        if len(out) != 1:
            return delta is None and not out
        one = out[0]
        return one is delta or (
            type(one) is Text is type(delta) and one.part is delta.part and one.text == delta.text
        )


@dataclass(slots=True, eq=False)
class Said:
    """A frame, and what it says."""

    frame: Frame
    raw: Any = None
    """Its value, if it is of the reader's API; of a frame like an earlier one, that of the
    earlier."""
    slots: list[Slot] = field(default_factory=list)
    open: int = 0
    """How many of them are not decided."""
    lone: bool = False
    """Whether it says nothing beside its one text or arguments."""

    @property
    def same(self) -> bool:
        return all(slot.same for slot in self.slots)

    @property
    def held(self) -> bool:
        """Whether some of its text, or of its arguments, does not leave with it."""
        return any(getattr(slot.delta, "text", "") and not slot.same for slot in self.slots)

    @property
    def value(self) -> Any:
        """Its value, of whatever API."""
        return self.frame.json if self.raw is None else self.raw


class Shown(NamedTuple):
    """A call of the host's, or of a kind without a text; or a summary, which has only that."""

    name: str
    id: str
    text: str


class Reader(Protocol):
    """Reads the frames of one reply, each once: by `more`, and if that gives None, by `read`."""

    one_channel: bool
    """Whether a choice is one text in several parts, into which one call may leak (chat)."""
    value: Any
    """The value of the frame that was read last, or of an earlier one that is the same but for its
    text; None if it has none."""
    counted: Json | None
    """This value, if `more` has read it and it has a usage."""
    known: bool
    """Whether the frame that `read` has read is of the API, be it an error or not."""
    ended: bool
    """Whether the host has said that its reply is at its end: in chat by ``[DONE]``, elsewhere also
    by an error."""
    says_more: bool
    """Whether frames that `more` reads have more than their text beside it, as a role."""
    model: str
    """The model and the id that the reply names."""
    id: str

    @property
    def remembered(self) -> int:
        """How many calls, ids and indexes are known."""

    def more(self, frame: Frame) -> More | None:
        """All that a frame says, if that is more of a text or of arguments, as nearly all do."""

    def delta(self, part: Part, text: str) -> Text | Arguments:
        """What `more` gave, as a word."""

    def read(self, frame: Frame) -> list[Delta]:
        """What any other frame says, in the order of its words."""

    def take_repeated(self) -> int:
        """How many heads (`Unread.HEAD`) began no call, as no arguments followed; forgets them."""

    def shown(self, part: Part, raw: Any, /) -> Shown:
        """A part of no other kind, for people; `raw` is that of its beginning or its end."""

    def part_of(self, kind: Kind, part: Part) -> Part:
        """Where a text of this kind goes beside this part."""


class Writer(Protocol):
    """Writes one reply.  Its methods return the frames that leave now; one that has a queue of its
    own returns none."""

    @property
    def held(self) -> Sequence[Said]:
        """What it has not let out."""

    def passed(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        """A frame that only continues a part, and of which nothing is changed."""

    def replaced(self, frame: Frame, part: Part) -> list[Frame]:
        """A frame of which nothing is left: its text is of a call."""

    def write(self, said: Said) -> list[Frame]:
        """A frame in whose slots is what leaves."""

    def end(self, last: Said) -> list[Frame]:
        """What is left after the last frame, in a `Said` of our own."""

    def changes(self, said: Said, sent: list[Frame]) -> bool:
        """Whether the client has something else, now that this was `sent` for a frame."""


class SameApiWriter(Writer, Protocol):
    """One of the reader's API: what is not changed leaves as the frame that came."""

    def heartbeat(self) -> Frame:
        """What keeps the client waiting between two frames; it may have no bytes."""

    def error(self, message: str) -> Frame:
        """The last event of a reply that cannot be broken off."""
