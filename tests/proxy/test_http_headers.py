"""Which headers of a request go with its body."""

from __future__ import annotations

import gzip
import zlib

import pytest
from mitmproxy import http

from dragoman.proxy.content_decoding import (
    CutOffError,
    DecodingError,
    TooLargeError,
    UnknownEncodingError,
)
from dragoman.proxy.http_headers import body_of, set_json
from dragoman.proxy.observe.recorder import readable

OF_A_BODY = [
    *("Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "Content-Encoding", "Range"),
    *("If-None-Match", "If-Match", "If-Range", "If-Modified-Since", "If-Unmodified-Since"),
    *("Content-Range", "Content-Language", "Content-Location", "Content-Disposition", "ETag"),
    *("Last-Modified", "Trailer", "x-amz-content-sha256", "X-Content-MD5", "digest"),
]
OTHERS = [
    *("Authorization", "X-Digest-Of", "Prefer", "If", "Accept", "Ranger", "Idempotency-Key"),
    *("User-Agent", "x-content", "X-Stainless-Lang", "OpenAI-Beta", "Cookie"),
]


@pytest.mark.parametrize("name", OF_A_BODY + OTHERS)
def test_a_header_goes_if_it_speaks_of_the_body_that_goes(name: str) -> None:
    request = http.Request.make("POST", "http://host/", b"old", {"content-type": "text/plain"})
    request.headers.fields += ((name.encode(), b"one"), (name.encode(), b"two"))
    request.trailers = http.Headers(digest="x")
    set_json(request, b'{"new":1}')
    kept = request.headers.get_all(name)
    assert kept == ([] if name in OF_A_BODY else ["one", "two"])
    assert request.raw_content == b'{"new":1}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["content-length"] == "9"
    assert request.trailers is None


ZEROS = bytes(1_000_000)


@pytest.mark.parametrize(
    ("encoding", "raw", "error"),
    [
        (None, b"{}", None),
        ("identity", b"{}", None),
        (" GZIP ", gzip.compress(b"{}", mtime=0), None),
        ("deflate", zlib.compress(b"{}"), None),
        (None, None, None),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-4], CutOffError),
        ("gzip", gzip.compress(ZEROS, mtime=0), TooLargeError),
        ("identity", ZEROS, TooLargeError),
        ("gzip, br", b"{}", UnknownEncodingError),
        ("gzip", b"{}", DecodingError),
    ],
)
def test_a_body_is_read_as_its_headers_say(
    encoding: str | None, raw: bytes | None, error: type[Exception] | None
) -> None:
    request = http.Request.make("POST", "http://a.test/")
    if encoding is not None:
        request.headers["content-encoding"] = encoding
    request.raw_content = raw
    if error is None:
        assert body_of(request, 1000) == (b"" if raw is None else b"{}")
        return
    with pytest.raises(error):
        body_of(request, 1000)
    shown = {TooLargeError: ZEROS, CutOffError: b"{}"}.get(error, b"")
    assert readable(request) == shown, "what came of a body that breaks off, too"
