"""Chat clients at hosts that refuse what they send: with Dragoman between they are not refused.

The host refuses by all rules at once and thinks before each of ten calls (`strict_host`); no
client here sends all of that back as the host wants it.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Upstream
from fixtures.wire import Request
from tests.live import wire
from tests.live.chat import CONTROLS
from tests.live.clients import Clients, need, node, run_agent
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.strict_host import DONE, TURNS, StrictHost, calls_of, thought
from tests.live.test_kimi_code import CONFIGURATION, KIMI
from tests.live.test_opencode import FLAGS, QUIET, SDKS, opencode_program
from tests.live.test_stored_faults import FOR_EVER
from tests.repair.streams import read
from tests.waiting import eventually

Json = dict[str, Any]
MODELS = [
    ("kimi-k2.6", "bash", []),
    ("kimi-k3", "1.sh", []),
    ("deepseek-v4-pro", "1.sh", []),
    ("deepseek-v4-pro", "bash", ["--set", "dragoman_repair=off"]),
]
TARGET = {"$ref": "#/definitions/Path", "description": "Where."}
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "path": TARGET},
    "definitions": {"Path": {"type": "string"}},
}
TOOL = {"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}
SENT = {"tools": [TOOL], "temperature": 0.2}
USER = {"role": "user", "content": "Do all of it."}
OPENING = [
    {"role": "developer", "content": "You are careful."},
    {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Hi."}]},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": None},
    USER,
]
REPLAYER = ROOT / "tests" / "live" / "replayer.py"
_names = itertools.count()


@pytest.fixture(scope="module")
def host() -> Iterator[StrictHost]:
    with StrictHost(tls=True) as host:
        yield host


@pytest.fixture
def name(host: StrictHost) -> str:
    """Of a conversation; nothing has been refused in it."""
    host.refused.clear()
    return f"strict{next(_names)}"


def check(host: StrictHost, name: str, text: str) -> None:
    """The conversation went to its end, each call with the very thought before it, and each
    request's messages begin with those of the one before."""
    assert (text, host.refused) == (DONE, [])
    requests = host.requests_of(name)
    assert len(requests) == TURNS + 1
    thoughts = [message["reasoning_content"] for message in calls_of(requests[-1].json)]
    assert thoughts == [thought(number) for number in range(TURNS)]
    for before, after in itertools.pairwise(map(messages_in, requests)):
        assert after.startswith(before)


def messages_in(request: Request) -> bytes:
    """The bytes of its messages, up to the last."""
    messages = json.dumps(request.json["messages"], separators=(",", ":"), ensure_ascii=False)
    at = request.body.index(b'"messages"')
    assert messages.encode() in request.body[at:]
    return messages.encode()[:-1]


@pytest.mark.parametrize("case", MODELS)
def test_openai_python_talks_to_a_host_that_refuses(
    host: StrictHost,
    name: str,
    case: tuple[str, str, list[str]],
    mitmdump: Callable[..., Mitmdump],
    clients: Clients,
) -> None:
    model, tool, options = case
    tools = [{"type": "function", "function": {"name": tool, "parameters": PARAMETERS}}]
    request = {"model": model, "messages": OPENING, "tools": tools, "temperature": 0.2}
    base_url = f"{host.url}/{name};cut=event/v1"
    without, proxy = mitmdump("--set", "dragoman_cure=off"), mitmdump(*options)
    with pytest.raises(pytest.fail.Exception):
        client = clients.get("openai_python.py", without.client_environment())
        client.ask("chat.loop", base_url, request)
    assert host.refused
    without.wait_for_log(r"refused by the host: .*dragoman_cure=auto")
    host.refused.clear()
    client = clients.get("openai_python.py", proxy.client_environment())
    result = client.ask("chat.loop", f"{host.url}/{name}x;cut=event/v1", request)
    check(host, f"{name}x", result["text"])
    assert result["called"] == [tool] * TURNS
    proxy.wait_for_log("cured: put back remembered reasoning ×10")


