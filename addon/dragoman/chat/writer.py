"""Writes chunks of Chat Completions.

A frame in which something has changed is replaced by a chunk for each of its texts and calls, and
one for what else it says: native calls, a usage, a finish reason.  The deltas of calls are what
every client measured accepts: ``id``, ``type`` and ``name`` only in a call's first delta, one call
after the other, and never ``""`` as the whole of its arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from ..notes import Evidence
from ..reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Finish,
    Other,
    Part,
    PartEnd,
    Said,
    Slot,
    Text,
    Unread,
)
from ..wire.chat_end import error_frame
from ..wire.heartbeats import HEARTBEAT
from ..wire.json_codec import Json, array, string
from ..wire.sse import BLANK_LINE_ENDS, Frame, encode_chunk
from .call_ids import ReplyCallIds, more_arguments
from .delta import choice_index
from .reader import LEGACY, ChatReader
from .same_frames import MAX_LIKE_IT
from .texts import LISTS, rewritten, without_text, written


class _Choice:
    """What the client has of a choice."""

    def __init__(self, index: int, calls: ReplyCallIds) -> None:
        self.index = index
        self.calls = calls
        self.latest: Json = {"object": "chat.completion.chunk", "choices": [{"index": index}]}
        """The latest chunk, if it is not too large."""
        self.role_sent = False
        self.leaks = False
        """Whether a call has leaked into it."""


@dataclass(slots=True, eq=False)
class _Share:
    """What a frame has of one choice, and what leaves of it."""

    at: int
    """The choice's place in the chunk."""
    value: Json
    delta: Json
    """Its delta, or its message, which has the same fields."""
    choice: _Choice
    is_message: bool = False
    fields: set[str] = field(default_factory=set)
    """Those of its texts."""
    left: list[Any] = field(default_factory=list)
    """Texts, and elements of ``tool_calls``, each to leave in a chunk of its own."""
    natives: list[Any] | None = None
    """What leaves of its own ``tool_calls``."""
    finish: Any = None
    changed: bool = False

    def add_text(self, text: Text) -> None:
        if text.part.fixed:
            return
        last = self.left[-1] if self.left else None
        if isinstance(last, Text) and last.part is text.part:
            self.left[-1] = Text(text.part, last.text + text.text)
        elif text.text:
            self.left.append(text)


