"""Whatever an upstream sends, the proxy's memory stays bounded."""

from __future__ import annotations

import functools
import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, REQUEST, Chat
from tests.live.mitmdump import ADDON, ROOT, Mitmdump
from tests.repair.streams import chunk, read, sse

MEGABYTE = 1024 * 1024
MEMORY_LIMIT = 300 * MEGABYTE
"""Of the whole process, which begins with some 80 MB."""


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    """A mitmdump of its own, whose peak of memory is that of these tests."""
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "keep_host_header=true"
    return Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


def assert_memory_bounded(chat: Chat) -> None:
    assert int(chat.control("memory").body) < MEMORY_LIMIT


def zeros(size: int, wbits: int) -> bytes:
    """That many zeros and no end, in a fraction of the time: the same block again and again."""
    packer = zlib.compressobj(wbits=wbits)
    head = packer.compress(b"\0" * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b"\0" * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (size // MEGABYTE - 1)


def brotli_zeros(size: int) -> bytes:
    packer = brotli.Compressor(quality=5)
    piece = b"\0" * 16 * MEGABYTE
    return b"".join(packer.process(piece) for _ in range(size // len(piece))) + packer.finish()


def zstandard_zeros(size: int, window: int = 0) -> bytes:
    parameters = {"window_log": window} if window else {}
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(compression_level=1, **parameters)
    ).compressobj()
    piece = b"\0" * 16 * MEGABYTE
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


def tiny_frames(size: int) -> bytes:
    return b"<\n\n" * (size // 3)


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: zeros(512 * MEGABYTE, 31)),
    "deflate": ("deflate", lambda: zeros(512 * MEGABYTE, 15)),
    "br": ("br", lambda: brotli_zeros(512 * MEGABYTE)),
    "zstd": ("zstd", lambda: zstandard_zeros(512 * MEGABYTE)),
    "zstd with a large window": ("zstd", lambda: zstandard_zeros(512 * MEGABYTE, 27)),
    "gzip of tiny frames": ("gzip", lambda: gzip.compress(tiny_frames(64 * MEGABYTE), 9)),
    "br of tiny frames": ("br", lambda: brotli.compress(tiny_frames(64 * MEGABYTE), quality=5)),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_flow_goes_when_it_has_ended_not_with_a_full_collection(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], path: str, stream: bool
) -> None:
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    uncollected = ROOT / "tests" / "live" / "without_collections.py"
    chat = Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, uncollected)))
    choice = {"index": 0, "message": {"content": "word"}, "finish_reason": "stop"}
    whole = Reply(json.dumps({"choices": [choice]}).encode(), "application/json")
    streamed = Reply(sse([chunk({"content": "word"}, finish="stop")]))
    plain_upstream.replies["held"] = streamed if stream else whole
    request = (responses.REQUEST if path == "/v1/responses" else REQUEST) | {"stream": stream}
    for _ in range(10):
        assert chat.ask("held", path=path, request=request).complete
    assert int(wire.exchange(f"{chat.proxy.url}/flows", b"").body) <= 3


@functools.cache
def made(bomb: str) -> bytes:
    return BOMBS[bomb][1]()


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_decompression_bomb_stays_small(chat: Chat, bomb: str, content_type: str) -> None:
    encoding, body = BOMBS[bomb][0], made(bomb)
    headers = (("content-encoding", encoding),)
    wants_stream = content_type == "text/event-stream"
    reply = chat.ask(
        Reply(body, content_type, headers=headers), request=REQUEST | {"stream": wants_stream}
    )
    chat.proxy.wait_for_log("its stream is compressed" if wants_stream else "it is too large")
    assert (reply.complete, reply.body) == (True, body)
    assert_memory_bounded(chat)


def test_a_call_of_many_megabytes_is_text_and_not_kept(chat: Chat) -> None:
    begin = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    deltas = [begin + "<|tool_call_argument_begin|>", '{"command": "']
    deltas += ["x" * 50_000] * 240
    deltas += ['"}<|tool_call_end|><|tool_calls_section_end|>']
    reply = chat.ask(sse([*(chunk({"content": delta}) for delta in deltas), chunk({}, "stop")]))
    got = read(reply.body)
    assert (got.calls, got.content == "".join(deltas)) == ([], True)
    assert_memory_bounded(chat)
