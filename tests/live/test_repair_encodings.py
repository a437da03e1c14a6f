"""Compressed replies: whole ones are decoded and repaired, streams pass unread."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from fixtures.server import Reply, Upstream
from tests.live.chat import REQUEST, Chat, fixture_bytes
from tests.live.mitmdump import Mitmdump
from tests.repair.streams import read

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


@pytest.mark.parametrize("how", PACK)
def test_a_compressed_stream_passes_unread(chat: Chat, how: str) -> None:
    packed_stream = packed(how, fixture_bytes(FIXTURE))
    for cut in ("whole", "bytes:13"):
        assert_passes(chat, packed_stream, f";cut={cut}")


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "x"])
def test_so_does_one_of_an_unknown_encoding(chat: Chat, encoding: str) -> None:
    headers = (("content-encoding", encoding),)
    assert_passes(chat, Reply(bytes(range(256)), headers=headers))


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_it_passes_as_it_comes(chat: Chat, encoding: str) -> None:
    options = f";encoding={encoding};cut=event;hold=2"
    reply = chat.ask(FIXTURE, options, release_when=lambda body: len(body) > 100)
    assert reply.complete


def assert_passes(chat: Chat, sent: Reply, options: str = "") -> None:
    """And the log and the list say so."""
    reply = chat.ask(sent, options)
    assert (reply.complete, reply.body) == (True, sent.body)
    encoding = dict(sent.headers)["content-encoding"]
    assert reply.header("content-encoding") == encoding
    chat.proxy.wait_for_log("not repaired: its stream is compressed .*identity was asked for")
    chat.proxy.wait_for_log(re.escape(f"passed unread ({encoding})"))


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_identity_is_no_encoding(chat: Chat, encoding: str) -> None:
    headers = (("content-encoding", encoding),)
    reply = chat.ask(Reply(fixture_bytes(FIXTURE), headers=headers))
    assert [call["name"] for call in read(reply.body).calls] == ["bash", "read"]


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
