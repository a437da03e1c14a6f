"""Decodes the content encoding of a body that came whole.

Dragoman asks upstreams not to compress, and a stream that is compressed all the same passes unread.
mitmproxy's own decoders have no limit: here its libraries are given so little at a time that no
more than 16 MB beyond the caller's limit are ever inflated, against decompression bombs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mitmproxy.net import encoding as mitmproxy_encoding

IDENTITY = ("", "identity")
"""The names of no encoding."""


class DecodingError(Exception):
    """The body is damaged."""


class UnknownEncodingError(DecodingError):
    """There is no decoder."""


class TooLargeError(DecodingError):
    """The body is larger than the caller reads."""


class CutOffError(DecodingError):
    """The body ends too early; all that came was decoded."""


_INFLATED = 2 * 1024
"""Bytes that are given to zlib at once: their worst decodes to some 2 MB."""
_Member = Any
"""A decompressor like those of `zlib`, with `decompress`, `eof` and `unused_data`: for one gzip
member, one zstd frame."""


class _Brotli:
    """brotli's decompressor in the terms of the others; it has no members."""

    unused_data = b""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def eof(self) -> Any:
        return self._inner.is_finished()

    def decompress(self, data: bytes) -> Any:
        return self._inner.process(data)


def _decoder_for(name: str, body: bytes) -> tuple[Callable[[], _Member], int] | None:
    """What decodes a member, and how many bytes it is given at once: their worst decodes to some
    16 MB.  None if there is no decoder."""
    if name in ("gzip", "x-gzip"):
        return partial(zlib.decompressobj, zlib.MAX_WBITS | 16), _INFLATED
    if name == "deflate":
        # With the header of zlib (RFC 9110: method 8, and a multiple of 31), or bare.
        headed = body[:1] and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return partial(zlib.decompressobj, zlib.MAX_WBITS if headed else -zlib.MAX_WBITS), _INFLATED
    brotli: Any = getattr(mitmproxy_encoding, "brotli", None)
    if name == "br" and brotli is not None:
        return lambda: _Brotli(brotli.Decompressor()), 16
    zstandard: Any = getattr(mitmproxy_encoding, "zstd", None)
    if name == "zstd" and hasattr(zstandard, "ZstdDecompressor"):
        return lambda: _zstandard(zstandard.ZstdDecompressor()), 512
    return None


def _zstandard(decompressor: Any) -> _Member:
    # The zstandard package decodes through another object, the standard library's module
    # (Python 3.14) by itself.
    return decompressor.decompressobj() if hasattr(decompressor, "decompressobj") else decompressor


def decode(body: bytes, content_encoding: str, limit: int) -> Iterator[bytes]:
    """A whole body: itself if it is not encoded, else in pieces, some empty.  Raises
    `DecodingError` after all that could be decoded, also for more than `limit` bytes."""
    name, pieces = content_encoding.strip().lower(), iter((body,))
    if name not in IDENTITY:
        decoder = _decoder_for(name, body)
        if decoder is None:
            raise UnknownEncodingError(f"there is no decoder for {content_encoding[:40]!r}")
        pieces = _decoded(body, *decoder)
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            raise TooLargeError("it is too large")
        yield piece


def _decoded(body: bytes, make_member: Callable[[], _Member], step: int) -> Iterator[bytes]:
    """What each `step` bytes of the body decode to; it may have several members."""
    member: _Member | None = None
    for start in range(0, len(body), step):
        part = body[start : start + step]
        while part:
            member = member or make_member()
            try:
                decoded = member.decompress(part)
            except Exception as error:  # each library has an exception of its own
                raise DecodingError(f"it is damaged ({error or type(error).__name__})") from None
            yield decoded
            part, member = (member.unused_data, None) if member.eof else (b"", member)
    if member is not None:
        raise CutOffError("it ends too early")
