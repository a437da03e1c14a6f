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
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from tests.bridge.hosts import VLLM

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
_MODEL = "moonshotai/Kimi-K2.5-TEE"


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-8c3707e154df23bb", "object": "chat.completion.chunk"}
    head |= {"created": 1772202457, "model": _MODEL}  # type: ignore[dict-item]
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
    yield from _argument(tokens)
    yield '"}'


def _argument(tokens: int) -> Iterator[str]:
    words = (word.strip('"\n\\') or " " for word in itertools.cycle(_WORDS))
    return itertools.islice(words, tokens)


def _calls(_: int) -> Iterator[Group]:
    """Calls that leak into the reasoning, one behind the other."""
    for number in itertools.count():
        call = _leaked_call(number, _ARGUMENT_TOKENS)
        texts = (" Now", " this", ":", " <|tool_calls_section_begin|>", *call)
        yield [*map(_reasoning, texts), _reasoning(" <|tool_calls_section_end|>")]


_INVOKED = '<invoke name="bash">\n<parameter name="command">…</parameter>\n</invoke>\n'
_DSML = f"<tool_calls>\n{_INVOKED}</tool_calls>".replace("</", "≤").replace("<", "<｜DSML｜")
LEAKS = {
    "k3": (
        "kimi-k3",
        '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|><|open|>argument '
        'key="command" type="string"<|sep|>…<|close|>argument<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|>",
    ),
    "dsml": ("deepseek-v4", _DSML.replace("≤", "</｜DSML｜")),
    "deepseek": (
        "deepseek-v3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>"
        '{"command": "…"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ),
    "hermes": (
        "qwen2.5",
        '<tool_call>\n{"name": "bash", "arguments": {"command": "…"}}\n</tool_call>',
    ),
    "qwen": (
        "qwen3-coder",
        "<tool_call>\n<function=bash>\n<parameter=command>\n…\n</parameter>\n</function>\n"
        "</tool_call>",
    ),
    "glm": (
        "glm-5.2",
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>…</arg_value>\n</tool_call>",
    ),
    "minimax_m2": ("minimax-m2.1", f"<minimax:tool_call>\n{_INVOKED}</minimax:tool_call>"),
    "minimax_m3": (
        "minimax-m3",
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="bash">]<]minimax[>[<command>…'
        "]<]minimax[>[</command>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    ),
    "harmony": (
        "gpt-oss-120b",
        "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>"
        '{"command": "…"}<|call|>',
    ),
    "mistral": ("devstral-small", '[TOOL_CALLS]bash[ARGS]{"command": "…"}'),
}
"""By a format, the model that writes it, and a call whose argument is to be filled in."""
OPENERS = {
    "words": " words of the same size",
    "tool_call": "<tool_call>",
    "section": "<|tool_calls_section_begin|>",
    "channel": "<|channel|>",
    "mistral": "[TOOL_CALLS]",
    "half": "x <|",
}
"""What a hostile text repeats, and what a clean one would."""
_UNKNOWN = "some-model"
_TOKEN = re.compile(r"<[|｜][\w▁]+[|｜]>|\s?\w+|[^\w\s]+|\s+")


def _calls_of(leak: str, _: int) -> Iterator[Group]:
    """Calls of a format that leak into the text, one behind the other."""
    head, end = (_TOKEN.findall(text) for text in LEAKS[leak][1].split("…"))
    texts = (" Now", " this", ":\n", *head, *_argument(_ARGUMENT_TOKENS), *end)
    return itertools.repeat([*map(_content, texts)])


def _openers(text: str, _: int) -> Iterator[Group]:
    """Markers with which no call begins, from a model that may write any."""
    return itertools.repeat([_content(text)])


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
    **{f"calls_{leak}": partial(_calls_of, leak) for leak in LEAKS},
    **{f"openers_{name}": partial(_openers, text) for name, text in OPENERS.items()},
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 99, "total_tokens": 110}


def frames(name: str) -> tuple[bytes, ...]:
    """The events of a stream: so many of its kind, and those that begin and end it."""
    kind, _, number = name.rpartition("-")
    count = int(number)
    kind, _, vary = kind.partition("+")
    if kind == "responses":
        return _responses(count)
    events = _KINDS[kind](count)
    if vary:
        events = _varied(events, _VARIED[vary])
    groups = itertools.chain(events, itertools.repeat([]))
    said: Group = []
    while len(said) + len(group := next(groups)) <= count and group:
        said += group
    said += itertools.islice(itertools.chain.from_iterable(_clean(count)), count - len(said))
    end = (_chunk({}, "stop"), _chunk({}, usage=USAGE), b"data: [DONE]\n\n")
    whole = (_chunk({"role": "assistant", "content": ""}), *said, *end)
    unknown = _UNKNOWN if kind.startswith("openers_") else _MODEL
    model, _ = LEAKS.get(kind.removeprefix("calls_"), (unknown, ""))
    return tuple(frame.replace(_MODEL.encode(), model.encode()) for frame in whole)


def _responses(count: int) -> tuple[bytes, ...]:
    """Text, from a host that speaks the Responses API itself."""
    words = [*itertools.islice(itertools.cycle(_WORDS), count)]
    stream = VLLM.stream([("text", words)], model=_MODEL)
    return tuple(frame + b"\n\n" for frame in stream.split(b"\n\n")[:-1])


@lru_cache(maxsize=16)
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