@pytest.mark.parametrize(
    "case",
    [
        ("openai_agents.py", "kimi-k2.6", "stream", "create"),
        ("langchain_client.py", "kimi-k2.6", "stream"),
        ("langchain_client.py", "deepseek-v4-pro", "stream"),
    ],
    ids="-".join,
)
def test_a_library_talks_to_a_host_that_refuses(
    host: StrictHost,
    name: str,
    mitmdump: Callable[..., Mitmdump],
    clients: Clients,
    case: tuple[str, ...],
) -> None:
    script, model, *modes = case
    request = {"prompt": "Do it.", "name": model, "max_turns": TURNS + 2}
    without = mitmdump("--set", "dragoman_cure=off").client_environment()
    with pytest.raises(pytest.fail.Exception):
        clients.get(script, without).ask("chat.stream", f"{host.url}/{name}/v1", request)
    assert host.refused
    for mode in modes:
        host.refused.clear()
        client = clients.get(script, mitmdump().client_environment())
        result = client.ask(f"chat.{mode}", f"{host.url}/{name}{mode}/v1", request)
        check(host, f"{name}{mode}", result["text"])


def ask(
    proxy: Mitmdump, name: str, body: Json | bytes, key: str = "sk-alice", **options: Any
) -> wire.Reply:
    """One request, as bytes or streamed."""
    data = body if isinstance(body, bytes) else json.dumps({**body, "stream": True}).encode()
    headers = [("content-type", "application/json")]
    headers += [("authorization", f"Bearer {key}")] if key else []
    url = f"{proxy.url}/{name}/v1/chat/completions"
    return wire.exchange(url, data, headers=tuple(headers), **options)


def converse(proxy: Mitmdump, name: str, messages: list[Json], key: str = "sk-alice") -> list[Json]:
    """The messages, and what comes of them: a call, and its output."""
    body = {"model": "kimi-k2.6", "messages": messages, "tools": [TOOL]}
    (call,) = read(ask(proxy, name, body, key).body).calls
    function = {"name": call["name"], "arguments": call["arguments"]}
    said = {"role": "assistant", "tool_calls": [{"id": call["id"], "function": function}]}
    return [*messages, said, {"role": "tool", "tool_call_id": call["id"], "content": "done"}]


def test_a_restart_forgets_nothing_and_nobody_else_gets_anything(
    host: StrictHost, name: str, tmp_path: Path
) -> None:
    make_confdir(tmp_path)
    mode = "--mode", f"reverse:{host.url}"
    with Mitmdump(tmp_path, *mode) as proxy:
        messages = converse(proxy, name, converse(proxy, name, [USER]))
        proxy.kill()
    with Mitmdump(tmp_path, *mode) as proxy:
        converse(proxy, name, messages)
        for other, key in ((name, "sk-mallory"), (name, ""), (f"{name}x", "sk-alice")):
            converse(proxy, other, messages, key)
        proxy.check_log()
    with Mitmdump(tmp_path, *mode, "--set", "dragoman_store=off") as proxy:
        converse(proxy, name, messages)
    mine, *others = host.requests[-5:]
    found = [[m["reasoning_content"] for m in calls_of(r.json)] for r in (mine, *others)]
    assert found == [[thought(0), thought(1)], *[[" ", " "]] * 4]


def test_the_end_of_a_turn_waits_until_its_reasoning_is_kept(
    host: StrictHost, name: str, tmp_path: Path
) -> None:
    make_confdir(tmp_path)
    words = ["--mode", f"reverse:{host.url}"]
    words += [word for option in FOR_EVER for word in ("--set", option)]
    with (
        Mitmdump(tmp_path, *words, scripts=(ADDON, CONTROLS)) as proxy,
        ThreadPoolExecutor() as pool,
    ):
        messages = converse(proxy, name, [USER])
        with closing(sqlite3.connect(tmp_path / "dragoman.sqlite3", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")  # nobody else can write
            body = {"model": "kimi-k2.6", "messages": messages, "tools": [TOOL], "stream": True}
            came: list[bytes] = []
            asked = pool.submit(ask, proxy, f"{name};cut=event;pace=0.01", body, watch=came.append)
            eventually(lambda: came and b"echo 1" in came[-1])
            with pytest.raises(TimeoutError):
                asked.result(0.5)
            assert b'"finish_reason":"' not in came[-1].replace(b" ", b"")
            db.execute("COMMIT")
            assert read(asked.result().body).finish == ["tool_calls"]


CLEAN = b'{"stream" :true,\n"messages":[ {"role":"user", "content":"\\u00e9"}],"model":"%s"}'
REFUSED = json.dumps({"messages": OPENING, **SENT, "model": "%s"}, indent=1).encode()


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ("", CLEAN % b"kimi-k2.6"),
        ("", CLEAN % b"deepseek-v4-pro"),
        ("", REFUSED % b"gpt-5.4"),
        ("", REFUSED % b"kimi-k2.6" + b"]"),
        ("off", REFUSED % b"kimi-k2.6"),
        ("~u elsewhere", REFUSED % b"kimi-k3"),
    ],
)
def test_what_need_not_be_changed_leaves_byte_for_byte(
    host: StrictHost, name: str, mitmdump: Callable[..., Mitmdump], options: str, body: bytes
) -> None:
    option = ["--set", f"dragoman_cure={options}"] if options else []
    ask(mitmdump("--mode", f"reverse:{host.url}", *option), name, body)
    (sent,) = host.requests_of(name)
    assert sent.body == body


