"""What one stream of the soak test holds: made from its name alone, and known beforehand.

A name such as ``7-123-bridge-240`` is the seed of the run, the stream's number, what is
done to it, and about how many events it has.  The process that sends a stream and the
one that checks it both make it from its name, so nothing has to be handed over, and a
stream that failed can be sent again alone.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from dataclasses import dataclass
from typing import Any, Literal, cast

Job = Literal["plain", "repair", "bridge"]
Fate = Literal["whole", "reset", "close", "leave"]
"""Whether the upstream resets or closes its connection in mid-stream, or the client leaves."""

DYING = 0.05
LEAVING = 0.05
PAUSING = 0.1
PAUSE = 1.5
"""Seconds; longer than the heartbeat with which the soak test runs."""
DIALECTS = ("openai", "codex", "openresponses", "guide")
TOOLS = {"bash": "command", "read": "path"}
# Near to markers, to what JSON escapes, and to what a cut could tear apart.
WORDS = (
    *("the", "headers", "a < b", "x <", "<|", "<|tool", "<|tool_call_end", "<|im_end|>", "|>"),
    *("é😀", "日本", 'say "no"', "C:\\new", "\n\nthen", "{", "}}", "data: x", "[DONE]", "&lt;"),
)


@dataclass(frozen=True, slots=True)
class Meant:
    """What a client must have learned from a stream."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments."""

    def missing_in(self, whole: Meant, held: tuple[str, ...] = ()) -> str:
        """What stands here that `whole` does not begin with; empty if it does.

        `held` is what repair may have been holding when the upstream broke off: the
        beginning of one of these may come out as text, or as the name of the last call.
        """
        for name in ("reasoning", "text"):
            said, meant = getattr(self, name), getattr(whole, name)
            same = _same(said, meant)
            if not any(text.startswith(said[same:]) for text in ("", *held)):
                return _difference(name, said, meant)
        for index, (name, arguments) in enumerate(self.calls):
            last = index == len(self.calls) - 1
            if index >= len(whole.calls):
                return f"there is a call more: {name!r} with {arguments!r}"
            if name != whole.calls[index][0] and not (last and any(name in text for text in held)):
                return f"call {index} is to {name!r}, not {whole.calls[index][0]!r}"
            meant = whole.calls[index][1]
            if not (meant.startswith(arguments.rstrip()) if last else meant == arguments.strip()):
                return _difference(f"the arguments of call {index}", arguments, meant)
        return ""

    def differs_from(self, meant: Meant) -> str:
        """How it differs; empty if it is the same."""
        for name in ("reasoning", "text"):
            if getattr(self, name) != getattr(meant, name):
                return _difference(name, getattr(self, name), getattr(meant, name))
        if [name for name, _ in self.calls] != [name for name, _ in meant.calls]:
            return f"the calls are {self.calls}, not {meant.calls}"
        for index, ((_, said), (_, whole)) in enumerate(zip(self.calls, meant.calls, strict=True)):
            if said.strip() != whole:
                return _difference(f"the arguments of call {index}", said, whole)
        return ""


def _difference(what: str, said: str, meant: str) -> str:
    same = _same(said, meant)
    return (
        f"{what}: {len(said)} characters, {len(meant)} meant, different from {same} on: "
        f"{said[max(0, same - 20) : same + 60]!r} for {meant[max(0, same - 20) : same + 60]!r}"
    )


def _same(said: str, meant: str) -> int:
    """How many characters of both are the same."""
    pairs = enumerate(zip(said, meant, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(said), len(meant)))


@dataclass(frozen=True, slots=True)
class Plan:
    """One stream."""

    name: str
    job: Job
    dialect: str
    fate: Fate
    fate_at: int
    """The event at which it happens."""
    torn: int
    """Bytes that a dying upstream still sends of that event."""
    pause_at: int
    """The event before which the upstream is silent for a while; -1: none."""
    meant: Meant
    held: tuple[str, ...]
    """What leaks between texts and arguments: markers and headers."""
    frames: tuple[bytes, ...]
    tagged: frozenset[int]
    """The events whose text holds their own number, as ``~17~``: with it they leave again."""
    cuts: tuple[tuple[int, ...], ...]
    """For each event the offsets in the body up to which is written when it is due."""

    @property
    def body(self) -> bytes:
        return b"".join(self.frames)

    @property
    def path(self) -> str:
        endpoint = "responses" if self.job == "bridge" else "chat/completions"
        return f"/{self.name}/v1/{endpoint}"

    @property
    def request(self) -> bytes:
        """The body of the client's request."""
        tools: list[dict[str, Any]] = []
        for name, argument in TOOLS.items():
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {argument: {"type": "string"}},
            }
            schema |= {"required": [argument], "additionalProperties": False}
            function = {"name": name, "parameters": schema}
            bridged = self.job == "bridge"
            tools.append({"type": "function", **(function if bridged else {"function": function})})
        asked: dict[str, Any] = {"model": "kimi-k2.5", "stream": True, "tools": tools}
        if self.job == "bridge":
            return json.dumps({**asked, "input": self.name}).encode()
        return json.dumps({**asked, "messages": [{"role": "user", "content": self.name}]}).encode()


