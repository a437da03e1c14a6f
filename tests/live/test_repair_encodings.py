"""Compressed replies: decoded and repaired, however they are cut or damaged."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from fixtures.server import Reply, Upstream
from tests.live.chat import REQUEST, Chat, fixture_bytes
from tests.live.mitmdump import Mitmdump
from tests.repair.streams import chunk, read, sse

FIXTURE = "kimi_specification"


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    return Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))


def deflate(body: bytes, wbits: int) -> bytes:
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(body) + packer.flush()


PACK: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZip", gzip.compress),
    "gzip members": (
        "gzip",
        lambda b: b"".join(gzip.compress(b[i : i + 99]) for i in range(0, len(b), 99)),
    ),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", lambda b: deflate(b, -15)),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "zstd frames": ("zstd", lambda b: zstandard.compress(b[:99]) + zstandard.compress(b[99:])),
}


def packed(how: str, body: bytes, content_type: str = "text/event-stream") -> Reply:
    name, pack = PACK[how]
    return Reply(pack(body), content_type, headers=(("content-encoding", name),))


def frames(body: bytes) -> list[bytes]:
    assert body.endswith(b"\n\n")
    return body.removesuffix(b"\n\n").split(b"\n\n")


@pytest.mark.parametrize("cut", ["whole", "bytes:1", "bytes:13"])
@pytest.mark.parametrize("how", PACK)
def test_a_compressed_stream_is_decoded_and_repaired(chat: Chat, how: str, cut: str) -> None:
    reply = chat.ask(packed(how, fixture_bytes(FIXTURE)), f";cut={cut}")
    assert reply.complete
    assert reply.header("content-encoding") is None
    result = read(reply.body)
    assert [call["name"] for call in result.calls] == ["bash", "read"]
    assert result.finish == ["tool_calls"]
    assert b"<|" not in reply.body
    assert reply.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_stream_is_live(chat: Chat, encoding: str) -> None:
    options = f";encoding={encoding};cut=event;hold=2"
    reply = chat.ask(FIXTURE, options, release_when=lambda body: b"I need" in body)
    assert reply.complete
    calls = read(reply.body).calls
    assert [call["name"] for call in calls] == ["bash", "read"]


@pytest.mark.parametrize("how", PACK)
def test_a_compressed_stream_without_markers_is_decoded_and_else_identical(
    chat: Chat, how: str
) -> None:
    body = fixture_bytes("clean_odd_framing")
    assert chat.ask(packed(how, body), ";cut=bytes:7").body == body


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_identity_is_no_encoding(chat: Chat, encoding: str) -> None:
    headers = (("content-encoding", encoding),)
    reply = chat.ask(Reply(fixture_bytes(FIXTURE), headers=headers))
    assert [call["name"] for call in read(reply.body).calls] == ["bash", "read"]


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "x"])
def test_an_unknown_encoding_passes_and_is_logged(chat: Chat, encoding: str) -> None:
    body = bytes(range(256))
    reply = chat.ask(Reply(body, headers=(("content-encoding", encoding),)))
    assert reply.complete
    assert reply.body == body
    assert reply.header("content-encoding") == encoding
    chat.proxy.wait_for_log("cannot decode")


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "zstd"])
def test_a_damaged_stream_breaks_off(chat: Chat, how: str) -> None:
    name, pack = PACK[how]
    # Without an end of its own: a check sum may come too late to take that back.
    stream = sse([chunk({"content": f"word{i}"}) for i in range(2000)], done=False)
    body = pack(stream)
    half = len(body) // 2
    damaged = body[:half] + bytes(byte ^ 0x55 for byte in body[half : half + 40]) + body[half:]
    headers = (("content-encoding", name),)
    reply = chat.ask(Reply(damaged, headers=headers), ";cut=bytes:400")
    assert not reply.complete
    assert reply.body.startswith(stream[: len(stream) // 4])  # of half the body
    chat.proxy.wait_for_log("compressed body is unusable|compressed body ends too early")


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_compressed_at_all_breaks_off(chat: Chat, how: str) -> None:
    headers = (("content-encoding", PACK[how][0]),)
    reply = chat.ask(Reply(b"<html>Bad gateway</html>" * 100, headers=headers))
    assert not reply.complete
    assert reply.body == b""


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "zstd"])
def test_a_compressed_stream_cut_off_inside_an_event_breaks_off(chat: Chat, how: str) -> None:
    stream = sse([chunk({"content": f"word{i}"}) for i in range(500)])
    whole = packed(how, stream)
    reply = chat.ask(Reply(whole.body[: len(whole.body) * 2 // 3], headers=whole.headers))
    assert not reply.complete
    assert stream.startswith(reply.body)
    assert not reply.body or reply.body.endswith(b"\n\n")
    chat.proxy.wait_for_log("body ends too early")


def test_a_compressed_stream_may_end_between_events(chat: Chat) -> None:
    packer = zlib.compressobj(wbits=31)
    stream = fixture_bytes("clean_text")
    body = packer.compress(stream) + packer.flush(zlib.Z_SYNC_FLUSH)
    reply = chat.ask(Reply(body, headers=(("content-encoding", "gzip"),)))
    assert reply.body == stream
    chat.proxy.wait_for_log("body ends too early")


@pytest.mark.parametrize("how", PACK)
def test_a_compressed_json_body_is_repaired(chat: Chat, how: str) -> None:
    body = fixture_bytes("kimi_whole_message", "upstream.json")
    request = {**REQUEST, "stream": False}
    reply = chat.ask(packed(how, body, "application/json"), request=request)
    assert reply.complete
    unpack = {
        "gzip": gzip.decompress,
        "x-gzip": gzip.decompress,
        "deflate": zlib.decompress,
        "br": brotli.decompress,
        "zstd": lambda b: zstandard.ZstdDecompressor().decompressobj().decompress(b),
        None: bytes,
    }[reply.header("content-encoding")]
    (choice,) = json.loads(unpack(reply.body))["choices"]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["bash"]
    assert choice["finish_reason"] == "tool_calls"
    length = reply.header("content-length")
    assert length is None or int(length) == len(reply.body)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate", "compress"])
def test_a_damaged_json_body_passes_and_is_logged(chat: Chat, encoding: str) -> None:
    body = b"\x1f\x8b\x08 damaged" * 20
    reply = chat.ask(
        Reply(body, "application/json", headers=(("content-encoding", encoding),)), request={}
    )
    assert reply.complete
    assert reply.body == body
    chat.proxy.wait_for_log("not repaired")