def test_what_is_sent_again_leaves_as_it_was_edited(
    host: StrictHost, name: str, mitmdump: Callable[..., Mitmdump]
) -> None:
    proxy = mitmdump("--mode", f"reverse:{host.url}", scripts=(ADDON, REPLAYER))
    ask(proxy, name, CLEAN % b"kimi-k2.6")
    edited = json.dumps({"model": "kimi-k2.6", "messages": OPENING, "temperature": 0.5})
    wire.exchange(f"{proxy.url}/replay", edited.encode())
    eventually(lambda: len(host.requests_of(name)) == 2)
    assert host.requests_of(name)[1].body == edited.encode()


@pytest.mark.parametrize("model", ["qwen3-coder", "some-model", "gpt-5.4"])
def test_arguments_that_a_limit_cut_are_wrapped_for_a_model_of_any_family(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], model: str
) -> None:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}")
    cut = '{"command": "git pu'
    for arguments, meant in (
        (cut, json.dumps({"invalid_arguments": cut}, separators=(",", ":"))),
        ('{"a": 1}', '{"a": 1}'),
    ):
        function = {"name": "bash", "arguments": arguments}
        calling = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
        output = {"role": "tool", "tool_call_id": "c", "content": "?"}
        body = json.dumps({"model": model, "messages": [USER, calling, output]}, indent=1).encode()
        url = f"{proxy.url}/clean_text/v1/chat/completions"
        assert wire.exchange(url, body, headers=[("content-type", "application/json")]).complete
        sent = plain_upstream.requests[-1]
        call = sent.json["messages"][1]["tool_calls"][0]
        assert call["function"]["arguments"] == meant
        assert (sent.body == body) == (arguments == meant)


@pytest.mark.heavy
@pytest.mark.parametrize("agent", ["opencode", "kimi-code"])
def test_an_agent_talks_to_a_host_that_refuses(
    host: StrictHost, name: str, mitmdump: Callable[..., Mitmdump], tmp_path: Path, agent: str
) -> None:
    run = {"opencode": run_opencode, "kimi-code": run_kimi_code}[agent]
    for folder, option in (("without", "off"), ("with", "auto")):
        (tmp_path / folder).mkdir()
        host.refused.clear()
        mode = f"reverse:{host.url}"
        proxy = mitmdump("--mode", mode, "--set", f"dragoman_cure={option}")
        text = run(f"{proxy.url}/{name}{folder}/v1", tmp_path / folder)
        assert bool(host.refused) == (option == "off")
    check(host, f"{name}with", DONE if DONE in text else text)


def run_opencode(base_url: str, folder: Path) -> str:
    provider = {
        "npm": SDKS["chat"],
        "options": {"baseURL": base_url, "apiKey": "sk-test"},
        "models": {"kimi-k2.6": {"temperature": True}},
    }
    configuration = {
        "model": "replay/kimi-k2.6",
        "provider": {"replay": provider},
        "agent": {"build": {"temperature": 0.2}},
    }
    (folder / "opencode.json").write_text(json.dumps(configuration))
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    environment |= {f"OPENCODE_DISABLE_{name}": "1" for name in QUIET}
    return run_agent([opencode_program(), "run", *FLAGS, "Do it."], environment, folder).stdout


def run_kimi_code(base_url: str, folder: Path) -> str:
    need(KIMI, "install npm, then `make test-clients` sets up kimi-code")
    configuration = CONFIGURATION.format(provider="openai", base_url=base_url, model="kimi-k2.6")
    (folder / "config.toml").write_text(configuration)
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "KIMI_CODE_HOME": str(folder)}
    environment |= {"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_MODEL_TEMPERATURE": "0.2"}
    command = [node(), KIMI, "--output-format", "stream-json", "-p", "Do it."]
    return run_agent(command, environment, folder).stdout
