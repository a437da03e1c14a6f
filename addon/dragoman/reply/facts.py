"""The facts of a reply, noted while it passes: its model, calls, usage, error and end, and the
thoughts that led to its calls.

They come from what a reader of the reply's API says; which API that is, its first object shows.  A
frame that only continues a text, or the arguments of a call, costs next to nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any

from ..notes import ReplyFacts, printable
from ..wire.errors import ErrorObject, read_error, unlisted
from ..wire.json_codec import Json, string
from ..wire.reply_bounds import MAX_REPLY, Budget
from ..wire.sse import Document, Frame, is_event_stream, split
from ..wire.usage import Counts, counts, merged
from .choice_turn import ChoiceTurn
from .words import (
    Arguments,
    CallBegin,
    Delta,
    Done,
    Failed,
    Finish,
    Kind,
    More,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Reader,
    Said,
    Text,
)

MAX_FRAMES = 30_000
"""Frames at the start of a body that are read, in a tenth of a second."""
TAIL = 48 * 1024
"""Bytes at the end of a longer one that are read."""
UNNAMED = "error"
"""The code of an error that has none."""
_CODE = re.compile(r"[A-Za-z][\w.\-]{0,63}\Z")
_RUN_BY_HOST = frozenset(
    ("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "server_tool_use")
)
"""Kinds of calls that no client executes: a turn does not end with them."""
_COMPACTION = "compaction"


class ReplyReader:
    """Reads one side of a reply."""

    def __init__(self, find: Callable[[Json], Reader | None], *, keeps: bool = False) -> None:
        """`find`: a reader for a reply that begins with an object; None if that does not show its
        API.  `keeps`: the thoughts that led to calls are kept."""
        self._find = find
        self._keeps = keeps
        self.reader: Reader | None = None
        """None until its API is known."""
        self._budget = Budget()
        self._choices = defaultdict[int, ChoiceTurn](partial(ChoiceTurn, budget=self._budget))
        self._parsed = self._whole = self._done = False
        self._answered = self._model = ""
        self.known: set[Kind] = set()
        """The kinds of texts of which more says nothing new."""
        self._usage: Counts | None = None
        self._counted: Json | None = None
        """A later value with usage: some hosts count in every chunk."""
        self.error: ErrorObject | None = None
        """The latest."""
        self._failed = False
        """Whether no finish reason has followed it."""
        self._before = 0
        """Bytes until the first token, before what comes."""
        self._size: int | None = None
        """The same, after the data of the latest frame; None where frames are not measured."""
        self.begun = False
        """Whether a token has come."""
        self._first: int | None = None
        self.learned = True
        """Whether the latest frame may have said anything."""

    def whole(self, size: int) -> None:
        """The reply is no stream: its frames have come at once, in so many bytes."""
        self._whole, self._size = True, size

    def measure(self, frame: Frame) -> None:
        """A frame has come; it is read next."""
        if not (self.begun or self._whole):
            self._size = self._before + len(frame.raw.rstrip(b"\r\n"))
            self._before += len(frame.raw)

    def again(self, size: int) -> None:
        """A frame of so many bytes is the one before once more, which has said nothing."""
        self._before += size

    def frame(self, frame: Frame) -> bool:
        """An event that no stage has read; returns as `words`."""
        self.learned = True
        reader = self.begin(frame) if self.reader is None else self.reader
        if reader is None:
            return False
        if (more := reader.more(frame)) is None:
            return self.read(reader, reader.read(frame))
        if not self._parsed or more[0].kind not in self.known or reader.counted is not None:
            self.more(reader, *more)
        return False

    def more(self, reader: Reader, part: Part, text: str) -> None:
        """More of a text or of arguments, which is not empty."""
        self.reader, self._parsed, self.learned = reader, True, True
        if reader.counted is not None:
            self._counted = reader.counted
        self._more(part, text)

    def count(self, counted: Json | None) -> None:
        """The value of a frame with a usage, of which nothing else is left."""
        self._counted = counted

    def words(self, said: Said, reader: Reader, words: Sequence[Delta]) -> bool:
        """What any other frame says; returns whether it ends a turn with calls whose thoughts are
        kept.  Until something has come of its `reader`'s API, a frame may be of another."""
        if said.raw is None and self.reader is not reader:
            return self.frame(said.frame)
        self.reader = reader
        return self._read(said.value, words, known=said.raw is not None)

    def read(self, reader: Reader, words: Sequence[Delta]) -> bool:
        """What the frame says that its `reader` has read last; returns as `words`."""
        return self._read(reader.value, words, known=reader.known)

    def begin(self, frame: Frame) -> Reader | None:
        """The reader of a reply that begins with a frame; None if that does not show its API."""
        value = unlisted(frame.json)
        if isinstance(value, dict):
            self.reader = self._find(value)
            if self.reader is None:
                before, error = (self._model, self._usage), read_error(value)
                self._model = string(value.get("model")) or self._model
                self._usage = merged(self._usage, counts(value))
                if error is not None:
                    self._fail(error)
                self._parsed = self._parsed or error is not None
                self.learned = error is not None or before != (self._model, self._usage)
        else:
            self._done = self._done or frame.is_done
            self.learned = self._done
        return self.reader

    def _more(self, part: Part, text: str) -> None:
        if not self.begun:
            self._begin_tokens()
        kind = part.kind
        if kind == "call" or (kind == "reasoning" and self._keeps):
            turn = self._choices[part.choice]
            if kind == "call":
                turn.add(part, text)
            elif not part.fixed:
                turn.think(text)
        elif kind == "reasoning" or not text.isspace():
            self.known.add(kind)
            if kind != "reasoning":
                self._answered = self._answered or "text"

    def _begin_tokens(self) -> None:
        """The latest frame has the first one."""
        self.begun, self._first = True, self._size

    def _read(self, value: Any, deltas: Sequence[Delta], *, known: bool) -> bool:
        """Any other frame; returns whether it ends a turn as above."""
        error, turns = None, set[int]()
        self.learned = not (self._parsed and all(map(_says_nothing, deltas)))
        for delta in deltas:
            match delta:
                case Text(part=part, text=text, repeats=False) if text:
                    self._more(part, text)
                case CallBegin(part=part, text=text) | Arguments(part=part, text=text):
                    if isinstance(delta, CallBegin):
                        self._choices[part.choice].begin(part, delta.name, delta.id)
                    self._more(part, text)
                case PartBegin(part=part) | PartEnd(part=part) if part.kind == "other":
                    self._other(part)
                case Finish(choice=choice):
                    self._finish(delta)
                    turns.add(choice)
                case Failed(status=status):
                    error = error or delta.error
                    self._parsed = self._parsed or bool(error)
                    if status is not None:
                        self._choices[0].end("", status)
                case Done():
                    self._done = True
                case _:
                    pass
        value = unlisted(value)
        usage = counts(value) if isinstance(value, dict) else None
        if usage is not None:
            self.learned = True
            self._usage, self._counted = merged(self._usage, usage), None
        if error is not None:
            self._fail(error)
        self._parsed = self._parsed or known
        return bool([index for index in turns if self._choices[index].due])

    def _other(self, part: Part) -> None:
        """What is no text, nor a call with one."""
        if part.type == _COMPACTION:
            self._answered = self._answered or _COMPACTION
        if part.name:
            if not self.begun:
                self._begin_tokens()
            self._choices[part.choice].begin(part, part.name)

    def _finish(self, delta: Finish) -> None:
        turn = self._choices[delta.choice]
        turn.ended = True
        turn.end(string(delta.reason), delta.status)
        if delta.reason or delta.status is not None:
            self._failed = False

    def _fail(self, error: ErrorObject) -> None:
        self.error, self._failed = error, True

    def turns(self, *, last: bool = False) -> list[ChoiceTurn]:
        """The turns with calls and thoughts that have ended since the last time; `last`: the reply
        has ended, and so have all."""
        ended = [t for t in self._choices.values() if (t.ended or last) and not t.taken]
        for turn in ended:
            turn.taken = True
        return [turn for turn in ended if turn.call_deltas and turn.reasoning]

    def document(self, document: Document, size: int = 0) -> None:
        """A whole reply, of so many bytes."""
        self.whole(size)
        self.frame(document)

    # What was read

    @property
    def usage(self) -> Counts | None:
        return merged(self._usage, counts(self._counted or {}))

    @property
    def choices(self) -> list[tuple[int, ChoiceTurn]]:
        """Each with its index, in their order."""
        return sorted(self._choices.items())

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of each call that has some; none of more than can be kept."""
        return self._calls("function", "custom")

    @property
    def function_calls(self) -> list[tuple[str, str]]:
        """Those whose arguments are JSON."""
        return self._calls("function")

    def _calls(self, *kinds: str) -> list[tuple[str, str]]:
        kept = [turn for _, turn in self.choices if turn.whole]
        calls = [call for turn in kept for call in turn.calls.values() if call.kind in kinds]
        return [(call.name, call.arguments.getvalue()) for call in calls]

    @property
    def facts(self) -> ReplyFacts:
        turns = [turn for _, turn in self.choices]
        calls = [call for turn in turns for call in turn.calls.values()]
        usage, error = self.usage, self.error if self._failed else None
        finishes = tuple(turn.finish for turn in turns if turn.finish)
        return ReplyFacts(
            parsed=self._parsed,
            model=printable(self.reader.model if self.reader is not None else self._model),
            calls=tuple(printable(c.name) for c in calls if c.name and c.kind not in _RUN_BY_HOST),
            input_tokens=usage.input if usage else None,
            output_tokens=usage.output if usage else None,
            first_token=self._first,
            error_code=_code(error) if error else "",
            error_message=error.message if error else "",
            error_param=(error.param or "") if error else "",
            finishes=finishes,
            answered=self._answered,
            early=self._parsed and not (self._whole or finishes or self._done),
            ended=bool(finishes) and self.reader is not None and self.reader.ended,
        )


class TurnReader:
    """Reads both sides of a reply: what the upstream sent, and what the client receives.  A fault
    here changes nothing for the client."""

    def __init__(self, find: Callable[[Json], Reader | None], *, keeps: bool = False) -> None:
        """`find`, `keeps`: see `ReplyReader`; thoughts are kept of what the client receives."""
        self._find = find
        self._keeps = keeps
        self.upstream = ReplyReader(find)
        self.client = ReplyReader(find, keeps=keeps)
        self.fault: Exception | None = None
        self.stopped = False
        """Whether the rest of the reply passes unread."""
        self.client_ended = False
        """Whether what comes does not leave."""
        self.turn_end: Frame | None = None
        """The first of the frames that end a turn with calls whose thoughts are kept."""
        self._begun = self._upstream_ended = False

    @property
    def knows(self) -> bool:
        """Whether the whole reply has been read."""
        return self._begun and not self.stopped and self.fault is None

    def more(self, frame: Frame, reader: Reader, more: More, left: Part | None) -> None:
        """A frame that only continues has come, of which its `reader` has read this.  It leaves in
        this part; None: it does not leave, or later."""
        self._begun = True
        upstream, client, (part, text) = self.upstream, self.client, more
        counts = reader.counted is not None
        try:
            upstream.learned = True
            if (counts or part.kind not in upstream.known) and not self._upstream_ended:
                if not upstream.begun:
                    upstream.measure(frame)
                upstream.more(reader, part, text)
            if self.client_ended:
                return
            if left is not None and (counts or left.kind not in client.known):
                client.more(reader, left, text)
            elif counts:
                client.count(reader.counted)
        except Exception as fault:
            self.fault = self.fault or fault

    def came(self, said: Said, reader: Reader, words: Sequence[Delta]) -> None:
        """Any other frame has come, of which its `reader` has read these words."""
        self._begun = True
        try:
            if not self._upstream_ended:
                self.upstream.measure(said.frame)
                self.upstream.words(said, reader, words)
        except Exception as fault:
            self.fault = self.fault or fault

    def left(self, said: Said, reader: Reader, sent: Sequence[Frame]) -> None:
        """It has left, with what is in its slots, as these frames."""
        words = [word for slot in said.slots for word in slot.out]
        try:
            if not self.client_ended and self.client.words(said, reader, words) and sent:
                self.turn_end = self.turn_end or sent[0]
        except Exception as fault:
            self.fault = self.fault or fault

    def passed(self, frame: Frame) -> None:
        """A frame has passed that no stage reads."""
        self._begun = True
        try:
            if not self._upstream_ended:
                self.upstream = self.client
            self.client.measure(frame)
            if self.client.frame(frame):
                self.turn_end = self.turn_end or frame
        except Exception as fault:
            self.fault = self.fault or fault

    def again(self, size: int) -> None:
        """See `ReplyReader.again`; it has been sent as it came."""
        self.upstream.again(size)

    def whole(self, size: int) -> None:
        """The reply is no stream: see `ReplyReader.whole`."""
        self.upstream.whole(size)
        self.client.whole(size)

    def ended(self, response: Json) -> None:
        """What the client received is this response; it receives no more."""
        self.client_ended = True
        try:
            self.client = ReplyReader(self._find)
            self.client.document(Document(value=response))
        except Exception as fault:
            self.fault = self.fault or fault

    def end_upstream(self) -> None:
        """What comes is ours."""
        self._upstream_ended = True
        if self.upstream is self.client:
            self.upstream = deepcopy(self.client)


def read_body(
    body: bytes, find: Callable[[Json], Reader | None], *, keeps: bool = False
) -> ReplyReader:
    """The facts of a body, perhaps unfinished, or without its middle."""
    reader = ReplyReader(find, keeps=keeps)
    if not is_event_stream(body):
        if len(body) <= MAX_REPLY:
            reader.document(Document(body), len(body))
        return reader
    read = 0
    for frame in islice(split(body), MAX_FRAMES):
        reader.measure(frame)
        reader.frame(frame)
        read += len(frame.raw)
    rest = body[read:]
    # The last event of a response is as long as the response.
    start = rest.rfind(b"\n\n", 0, max(0, len(rest) - TAIL))
    for frame in split(rest[start + 2 :] if start >= 0 else rest[-TAIL:]):
        reader.measure(frame)
        reader.frame(frame)
    return reader


def _says_nothing(delta: Delta) -> bool:
    return isinstance(delta, Other) and delta.part is None and delta.unread is None


def _code(error: ErrorObject) -> str:
    """Not its message: upstreams repeat in it what they were sent, credentials too."""
    unnamed = f"{UNNAMED} {error.status}" if error.status else UNNAMED
    return next(filter(_CODE.match, (error.code, error.type)), unnamed)
