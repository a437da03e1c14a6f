"""The scanner's table through a real mitmdump: what a client gets is what the stages give."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fixtures.server import Upstream
from tests.live.chat import Chat
from tests.live.mitmdump import Mitmdump
from tests.repair.streams import chunk, read, repair, sse
from tests.repair.test_scanner import TABLE
from tests.repair.turns import REQUEST

MODELS = {"any": "kimi-k2.5", "declared": "my-model", "none": "gpt-5.5"}
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
