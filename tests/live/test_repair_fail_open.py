"""A fault in any stage: the client still gets every byte of text and a clean end, or, once
something was changed, a reply that breaks off, after which it asks again.

`faults.py` makes the nth call of a function raise.  Every word of the reply is there once,
so it shows at once what was lost, doubled or moved.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live.chat import FAULTS, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.repair.streams import chunk, sse

USAGE = {"choices": [], "usage": {"total_tokens": 7}}
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Leak:
    """A leaking reply in which every word is there once."""

    words: list[str]
    deltas: list[dict[str, Any]]
    tools: list[dict[str, Any]]

    @property
    def request(self) -> dict[str, Any]:
        functions = [{"type": "function", "function": tool} for tool in self.tools]
        return {"stream": True, "tools": functions}

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [*map(chunk, self.deltas), chunk({}, "stop")]

    @property
    def stream(self) -> bytes:
        return sse([*self.chunks, USAGE])

    @property
    def stream_of_two_choices(self) -> bytes:
        """The second one is a chunk behind, so that frames of either wait for the other's."""
        pairs = zip([*self.chunks, None], [None, *self.chunks], strict=True)
        both = [_of_choice(i, value) for pair in pairs for i, value in enumerate(pair) if value]
        return sse([*both, USAGE])


def _of_choice(index: int, value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "choices": [{**choice, "index": index} for choice in value["choices"]]}


def leak(*, stripped: bool) -> Leak:
    """With a call whose begin marker the host has `stripped`, or without."""
    numbers = itertools.count(100)
    words: list[str] = []

    def word() -> str:
        words.append(f"w{next(numbers)}")
        return words[-1]

    texts = (word(), f" {word()} <", " ")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning": text, "reasoning_content": text} for text in texts]
    contents = [f"{word()} <|tool_calls_sec", "tion_begin|>"]
    names = []
    for index in range(2):
        names.append(word())
        contents += ["<|tool_call_begin|>", "func", f"tions.{names[-1]}"]
        contents += [f":{index}<|tool_call_argument_begin|>", '{"a": "']
        contents += [f"{word()} ", f"{word()} ", f"{word()} ", f"{word()} <|tool"]
        contents += [f"_call_end|> {word()}", f'{word()}", "b', f'": "{word()}"}} ']
        contents += ["<|tool_call_end|> "]
    contents += ["<|tool_call_begin|>", "1<|tool_call_argument_begin|>{"]
    contents += [f'"only": "{word()}"', "}<|tool_call_end|>", "<|tool_calls_section_end|>"]
    if stripped:
        names.append(word())
        contents += [names[-1], ":3", "<|tool_call_argument_begin|>", f'{{"a": "{word()}"}}']
        contents.append("<|tool_call_end|>")
    deltas += [{"content": content} for content in contents]
    names.append(word())
    head = {"id": "native", "type": "function", "function": {"name": names[-1], "arguments": ""}}
    arguments = f'{{"a": "{word()} ', f"{word()} ", f"{word()} ", f'{word()}"}}'
    native = [head, *({"function": {"arguments": piece}} for piece in arguments)]
    deltas += [{"tool_calls": [{"index": 0, **element}]} for element in native]
    deltas += [{"content": f" {word()} <"}, {"content": f" {word()} <|tool_"}]
    only = {"type": "object", "properties": {"only": {}}, "additionalProperties": False}
    tools = [{"name": name} for name in (*names, "re.named")]
    tools.append({"name": "unique", "parameters": only})
    return Leak(words, deltas, tools)


def words_of(body: bytes, index: int = 0) -> list[str]:
    """All words of a choice in their order, names and arguments of calls included."""
    said: list[str] = []
    *frames, last = body.removesuffix(b"\n\n").split(b"\n\n")
    assert last == b"data: [DONE]"
    for frame in frames:
        for choice in json.loads(frame.removeprefix(b"data: "))["choices"]:
            if choice["index"] == index:
                delta = choice["delta"]
                said += [delta.get("reasoning") or "", delta.get("content") or ""]
                for call in delta.get("tool_calls", []):
                    said += [call["function"].get("name", ""), call["function"]["arguments"]]
    return re.findall(r"w\d+", "".join(said))


