"""The streams of the benchmark, made before anything is measured.

A stream is known by its name and its number of events: ``clean-20000``; ``clean+usage-20000``
if each of them has something besides its text that is of its own (`_VARIED`).  Every event is
one chunk of the size that providers send: a token or two of text, in an envelope of some
200 bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Gives what {name} gives.",
            "parameters": {"type": "object", "properties": {argument: {"type": "string"}}},
        },
    }
    for name, argument in [("bash", "command"), ("read", "path")]
]
STAMP = b"%020d"
"""How the time of an event is written into it: its length is always the same."""
_WORDS = (
    *(" the", " header", "s", " are", " in", " /", "usr", "/", "include", ",", " and", " there"),
    *(" is", " no", " other", ":", "\n", "- ", "`", "errno", ".h", "`", " says", ' "', "1", '"'),
)
_ARGUMENT_TOKENS = 60


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-8c3707e154df23bb", "object": "chat.completion.chunk"}
    head |= {"created": 1772202457, "model": "moonshotai/Kimi-K2.5-TEE"}  # type: ignore[dict-item]
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def _reasoning(text: str) -> bytes:
    return _chunk({"reasoning": text, "reasoning_content": text})


def _content(text: str) -> bytes:
    return _chunk({"content": text})


Group = list[bytes]
"""Events that belong together."""


def _clean(_: int) -> Iterator[Group]:
    """Text, as most of a chat is."""
    return ([_content(word)] for word in itertools.cycle(_WORDS))


def _thinking(_: int) -> Iterator[Group]:
    """Reasoning and text in turns of 500."""
    words = itertools.cycle(_WORDS)
    for said in itertools.cycle((_reasoning, _content)):
        yield from ([said(word)] for word in itertools.islice(words, 500))


def _leaked_call(number: int, tokens: int) -> Iterator[str]:
    yield from ("<|tool_call_begin|>", " functions", ".bash", f":{number} ")
    yield "<|tool_call_argument_begin|>"
    yield from _arguments(tokens)
    yield " <|tool_call_end|>"


def _arguments(tokens: int) -> Iterator[str]:
    yield from (' {"', "command", '": "')
    words = (word.strip('"\n\\') or " " for word in itertools.cycle(_WORDS))
    yield from itertools.islice(words, tokens)
    yield '"}'


def _calls(_: int) -> Iterator[Group]:
    """Calls that leak into the reasoning, one behind the other."""
    for number in itertools.count():
        call = _leaked_call(number, _ARGUMENT_TOKENS)
        texts = (" Now", " this", ":", " <|tool_calls_section_begin|>", *call)
        yield [*map(_reasoning, texts), _reasoning(" <|tool_calls_section_end|>")]


def _long_call(events: int) -> Iterator[Group]:
    """One call that leaks."""
    call = _leaked_call(0, max(0, events - 20))
    section = (" <|tool_calls_section_begin|>", *call, " <|tool_calls_section_end|>")
    yield [_reasoning(text) for text in section]


def _native(_: int) -> Iterator[Group]:
    """Calls as they are meant to be."""
    for number in itertools.count():
        opened = {"index": number, "id": f"call_{number}", "type": "function"}
        opened["function"] = {"name": "bash", "arguments": ""}
        more = (
            {"index": number, "function": {"arguments": text}}
            for text in _arguments(_ARGUMENT_TOKENS)
        )
        yield [_chunk({"tool_calls": [call]}) for call in (opened, *more)]


def _stamped(_: int) -> Iterator[Group]:
    """Text that holds the time at which it was sent, once the upstream has filled it in."""
    return itertools.repeat([_content("~" + (STAMP % 0).decode() + "~")])


def _varied(
    events: Iterator[Group], vary: Callable[[dict[str, Any], int], object]
) -> Iterator[Group]:
    """The same events, in each of which something besides its text is of its own."""
    number = itertools.count()

    def varied(frame: bytes) -> bytes:
        chunk = json.loads(frame.removeprefix(b"data: "))
        vary(chunk, next(number))
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    return ([varied(frame) for frame in group] for group in events)


def _count_usage(chunk: dict[str, Any], number: int) -> None:
    counted = {"prompt_tokens": 11, "completion_tokens": number, "total_tokens": 11 + number}
    chunk["usage"] = counted


def _obfuscate(chunk: dict[str, Any], number: int) -> None:
    """Of a length that hides the text's, as OpenAI does."""
    chunk["obfuscation"] = hashlib.sha256(b"%d" % number).hexdigest()[: 4 + number % 13]


_VARIED: dict[str, Callable[[dict[str, Any], int], object]] = {
    "created": lambda chunk, number: chunk.update(created=chunk["created"] + number),
    "usage": _count_usage,
    "obfuscation": _obfuscate,
}
"""What differs in every chunk of some hosts' streams, besides the text."""
_KINDS: dict[str, Callable[[int], Iterator[Group]]] = {
    "clean": _clean,
    "thinking": _thinking,
    "calls": _calls,
    "long_call": _long_call,
    "native": _native,
    "stamped": _stamped,
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 99, "total_tokens": 110}


def frames(name: str) -> tuple[bytes, ...]:
    """The events of a stream: so many of its kind, and those that begin and end it."""
    kind, _, number = name.rpartition("-")
    count = int(number)
    kind, _, vary = kind.partition("+")
    events = _KINDS[kind](count)
    if vary:
        events = _varied(events, _VARIED[vary])
    groups = itertools.chain(events, itertools.repeat([]))
    said: Group = []
    while len(said) + len(group := next(groups)) <= count and group:
        said += group
    said += itertools.islice(itertools.chain.from_iterable(_clean(count)), count - len(said))
    end = (_chunk({}, "stop"), _chunk({}, usage=USAGE), b"data: [DONE]\n\n")
    return (_chunk({"role": "assistant", "content": ""}), *said, *end)


@lru_cache(maxsize=8)
def chunked(name: str) -> tuple[bytes, ...]:
    """The same as they are written in HTTP/1.1, a chunk for each."""
    return tuple(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames(name))


MODEL = "kimi-k2.5"


def chat_request() -> bytes:
    """What a client asks a chat upstream."""
    messages = [{"role": "user", "content": "Where are the headers?"}]
    asked = {"model": MODEL, "messages": messages, "tools": TOOLS, "stream": True}
    return json.dumps(asked).encode()


def responses_request() -> bytes:
    """What a client of the Responses API asks."""
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    asked = {"model": MODEL, "input": "Where are the headers?", "tools": tools, "stream": True}
    return json.dumps(asked).encode()
