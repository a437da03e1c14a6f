"""No credential and nothing that was said is in the log, in comments, statistics or metrics:
whatever the upstream does, and whatever goes wrong.

All fixtures and a number of failures pass through one mitmdump that logs all it can,
with secrets in every place where one could be.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fixtures.server import FOLDER, Reply, Upstream
from tests.inspect.test_metrics import free_port
from tests.live import wire
from tests.live.chat import FAULTS
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.repair.streams import chunk, sse

TELLTALE = ROOT / "tests" / "live" / "telltale.py"
CREDENTIALS = {
    "authorization": "s3cret-of-authorization-0001",
    "api-key": "s3cret-of-api-key-0002",
    "x-api-key": "s3cret-of-x-api-key-0003",
    "cookie": "s3cret-of-cookie-0004",
    "x-goog-api-key": "s3cret-of-goog-0005",
    "query": "s3cret-of-query-0006",
}
SAID = {
    "the prompt": "s3cret-prompt-0010",
    "instructions": "s3cret-instructions-0011",
    "an earlier output": "s3cret-output-0012",
    "metadata": "s3cret-metadata-0013",
    "the reply": "s3cret-reply-0014",
    "reasoning": "s3cret-reasoning-0015",
    "arguments": "s3cret-arguments-0016",
    "an error message": "s3cret-message-0017",
    "a broken event": "s3cret-broken-0018",
    "a tool's description": "s3cret-description-0019",
}
HEADERS = (
    ("content-type", "application/json"),
    ("authorization", f"Bearer {CREDENTIALS['authorization']}"),
    *((name, CREDENTIALS[name]) for name in ("api-key", "x-api-key", "x-goog-api-key")),
    ("cookie", f"session={CREDENTIALS['cookie']}; theme=dark"),
)
QUERY = f"?key={CREDENTIALS['query']}&api-version=1"
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
CHAT: dict[str, Any] = {
    "model": "kimi-k2.5",
    "messages": [
        {"role": "system", "content": SAID["instructions"]},
        {"role": "user", "content": SAID["the prompt"]},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "bash",
                "description": SAID["a tool's description"],
                "parameters": PARAMETERS,
            },
        }
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "kimi-k2.5",
    "instructions": SAID["instructions"],
    "input": [
        {"role": "user", "content": SAID["the prompt"]},
        {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "not JSON"},
        {"type": "function_call_output", "call_id": "c", "output": SAID["an earlier output"]},
        {"type": "function_call_output", "call_id": "d", "output": SAID["an earlier output"]},
    ],
    "tools": [CHAT["tools"][0]["function"] | {"type": "function"}],
    "metadata": {"note": SAID["metadata"]},
}
ECHO = f"Incorrect API key provided: {CREDENTIALS['authorization']} ({SAID['an error message']})."
LEAKED = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"


def replies() -> Iterator[Reply]:
    """What upstreams send, good and bad, with what was said in it."""
    arguments = json.dumps({"command": SAID["arguments"]})
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "reasoning_content": SAID["reasoning"]},
        {"content": SAID["the reply"]},
        {"content": f"{LEAKED}{arguments}<|tool_call_end|>"},
        {"content": f"<|tool_call_begin|>3<|tool_call_argument_begin|>[{SAID['arguments']}"},
    ]
    chunks = [chunk(delta) for delta in deltas]
    ended = [*chunks, chunk({}, "stop")]
    yield Reply(sse(ended))
    yield Reply(sse(chunks, done=False))
    broken = b'data: {"choices": [{"delta": {"content": "' + SAID["a broken event"].encode()
    yield Reply(sse(chunks, done=False) + broken + b"\n\n" + broken)
    for error in (
        {"message": ECHO},
        {"message": ECHO, "code": "invalid_api_key", "type": "auth"},
        {"message": ECHO, "code": ECHO, "type": ECHO, "param": ECHO},
        ECHO,
        [ECHO],
    ):
        body = json.dumps({"error": error}).encode()
        yield Reply(sse([*chunks, {"error": error}], done=False))
        yield Reply(b"event: error\ndata: " + body + b"\n\n")
        for status in (200, 307, 400, 401, 429, 500):
            yield Reply(body, "application/json", status, (("location", f"/x{QUERY}"),))
    yield Reply(ECHO.encode(), "text/plain", 500)
    yield Reply(b"<html>" + ECHO.encode(), "text/html", 502)
    message = {"role": "assistant", "content": SAID["the reply"] + LEAKED + arguments}
    whole = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    yield Reply(whole, "application/json")
    yield Reply(whole[:-20], "application/json")
    for encoding in ("gzip", "br", "zstd", "nonsense"):
        headers = (("content-encoding", encoding),)
        yield Reply(sse(ended), headers=headers)
        yield Reply(whole, "application/json", headers=headers)


STAGES = [
    "dragoman.wire.sse:FrameSplitter.feed 1",
    "dragoman.repair.scanner:Scanner.feed 2",
    "dragoman.chat.writer:encode_chunk 1",
    "dragoman.responses.event_writer:Writer.prose 1",
    "dragoman.bridge.request.chat_messages:chat_messages 1",
    "dragoman.proxy.observe.recorder:FlowRecorder.end 1",
    "dragoman.bridge.reader_writer_pairs:read_reply 1",
    "dragoman.wire.json_codec:loads 3",
]
BAD_REQUESTS = [
    b'{"model": "m", "input": "' + SAID["the prompt"].encode(),
    SAID["the prompt"].encode(),
    json.dumps(RESPONSES | {"input": 7}).encode(),
    json.dumps(RESPONSES | {"previous_response_id": "resp_1"}).encode(),
    json.dumps(RESPONSES | {"background": True}).encode(),
    json.dumps(RESPONSES | {"tool_choice": {"type": "function", "name": "unknown"}}).encode(),
]


@dataclass(frozen=True)
class Told:
    """All that a mitmdump told."""

    log: str
    flows: str
    stats: str
    metrics: str
    saved: str
    """What was saved of the flows, for which nothing is hidden."""


@pytest.fixture(scope="module")
def told(plain_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("no_secrets")
    make_confdir(folder / "confdir")
    port = free_port()
    options = [
        "dragoman_bridge=~all",
        f"dragoman_metrics={port}",
        "termlog_verbosity=debug",
    ]
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "-w", str(folder / "flows")]
    arguments += [word for option in options for word in ("--set", option)]
    scripts = (ADDON, FAULTS, TELLTALE)
    with Mitmdump(folder / "confdir", *arguments, scripts=scripts) as proxy:
        _ask_everything(proxy, plain_upstream)
        telltale = json.loads(wire.exchange(f"{proxy.url}/telltale", b"").body)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
            metrics = reply.read().decode()
    # The script that makes the faults says where, with the query.
    log = re.sub(r"^.*: fault (fired|not reached)$", r"fault \1", proxy.log, flags=re.MULTILINE)
    yield Told(
        log,
        json.dumps(telltale["flows"]),
        json.dumps(telltale["stats"]),
        metrics,
        (folder / "flows").read_text(errors="replace"),
    )


def _ask_everything(proxy: Mitmdump, upstream: Upstream) -> None:
    def ask(
        name: str, endpoint: str, body: bytes, *more: tuple[str, str], method: str = "POST"
    ) -> None:
        url = f"{proxy.url}/{name}/v1/{endpoint}{QUERY}"
        wire.exchange(url, body, method=method, headers=(*HEADERS, *more))

    def ask_both(name: str, stream: bool, *more: tuple[str, str]) -> None:
        for endpoint, request in (("chat/completions", CHAT), ("responses", RESPONSES)):
            ask(name, endpoint, json.dumps(request | {"stream": stream}).encode(), *more)

    for fixture in sorted({path.parent.name for path in FOLDER.glob("*/upstream.*")}):
        ask_both(fixture, (FOLDER / fixture / "upstream.sse").exists())
    for number, reply in enumerate(replies()):
        upstream.replies[f"secret{number}"] = reply
        ask_both(f"secret{number}", True)
        ask_both(f"secret{number}", False)
    for stage in STAGES:
        ask_both("secret0", True, ("x-fault", stage))
    for options in ("abort=300", "encoding=gzip;abort=300", "framing=close"):
        ask_both(f"secret0;{options}", True)
    for body in BAD_REQUESTS:
        ask("secret0", "responses", body)
        ask("secret0", "responses", body, ("content-encoding", "gzip"))
        ask("secret0", "chat/completions", body)
    ask("secret0", "embeddings", json.dumps(CHAT).encode())
    for method, what in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
        ask("secret0", f"responses/resp_x{what}", b"", method=method)
    submitted = json.dumps({"tool_outputs": [SAID["an earlier output"]]}).encode()
    ask("secret0", "responses/resp_x/submit_tool_outputs", submitted)


EVERYTHING = CREDENTIALS | SAID


@pytest.mark.parametrize("where", ["log", "flows", "stats", "metrics"])
@pytest.mark.parametrize("secret", EVERYTHING)
def test_nothing_secret_is_told(told: Told, where: str, secret: str) -> None:
    text: str = getattr(told, where)
    at = text.find(EVERYTHING[secret])
    assert at < 0, text[max(0, at - 300) : at + 300]


def test_much_was_told_all_the_same(told: Told) -> None:
    """What was said did pass, and was reported on: else nothing is shown by its absence."""
    assert told.log.count("Traceback (most recent call last)") >= 5
    for line in (
        " · repair · kimi",
        " · bridge · kimi-k2.5",
        "fault fired",
        "unusable",
        "refused:",
    ):
        assert line in told.log, line
    assert told.flows.count(" bridge ") > 100
    assert "dragoman_flows_total" in told.metrics
    assert '"bridged"' in told.stats
    for what in ("the prompt", "the reply", "arguments", "reasoning"):
        assert SAID[what] in told.saved, what
