"""A long reply, through a real mitmdump: others run between the pieces of its stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.mitmdump import ADDON, ROOT, Mitmdump

PAUSES = ROOT / "tests" / "live" / "pauses.py"
WORDS, CHUNKS = "word " * 10_000, 60
JOBS = {
    "/v1/chat/completions": {"messages": [], "stream": True},
    "/v1/responses": responses.REQUEST,
}


def test_others_run_between_the_pieces_of_a_long_stream_and_of_its_end(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]
) -> None:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    proxy = mitmdump(*arguments, scripts=(ADDON, PAUSES))
    delta = json.dumps({"choices": [{"index": 0, "delta": {"content": WORDS}}]})
    body = f"data: {delta}\n\n" * CHUNKS + "data: [DONE]\n\n"
    plain_upstream.replies["words"] = Reply(body.encode())
    for path, request in JOBS.items():
        reply = wire.exchange(f"{proxy.url}/words{path}", json.dumps(request).encode())
        deltas = re.findall(rb'"(?:content|delta)": ?"((?:word )+)"', reply.body)
        assert (reply.complete, b"".join(deltas)) == (True, WORDS.encode() * CHUNKS)
        assert proxy.log.count("others run now") > CHUNKS / 4, "a read has 64 kB at most"
    last = re.findall(rb"data: (.*)", reply.body)[-1]
    assert json.loads(last)["response"]["output"][0]["content"][0]["text"] == WORDS * CHUNKS
