"""Whatever both sides sent: every page is made, of printable lines, in bounded time."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.exchange import Exchange, Step, Timing
from dragoman.inspect.pages.diff import diff_page
from dragoman.inspect.pages.page import clean
from dragoman.inspect.pages.request import request_page
from dragoman.inspect.pages.turn import turn_page
from dragoman.inspect.pages.upstream import upstream_page
from tests.bridge.replying import chunk, sse
from tests.bridge.test_reply_hostile import RICH, any_json, near_chunks, places, wild_chunks
from tests.counting import calls_of

PAGES = [turn_page, upstream_page, diff_page, request_page]
EVENTS = [
    *("response.created", "response.completed", "response.output_item.added", "error", "ping"),
    *("response.output_item.done", "response.output_text.delta", "response.output_text.done"),
    *("response.reasoning_summary_text.delta", "response.function_call_arguments.delta"),
    *("response.function_call_arguments.done", "response.custom_tool_call_input.done"),
    *("message_start", "content_block_start", "content_block_delta", "message_delta"),
    *("content_block_stop", "message_stop", "message"),
]
FIELDS = [
    *("response", "item", "delta", "output", "output_index", "item_id", "content_index"),
    *("type", "text", "arguments", "input", "name", "call_id", "summary", "content", "usage"),
    *("error", "status", "incomplete_details", "function", "model", "message", "code"),
    *("content_block", "index", "thinking", "partial_json", "stop_reason", "system"),
]
near_events = st.recursive(
    st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["message", "reasoning"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=15,
)
events = st.builds(
    lambda kind, fields: fields | {"type": kind},
    st.sampled_from(EVENTS),
    st.dictionaries(st.sampled_from(FIELDS), near_events, max_size=6),
)
streams = st.lists(wild_chunks | events, max_size=6).map(sse)
bodies = streams | st.binary(max_size=60) | (any_json | near_chunks).map(json.dumps).map(str.encode)
requests = st.builds(
    lambda fields: json.dumps(fields).encode(),
    st.dictionaries(
        st.sampled_from(["messages", "input", "tools", "model", "instructions", "stream"]),
        near_events | near_chunks,
    ),
)
timings = st.none() | st.builds(
    lambda numbers: Timing(tuple(Step(float(n), n, n) for n in sorted(numbers)), 1.0, 0.5),
    st.lists(st.integers(0, 2000), max_size=5),
)


def made(exchange: Exchange) -> None:
    for page in PAGES:
        for line in page(exchange):
            assert line.text == clean(line.text) and "\n" not in line.text
            line.text.encode()


@given(requests | bodies, bodies, bodies, timings, st.sampled_from(["watch", "bridge"]))
def test_a_soup_of_frames_gives_pages(
    request: bytes, upstream: bytes, client: bytes, timing: Timing | None, job: Any
) -> None:
    made(Exchange(job, request, request, upstream, client, timing=timing))


@pytest.mark.parametrize("path", places(RICH)[1:], ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_type_in_any_field_gives_pages(path: tuple[Any, ...]) -> None:
    *before, name = path
    values = json.loads(json.dumps(RICH))
    for wrong in (None, True, -1, 1e300, "x", [None], [[]], {"x": {}}):
        holder: Any = values
        for step in before:
            holder = holder[step]
        holder[name] = wrong
        made(Exchange("watch", b"", b"", sse(RICH), sse(values)))


def test_what_steers_terminals_or_hides_text_is_shown_as_codes() -> None:
    evil = "\x1b[2J\u202egnp\u2066\r\n\x00\ud800ok"
    body = sse([chunk({"content": evil})])
    page = turn_page(Exchange("watch", b"", b"", body, body))
    lines = [line.text for line in page]
    assert "  \\x1b[2J\\u202egnp\\u2066" in lines
    assert "  \\x00\\ud800ok" in lines


def tokens(size: int) -> bytes:
    return sse([chunk({"content": f"token{n} "}) for n in range(size // 190)])


def deltas(size: int) -> bytes:
    return b"".join(
        b'data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"m",'
        b'"output_index":0,"content_index":0,"delta":"token%d ","logprobs":[]}\n\n' % (n, n)
        for n in range(size // 190)
    )


LARGE: dict[str, tuple[Callable[[int], bytes], Callable[[int], bytes]]] = {
    "same": (tokens, tokens),
    "bridged": (tokens, deltas),
    "tiny": (lambda n: b"data: {}\n\n" * (n // 10), lambda n: b"data: []\n\n" * (n // 10)),
    "blank": (lambda n: b":" + b"\n" * n, lambda n: b":" + b"\r" * n),
    "one frame": (
        lambda n: sse([chunk({"content": "a b" * (n // 3)})]),
        lambda n: sse([chunk({"reasoning": "<" * n})]),
    ),
    "repeated": (lambda n: sse([chunk({"content": "a"})]) * (n // 170), tokens),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LARGE)
def test_four_times_the_bodies_cost_little_more_than_four_times_as_much(what: str) -> None:
    upstream, client = LARGE[what]
    timing = Timing((Step(1, 2, 3),))
    small, large = (
        Exchange("watch", b"", b"", upstream(size), client(size), timing=timing)
        for size in (10_000, 40_000)
    )
    for page in PAGES:
        few = calls_of(functools.partial(page, small))
        assert calls_of(functools.partial(page, large)) < 5 * few + 1000, page.__name__
