"""Many streams over one HTTP/2 connection to an upstream: what ends it ends them all."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable

import h2.config
import h2.connection
import h2.events
import pytest

from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import FrameSplitter
from fixtures.server import Reply, Upstream
from tests.bridge.grammar import check_prefix
from tests.live import responses, wire
from tests.live.chat import CONTROLS
from tests.live.chat import REQUEST as CHAT_REQUEST
from tests.live.mitmdump import ADDON, Mitmdump
from tests.repair.streams import chunk, sse

STREAM = sse([chunk({"role": "assistant", "content": f"{n} "}) for n in range(200)], done=False)
AT = STREAM.index(b"data: ", len(STREAM) // 2)
QUICK = sse([chunk({"role": "assistant", "content": "Done."}), chunk({}, "stop")])


class Streams:
    """A client of one connection: the body of each stream, and how it ended."""

    def __init__(self, url: str) -> None:
        self._socket = wire.connect(url.replace("http:", "https:"), None, http2=True)
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(2**30)
        self.bodies: dict[int, bytes] = defaultdict(bytes)
        self.ends: dict[int, str] = {}

    def ask(self, path: str, body: bytes) -> int:
        stream = self._h2.get_next_available_stream_id()
        headers = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost")]
        headers += [(":path", path), ("content-type", "application/json")]
        self._h2.send_headers(stream, [*headers, ("content-length", str(len(body)))])
        self._h2.send_data(stream, body, end_stream=True)
        self._socket.sendall(self._h2.data_to_send())
        return stream

    def read(self, wanted: list[int], asking: Callable[[], object]) -> None:
        """Until all that are wanted have ended, for some seconds; in the first of them more is
        asked for all the time."""
        began = time.monotonic()
        self._socket.settimeout(0.02)
        while not self.ends.keys() >= set(wanted) and (passed := time.monotonic() - began) < 60:
            if passed < 2 and self._h2.open_outbound_streams < 90:
                for _ in range(4):
                    asking()
            with contextlib.suppress(TimeoutError):
                for event in self._h2.receive_data(self._socket.recv(65536)):
                    self._take(event)
                self._socket.sendall(self._h2.data_to_send())

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            size = event.flow_controlled_length
            self._h2.acknowledge_received_data(size, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ends[event.stream_id] = "end"
        elif isinstance(event, h2.events.StreamReset):
            self.ends.setdefault(event.stream_id, "reset")

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("job", ["bridge", "repair"])
def test_a_reset_of_the_connection_ends_every_stream(
    tls_upstream: Upstream, mitmdump: Callable[..., Mitmdump], job: str
) -> None:
    # While much else goes on, which is when mitmproxy may forget to tell of it.
    options = ["dragoman_bridge=~all", "test_upstream_http2=true", "dragoman_heartbeat=0.3"]
    arguments = [word for option in options for word in ("--set", option)]
    arguments += ["--mode", f"reverse:{tls_upstream.url}"]
    proxy = mitmdump(*arguments, scripts=(ADDON, CONTROLS))
    tls_upstream.replies |= {"shared": Reply(STREAM), "quick": Reply(QUICK)}
    bridge = job == "bridge"
    path = "v1/responses" if bridge else "v1/chat/completions"
    body = json.dumps(responses.REQUEST if bridge else CHAT_REQUEST).encode()
    begin = f"/shared;abort={AT};cut=event;pace=0.004"
    for _ in range(2):
        client = Streams(proxy.url)
        asked = [client.ask(f"{begin};fault=silence/{path}", body) for _ in range(29)]
        asked.append(client.ask(f"{begin};fault=abort/{path}", body))
        client.read(asked, lambda path=f"/quick/{path}", ask=client.ask: ask(path, body))
        client.close()
        assert [stream for stream in asked if stream not in client.ends] == []
        for stream in asked:
            if bridge:
                story = check_prefix(
                    FrameSplitter().feed(client.bodies[stream]), DIALECTS["openai"]
                )
                assert story.response["status"] == "in_progress"
            assert client.ends[stream] == "reset"