STREAM_STAGES = [
    "proxy.flows.repair_reply:tools_of",
    "proxy.flows.repair_reply:RepairStream",
    "proxy.flows.cure_flow:request_value",
    "proxy.flows.cure_flow:History.of",
    "proxy.flows.cure_flow:asker_of",
    "bridge.cure.tool_names:ToolNames.restored",
    "reply.facts:ReplyReader.more",
    "reply.facts:ReplyReader.words",
    "proxy.observe.monitor:FlowRecorder",
    "proxy.observe.monitor:_facts",
    "proxy.observe.monitor:headline",
    "proxy.observe.reply_log:Body.add",
    "proxy.observe.reply_log:ReplyLog._step",
    "proxy.observe.recorder:FlowRecorder.end",
    "wire.sse:FrameSplitter.feed",
    "wire.sse:FrameSplitter.close",
    "reply.frame_queue:QueuedRepair.feed",
    "reply.frame_queue:QueuedRepair.close",
    "reply.frame_queue:QueuedRepair._continue",
    "chat.reader:lone_text",
    "chat.same_frames:SameFrames.of",
    "chat.same_frames:SameFrames.text_in",
    "chat.same_frames:SameFrames.replace",
    "chat.same_frames:SameFrames.replacement",
    "wire.sse:bounded",
    "wire.sse:dumps",
    "chat.writer:encode_chunk",
    "reply.choice:Choice.read",
    "reply.channel:Channel.decide",
    "reply.frame_queue:QueuedRepair._release",
    "chat.writer:ChatWriter.write",
    "chat.reader:passages",
    "repair.scanner:Scanner.feed",
    "repair.scanner:Scanner.close",
    "repair.scanner:Scanner.take_more",
    "repair.call_finder:CallFinder.next_begin",
    "repair.call_reader:CallReader.run",
    "repair.formats.protocol:LeakFormat.match",
    "repair.formats.kimi_k2:header_of",
    "repair.call_namer:CallNamer.takes",
    "repair.call_namer:CallNamer.call",
    "repair.formats.kimi_k2:KimiParser.next",
    "repair.formats.kimi_k2:KimiParser.push",
    "repair.formats.kimi_k2:KimiParser._read_section",
    "repair.formats.json_arguments:JsonArguments.push",
    "repair.formats.json_arguments:JsonArguments.step",
    "repair.formats.json_arguments:JsonArguments.take_more",
    "repair.markdown:MarkdownCode.feed",
    "chat.repair:rules_for",
    "wire.json_progress:JsonProgress.follow",
    "reply.calls:Calls.leaked",
    "chat.call_ids:ReplyCallIds.leaked",
    "notes:Evidence.note",
    "notes:Evidence.lines",
]


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    return Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, FAULTS)))


LEAK = leak(stripped=True)


def ask_with_fault(chat: Chat, reply: bytes | Reply, fault: str, options: str = "") -> bytes | None:
    """The body with that fault, of which the log must hold one traceback; None if the
    flow ended before the fault was reached."""
    chat.proxy.mark()
    asked = {"model": "kimi-k2.5", "messages": [{"role": "user", "content": "Do it."}]}
    request = LEAK.request | asked | {"stream": isinstance(reply, bytes)}
    got = chat.ask(reply, options, request=request, headers=(("x-fault", fault),))
    assert got.status == 200
    assert got.complete or b"[DONE]" not in got.body
    log = chat.proxy.wait_for_log("fault (fired|not reached)")
    assert log.count(TRACEBACK) == ("fault fired" in log), log
    assert ("Streaming response" in log) == isinstance(reply, bytes)
    chat.proxy.mark()
    return got.body if "fault fired" in log else None


