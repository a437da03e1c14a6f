"""The harness itself: what the replaying upstream sends is what the wire client gets."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.server import FOLDER, Upstream
from tests.live.mitmdump import Mitmdump
from tests.live.wire import exchange

UNTOUCHED = FOLDER / "clean_text" / "upstream.sse"
REQUEST = b'{"stream":true}'


def url(upstream: Upstream, options: str = "") -> str:
    return f"{upstream.url}/clean_text{options}/v1/chat/completions"


def test_upstream_can_compress_piece_by_piece(tls_upstream: Upstream) -> None:
    reply = exchange(url(tls_upstream, ";encoding=gzip;cut=event;pace=0.005"), REQUEST)
    gunzip = zlib.decompressobj(wbits=31)
    first = gunzip.decompress(reply.pieces[0][1])
    assert first.endswith(b"\n\n")
    assert first + gunzip.decompress(reply.body[len(reply.pieces[0][1]) :]) == (
        UNTOUCHED.read_bytes()
    )


def test_upstream_says_what_is_wrong_with_an_option(tls_upstream: Upstream) -> None:
    reply = exchange(url(tls_upstream, ";speed=9"), REQUEST)
    assert reply.status == 400
    assert b"no option 'speed'" in reply.body


@pytest.mark.parametrize("server_http2", ["true", "false"])
@pytest.mark.parametrize("client_http2", [True, False], ids=["client-http2", "client-http1"])
def test_pieces_arrive_through_mitmdump_while_the_upstream_still_sends(
    tls_upstream: Upstream,
    mitmdump: Callable[..., Mitmdump],
    client_http2: bool,
    server_http2: str,
) -> None:
    proxy = mitmdump("--set", f"http2={server_http2}") if not client_http2 else mitmdump()
    target = url(tls_upstream, ";cut=event;hold=1")

    def watch(body: bytes) -> None:
        if b"\n\n" in body:
            tls_upstream.release("clean_text")

    reply = exchange(target, REQUEST, proxy=proxy.url, http2=client_http2, watch=watch)
    assert reply.complete
    assert reply.body == UNTOUCHED.read_bytes()


def test_a_traceback_in_the_log_fails_the_test(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], tmp_path: Path
) -> None:
    script = tmp_path / "faulty.py"
    script.write_text("def response(flow):\n    raise RuntimeError('provoked')\n")
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", scripts=(script,))
    exchange(f"{proxy.url}/clean_text/v1/chat/completions", REQUEST)
    proxy.wait_for_log("provoked")
    with pytest.raises(AssertionError, match="1 tracebacks for 0 expected"):
        proxy.check_log()
    proxy.expected_tracebacks = 1
    proxy.check_log()
