"""Decodes content encodings piece by piece as a body arrives.

Dragoman asks upstreams not to compress, but some do.  The output of one step is bounded, and so
is the total in relation to the input (`DecodingError`), against decompression bombs. brotli and
zstandard come with mitmproxy; one that its build lacks is not offered by `decoder_for`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mitmproxy.net import encoding as mitmproxy_encoding

STEP = 64 * 1024
"""Bytes of one piece of output at most."""
AT_ONCE = 8 * 1024
"""Bytes of a body that are decoded by one call, to some megabytes at most."""
ALLOWED_RATIO = 256
ALLOWED_SLACK = 2 * 1024 * 1024
"""A body may decode to this many bytes, plus `ALLOWED_RATIO` for each byte received.
A stream of one-word events, which repeat all but the word, reaches a ratio of about 75."""


MAX_REPLY = 8 * 1024 * 1024
"""Bytes of a reply that is read as a whole, at once: that takes some 100 ms.  No model writes half
as much."""


class DecodingError(Exception):
    """The body is damaged, or decodes to suspiciously much."""


class UnknownEncodingError(DecodingError):
    """There is no decoder."""


class TooLargeError(DecodingError):
    """The body is larger than the caller reads."""


class CutOffError(DecodingError):
    """The body ends too early; all that came was decoded."""


_Member = Any
"""A decompressor like those of `zlib`, with `decompress`, `eof` and `unused_data`: for one gzip
member, one zstd frame."""


class Decoder:
    """Decodes one body, which may consist of several members.

    What a member makes of its input cannot be limited in all libraries; so it is given
    little at a time: the worst input of `slice_size` bytes decodes to some 16 MB.
    """

    def __init__(self, make_member: Callable[[], _Member], slice_size: int) -> None:
        self._make_member = make_member
        self._slice_size = slice_size
        self._member: _Member | None = None
        self._allowance = ALLOWED_SLACK

    @property
    def complete(self) -> bool:
        """Whether the body may end here; otherwise something is missing."""
        return self._member is None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields decoded pieces of at most `STEP` bytes. Raises `DecodingError` after all that
        could be decoded."""
        for start in range(0, len(data), self._slice_size):
            part = data[start : start + self._slice_size]
            self._allowance += ALLOWED_RATIO * len(part)
            while part:
                decoded, part = self._decode(part)
                self._allowance -= len(decoded)
                if self._allowance < 0:
                    raise DecodingError("it decodes to far more than was received")
                for begin in range(0, len(decoded), STEP):
                    yield decoded[begin : begin + STEP]

    def _decode(self, part: bytes) -> tuple[bytes, bytes]:
        """The decoded part, and the rest, which belongs to the next member."""
        if self._member is None:
            self._member = self._make_member()
        member = self._member
        try:
            decoded = member.decompress(part)
        except Exception as error:  # each library has an exception of its own
            raise DecodingError(f"it is damaged ({error or type(error).__name__})") from None
        if not member.eof:
            return decoded, b""
        self._member = None
        return decoded, member.unused_data


class _Deflate:
    """What servers mean by "deflate": with the header of zlib (RFC 9110), or bare."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: Any = None
        self.eof = False
        self.unused_data = b""

    def decompress(self, data: bytes) -> bytes:
        if self._inner is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return b""
            # RFC 1950: method 8, and the header is a multiple of 31.
            with_header = data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
        decoded: bytes = self._inner.decompress(data)
        self.eof, self.unused_data = self._inner.eof, self._inner.unused_data
        return decoded


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


def decoder_for(content_encoding: str) -> Decoder | None:
    """None if there is no decoder for this Content-Encoding."""
    name = content_encoding.strip().lower()
    if name in ("gzip", "x-gzip"):
        return Decoder(partial(zlib.decompressobj, zlib.MAX_WBITS | 16), slice_size=1024)
    if name == "deflate":
        return Decoder(_Deflate, slice_size=1024)
    brotli: Any = getattr(mitmproxy_encoding, "brotli", None)
    if name == "br" and brotli is not None:
        return Decoder(lambda: _Brotli(brotli.Decompressor()), slice_size=16)
    zstandard: Any = getattr(mitmproxy_encoding, "zstd", None)
    if name == "zstd" and hasattr(zstandard, "ZstdDecompressor"):
        return Decoder(lambda: _zstandard(zstandard.ZstdDecompressor()), slice_size=512)
    return None


def is_unreadable(content_encoding: str) -> bool:
    """Whether there is an encoding, and no decoder for it."""
    name = content_encoding.strip().lower()
    return name not in ("", "identity") and decoder_for(name) is None


def _zstandard(decompressor: Any) -> _Member:
    # The zstandard package decodes through another object, the standard library's module
    # (Python 3.14) by itself.
    return decompressor.decompressobj() if hasattr(decompressor, "decompressobj") else decompressor


def decode(body: bytes, content_encoding: str, limit: int) -> Iterator[bytes]:
    """A whole body: itself if it is not encoded, else in pieces of at most `STEP` bytes, some
    empty. Raises `DecodingError`, also for more than `limit` bytes."""
    decoder = decoder_for(content_encoding)
    if decoder is None and is_unreadable(content_encoding):
        raise UnknownEncodingError(f"there is no decoder for {content_encoding[:40]!r}")
    for piece in _pieces(decoder, body) if decoder else (body,):
        limit -= len(piece)
        if limit < 0:
            raise TooLargeError("it is too large")
        yield piece
    if decoder and not decoder.complete:
        raise CutOffError("it ends too early")


def _pieces(decoder: Decoder, body: bytes) -> Iterator[bytes]:
    """Yields an empty piece after so much input that gave no output, too."""
    for begin in range(0, len(body), AT_ONCE):
        yield from decoder.feed(body[begin : begin + AT_ONCE])
        yield b""
