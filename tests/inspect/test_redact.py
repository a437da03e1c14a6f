"""Redaction: no secret is left, whatever the cuts, and nothing but secrets is touched."""

from __future__ import annotations

import base64
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.envelope import open_sealed, seal
from dragoman.inspect.redact import Redaction, credentials
from dragoman.wire.sse import FrameSplitter
from fixtures.server import FOLDER

OWN = "tp-Own/Credential+42=="
PEM = "-----BEGIN RSA PRIVATE KEY-----\n{}\n{}\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    "sk-proj-a1B2c3D4e5F6g7H8i9J0",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "xoxb-123456789012-abcdefGHIJ",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "hf_abcdefghijklmnopQRSTUV",
    OWN,
]
BODIES = sorted(
    file for file in FOLDER.glob("*/*") if file.suffix in (".sse", ".json") and file.is_file()
)


def values(text: bytes) -> list[dict[str, Any]]:
    splitter = FrameSplitter()
    return [json.loads(frame.data or b"{}") for frame in splitter.feed(text) + splitter.close()]


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, str]:
    """A secret, and a text that holds it."""
    secret = draw(st.sampled_from(SECRETS))
    before = draw(st.text(max_size=20)) + draw(st.sampled_from(["", " ", '"', "\n", "=", "\u2028"]))
    frame = draw(
        st.sampled_from(
            [
                "{} {} {}",
                '{}<|tool_call_argument_begin|>{{"token": "{}"}}<|tool_call_end|>{}',
                "{}\nexport SERVICE_TOKEN={}\n{}",
                "{}Authorization: Bearer {}\r\n{}",
            ]
        )
    )
    return secret, frame.format(before, secret, " " + draw(st.text(max_size=20)))


def cut(draw: st.DrawFn, text: str) -> list[str]:
    edges = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *edges], [*edges, len(text)], strict=True)]


@given(st.data(), planted(), st.sampled_from(["content", "reasoning_content", "arguments"]))
def test_a_secret_cut_over_deltas_is_found(
    data: st.DataObject, case: tuple[str, str], field: str
) -> None:
    secret, text = case
    pieces = cut(data.draw, text)
    frames = []
    for piece in pieces:
        delta: dict[str, Any] = {field: piece}
        if field == "arguments":
            delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        choice = {"index": 0, "delta": delta}
        # Another choice speaks in between.
        other = {"index": 1, "delta": {"content": "x"}}
        ascii_only = data.draw(st.booleans())
        for each in (choice, other):
            chunk = json.dumps({"id": "c", "choices": [each]}, ensure_ascii=ascii_only)
            frames.append(f"data: {chunk}\n\n".encode("utf-8", "surrogatepass"))
    before = b"".join(frames)
    after = Redaction([OWN]).body(before)
    found = []
    for old, new in zip(values(before), values(after), strict=True):
        delta, was = (v["choices"][0]["delta"] for v in (new, old))
        if field == "arguments" and "tool_calls" in delta:
            delta = delta["tool_calls"][0]["function"]
            was = was["tool_calls"][0]["function"]
        if field in delta and new["choices"][0]["index"] == 0:
            assert len(delta[field]) == len(was[field])
            found.append(delta[field])
    assert secret not in "".join(found)
    assert "".join(found).count("<|tool_call") == text.count("<|tool_call")


@given(planted(), st.data())
def test_a_secret_in_the_deltas_of_a_responses_stream_is_found(
    case: tuple[str, str], data: st.DataObject
) -> None:
    secret, text = case
    events = [
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": d}
        for d in cut(data.draw, text)
    ]
    done = {"type": "response.output_text.done", "item_id": "msg_1", "text": text}
    body = "".join(f"event: x\ndata: {json.dumps(e)}\n\n" for e in [*events, done]).encode()
    *deltas, last = values(Redaction([OWN]).body(body))
    assert secret not in "".join(event["delta"] for event in deltas)
    assert secret not in last["text"]


@given(planted(), st.integers(0, 3), st.booleans())
def test_a_secret_in_json_within_json_is_found(
    case: tuple[str, str], depth: int, ascii_only: bool
) -> None:
    secret, text = case
    value: Any = {"messages": [{"content": text}]}
    for _ in range(depth):
        value = {"arguments": json.dumps(value, ensure_ascii=False)}
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    after = Redaction([OWN]).body(body)
    value = json.loads(after)
    for _ in range(depth):
        value = json.loads(value["arguments"])
    assert secret not in value["messages"][0]["content"]


