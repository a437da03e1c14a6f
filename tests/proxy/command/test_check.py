"""`dragoman check` against hosts that call, leak, refuse, lack an API, or say nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dragoman.proxy.command.check import KEY, main

SECRET = "sk-made-up-for-this-test"
ARGUMENTS = '{"path": "/srv"}'
CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "list_files", "arguments": ARGUMENTS},
}
LEAKS = {
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.list_files:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "hermes": f'<tool_call>{{"name": "list_files", "arguments": {ARGUMENTS}}}</tool_call>',
    "qwen": "<tool_call><function=list_files><parameter=path>/srv</parameter></function>"
    "</tool_call>",
    "glm": "<tool_call>list_files\n<arg_key>path</arg_key><arg_value>/srv</arg_value></tool_call>",
    "dsml": '<｜DSML｜tool_calls><｜DSML｜invoke name="list_files"><｜DSML｜parameter name="path" '
    'string="true">/srv</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>',
}
Reply = tuple[int, dict[str, Any] | str]


def says(body: dict[str, Any], message: dict[str, Any]) -> Reply:
    """A reply to a chat request, streamed or whole as it asks."""
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        return 200, {"object": "chat.completion", "model": body["model"], "choices": [choice]}
    chunks: list[Any] = [{"index": 0, "delta": {"role": "assistant", **message}}]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    framed = (f"data: {json.dumps({'choices': [each]})}\n\n" for each in chunks)
    return 200, "".join(framed) + "data: [DONE]\n\n"


def error(status: int, message: str, **more: str) -> Reply:
    return status, {"error": {"message": message, **more}}


@dataclass
class Host:
    """A host that answers what `answer` gives for a chat request."""

    answer: Callable[[dict[str, Any]], Reply | None]
    apis: tuple[str, ...] = ()
    url: str = ""
    asked: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def reply(self, path: str, body: dict[str, Any], key: str) -> Reply | None:
        self.asked.append((path, body, key))
        if path == "/v1/chat/completions":
            return self.answer(body)
        if path in self.apis:
            return error(400, "model is required")
        return 404, {"detail": "Not Found"}


@contextmanager
def running(host: Host) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            key = self.headers.get("authorization", "")
            if (reply := host.reply(self.path, json.loads(body), key)) is None:
                host.done.wait(30)
                return
            status, said = reply
            self.send_response(status)
            whole = isinstance(said, dict)
            self.send_header("content-type", "application/json" if whole else "text/event-stream")
            self.end_headers()
            self.wfile.write((json.dumps(said) if whole else said).encode())

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield host
        finally:
            host.done.set()
            server.shutdown()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # may be Dragoman: it is gone past


def check(host: Host, *more: str, model: str = "some-model") -> None:
    assert main("check", [host.url, "--model", model, *more]) == 0


def table(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, str], str]:
    """The rows of the table by their first words, and what is to be done."""
    rows, _, last = capsys.readouterr().out.partition("\n\n")
    split = [row.split("  ", 1) for row in rows.splitlines()]
    return {what.strip(): said.strip() for what, said in split}, last.strip()


def test_a_host_that_calls_and_has_all_apis_needs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    apis = ("/v1/responses", "/v1/messages")
    with running(Host(lambda body: says(body, {"tool_calls": [CALL]}), apis)) as host:
        check(host)
    rows, last = table(capsys)
    assert last == "It needs no Dragoman."
    assert set(rows.values()) == {"a call", "there"}
    assert len(host.asked) == len(rows) == 6
    assert {key for _, _, key in host.asked} == {f"Bearer {SECRET}"}
    assert [body for path, body, _ in host.asked if "chat" not in path] == [{}, {}]


@pytest.mark.parametrize("format_", LEAKS)
def test_a_leak_is_named_by_its_format(format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    with running(Host(lambda body: says(body, {"content": LEAKS[format_]}))) as host:
        check(host)
    rows, last = table(capsys)
    assert rows["a tool call, streamed"] == rows["a tool call, whole"] == f"leaked as {format_}"
    assert f"dragoman run {host.url.removesuffix('/v1')}" in last
    assert "its calls leak as text" in last


def test_a_refusal_that_is_cured_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        lacks = [
            m for m in body["messages"] if "tool_calls" in m and not m.get("reasoning_content")
        ]
        if lacks:
            why = "thinking is enabled but reasoning_content is missing in assistant tool call"
            return error(400, f"{why} message at index 1")
        return says(body, {"tool_calls": [CALL]})

    with running(Host(answer)) as host:
        check(host, model="kimi-k2.5")
    rows, last = table(capsys)
    assert rows["a tool call, with thinking"] == "a call"
    assert rows["a turn with the result"].startswith("refused 400: reasoning missing: thinking is")
    assert rows["a turn with the result"].endswith("(Dragoman sends it in a form that is taken)")
    assert "it refuses what can be sent in another form" in last


def test_a_chat_only_host_is_for_those_whose_clients_speak_another_api(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(Host(lambda body: says(body, {"tool_calls": [CALL]}), ("/v1/messages",))) as host:
        check(host)
    rows, last = table(capsys)
    assert (rows["Responses API"], rows["Messages API"]) == ("not there", "there")
    assert "Codex speaks only an API that it does not have" in last
    assert "Claude Code" not in last


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (error(401, f"Incorrect API key provided: {SECRET}"), "does not take the key (401: "),
        (error(404, "The model `some-model` does not exist"), "does not know the model (404: "),
        (error(400, "unknown model", code="model_not_found"), "does not know the model (400: "),
        ((404, {"detail": "Not Found"}), "has no Chat Completions at this address (404: "),
    ],
)
def test_a_wrong_key_model_or_path_ends_it_with_a_clear_word(
    reply: Reply, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(Host(lambda _: reply)) as host:
        failed = main("check", [host.url, "--model", "some-model"])
    assert said in str(failed)
    assert SECRET not in str(failed) + capsys.readouterr().out
    assert len(host.asked) == 1


def test_silence_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with running(Host(lambda _: None)) as host:
        failed = main("check", [host.url, "--model", "some-model", "--timeout", "0.3"])
    assert failed == "No answer within 0.3 s"
    assert "1 of 6" in capsys.readouterr().err


def test_a_host_that_is_not_there_and_an_address_that_is_none_are_said() -> None:
    failed = main("check", ["http://127.0.0.1:1/v1", "--model", "some-model"])
    assert "127.0.0.1:1 cannot be reached" in str(failed)
    failed = main("check", ["api.moonshot.ai/v1", "--model", "some-model"])
    assert "write it as https://" in str(failed)


def test_json_has_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with running(Host(lambda body: says(body, {"content": LEAKS["hermes"]}))) as host:
        check(host, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "some-model"
    assert [each["outcome"] for each in found["answers"]].count("leaked") == 4
    assert found["start"].startswith("dragoman run http://127.0.0.1")


def test_an_error_within_the_stream_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    failed = 'data: {"error": {"message": "overloaded"}}\n\n'
    with running(Host(lambda _: (200, failed))) as host:
        check(host)
    assert table(capsys)[0]["a tool call, streamed"] == "failed overloaded"