class ChatWriter:
    """`called` are the call ids of the conversation; `moves`: whether thoughts after a call are of
    the answer."""

    def __init__(
        self,
        reader: ChatReader,
        called: Container[str],
        evidence: Evidence,
        now: int,
        *,
        moves: bool,
    ) -> None:
        self._reader = reader
        self._called = called
        self._evidence = evidence
        self._now = now
        self._moves = moves
        self._made: set[str] = set()
        """See `ReplyCallIds`."""
        self._choices: dict[int, _Choice] = {}
        self._open_ended = False
        """Whether the latest frame has no blank line at its end."""
        self.held: list[Said] = []
        """A part of an event, with which the stream ends: what is added after it would become part
        of it."""

    def heartbeat(self) -> Frame:
        return HEARTBEAT

    def error(self, message: str) -> Frame:
        return error_frame(message)

    def changes(self, said: Said, sent: list[Frame]) -> bool:
        return len(sent) != 1 or sent[0] is not said.frame

    def _choice(self, index: int) -> _Choice:
        choice = self._choices.get(index)
        if choice is None:
            calls = ReplyCallIds(self._called, self._made, self._evidence, self._now)
            choice = self._choices[index] = _Choice(index, calls)
        return choice

    # Frames that only continue

    def passed(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        choice = self._choices.get(part.choice) or self._choice(part.choice)
        self._open_ended = False
        reader = self._reader
        if len(frame.raw) <= MAX_LIKE_IT:
            choice.latest = reader.value
        if part.kind == "call":
            host = part.place or 0
            index = choice.calls.index_of(part, host)
            return [frame] if index == host else [self._more_of_call(frame, index, text)]
        if part.kind == "text" or not (choice.leaks and self._moves):
            return [frame]
        return [self._in_place_of(frame, {"content": text}, text)]

    def replaced(self, frame: Frame, part: Part) -> list[Frame]:
        choice, value = self._choice(part.choice), self._reader.value
        if len(frame.raw) <= MAX_LIKE_IT:
            choice.latest = value
        if self._reader.counted is None:
            return []
        (only,) = value["choices"]
        delta = {name: each for name, each in only["delta"].items() if name not in part.place}
        rest = with_delta(value, delta, only.get("finish_reason"), counts=True)
        return [encode_chunk(rest, frame.other_lines)]

    def _more_of_call(self, frame: Frame, index: int, text: str) -> Frame:
        delta: Json = {"tool_calls": [more_arguments(index, text)]}
        return self._in_place_of(frame, delta, text)

    def _in_place_of(self, frame: Frame, delta: Json, text: str) -> Frame:
        """A frame with another delta, which has the same text."""
        same = self._reader.same
        if same is not None and same.replaced:
            return same.replacement(text)
        chunk = with_delta(self._reader.value, delta, counts=True)
        new = encode_chunk(chunk, frame.other_lines)
        if same is not None:
            same.replace(new, text)
        return new

    # Any other frame

    def write(self, said: Said) -> list[Frame]:
        chunk, frame = said.raw, said.frame
        is_open = not frame.raw.endswith(BLANK_LINE_ENDS)
        if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
            out = self._added(said)
            if is_open and self._is_half(frame):
                self.held.append(said)
                return out
            self._open_ended = is_open
            return [*out, frame]
        self._open_ended = is_open
        shares = self._shares(said, chunk)
        if not any(share.changed for share in shares):
            return [frame]
        return self._replacing(frame, chunk, shares)

    @staticmethod
    def _is_half(frame: Frame) -> bool:
        """Whether a frame that has no end is a part of an event."""
        return frame.whole and frame.json is None and bool(frame.data) and not frame.is_done

    def _replacing(self, frame: Frame, chunk: Json, shares: list[_Share]) -> list[Frame]:
        out, others = list[Frame](), frame.other_lines
        for share in shares:
            choice = share.choice
            for left in share.left:
                delta = _delta(left, share.delta)
                if "role" in share.delta and not choice.role_sent:
                    choice.role_sent = True
                    delta = {"role": share.delta["role"], **delta}
                out.append(encode_chunk(with_delta(chunk, delta, None, share.at), others))
                others = b""
        if (rest := self._rest(chunk, shares)) is not None:
            out.append(encode_chunk(rest, others))
        return out

    def _shares(self, said: Said, chunk: Json) -> list[_Share]:
        """What each choice of a chunk has of a frame, and what leaves of it."""
        shares: dict[int, _Share] = {}
        for at, value in enumerate(chunk["choices"]):
            if isinstance(value, dict):
                choice = self._choice(choice_index(value, at))
                if len(said.frame.raw) <= MAX_LIKE_IT:
                    choice.latest = {**chunk, "choices": [value]}
                delta, message = value.get("delta"), value.get("message")
                is_message = isinstance(message, dict) and not isinstance(delta, dict)
                own = message if is_message else delta
                own = own if isinstance(own, dict) else {}
                finish = value.get("finish_reason")
                shares[choice.index] = _Share(at, value, own, choice, is_message, finish=finish)
        for slot in said.slots:
            if (share_ := shares.get(_choice_of(slot.delta))) is not None:
                self._divide(share_, slot)
        return [*shares.values()]

    def _divide(self, share: _Share, slot: Slot) -> None:
        """What leaves in the place of one word."""
        share.changed |= not slot.same
        if _is_native(slot):
            share.natives = share.natives or []
            self._add_natives(share, share.natives, slot.out)
            return
        if isinstance(slot.delta, Text) and not slot.delta.part.fixed:
            share.fields.update(slot.delta.part.place)
        for each in slot.out:
            if isinstance(each, Text):
                share.add_text(each)
            elif isinstance(each, Finish):
                share.finish = each.reason
            elif isinstance(each, CallBegin | Arguments) and each.part.place != LEGACY:
                share.choice.leaks |= each.part.leaked
                add_call(share.choice.calls, share.left, each)

    def _add_natives(self, share: _Share, natives: list[Any], out: list[Delta]) -> None:
        """What leaves in the place of an element of ``tool_calls``."""
        for each in out:
            if isinstance(each, CallBegin | Arguments):
                before = len(natives)
                add_call(share.choice.calls, natives, each)
                same = len(natives) == before + 1 and natives[-1] is each.raw
                share.changed |= not same
            elif isinstance(each, Other):
                natives.append(each.raw)

    def _rest(self, chunk: Json, shares: list[_Share]) -> Json | None:
        """The chunk without the texts; None if that says nothing."""
        values = [*chunk["choices"]]
        says = bool(chunk.get("usage")) or len(shares) < len(values)
        for share in shares:
            value, delta, choice = share.value, share.delta, share.choice
            kept = {name: each for name, each in delta.items() if name not in share.fields}
            has_role = kept.pop("role", None) is not None or "role" in delta
            for name in share.fields & LISTS.keys() & delta.keys():
                if more := without_text(name, delta[name]):
                    kept[name] = more
            if share.natives is not None:
                kept["tool_calls"] = share.natives
            says = says or bool(share.finish or value.get("usage") or any(kept.values()))
            if has_role and not choice.role_sent:
                kept = {"role": delta["role"], **kept}
                choice.role_sent = says = True
            name = "message" if share.is_message else "delta"
            rest = {**value, name: kept, "finish_reason": share.finish}
            if rest.get("logprobs"):  # they spell out the tokens, markers included
                rest["logprobs"] = None
            values[share.at] = rest
        return {**chunk, "choices": values} if says else None

    # What is added

    def end(self, last: Said) -> list[Frame]:
        out, held = self._added(last), self.held
        self.held = []
        if out and held:
            self._evidence.change("dropped", "an event without its end")
            held = []
        return out or [said.frame for said in held]

    def _added(self, said: Said) -> list[Frame]:
        """Chunks of our own, with the metadata of the latest of their choices."""
        out: list[Frame] = []
        for slot in said.slots:
            for delta in slot.out:
                if delta is slot.delta or isinstance(delta, Other | PartEnd):
                    continue
                choice = self._choice(_choice_of(delta))
                if isinstance(delta, Finish):
                    out.append(encode_chunk(with_delta(choice.latest, {}, delta.reason)))
                elif isinstance(delta, Text):
                    new = _delta(delta, {})
                    out.append(encode_chunk(with_delta(choice.latest, new)))
                elif isinstance(delta, CallBegin | Arguments):
                    elements: list[Any] = []
                    add_call(choice.calls, elements, delta)
                    new = {"tool_calls": elements}
                    out.append(encode_chunk(with_delta(choice.latest, new)))
        if out and self._open_ended:
            out.insert(0, Frame(b"\n\n"))
            self._open_ended = False
        return out

    # A reply that came whole

    def document(self, said: Said) -> Json | None:
        """The whole reply with all that it calls in its messages; None if nothing has changed."""
        chunk, choices = said.raw, [*said.raw["choices"]]
        said.slots.sort(key=_is_native, reverse=True)  # a message has the host's own calls first
        for at, value in enumerate(choices):
            if not isinstance(value, dict):
                continue
            index = choice_index(value, at)
            slots = [slot for slot in said.slots if _choice_of(slot.delta) == index]
            if slots and isinstance(value.get("message"), dict):
                new = self._message(self._choice(index), slots, value)
                calls = new["message"].get("tool_calls") or []
                same = all(map(operator.is_, calls, array(value["message"].get("tool_calls"))))
                if not (same and all(slot.same for slot in slots)):
                    choices[at] = value | new
        changed = any(map(operator.is_not, choices, chunk["choices"]))
        return {**chunk, "choices": choices} if changed else None

    def _message(self, choice: _Choice, slots: list[Slot], value: Json) -> Json:
        message, texts, calls = {**value["message"]}, dict[tuple[str, ...], str](), list[Any]()
        has_calls = False
        finish = value.get("finish_reason")
        for slot in slots:
            if isinstance(slot.delta, Text) and not slot.delta.part.fixed:
                texts.setdefault(slot.delta.part.place, "")
            if _is_native(slot):
                has_calls = True
                for delta in slot.out:
                    if isinstance(delta, CallBegin | Arguments):
                        add_call(choice.calls, calls, delta)
                        choice.calls.index(len(calls) - 1)
                    elif isinstance(delta, Other):
                        calls.append(delta.raw)
        for delta in [each for slot in slots if not _is_native(slot) for each in slot.out]:
            if isinstance(delta, Finish):
                finish = delta.reason
            elif isinstance(delta, Text) and not delta.part.fixed:
                fields = delta.part.place
                texts[fields] = texts.get(fields, "") + delta.text
            elif isinstance(delta, CallBegin) and delta.part.leaked:
                calls.append(_without_index(choice.calls.leaked(delta)))
                delta.id = string(calls[-1].get("id"))
            elif isinstance(delta, Arguments) and delta.part.leaked:
                function = calls[-1]["function"]
                function = {**function, "arguments": function["arguments"] + delta.text}
                calls[-1] = {**calls[-1], "function": function}
            elif isinstance(delta, CallBegin | Arguments) and delta.part.place != LEGACY:
                add_call(choice.calls, calls, delta)
        for fields, text in texts.items():
            for name in fields:
                message[name] = rewritten(name, text, message.get(name))
        if calls or has_calls:
            message["tool_calls"] = calls
        if calls:
            message["content"] = message.get("content") or None
        return {"message": message, "finish_reason": finish}


def add_call(calls: ReplyCallIds, elements: list[Any], delta: CallBegin | Arguments) -> None:
    """Append the element for a delta of a call, if there is one.  The id of the delta is the one in
    it then: that of the client's call."""
    element = calls.leaked(delta) if delta.part.leaked else calls.native(delta)
    if element is not None:
        elements.append(element)
        if isinstance(delta, CallBegin):
            delta.id = string(element.get("id"))


def _delta(left: Text | Json, original: Json) -> Json:
    """The delta of what leaves in a chunk of its own."""
    if isinstance(left, Text):
        return {name: written(name, left.text, original.get(name)) for name in left.part.place}
    return {"tool_calls": [left]}


def _is_native(slot: Slot) -> bool:
    """Whether a word is of an element of ``tool_calls``."""
    delta = slot.delta
    if isinstance(delta, Other):
        return delta.unread in (Unread.CALL, Unread.HEAD, Unread.TOKEN)
    if not isinstance(delta, CallBegin | Arguments | PartEnd):
        return False
    return delta.part.kind == "call" and delta.part.place != LEGACY


def _choice_of(delta: Delta | None) -> int:
    if isinstance(delta, Finish):
        return delta.choice
    part = getattr(delta, "part", None)
    return part.choice if part is not None else -1


def _without_index(element: Json) -> Json:
    return {name: member for name, member in element.items() if name != "index"}


def with_delta(
    chunk: Json, delta: Json, finish: Any = None, at: int = 0, *, counts: bool = False
) -> Json:
    """A chunk with another delta of its choice `at` a place; with its usage only if it `counts`."""
    value = {**chunk["choices"][at], "delta": delta, "finish_reason": finish}
    value.pop("message", None)
    if value.get("logprobs"):
        value["logprobs"] = None
    new = {**chunk, "choices": [value]}
    if not counts:
        value.pop("usage", None)
        if new.get("usage") is not None:
            del new["usage"]
    return new