@pytest.mark.parametrize("name", ["password", "api_key", "X-API-Key", "clientSecret", "AUTH_TOKEN"])
def test_what_stands_behind_a_telling_name_is_a_secret(name: str) -> None:
    values = ["hunter2", 'quo"ted\\pass', "it's; a, pass&word", "<|x|>y"]
    for value, depth in itertools.product(values, range(4)):
        body: Any = {"env": {name: value, "user": "nobody"}}
        for _ in range(depth):
            body = {"arguments": json.dumps(body)}
        body = json.loads(Redaction().body(json.dumps(body).encode()))
        for _ in range(depth):
            body = json.loads(body["arguments"])
        assert value not in body["env"][name], depth
        assert body["env"]["user"] == "nobody"


@pytest.mark.parametrize(
    "text",
    [
        "OPENAI_API_KEY=abc",
        "export DB_PASSWORD='abc def'",
        "curl https://host/v1?api_key=abcdefgh&x=1",
        'client = Client(api_key="abcdefgh")',
        "postgres://user:abcdefgh@host/db",
    ],
)
def test_assignments_are_read(text: str) -> None:
    assert "abc" not in Redaction().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "MAX_TOKENS=4096",
        "task-management-for-everybody-else",
        "The password: it is told to nobody.",
        '{"type": "object", "properties": {"password": {"type": "string"}}}',
        "prompt_cache_key is the conversation's id",
        "a bearer of bad news",
    ],
)
def test_words_are_no_secrets(text: str) -> None:
    assert Redaction().text(text) == text


def test_of_a_private_key_only_the_frame_is_left() -> None:
    lines = ["MIIEpAIBAAKCAQEA" * 4, "n0bodyKnows+/="]
    text = PEM.format(*lines)
    for body in (text, json.dumps(text), json.dumps({"x": json.dumps(text)})):
        after = Redaction().body(body.encode()).decode()
        assert not any(line in after for line in lines)
        assert after.count("PRIVATE KEY-----") == 2


def test_a_secret_in_sealed_reasoning_is_found() -> None:
    body = json.dumps({"encrypted_content": seal(f"the key is {SECRETS[0]}.")}).encode()
    opened = open_sealed(json.loads(Redaction().body(body))["encrypted_content"])
    assert opened is not None
    assert opened.startswith("the key is REDACTED")
    assert SECRETS[0] not in opened


def test_the_credentials_of_a_request_are_those_of_its_headers_and_query() -> None:
    basic = base64.b64encode(b"me:long-password").decode()
    headers = [
        ("Authorization", "Bearer my-own-token"),
        ("Proxy-Authorization", f"Basic {basic}"),
        ("Cookie", "a=short; session=0123456789"),
        ("User-Agent", "not a credential"),
    ]
    found = credentials(headers, "/v1/chat?key=query%2Dkey&model=something-long")
    assert {"my-own-token", "long-password", basic, "0123456789", "query-key"} <= found
    assert not any("something" in value or "not a" in value for value in found)
    assert "a=short" not in found


def test_what_holds_no_secret_stays_the_same_bytes() -> None:
    for file in BODIES:
        body = file.read_bytes()
        assert Redaction(["a-credential-of-this-flow"]).body(body) == body, file


@given(st.binary(max_size=200), st.sampled_from([b"", b"data: ", b'{"a":', b'data: {"a":']))
def test_any_bytes_are_survived(body: bytes, prefix: bytes) -> None:
    Redaction(["password"]).body(prefix + body)


def test_a_credential_that_is_a_word_of_the_format_breaks_nothing() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "<|tool_calls_section_begin|>x"}}]}
    body = f"data: {json.dumps(chunk)}\n\n".encode()
    for word in ("tool_calls", "contents", 'choices"', "tool_calls_section"):
        assert values(Redaction([word]).body(body)) == [chunk]


@pytest.mark.parametrize(
    "unit",
    ["password':\"", "eyJ", "sk-", "-----BEGIN PRIVATE KEY-----", "a=b:://x:", '\\"secret":', "\\"],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    redaction = Redaction([OWN])

    def cost(size: int) -> float:
        start = time.thread_time()
        redaction.text(unit * (size // len(unit)))
        return time.thread_time() - start

    assert cost(1_000_000) < 30 * min(cost(100_000) for _ in range(3))
