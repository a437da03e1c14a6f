"""The reply of one bridged turn: upstream chat chunks in, Responses events out.

What a chunk says is passed to the writer in the call that brought it.  Items follow
one another, so while a call is open whatever comes after it waits in line; a call ends
when its arguments are complete and something waits, else with the turn.  However the
upstream ends, the client gets exactly one terminal:

| the upstream                                         | the terminal          |
|------------------------------------------------------|-----------------------|
| gave a finish reason                                 | the one of `_FINISH`  |
| said ``[DONE]`` or sent a whole message without one  | `response.completed`, |
|   … but after reasoning alone, or nothing            | `response.failed`     |
| sent an error, or closed or died before its end      | `response.failed`     |
| completed a turn in which a call is half written     | `response.failed`     |
|   (behind the finish reason) or has no name          |                       |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...notes import Evidence
from ...wire import chat_delta
from ...wire.chat_calls import CallDelta, elements, read_delta
from ...wire.chat_delta import ChoiceDelta
from ...wire.chat_end import EARLY, Finish
from ...wire.chat_text import reasoning
from ...wire.errors import UpstreamError, failure, stream_error
from ...wire.frame_templates import TemplateCache
from ...wire.json_codec import NotJson, loads
from ...wire.sse import Frame
from ...wire.usage import Counts, counts, usage
from ..request.validation import label
from ..responses.dialects import Dialect
from ..responses.event_writer import Writer
from ..turn import TurnContext
from .choices import Choices
from .sequencer import PIECE, OutputSequencer
from .think_tags import SplitText, ThinkSplitter

_NOTHING = "The upstream's answer held no part of a turn."
_NAMELESS = "The upstream called a tool without a name."

MAX_OUTPUT = 32 * 1024 * 1024
"""Characters of a reply, told or waiting; what is no text counts by what it takes.  No model
writes a tenth of it.  It takes up to three times as much memory until the turn ends, and its end
repeats it all, several times: six such replies at once leave room on a machine with 4 GB."""


class ReplyConverter:
    """One turn's reply.  Every method returns the frames that are to be sent now."""

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
        items of a response that goes on."""
        self._turn = turn
        self._evidence = evidence
        self._writer = Writer(
            turn,
            dialect,
            response_id=response_id,
            created_at=created_at,
            clock=clock,
            prior=prior,
        )
        self._line = OutputSequencer(turn, self._writer, evidence)
        self._think = ThinkSplitter()
        self._moved = False
        self._counts: Counts | None = None
        self._choices = Choices(evidence)
        self._cited: set[str] = set()
        self._heard = False
        self._body_ended = False
        self._error: UpstreamError | None = None
        self._patterns: TemplateCache[chat_delta.DeltaText] = TemplateCache()

    @property
    def finished(self) -> bool:
        """Whether the terminal event has been given out."""
        return self._writer.ended

    @property
    def settled(self) -> bool:
        """Whether the turn has its finish reason, and nothing but its usage and the end of the
        stream can be waited for."""
        return self._choices.all_finished and not self._writer.ended

    @property
    def response(self) -> dict[str, Any]:
        """The response object so far; after the terminal, the body of a reply not streamed."""
        return self._writer.response

    @property
    def error(self) -> UpstreamError | None:
        """Why the turn failed, with the code that says most; None if it did not."""
        return self._error

    def open(self) -> list[Frame]:
        """The start of the stream, once: it leaves with the upstream's headers."""
        self._writer.start()
        return self._writer.drain()

    def heartbeat(self) -> list[Frame]:
        """What keeps a client from giving up during a silence; nothing before or after."""
        self._writer.heartbeat()
        return self._writer.drain()

    def feed(self, frame: Frame) -> list[Frame]:
        """One frame of the upstream's stream."""
        if not self._writer.ended:
            self._writer.start()
            self._read(frame)
            if self._line.size > MAX_OUTPUT and not self._writer.ended:
                self._fail(failure("server_error", "The reply is longer than can be kept."))
        return self._writer.drain()

    def message(self, value: Any) -> list[Frame]:
        """A whole ``chat.completion`` in place of a stream; the reply ends with it."""
        if not self._writer.ended:
            self._writer.start()
            self._chunk(value, named=False)
        if not self._writer.ended:
            self._end(whole=True)
        return self._writer.drain()

    def feed_repaired(self, repaired: list[Frame], frame: Frame) -> list[Frame]:
        """What repair made of one frame of the upstream's stream."""
        if len(repaired) > 1 and frame.is_done:
            return self.close(repaired)
        return [out for each in repaired for out in self.feed(each)]

    def close(self, held: Sequence[Frame] = ()) -> list[Frame]:
        """The upstream has ended, or broken off.  `held` is what repair gives out only now; a
        finish reason in it is repair's, with which it ends a chat stream that has none, and
        its text ends no call."""
        self._body_ended = True
        self._line.hold()
        for frame in held:
            if not self._writer.ended:
                self._writer.start()
                self._read(frame)
        if not self._writer.ended:
            self._writer.start()
            self._end(whole=False)
        return self._writer.drain()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The upstream died, or the bridge is at fault; a turn that was whole stays so."""
        if not self._writer.ended:
            self._writer.start()
            self._fail(failure(code, message))
        return self._writer.drain()

    def cancel(self) -> list[Frame]:
        """The client has asked for no more."""
        if not self._writer.ended:
            self._writer.start()
            self._evidence.note("cancelled by the client")
            self._line.abandon()
            self._writer.cancel(self._usage())
        return self._writer.drain()

    # The upstream's frames.

    def _read(self, frame: Frame) -> None:
        """Most frames are like the one before, with another text for the same field."""
        fitting = self._patterns.match(frame)
        if fitting is None:
            self._read_json(frame)
        else:
            text, known = fitting
            self._say(known.meaning, text)

    def _say(self, said: chat_delta.DeltaText, text: str) -> None:
        match said.what:
            case "content":
                self._content(text)
            case "reasoning":
                self._think_aloud(text)
            case "arguments":
                self._end_content()
                if not self._line.more(said.index, text):
                    self._line.call(CallDelta(said.index, "", "", text), whole=False)

    def _read_json(self, frame: Frame) -> None:
        if not frame.whole:
            self._evidence.note("skipped", "part of an event too large to read")
            return
        data = frame.data
        if data is None:
            return
        if frame.is_done:
            self._end(whole=True)
            return
        try:
            value = loads(data)
        except NotJson:
            self._evidence.note("skipped", "event that is not JSON")
            return
        self._chunk(value, named=frame.is_error)
        if self._patterns.wanted and (said := chat_delta.only_text(value)) is not None:
            self._patterns.learn(frame, said.text, said.times, chat_delta.text_of, said)

    def _chunk(self, value: Any, *, named: bool) -> None:
        error = stream_error(value, named=named)
        if error is not None:
            self._fail(error)
            return
        if not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
            return
        self._counts = counts(value) or self._counts
        choices = chat_delta.choices(value)
        if isinstance(listed := value.get("choices"), list):
            self._note_if("skipped", "choice that is no object", len(listed) - len(choices))
        for choice in choices:
            if not self._writer.ended:
                self._choice(choice, value)
        if not self._writer.ended:
            self._cite(value)

    def _choice(self, choice: ChoiceDelta, chunk: dict[str, Any]) -> None:
        self._heard = True
        index, fields = choice.index, choice.fields
        if index:
            self._line.size += PIECE
        said = self._choices.part_of_turn(choice.said, index)
        if fields.get("logprobs") and self._choices.answers(index):
            self._line.logprobs(chat_delta.logprobs(fields))
        self._delta(said, index, whole=choice.whole)
        self._cite(chunk)
        reason = fields.get("finish_reason")
        if (found := fields.get("error")) and (error := stream_error({"error": found})):
            self._fail(error)
        elif not self._body_ended and (finish := self._choices.finished(index, reason)):
            self._finished(finish, reason)

    # What the model says.

    def _delta(self, delta: dict[str, Any], index: int, *, whole: bool) -> None:
        if thought := reasoning(delta):
            self._think_aloud(thought)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                self._content(content)
        elif isinstance(content, list):
            self._parts(content)
        if refusal := chat_delta.text(delta.get("refusal")):
            self._end_content()
            self._line.prose("refusal", refusal)
        if delta.get("annotations"):
            self._annotate(delta)
        self._cite(delta)
        if calls := elements(delta):
            self._tool_calls(calls, index, whole=whole)
        if chat_delta.unknown_fields(delta):
            self._evidence.note("ignored", "delta in an unknown field")

    def _annotate(self, delta: dict[str, Any]) -> None:
        found, unread = chat_delta.url_annotations(delta)
        self._cited.update(annotation["url"] for annotation in found)
        self._line.annotate(found)
        self._note_if("dropped", "annotation of an unknown form", unread)

    def _cite(self, holder: dict[str, Any]) -> None:
        """The sources that Perplexity and xAI list, some again in every chunk."""
        for source in chat_delta.citations(holder) if holder.get("citations") else ():
            if source["url"] not in self._cited:
                self._cited.add(source["url"])
                self._line.annotate([source])

    def _think_aloud(self, thought: str) -> None:
        self._end_content()
        self._line.drop_logprobs()
        self._line.prose("reasoning", thought)

    def _content(self, content: str) -> None:
        if self._think.passive:
            self._line.text(content)
        else:
            pieces = self._think.feed(content)
            if self._think.thinking or any(kind == "reasoning" for kind, _ in pieces):
                self._line.drop_logprobs()
            self._pieces(pieces)

    def _end_content(self) -> None:
        """Something else than content comes: what its start held back is decided now."""
        if not self._think.passive:
            self._pieces(self._think.close())

    def _pieces(self, pieces: list[SplitText]) -> None:
        for kind, piece in pieces:
            if kind == "text":
                self._line.text(piece)
            else:
                self._line.prose("reasoning", piece)
                if not self._moved:
                    self._evidence.note("moved", "inline <think> to reasoning")
                self._moved = True

    def _parts(self, content: list[Any]) -> None:
        pieces, others = chat_delta.content_parts(content)
        for kind, piece in pieces:
            if kind == "text":
                self._content(piece)
            else:
                self._end_content()
                if kind == "reasoning":
                    self._line.drop_logprobs()
                self._line.prose(kind, piece)
        self._note_if("dropped", "content part that is no text", others)

    def _tool_calls(self, calls: list[Any], index: int, *, whole: bool) -> None:
        self._end_content()
        for element in calls:
            delta = read_delta(element)
            if delta is None or delta.silent:
                self._evidence.note("skipped", "tool call delta that says nothing")
            else:
                self._line.call(delta, whole=whole, choice=index)

    def _note_if(self, what: str, detail: str, count: int) -> None:
        if count:
            self._evidence.note(what, detail, count)

    # The end.

    def _finished(self, finish: Finish | Literal["failed"], reason: Any) -> None:
        """A finish reason: the items are complete now; usage may still come."""
        if finish == "failed":
            message = f"The upstream ended the turn with {label(reason)}."
            self._fail(failure("server_error", message))
        elif self._choices.all_finished:
            self._settle(cut=self._choices.finish != "completed")

    def _settle(self, *, cut: bool) -> None:
        self._end_content()
        if self._line.nameless(cut=cut):
            self._fail(failure("server_error", _NAMELESS))
        else:
            self._line.settle(cut=cut)

    def _end(self, *, whole: bool) -> None:
        """The upstream has ended; `whole` if it said so itself."""
        self._end_content()
        finish = self._choices.finish
        ended = self._choices.all_finished or (whole and (finish or self._line.answered))
        cut = finish not in (None, "completed")
        if not ended or (self._line.half_written and not cut):
            self._fail(failure("server_error", EARLY if self._heard else _NOTHING))
            return
        if finish is None:
            self._evidence.note("inferred", "finish reason from the end of the stream")
        self._settle(cut=cut)
        if self._writer.ended:
            return
        if not self._writer.response["output"]:
            self._evidence.note("empty turn")
        if finish is None or finish == "completed":
            self._writer.complete(self._usage())
        else:
            self._writer.incomplete(finish, self._usage())

    def _fail(self, error: UpstreamError) -> None:
        """A turn whose finish reason came is whole: all that is lost is its usage."""
        if self._choices.all_finished and self._line.empty:
            self._evidence.note("ignored", "failure after the finish reason")
            self._end(whole=True)
            return
        self._evidence.note("failed", error.code)
        self._error = error
        self._line.abandon()
        self._writer.fail(error, self._usage())

    def _usage(self) -> dict[str, Any]:
        found, estimated = usage(self._counts, self._turn.estimate, self._writer.characters)
        if estimated:
            self._evidence.note("estimated", "usage")
        return found
