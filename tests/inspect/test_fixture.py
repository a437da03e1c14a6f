"""A recorded flow becomes a fixture that replays it, byte for byte."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.fixture import IncompleteError, fixture
from dragoman.inspect.redact import Redaction
from dragoman.inspect.replay import compare
from fixtures.regenerate import chat_fixtures, expected, upstream
from fixtures.server import FOLDER, Upstream
from tests.inspect.test_replay import bridged, repaired

SECRET = "sk-live-0123456789abcdefghij"


def exported(exchange: Exchange, folder: Path) -> Exchange:
    """The exchange that is read back from what was exported of one."""
    files = fixture(exchange, Redaction())
    folder.mkdir()
    for name, body in files.items():
        (folder / name).write_bytes(body)
    kind = next(name.partition(".")[2] for name in files if name.startswith("upstream"))
    got = "responses" if exchange.job == "bridge" else "chat"
    sent = files["chat.json" if exchange.job == "bridge" else "request.json"]
    reply = ask(folder, files["request.json"])
    return replace(
        exchange,
        client_request=files["request.json"],
        upstream_request=sent,
        upstream_reply=reply,
        client_reply=files[f"{got}.{kind}"],
    )


def ask(folder: Path, body: bytes) -> bytes:
    """What the replaying upstream answers."""
    with Upstream(folder=folder.parent) as server:
        connection = http.client.HTTPConnection(server.host, server.port)
        connection.request("POST", f"/{folder.name};cut=bytes:100/v1/chat/completions", body)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
    return answer


def test_a_fixture_exported_is_the_fixture() -> None:
    for folder in chat_fixtures():
        files = fixture(repaired(folder), Redaction())
        assert files == {file.name: file.read_bytes() for file in folder.iterdir()}, folder


@pytest.mark.parametrize("name", ["kimi_specification", "kimi_whole_message", "clean_odd_framing"])
def test_what_is_exported_is_served_and_replayed(name: str, tmp_path: Path) -> None:
    exchange = repaired(FOLDER / name)
    assert exported(exchange, tmp_path / name) == exchange


def test_a_bridged_flow_is_exported_served_and_replayed(tmp_path: Path) -> None:
    exchange = bridged(FOLDER / "bridge_codex_second_turn", FOLDER / "kimi_specification")
    again = exported(exchange, tmp_path / "captured")
    assert again == exchange
    names = {file.name for file in (tmp_path / "captured").iterdir()}
    assert names == {"request.json", "chat.json", "upstream.sse", "responses.sse"}
    assert all("unchanged" in line for line in compare(again))


def test_what_is_exported_of_a_flow_with_secrets_holds_none_and_replays(tmp_path: Path) -> None:
    """The model reads the key out, cut over tokens, in the arguments of a leaked call."""
    exchange = repaired(FOLDER / "kimi_in_content")
    request = json.loads(exchange.client_request)
    request["messages"].append({"role": "user", "content": f"use {SECRET}"})
    pieces = [
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0",
        '<|tool_call_argument_begin|>{"command":"curl -H \\"Authorization: Bearer ',
        *(SECRET[at : at + 5] for at in range(0, len(SECRET), 5)),
        '\\""}',
        "<|tool_call_end|><|tool_calls_section_end|>",
    ]
    chunks = [
        json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": piece}}]})
        for piece in pieces
    ]
    sent = "".join(f"data: {chunk}\n\n" for chunk in chunks).encode()
    got = expected(FOLDER / "kimi_in_content", sent)
    recorded = replace(
        exchange,
        client_request=json.dumps(request).encode(),
        upstream_reply=sent,
        client_reply=got,
    )
    again = exported(recorded, tmp_path / "captured")
    for file in (tmp_path / "captured").iterdir():
        assert SECRET not in file.read_text()
        frames = [frame[6:] for frame in file.read_text().split("\n\n") if frame[:7] == "data: {"]
        assert SECRET not in "".join(spoken(json.loads(frame)) for frame in frames)
    assert again.upstream_reply.count(b"\n\n") == sent.count(b"\n\n")
    (line,) = compare(again)
    assert line.startswith("reply: unchanged")


def spoken(chunk: dict[str, object]) -> str:
    choices = chunk.get("choices")
    assert isinstance(choices, list)
    delta = choices[0]["delta"]
    calls = delta.get("tool_calls") or [{"function": {"arguments": ""}}]
    return str(delta.get("content") or "") + str(calls[0]["function"]["arguments"])


def test_an_error_keeps_its_status() -> None:
    folder = FOLDER / "clean_http_error"
    request, body = ((folder / name).read_bytes() for name in ("request.json", "upstream.json"))
    statuses = {"status": 429, "upstream_status": 429}
    came = Exchange("repair", request, request, body, body, retry_after="7", **statuses)
    files = fixture(came, Redaction())
    assert files.keys() == {"request.json", "upstream.json", "reply.json"}
    assert json.loads(files["reply.json"]) == {"status": 429, "headers": {"retry-after": "7"}}
    assert upstream(folder) is None


@pytest.mark.parametrize("missing", ["upstream_missing", "client_missing"])
def test_what_was_not_kept_whole_is_not_exported(missing: str) -> None:
    exchange = repaired(FOLDER / "kimi_specification")
    with pytest.raises(IncompleteError, match="9 bytes"):
        fixture(replace(exchange, **{missing: 9}), Redaction())
