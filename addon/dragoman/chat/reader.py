"""Reads chunks of Chat Completions, of a stream or whole.

Nearly every frame differs from the one before in one text alone (`SameFrames`): such a frame is not
parsed.  Which call a delta belongs to is decided by `wire.chat_calls`, what is a text by
`texts.py` and `delta.py`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from ..reply.words import (
    Arguments,
    CallBegin,
    Cited,
    Delta,
    Done,
    Failed,
    Finish,
    Kind,
    More,
    Other,
    Part,
    PartEnd,
    Shown,
    Text,
    Unread,
)
from ..wire.chat_calls import Call, CallAssembler, CallDelta, elements, read_delta
from ..wire.errors import error_object, read_error
from ..wire.json_codec import Json, array, string
from ..wire.reply_bounds import MAX_CHOICES
from ..wire.sse import BLANK_LINE_ENDS, Frame
from . import delta as chat_delta
from .delta import SOURCES, ChoiceDelta, choice_index, content_parts, lone_text
from .same_frames import SameFrames, with_arguments
from .texts import ADDED_REASONING, CONTENT, DETAILS, passages

MAX_MISSES = 16
"""Frames in a row that are not like the one before; after so many, none of the stream is."""
MAX_INDEX = 2**31
"""An index of a call beyond this is not valid."""
LEGACY = "function_call"
"""The place of a call in the older field of that name."""
TOKEN = "<|"
"""A name that begins so is tokens after the name before."""
Place = tuple[int, tuple[str, ...], bool]
"""A choice, the fields of a text in it, and whether that is a message's."""


