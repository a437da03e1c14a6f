"""What repair reads is the same on each way of a reply, through one mitmdump: chat, a chat host for
a client of the Responses or the Messages API, and hosts that speak either themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fixtures.server import Reply
from tests.bridge.hosts import VLLM
from tests.bridge.messages_streams import document
from tests.bridge.messages_streams import read as read_message
from tests.bridge.messages_streams import stream as message_stream
from tests.live.mitmdump import Mitmdump
from tests.live.unknown_host import Host, UnknownHosts
from tests.repair.formats.test_all_formats import CALLS
from tests.repair.formats.turns import TOOLS
from tests.repair.streams import chunk, read, sse

WAYS = {
    # the API of the client, and that of the host
    "chat": ("chat", "chat"),
    "Responses at a chat host": ("responses", "chat"),
    "Messages at a chat host": ("messages", "chat"),
    "Responses": ("responses", "responses"),
    "Messages": ("messages", "messages"),
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
LS, MEANT = '{"command":"ls"}', [("bash", {"command": "ls"})]
K2, K3 = "kimi-k2.5", "kimi-k3"
MUSE = (
    "<|start|>assistant to=bash<|message|><atem:function_calls>"
    '<atem:invoke name="bash"><atem:parameter name="command">ls</atem:parameter></atem:invoke>'
    "</atem:function_calls>"
)
HEADER = "<|channel|>commentary to=functions.bash<|channel|>commentary"
OSS = f"{HEADER} json<|message|>{LS}<|call|>commentary{HEADER}"
RM, BASH = (
    f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{LS}\n```<｜tool▁call▁end｜>"
    for name in ("rm", "bash")
)
LEAKS = [
    # the model, what leaks, and which text stays
    (K2, f"Look. {SB}{CB}functions. bash:15{AB}{LS}{CE}{SE}", "Look. "),
    (K2, f"Look. {SB}{CB}<bad>{AB}{LS}{CE}{SE} Done.", "Look.  Done."),
    (K2, f"Look. {SB}{CB}functions.bash:0 extra{AB}{LS}{CE}{SE}", "Look. "),
    ("muse-spark", f"Look.{MUSE}", "Look."),
    ("gpt-oss-20b", f"Look.{OSS}", "Look."),
    (
        "deepseek-v3",
        f"<｜tool▁calls▁begin｜>{RM}\n{BASH}<｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜>{RM}\n",
    ),
]
NAMED = [
    "K3 begins a thought with <|open|>think<|sep|> and ends it with <|close|>think<|sep|>, so.",
    f"The markers {SB} {SE} are around the calls.",
    f"| begin | {SB} |\n|---|---|\n| end | {SE} |",
]
QUOTES = [
    "<!-- {} -->",
    "<a><![CDATA[{}]]></a>",
    "\\begin{{verbatim}}\n{}\n\\end{{verbatim}}",
    "[code]{}[/code]",
    "| a | {} |",
]
QUOTED = [
    (model, f"So:\n\n{quote.format(CALLS[name].replace('¦', ''))}\n\nThat is it.")
    for model, name in ((K2, "kimi_k2"), ("qwen3", "hermes"), ("deepseek-v4", "dsml"))
    for quote in QUOTES
]
CASES = [
    *((model, leak, text, MEANT) for model, leak, text in LEAKS),
    *((model, text, text, []) for text in NAMED for model in (K2, K3)),
    *((model, text, text, []) for model, text in QUOTED),
]


@dataclass(frozen=True)
class Said:
    """What a client read."""

    thoughts: str
    text: str
    calls: list[tuple[str, Any]]


def reply(api: str, model: str, thoughts: str, text: str, *, whole: bool) -> Reply:
    """What a host of this API says; its thoughts in one event."""
    cut = [[thoughts] if thoughts else [], [text[at : at + 9] for at in range(0, len(text), 9)]]
    if api == "chat":
        fields = dict(zip(("reasoning_content", "content"), cut, strict=True))
        deltas = [{name: piece} for name, pieces in fields.items() for piece in pieces]
        if not whole:
            chunks = [chunk(delta, model=model) for delta in deltas]
            return Reply(sse([*chunks, chunk({}, "stop", model=model)]))
        message = {"role": "assistant", "content": text}
        message |= {"reasoning_content": thoughts} if thoughts else {}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        value: Any = {"id": "chatcmpl-1", "model": model, "choices": [choice]}
    elif api == "responses":
        said = [part for part in zip(("reasoning", "text"), cut, strict=True) if part[1]]
        if not whole:
            return Reply(VLLM.stream(said, model=model))
        value = VLLM.events(said, model=model)[-1]["response"]
    else:
        blocks = [part for part in zip(("thinking", "text"), cut, strict=True) if part[1]]
        if not whole:
            return Reply(message_stream(blocks, model=model))
        value = document(blocks) | {"model": model}
    return Reply(json.dumps(value).encode(), "application/json")


def asked(api: str, model: str, *, whole: bool) -> dict[str, Any]:
    request = {"model": model, "stream": not whole}
    schemas = {name: {"type": "object", "properties": each} for name, each in TOOLS.items()}
    said = [{"role": "user", "content": "List them."}]
    if api == "responses":
        tools = [{"type": "function", "name": n, "parameters": s} for n, s in schemas.items()]
        return request | {"input": "List them.", "tools": tools}
    if api == "messages":
        tools = [{"name": n, "input_schema": s} for n, s in schemas.items()]
        return request | {"max_tokens": 99, "messages": said, "tools": tools}
    functions = [{"name": n, "parameters": s} for n, s in schemas.items()]
    tools = [{"type": "function", "function": each} for each in functions]
    return request | {"messages": said, "tools": tools}


def read_by(api: str, body: bytes, *, whole: bool) -> Said:
    """What a client of this API reads."""
    if api == "chat" and whole:
        message = json.loads(body)["choices"][0]["message"]
        calls = [each["function"] for each in message.get("tool_calls", ())]
        thoughts, text = message.get("reasoning_content"), message["content"]
        return _said([thoughts or ""], [text or ""], [(c["name"], c["arguments"]) for c in calls])
    if api == "chat":
        got = read(body)
        calls = [(call["name"], call["arguments"]) for call in got.calls]
        assert got.finish == ["tool_calls" if calls else "stop"]
        return _said([got.reasoning], [got.content], calls)
    if api == "responses":
        lines = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
        last = json.loads(body if whole else lines[-1].removeprefix(b"data: "))
        items = (last if whole else last["response"])["output"]
        calls = [(each["name"], each["arguments"]) for each in items if "name" in each]
        kinds: dict[str, list[str]] = {"reasoning": [], "message": [], "function_call": []}
        for item in items:
            parts = [*(item.get("content") or []), *(item.get("summary") or [])]
            kinds[item["type"]] += [part["text"] for part in parts]
        return _said(kinds["reasoning"], kinds["message"], calls)
    blocks = json.loads(body)["content"] if whole else read_message(body).blocks
    given = [(each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"]
    texts = [[b[k] for b in blocks if b["type"] == k] for k in ("thinking", "text")]
    return _said(*texts, given)


def _said(thoughts: list[str], texts: list[str], calls: Sequence[tuple[str, Any]]) -> Said:
    given = [(n, json.loads(each) if isinstance(each, str) else each) for n, each in calls]
    return Said("".join(thoughts), "".join(texts), given)


@pytest.fixture
def host(unknown: UnknownHosts, mitmdump: Callable[..., Mitmdump]) -> Host:
    proxy = mitmdump("--mode", f"reverse:{unknown.url}")
    return Host(unknown, proxy, proxy.url)


def exchange(host: Host, way: str, model: str, thoughts: str, text: str, *, whole: bool) -> Said:
    client, api = WAYS[way]
    sent = reply(api, model, thoughts, text, whole=whole and api == client)
    if api == "chat":
        host.says(chat=sent)
    else:
        host.says(sent)
    headers = [("anthropic-version", "2023-06-01")] if client == "messages" else []
    got = host.ask(asked(client, model, whole=whole), *headers, path=PATHS[client])
    assert (got.status, got.complete) == (200, True)
    return read_by(client, got.body, whole=whole)


every_way = pytest.mark.parametrize("way", WAYS)
each_form = pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])


@every_way
@each_form
def test_each_way_reads_the_same(host: Host, way: str, whole: bool) -> None:
    for model, leak, text, calls in CASES:
        got = exchange(host, way, model, "", leak, whole=whole)
        assert (model, leak, got) == (model, leak, Said("", text, calls))


@every_way
@each_form
def test_thoughts_with_a_section_and_no_call_lose_nothing(
    host: Host, way: str, whole: bool
) -> None:
    one_event = way == "chat" and not whole  # then the specification has it be the answer
    answer, thoughts = ("Hello ", "world") if one_event else ("", "Hello world")
    got = exchange(host, way, K2, f"Hello {SB}world", "", whole=whole)
    assert got == Said(thoughts, answer, [])
