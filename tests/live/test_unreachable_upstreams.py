"""An upstream with which no connection comes about."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.live.raw import serving
from tests.live.responses import Exchange
from tests.live.test_dying_upstreams import GetMitmdump
from tests.waiting import eventually


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """The address of a server that accepts, says `answer` and closes; None: refuses."""
    with serving(lambda connection: connection.sendall(answer or b"")) as url:
        address = url.removeprefix("http://")
        if answer is not None:
            yield address
    if answer is None:
        yield address


UNREACHABLE = {
    # scheme, what listens there, what the log says
    "refused": ("http", None, "Connect call failed"),
    "closed at once": ("http", b"", "server closed connection"),
    "TLS refused": ("https", None, "Connect call failed"),
    "TLS closed at once": ("https", b"", "TLS|EOF|closed"),
    "no TLS": ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS|record"),
}


@pytest.mark.parametrize("how", UNREACHABLE)
def test_an_upstream_that_cannot_be_reached(mitmdump: GetMitmdump, how: str) -> None:
    scheme, answer, cause = UNREACHABLE[how]
    arguments = "--set", "dragoman_bridge=~all"
    with listening(answer) as address:
        proxy = mitmdump(*arguments, "--mode", f"reverse:{scheme}://{address}")
        check_unreachable(proxy, proxy.url, None, cause)
        if scheme == "https":
            # Otherwise mitmproxy itself answers CONNECT.
            proxy = mitmdump(*arguments, "--set", "connection_strategy=lazy")
            check_unreachable(proxy, f"https://{address}", proxy.url, cause)


def check_unreachable(proxy: Mitmdump, base: str, via: str | None, cause: str) -> None:
    for path, stream in itertools.product(["responses", "chat/completions"], [True, False]):
        body = json.dumps(responses.REQUEST | {"stream": stream, "messages": []}).encode()
        exchange = Exchange(wire.exchange(f"{base}/v1/{path}", body, proxy=via), [])
        error = exchange.error(502)
        assert error["code"] == "upstream_unreachable"
        assert re.search(cause, error["message"]), error
    eventually(lambda: len(re.findall(f"v1/chat/completions: .*({cause})", proxy.log)) == 4)


def test_an_upstream_whose_certificate_is_not_trusted(
    tls_upstream: Upstream, tmp_path: Path
) -> None:
    make_confdir(tmp_path)
    arguments = "--mode", f"reverse:{tls_upstream.url}", "--set", "dragoman_bridge=~all"
    with Mitmdump(tmp_path, *arguments, scripts=(ADDON, CONTROLS)) as proxy:
        Chat(tls_upstream, proxy).control("options", ssl_insecure=False)
        check_unreachable(proxy, proxy.url, None, "Certificate verify failed")
        proxy.check_log()