class ChatReader:
    """Reads one reply.  `names`: those that a call may have, as hosts cut them."""

    one_channel = True

    def __init__(self, names: Set[str] = frozenset()) -> None:
        self._names = names
        self.model = self.id = ""
        self.value: Any = None
        self.counted: Json | None = None
        self.known = self.ended = False
        self.same: SameFrames | None = None
        """The latest frame with one text, if others may be like it."""
        self.says_more = False
        """Whether they have a role, or what is said of the whole reply."""
        self._parts: dict[Place, Part] = {}
        self._assemblers: dict[int, CallAssembler] = {}
        self._calls: dict[Call, tuple[Part, str, str]] = {}
        """The part of each call, with the id and the name that have been said."""
        self._whole: set[Part] = set()
        """The calls whose arguments are complete."""
        self._cited: set[str] = set()
        """The addresses of sources."""
        self._part: Part | None = None
        """Of the text of frames like the latest."""
        self._call: Call | None = None
        self._found: list[Delta] | None = None
        """What the frame says that was read last, if that is known."""
        self._misses = self._beside = 0

    @property
    def remembered(self) -> int:
        return sum([each.remembered for each in self._assemblers.values()]) + self._beside

    def take_repeated(self) -> int:
        return sum(assembler.take_repeated() for assembler in self._assemblers.values())

    def shown(self, part: Part, _: Any, /) -> Shown:
        return Shown(part.name, "", "")

    def part_of(self, kind: Kind, part: Part) -> Part:
        return self._text_part(part.choice, CONTENT if kind == "text" else ADDED_REASONING)

    # A frame that has one text

    def more(self, frame: Frame) -> More | None:
        same = self.same
        if same is not None and (text := same.text_in(frame.raw)):
            self._misses = 0
        elif not (text := self._learn(frame)):
            return None
        part, call = self._part, self._call
        if part is None or not frame.raw.endswith(BLANK_LINE_ENDS):
            self.value = frame.json
            return None
        if call is not None:
            call.add(text)
            if call.forget() and part not in self._whole:
                self._whole.add(part)
                self.value = frame.json
                self._found = [self.delta(part, text), PartEnd(part)]
                return None
        return part, text

    def delta(self, part: Part, text: str) -> Text | Arguments:
        if part.kind != "call":
            return Text(part, text)
        (element,) = self.value["choices"][0]["delta"]["tool_calls"]
        return Arguments(part, text, with_arguments(element, text))

    def _learn(self, frame: Frame) -> str:
        """The one text of a frame, empty if it says more.  Frames like it are known then."""
        self.value = chunk = frame.json
        self.same = self._part = self._call = self.counted = None
        if not isinstance(chunk, dict):
            return ""
        self.counted = chunk if chunk.get("usage") else None
        self.model = self.model or string(chunk.get("model"))
        self.id = self.id or string(chunk.get("id"))
        if (found := lone_text(chunk)) is None or chunk.get("error") or frame.is_error:
            return ""
        (value,) = chunk["choices"]
        index, fields = choice_index(value, 0), found.fields
        sources = any(map(chunk.get, SOURCES))
        self.says_more = sources or "role" in value["delta"]
        if fields:
            self._part = self._text_part(index, fields)
        else:
            self._part, self._call = self._call_at(index, value["delta"]["tool_calls"][0]["index"])
        if self._part is None:
            return ""
        self._misses += 1
        if self._misses <= MAX_MISSES:
            self.same = SameFrames.of(frame, chunk, fields, found.text)
        # Frames like this one have the same sources, and so say them again.
        return "" if sources and self._new_sources(chunk) else found.text

    def _call_at(self, choice: int, index: int) -> tuple[Part, Call] | tuple[None, None]:
        """The call of which a delta without id and name has more."""
        assembler = self._assemblers.get(choice)
        call = assembler.continued(index) if assembler is not None else None
        known = self._calls.get(call) if call is not None else None
        return (known[0], call) if call is not None and known is not None else (None, None)

    # Any other frame

    def read(self, frame: Frame) -> list[Delta]:
        if self._found is not None:
            known, self._found = self._found, None
            return known
        chunk = self.value
        found: list[Delta] = []
        if frame.is_error or (chunk is not None and read_error(chunk)):
            found.append(Failed(chunk, error_object(chunk)))
        elif chunk is None and frame.is_done:
            self.ended = True
            return [Done()]
        self.known = isinstance(chunk, dict) and isinstance(chunk.get("choices"), list)
        if not self.known:
            if isinstance(chunk, dict):
                self._cite(found, chunk)
            return found or [Other(None, chunk)]
        choices = chat_delta.choices(chunk)
        for choice in choices:
            if self._is_known(choice.index):
                self._choice(found, choice, chunk)
        if strange := len(chunk["choices"]) - len(choices):
            found.append(Other(None, None, unread=Unread.CHOICE, count=strange))
        if not choices:
            self._cite(found, chunk)
        return found

    def _is_known(self, index: int) -> bool:
        if index not in self._assemblers and len(self._assemblers) < MAX_CHOICES:
            self._assemblers[index] = CallAssembler(self._names)
        return index in self._assemblers

    def _choice(self, found: list[Delta], choice: ChoiceDelta, chunk: Json) -> None:
        index, delta, value = choice.index, choice.delta, choice.fields
        is_message = isinstance(value.get("message"), dict) and choice.whole
        calls = elements(delta)
        self._beside += max(0, len(calls) - 1)
        self._texts(found, choice)
        if delta.get("annotations"):
            annotations, unread = chat_delta.url_annotations(delta)
            self._cited.update(annotation["url"] for annotation in annotations)
            found += [Cited(annotations, self._other(index))] if annotations else []
            if unread:
                found.append(self._unread(index, delta["annotations"], Unread.ANNOTATION, unread))
        self._cite(found, delta)
        for element in calls:
            self._element(found, index, element, whole=choice.whole)
        if chat_delta.unknown_fields(delta):
            found.append(self._unread(index, delta, Unread.FIELD))
        self._cite(found, chunk)
        if (failed := value.get("error")) and (error := read_error({"error": failed})):
            found.append(Failed(value, error))
        if (reason := value.get("finish_reason")) or is_message:
            found.append(Finish(index, reason, stopped_by=chat_delta.stopped_by(value)))

    def _other(self, choice: int) -> Part:
        return self._part_at("other", (choice, (), False))

    def _unread(self, choice: int, raw: Any, what: Unread, count: int = 1) -> Other:
        return Other(self._other(choice), raw, unread=what, count=count)

    # Texts

    def _texts(self, found: list[Delta], choice: ChoiceDelta) -> None:
        """The texts of a delta or message, in the order in which the model wrote them."""
        index, delta, whole, at = choice.index, choice.delta, choice.whole, len(found)
        content = delta.get("content")
        texts = passages(delta)
        for passage in texts:
            if passage.fields == CONTENT and isinstance(content, list):
                continue
            part = self._text_part(index, passage.fields, whole=whole)
            repeats = passage.fields == (DETAILS,) and any(
                each.fields not in (CONTENT, passage.fields) for each in texts
            )
            found.append(Text(part, passage.text, repeats=repeats))
        if isinstance(content, list):
            pieces, others = content_parts(content)
            for kind, text in pieces:
                found.append(Text(self._listed(index, kind), text))
            if others:
                found.append(self._unread(index, content, Unread.CONTENT, others))
        if refusal := string(delta.get("refusal")):
            found.append(Text(self._listed(index, "refusal"), refusal))
        logprobs = choice.fields.get("logprobs")
        if isinstance(logprobs, dict) and (tokens := array(logprobs.get("content"))):
            said = [delta for delta in found[at:] if isinstance(delta, Text)]
            answer = next((delta for delta in said if delta.part.kind == "text"), None)
            if answer is None:
                found.insert(at, Text(self._text_part(index, CONTENT), "", tokens))
            elif said[0] is answer:  # else they are those of the thoughts before it, too
                answer.logprobs = tokens

    def _text_part(self, choice: int, fields: tuple[str, ...], *, whole: bool = False) -> Part:
        kind: Kind = "text" if fields == CONTENT else "reasoning"
        return self._part_at(kind, (choice, fields, whole))

    def _listed(self, choice: int, kind: Kind) -> Part:
        """The part of a text in the list of a content, or of a refusal."""
        if kind == "text":
            return self._text_part(choice, CONTENT)
        return self._part_at(kind, (choice, (kind,), False), fixed=True)

    def _part_at(self, kind: Kind, place: Place, *, fixed: bool = False) -> Part:
        part = self._parts.get(place)
        if part is None:
            choice, fields, whole = place
            part = self._parts[place] = Part(kind, choice, fields, whole=whole, fixed=fixed)
        return part

    # Sources

    def _cite(self, found: list[Delta], holder: Json) -> None:
        """The sources that hosts list, some again in every chunk."""
        if any(map(holder.get, SOURCES)) and (new := self._new_sources(holder)):
            self._cited.update(source["url"] for source in new)
            found.append(Cited(new))

    def _new_sources(self, holder: Json) -> list[Json]:
        new: dict[str, Json] = {}
        for source in chat_delta.citations(holder):
            if source["url"] not in self._cited:
                new.setdefault(source["url"], source)
        return [*new.values()]

    # Calls

    def _element(self, found: list[Delta], choice: int, element: Any, *, whole: bool) -> None:
        """An element of ``tool_calls``; `whole`: it is a complete call."""
        delta, assembler = read_delta(element), self._assemblers[choice]
        if delta is None:
            found.append(self._unread(choice, element, Unread.CALL))
            return
        if delta.name.startswith(TOKEN) and assembler.calls:
            found.append(self._unread(choice, element, Unread.TOKEN))
            delta.name = ""
            if not delta.arguments:
                return
        self._take_call(found, choice, delta, element, whole=whole)

    def _take_call(
        self, found: list[Delta], choice: int, delta: CallDelta, element: Any, *, whole: bool
    ) -> None:
        call, _ = self._assemblers[choice].take(delta, new=whole)
        part, *said = self._calls.get(call) or (
            _part_of_call(choice, element, delta, whole=whole),
            "",
            "",
        )
        if call.repeated is not None:
            found.append(Other(part, element, unread=Unread.HEAD))
        elif said != [call.id, call.name] or call not in self._calls:
            self._calls[call] = part, call.id, call.name
            found.append(CallBegin(part, call.id, call.name, delta.arguments, element))
        else:
            found.append(Arguments(part, delta.arguments, element))
        if call.forget() and part not in self._whole:
            self._whole.add(part)
            found.append(PartEnd(part))


def _part_of_call(choice: int, element: Any, delta: CallDelta, *, whole: bool) -> Part:
    index = delta.index
    if index == -1:
        return Part("call", choice, LEGACY, fixed=True)
    custom = isinstance(element, dict) and isinstance(element.get("custom"), dict)
    custom = custom and not isinstance(element.get("function"), dict)
    fixed = custom or not 0 <= (index or 0) < MAX_INDEX
    return Part("call", choice, index, "custom" if custom else "", whole=whole, fixed=fixed)