def plan_of(name: str) -> Plan:
    """The stream of that name."""
    _, _, job, events = name.split("-")
    rng = random.Random(name)
    author = _Author(rng, int(events))
    author.write()
    fates: list[Fate] = ["reset", "close", "leave", "whole"]
    weights = [DYING / 2, DYING / 2, LEAVING, 1 - DYING - LEAVING]
    (fate,) = rng.choices(fates, weights)
    frames = tuple(author.frames)
    fate_at = rng.randint(1, len(frames) - 5)
    return Plan(
        name=name,
        job=cast(Job, job),
        dialect=rng.choice(DIALECTS),
        fate=fate,
        fate_at=fate_at,
        torn=rng.randrange(len(frames[fate_at])),
        pause_at=rng.randrange(len(frames)) if rng.random() < PAUSING else -1,
        meant=author.meant,
        held=tuple(author.held),
        frames=frames,
        tagged=frozenset(author.tagged),
        cuts=tuple(_cuts(rng, [len(frame) for frame in frames])),
    )


def _cuts(rng: random.Random, sizes: list[int]) -> list[tuple[int, ...]]:
    """Events as they are; or several writes for each; or writes that know of no events."""
    how = rng.choice(["events", "bits", "anywhere"])
    ends = list(itertools.accumulate(sizes))
    cuts: list[tuple[int, ...]] = []
    done = 0
    for index, end in enumerate(ends):
        upto = end
        if how == "anywhere" and index < len(ends) - 1:
            upto = rng.randint(max(done, end - sizes[index] // 2), end + sizes[index + 1] // 2)
        inner = sorted(rng.randint(done, upto) for _ in range(rng.randint(0, 3)))
        cuts.append((*(inner if how == "bits" else ()), upto))
        done = upto
    return cuts


class _Author:
    """Writes the events of a stream, and notes what they mean."""

    def __init__(self, rng: random.Random, events: int) -> None:
        self._rng = rng
        self._events = events
        self._escapes = rng.random() < 0.5
        self._go_escapes = rng.random() < 0.2
        self._line_end = rng.choice(["\n", "\n", "\n", "\r\n"])
        self._thoughts = rng.choice(["reasoning", "reasoning_content"])
        self._space = rng.choice(["", " ", "\n"])
        self.frames: list[bytes] = []
        self.tagged: set[int] = set()
        self.held: list[str] = []
        self._reasoning = ""
        self._text = ""
        self._calls: list[tuple[str, str]] = []
        self._native = 0

    @property
    def meant(self) -> Meant:
        return Meant(self._reasoning, self._text, tuple(self._calls))

    def write(self) -> None:
        rng = self._rng
        leaked = rng.choice([0, 0, 1, 2])
        native = rng.choice([0, 0, 0, 1, 2])
        room = self._events // (3 + leaked + native)
        self._chunk({"role": "assistant", "content": ""})
        leaky = rng.choice([self._thoughts, "content"])
        if rng.random() < 0.7:
            self._say(self._thoughts, room)
        if leaky == "content" or rng.random() < 0.3:
            self._say("content", room)
            leaky = "content"
        if leaked:
            self._leak(leaky, leaked, room)
        if rng.random() < 0.5 or not (leaked or native):
            self._say("content", room)
        for _ in range(native):
            self._call(room)
        finish = "tool_calls" if self._calls and (native or rng.random() < 0.3) else "stop"
        self._chunk({}, finish)
        self._frame(json.dumps({**_head(), "choices": [], "usage": self._usage()}))
        self._frame("[DONE]")

    def _usage(self) -> dict[str, int]:
        written = len(self.frames)
        return {"prompt_tokens": 11, "completion_tokens": written, "total_tokens": 11 + written}

    def _say(self, field: str, events: int) -> None:
        for _ in range(max(2, events)):
            self._speak(field, self._words())
        # White space next to a section may go with its markers.
        self._speak(field, ".")

    def _speak(self, field: str, text: str) -> None:
        self._chunk({field: text})
        if field == "content":
            self._text += text
        else:
            self._reasoning += text

    def _words(self, *, tagged: bool = True) -> str:
        words = self._rng.choices(WORDS, k=self._rng.randint(1, 4))
        if tagged:
            self.tagged.add(len(self.frames))
            words.insert(0, f"~{len(self.frames)}~")
        return " ".join(words) + self._rng.choice(["", " "])

    def _leak(self, field: str, calls: int, events: int) -> None:
        space = self._space
        before = f"<|tool_calls_section_begin|>{space}"
        for index in range(calls):
            name = self._rng.choice(sorted(TOOLS))
            header, named = self._rng.choice(
                [
                    (f"functions.{name}:{index}", True),
                    (f"functions.{name}:{index}", True),
                    (f"{name}:{index}", True),
                    (f"functions_{name}_{index}", True),
                    (f"call_{self._rng.randrange(10**6):06}", False),
                ]
            )
            head = f"{space}{header}{space}<|tool_call_argument_begin|>"
            self._torn(field, f"{before}<|tool_call_begin|>{head}{space}")
            self.held += _tails(f"{before}<|tool_call_begin|>{head}")
            arguments = ""
            # It is held until it is whole, and nothing of it is sent if the stream dies before.
            for piece in self._arguments(name, events, tagged=False):
                self._chunk({field: piece})
                arguments += piece
            self._calls.append((name, arguments))
            before = f"{space}<|tool_call_end|>{space}"
            if not named:
                self.held.append(f"{header}{arguments}{before}")
            # What may begin a marker, and what comes after a marker that may be quoted.
            self.held += [arguments[at.start() :] + before for at in re.finditer("<", arguments)]
        self._torn(field, f"{before}<|tool_calls_section_end|>")
        self.held += _tails(f"{before}<|tool_calls_section_end|>")

    def _torn(self, field: str, text: str) -> None:
        """The text in pieces cut anywhere, or whole."""
        longest = self._rng.choice([3, 20, 1000])
        while text:
            size = self._rng.randint(1, longest)
            self._chunk({field: text[:size]})
            text = text[size:]

    def _call(self, events: int) -> None:
        """A native call."""
        name = self._rng.choice(sorted(TOOLS))
        index, self._native = self._native, self._native + 1
        leaked = [called for called, _ in self._calls[: len(self._calls) - index]]
        first = {"index": index, "id": f"call_native{index}", "type": "function"}
        self._chunk({"tool_calls": [{**first, "function": {"name": name, "arguments": ""}}]})
        arguments = ""
        # What may repeat a call that leaked is held until it is whole.
        for piece in self._arguments(name, events, tagged=name not in leaked):
            self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            arguments += piece
        self._calls.append((name, arguments))

    def _arguments(self, name: str, events: int, *, tagged: bool) -> Any:
        """The pieces of a JSON object, one for each event."""
        yield f'{{"{TOOLS[name]}": "'
        for _ in range(max(2, events)):
            yield json.dumps(self._words(tagged=tagged), ensure_ascii=self._escapes)[1:-1]
        yield '"}'

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        text = json.dumps({**_head(), "choices": [choice]}, ensure_ascii=self._escapes)
        if self._go_escapes:
            text = text.replace("<", "\\u003c").replace(">", "\\u003e")
        self._frame(text)

    def _frame(self, data: str) -> None:
        self.frames.append(f"data: {data}{self._line_end * 2}".encode())


def _tails(text: str) -> list[str]:
    """What is left of a text that begins with any number of whole markers."""
    tails = [text]
    for marker in re.finditer(r"<\|\w+\|>", text):
        tails.append(text[marker.end() :])
        # White space between two markers may go with either.
        tails += [tails[-1].lstrip(), text[: marker.start()][-1:].strip() + text[marker.start() :]]
    return tails


def _head() -> dict[str, Any]:
    head = {"id": "chatcmpl-soak", "object": "chat.completion.chunk", "created": 1_700_000_000}
    return {**head, "model": "kimi-k2.5"}
