"""The reply of one bridged turn: upstream chat chunks in, Responses events out.

A chunk is written as events at once, but for what has to wait for an open call (`item_order`).
However the upstream ends, the client gets exactly one terminal:

| the upstream                                         | the terminal          |
|------------------------------------------------------|-----------------------|
| sent a finish reason                                 | that of `FINISHES`    |
| sent ``[DONE]`` or a whole message without one       | `response.completed`, |
|   … but after reasoning alone, or nothing            | `response.failed`     |
| sent an error, or closed or died before its end      | `response.failed`     |
| completed a turn in which a call is half written     | `response.failed`     |
|   (after the finish reason), has no name, or is of   |                       |
|   a custom tool and ends within its input            |                       |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...notes import Evidence
from ...wire import chat_delta
from ...wire.chat_delta import ChoiceDelta
from ...wire.chat_end import EARLY, Finish
from ...wire.chat_text import CONTENT
from ...wire.errors import UpstreamError, failure, stream_error
from ...wire.frame_templates import FrameTemplate, KnownTemplate, TemplateCache, learn_counts
from ...wire.json_codec import NotJson, loads
from ...wire.slices import Slices, drained
from ...wire.sse import Frame
from ...wire.usage import Counts, counts, usage
from ..request.validation import label
from ..responses.dialects import Dialect
from ..responses.event_writer import ProseKind, Writer
from ..responses.response_object import snapshot
from ..turn_context import TurnContext
from .choices import Choices
from .delta_reader import DeltaReader
from .item_order import PIECE, ItemOrder
from .shortcut import Meaning, Shortcut
from .whole_body import choice_in_runs, runs

_NOTHING = "The upstream's answer ended without any part of a turn."

MAX_TEXT = 16 * 1024 * 1024
"""Characters of a reply, sent or waiting: four times a million tokens.  The end of a reply repeats
them three times."""
MAX_ENTRIES = 24 * 1024 * 1024
"""Bytes that log probabilities and annotations take, sent or waiting.  Both together take up to
three times as much memory until the turn ends, and its end repeats them: six such replies at once
leave room on a machine with 4 GB."""


class ReplyConverter:
    """One turn's reply. The methods return the frames that are to be sent now."""

    def __init__(
        self,
        turn: TurnContext,
        dialect: Dialect,
        evidence: Evidence,
        *,
        response_id: str,
        created_at: int,
        clock: Callable[[], float],
        prior: Sequence[dict[str, Any]] = (),
    ) -> None:
        """`clock` gives the seconds since the epoch, for ``completed_at``; `prior` are the
        items of a response that continues."""
        self._turn = turn
        self._evidence = evidence
        response = snapshot(turn, response_id, created_at)
        self.writer = Writer(response, dialect, clock=clock, prior=prior)
        self._items = ItemOrder(turn, self.writer, evidence)
        self._reader = DeltaReader(self._items, evidence, thinks=turn.thinks)
        self._counts: Counts | None = None
        self._uncounted: Frame | None = None
        """A later frame with a usage, which has not been read: some hosts count in each."""
        self._choices = Choices(evidence)
        self._has_choices = False
        self._body_ended = False
        self.error: UpstreamError | None = None
        """Why the turn failed, with the most exact code; None if it did not."""
        self._templates: TemplateCache[Meaning] = TemplateCache()
        self._only_counts: FrameTemplate | None = None
        """Of frames that have a usage and nothing else: repair makes them."""
        self.shortcut: Shortcut | None = None
        """For frames that continue what is open; any other frame ends it."""

    @property
    def settled(self) -> bool:
        """Whether the turn has its finish reason, and only its usage and the end of the stream
        are missing."""
        return self._choices.all_finished and not self.writer.ended

    @property
    def response(self) -> dict[str, Any]:
        """The response object so far; after the terminal, the body of a reply not streamed."""
        return self.writer.response

    def open(self) -> list[Frame]:
        """The start of the stream, sent with the upstream's headers."""
        self.writer.start()
        return self.drain()

    def heartbeat(self) -> list[Frame]:
        """An event for a client that waits; none before the start or after the end."""
        self.writer.heartbeat()
        return self.drain()

    def take(self, frame: Frame) -> None:
        """One frame of the upstream's stream; `drain` gives its events."""
        shortcut = self.shortcut
        if shortcut is not None and frame.whole:
            if shortcut.take(frame.raw):
                return
            if self._only_counts is not None and self._only_counts.values_in(frame.raw):
                shortcut.counted = frame.raw
                return
        if self._leave_shortcut():
            self._take(frame)

    def drain(self) -> list[Frame]:
        """What is to be sent, once."""
        return self.writer.events.drain()

    def close(self, held: Sequence[Frame] = ()) -> list[Frame]:
        """The upstream has ended, or broken off.  `held` are the last frames of repair: a finish
        reason in them is repair's own, for a stream without one, and their text ends no call."""
        drained(self.closing(held))
        return self.drain()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The upstream died, or the bridge is at fault; a turn that was whole stays so."""
        if self._leave_shortcut():
            self._fail(failure(code, message))
        return self.drain()

    def cancel(self) -> list[Frame]:
        """The client has cancelled the turn."""
        if self._leave_shortcut():
            self._evidence.note("cancelled by the client")
            self._items.abandon()
            self.writer.cancel(self._usage())
        return self.drain()

    def freeing(self) -> Slices[None]:
        """Free what the reply holds, in slices: see `emptied`."""
        yield from self._items.freeing()
        yield from self.writer.freeing()

    # A reply that came whole, in slices

    def message(self, value: Any) -> Slices[None]:
        """A whole ``chat.completion`` in place of a stream; the reply ends with it."""
        self.writer.start()
        citations = value.get("citations") if isinstance(value, dict) else None
        for choice in self._choices_of(value, named=False):
            for run in choice_in_runs(choice.fields):
                finish = self._take_choice(chat_delta.read_choice(run, choice.index))
                yield
                if self.writer.ended:  # its choice has an error, or the client has cancelled
                    return
            yield from self._citing(citations)
            citations = None
            if finish is not None:
                yield from self._finishing(*finish)
            if self.writer.ended:
                return
        yield from self._citing(citations)
        if not self.writer.ended:
            yield from self._ending(whole=True)

    def _citing(self, citations: Any) -> Slices[None]:
        for run in runs(citations) if isinstance(citations, list) else ():
            if not self.writer.ended:
                self._reader.cite({"citations": run})
            yield

    def closing(self, held: Sequence[Frame] = ()) -> Slices[None]:
        """As `close`, in slices."""
        self._body_ended = True
        self._items.held = True
        for frame in held:
            if self._leave_shortcut():
                self._read(frame)
                yield
        if self._leave_shortcut():
            yield from self._ending(whole=False)

    # The upstream's frames

    def _take(self, frame: Frame) -> None:
        """The long way of a frame; opens the short way of those that only continue its text."""
        match = self._templates.match(frame)
        if match is None:
            known = self._read(frame)
        else:
            text, known = match
            target, counts = known.meaning
            if counts:
                self._uncounted = frame
            self._reader.only_text(target, text)
        items = self._items
        if items.size > MAX_TEXT or items.entries > MAX_ENTRIES:
            if not self.writer.ended:
                self._fail(failure("server_error", "The reply is longer than can be kept."))
        elif known is not None and frame.raw.endswith(b"\n\n"):
            self.shortcut = self._reader.shortcut(known)

    def _leave_shortcut(self) -> bool:
        """End the shortcut, and count what it wrote. Returns whether more may be written."""
        shortcut, self.shortcut = self.shortcut, None
        if shortcut is not None and shortcut.counted:
            self._uncounted = Frame(shortcut.counted)
        if shortcut is not None and shortcut.texts:
            self._templates.matched()
            self._reader.passed("".join(shortcut.texts))
        if not self.writer.ended:
            self.writer.start()
        return not self.writer.ended

    def _read(self, frame: Frame) -> KnownTemplate[Meaning] | None:
        """Read a frame; returns the template of those that differ from it in their text."""
        if not frame.whole:
            self._evidence.note("skipped", "part of an event too large to read")
            return None
        data = frame.data
        if data is None:
            return None
        try:
            value = loads(data)
        except NotJson:
            if frame.is_done:
                drained(self._ending(whole=True))
                return None
            self._evidence.note("skipped", "event that is not JSON")
            return None
        self._chunk(value, named=frame.is_error)
        if self._only_counts is None and chat_delta.only_counts(value) and counts(value):
            self._only_counts = learn_counts(frame, value)
        only = chat_delta.only_text(value) if self._templates.wanted else None
        if only is None or only.choice:
            return None
        prose: ProseKind = "text" if only.fields == CONTENT else "reasoning"
        meaning = prose if only.call is None else only.call, counts(value) is not None
        return self._templates.learn(
            frame, only.text, len(only.fields) or 1, chat_delta.text_of, meaning
        )

    def _chunk(self, value: Any, *, named: bool) -> None:
        for choice in self._choices_of(value, named=named):
            if self.writer.ended:
                return
            finish = self._take_choice(choice, value)
            if finish is not None:
                drained(self._finishing(*finish))
        if isinstance(value, dict) and not self.writer.ended:
            self._reader.cite(value)

    def _choices_of(self, value: Any, *, named: bool) -> list[ChoiceDelta]:
        """The choices of a chunk; its error and its usage are read here."""
        if (error := stream_error(value, named=named)) is not None:
            self._fail(error)
            return []
        if not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
            return []
        self._count()
        self._counts = counts(value) or self._counts
        choices = chat_delta.choices(value)
        listed = value.get("choices")
        if isinstance(listed, list) and len(listed) > len(choices):
            self._evidence.note("skipped", "choice that is no object", len(listed) - len(choices))
        return choices

    def _take_choice(
        self, choice: ChoiceDelta, chunk: dict[str, Any] | None = None
    ) -> tuple[Finish | Literal["failed"], Any] | None:
        """Pass on the delta of a choice; returns its finish, and the finish reason."""
        self._has_choices = True
        index, fields = choice.index, choice.fields
        if index:
            self._items.size += PIECE
        delta = self._choices.part_of_turn(choice.delta, index)
        if fields.get("logprobs") and self._choices.answers(index):
            self._items.logprobs(chat_delta.logprobs(fields))
        self._reader.delta(delta, index, whole=choice.whole)
        if chunk is not None:
            self._reader.cite(chunk)
        reason = fields.get("finish_reason")
        if (found := fields.get("error")) and (error := stream_error({"error": found})):
            self._fail(error)
        elif not self._body_ended and (finish := self._choices.finished(index, reason)):
            return finish, reason
        return None

    # The end

    def _finishing(self, finish: Finish | Literal["failed"], reason: Any) -> Slices[None]:
        """A finish reason: the items are complete now; usage may still come."""
        if finish == "failed":
            message = f"The upstream ended the turn with {label(reason)}."
            self._fail(failure("server_error", message))
        elif self._choices.all_finished:
            yield from self._settling(cut=self._choices.finish != "completed")

    def _settling(self, *, cut: bool) -> Slices[None]:
        self._reader.end_content()
        if fault := self._items.fault(cut=cut):
            self._fail(failure("server_error", fault))
        else:
            yield from self._items.settling(cut=cut)

    def _ending(self, *, whole: bool) -> Slices[None]:
        """The upstream has ended; `whole` if it sent that itself."""
        self._reader.end_content()
        finish = self._choices.finish
        ended = self._choices.all_finished or (whole and (finish or self._items.answered))
        cut = finish not in (None, "completed")
        if not ended or (self._items.half_written and not cut):
            self._fail(failure("server_error", EARLY if self._has_choices else _NOTHING))
            return
        if finish is None:
            self._evidence.note("inferred", "finish reason from the end of the stream")
        yield from self._settling(cut=cut)
        if self.writer.ended:
            return
        if not self.writer.response["output"]:
            self._evidence.note("empty turn")
        if self.writer.unsealed:
            self._evidence.note("left out", "the sealed form of a long reasoning")
        if finish is None or finish == "completed":
            self.writer.complete(self._usage())
        else:
            self.writer.incomplete(finish, self._usage())

    def _fail(self, error: UpstreamError) -> None:
        """After its finish reason a turn is whole: only its usage is lost."""
        if self._choices.all_finished and self._items.empty:
            self._evidence.note("ignored", "failure after the finish reason")
            drained(self._ending(whole=True))
            return
        self._evidence.note("failed", error.code)
        self.error = error
        self._items.abandon()
        self.writer.fail(error, self._usage())

    def _count(self) -> None:
        """Read the usage of the frames before."""
        if self._uncounted is not None:
            self._counts = counts(loads(self._uncounted.data or b"null")) or self._counts
            self._uncounted = None

    def _usage(self) -> dict[str, Any]:
        self._count()
        found, estimated = usage(self._counts, self._turn.estimate, self.writer.characters)
        if estimated:
            self._evidence.note("estimated", "usage")
        return found