def test_without_a_fault_every_word_arrives_in_its_place(chat: Chat) -> None:
    reply = chat.ask(LEAK.stream, request=LEAK.request)
    assert words_of(reply.body) == LEAK.words
    quoted = b'<|tool"', b'<|tool_"'
    assert b"<|" not in reply.body.replace(quoted[0], b"").replace(quoted[1], b"")


def assert_whole_or_broken_off(body: bytes, words: list[str], index: int = 0) -> None:
    """Every word came in its place, or all up to where the reply breaks off."""
    whole = body.endswith(b"data: [DONE]\n\n")
    came = words_of(body if whole else body + b"data: [DONE]\n\n", index)
    assert came == (words if whole else words[: len(came)])


def faults(chat: Chat, stage: str, stream: bytes, options: str) -> list[bytes]:
    """The bodies with the 1st, 2nd, 3rd … call failing, until the stream ends before it; of
    many calls, ever fewer.  Which of the later ones is different for every stage."""
    bodies = []
    phase = sum(stage.encode()) % 5
    later = itertools.accumulate(itertools.repeat(0), lambda n, _: n * 4 // 3 + 1, initial=4)
    for nth in itertools.chain((1, 2, 3), (n + phase for n in later)):
        body = ask_with_fault(chat, stream, f"dragoman.{stage} {nth}", options)
        if body is None:
            break
        bodies.append(body)
    assert bodies, "the fault must be reached at least once"
    return bodies


@pytest.mark.parametrize("stage", STREAM_STAGES)
def test_a_fault_in_a_stream_costs_no_text(chat: Chat, stage: str) -> None:
    for body in faults(chat, stage, LEAK.stream, ";cut=bytes:3000"):
        assert_whole_or_broken_off(body, LEAK.words)


SLOW = [
    "wire.sse:FrameSplitter.feed",
    "reply.frame_queue:QueuedRepair.feed",
    "repair.scanner:Scanner.feed",
]


@pytest.mark.parametrize("stage", SLOW)
def test_a_fault_in_a_slow_stream_costs_no_text(chat: Chat, stage: str) -> None:
    for body in faults(chat, stage, LEAK.stream, ";cut=bytes:170;pace=0.0005"):
        assert_whole_or_broken_off(body, LEAK.words)


@pytest.mark.parametrize("stage", ["repair.scanner:Scanner.feed", "chat.writer:encode_chunk"])
def test_a_fault_in_a_stream_of_two_choices_costs_no_text(chat: Chat, stage: str) -> None:
    both = leak(stripped=False)
    for body in faults(chat, stage, both.stream_of_two_choices, ""):
        for index in (0, 1):
            assert_whole_or_broken_off(body, both.words, index)


WHOLE = {
    "id": "chatcmpl-1",
    "model": "kimi",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "w1 <|tool_calls_section_begin|><|tool_call_begin|>functions.w2:0"
                '<|tool_call_argument_begin|>{"a": "w3"}<|tool_call_end|>'
                "<|tool_calls_section_end|>",
            },
        }
    ],
}


@pytest.mark.parametrize(
    "stage",
    [
        "dragoman.proxy.flows.repair_reply:DeclaredTools.of_request",
        "dragoman.proxy.flows.repair_reply:body_of",
        "dragoman.proxy.flows.repair_reply:repair_in_steps",
        "dragoman.wire.sse:bounded_in_steps",
        "dragoman.chat.repair:dumps_in_steps",
        "dragoman.repair.scanner:Scanner.feed",
        "dragoman.chat.call_ids:ReplyCallIds.leaked",
    ],
)
def test_a_fault_leaves_a_whole_reply_as_it_came(chat: Chat, stage: str) -> None:
    upstream = json.dumps(WHOLE).encode()
    body = ask_with_fault(chat, Reply(upstream, "application/json"), f"{stage} 1")
    assert body == upstream
