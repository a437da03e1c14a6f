"""The scanner's table through a real mitmdump: what a client gets is what the stages give."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from fixtures.regenerate import chat_fixtures, request
from fixtures.server import Upstream
from tests.live.chat import Chat
from tests.live.mitmdump import Mitmdump
from tests.repair import test_native_calls as native_calls
from tests.repair.formats import (
    test_deepseek,
    test_glm,
    test_harmony,
    test_hermes,
    test_mistral,
    test_qwen,
)
from tests.repair.formats.turns import REQUEST as WITH_BASH
from tests.repair.streams import chunk, read, repair, sse
from tests.repair.test_scanner import TABLE
from tests.repair.turns import REQUEST

MODELS = {"any": "kimi-k2.5", "declared": "my-model", "none": "gpt-5.5"}
FORMATS = {
    "deepseek-r1": test_deepseek.TABLE["several"],
    "openai/gpt-oss-120b": test_harmony.TABLE["several"],
    "devstral-small": test_mistral.TABLE["a longer list"],
    "qwen2.5-coder": test_hermes.TABLE["several"],
    "accounts/fireworks/models/qwen3-coder": test_qwen.TABLE["several"],
    "z-ai/glm-5.2:free": test_glm.TABLE["several"],
    "my-model": test_glm.TABLE["several"],
}
"""By the name of a model, what it leaks and what that means."""
_MADE = re.compile(rb"call_(\d)_\d+")
"""Ids that are made of the time."""


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    return Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))


def stream(text: str, model: str, field: str, size: int) -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [*(chunk({field: piece}) for piece in pieces), chunk({}, "stop")]
    return sse([{**value, "model": model} for value in chunks])


@pytest.mark.parametrize(("rule", "text", "wanted"), TABLE.values(), ids=list(TABLE))
def test_a_client_gets_what_the_stages_give(chat: Chat, rule: str, text: str, wanted: str) -> None:
    model = MODELS[rule]
    request = REQUEST | {"model": model, "stream": True}
    for field, size in (("content", 5), ("content", 10_000), ("reasoning_content", 5)):
        upstream = stream(text, model, field, size)
        got = chat.ask(upstream, ";cut=bytes:400", request=request)
        assert got.complete
        assert _MADE.sub(rb"\1", got.body) == _MADE.sub(rb"\1", repair(upstream, request))
        if wanted == "=":
            assert got.body == upstream
        else:
            calls = re.findall(r"\[(\S+) ", wanted) if "[[" not in wanted else None
            assert calls is None or [call["name"] for call in read(got.body).calls] == calls


@pytest.mark.parametrize("cut", [";cut=event", ";cut=bytes:37"])
def test_a_client_gets_what_every_fixture_means(chat: Chat, cut: str) -> None:
    """Of one proxy, one after the other."""
    for folder in chat_fixtures():
        file = next(folder.glob("chat.*"))
        got = chat.ask(folder.name, cut, request=request(folder))
        assert got.complete == (not folder.name.endswith("ends_inside_call")), folder.name
        whole = _MADE.sub(rb"\1", file.read_bytes())
        # A stream that breaks off has no end of its own: the finish reason is made for it.
        wanted = whole if got.complete else whole[: whole.rindex(b"data: ")]
        assert _MADE.sub(rb"\1", got.body) == wanted, folder.name


@pytest.mark.parametrize(("model", "leak"), FORMATS.items(), ids=list(FORMATS))
def test_a_client_gets_what_other_models_leak(
    chat: Chat, model: str, leak: tuple[str, str]
) -> None:
    text, wanted = leak
    request = WITH_BASH | {"model": model, "stream": True}
    got = read(chat.ask(stream(text, model, "content", 5), ";cut=bytes:400", request=request).body)
    calls = "".join(f"[{call['name']} {call['arguments']}]" for call in got.calls)
    assert f"{calls}{got.content}".split() == wanted.split()
    assert got.finish == ["tool_calls"]


@pytest.mark.parametrize("shape", native_calls.DEFECTS)
def test_a_client_gets_the_native_calls_that_were_meant(chat: Chat, shape: str) -> None:
    request = WITH_BASH | {"model": "my-model", "stream": True}
    upstream = native_calls.stream(native_calls.DEFECTS[shape])
    got = read(chat.ask(upstream, ";cut=bytes:400", request=request).body)
    calls = [(call["name"], json.loads(call["arguments"])) for call in got.calls]
    assert calls == native_calls.meant(shape)
