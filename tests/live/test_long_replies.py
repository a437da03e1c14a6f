"""A long reply, through a real mitmdump: others run between the pieces of its stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.wire.reply_bounds import STEP
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


@pytest.mark.parametrize("long", ["-1.0", "3600.0"])
def test_others_run_within_the_work_on_one_large_event_if_it_takes_long(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], tmp_path: Path, long: str
) -> None:
    pauses = tmp_path / "pauses.py"
    pauses.write_text(PAUSES.read_text().replace("-1.0", long))
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    proxy = mitmdump(*arguments, scripts=(ADDON, pauses))
    text = WORDS * 8
    ends = ({"content": text}, None), ({}, "stop")
    chunks = [
        json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        for delta, reason in ends
    ]
    body = "".join(f"data: {chunk}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    plain_upstream.replies["event"] = Reply(body.encode())
    for path, request in JOBS.items():
        before = proxy.log.count("others run now")
        reply = wire.exchange(f"{proxy.url}/event{path}", json.dumps(request).encode())
        assert reply.complete
        assert reply.body.count(text.encode()) == (1 if "chat" in path else 5)
        count = proxy.log.count("others run now") - before
        assert count > len(text) // STEP - 10 if long == "-1.0" else count == 0
