"""Codex CLI, which speaks only the Responses API, at work on a host that speaks only chat.

Codex thinks, runs a tool, reads its output and answers: two requests to the upstream.
It knows the host only by name, and the host's first answer says what to do.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import FOLDER, Reply, Upstream
from fixtures.wire import Request
from tests.live.clients import HEAVY, MARKERS, need, node, run_agent
from tests.live.mitmdump import Mitmdump
from tests.live.responses import to_last_message
from tests.repair.streams import chunk, sse
from tests.repair.test_told_back import TOKENS

CODEX = HEAVY / "@openai" / "codex" / "bin" / "codex.js"
CODEX_BEFORE = HEAVY / "codex-before" / "bin" / "codex.js"
"""Of July 2026."""
MODEL = "kimi-k2.5"
CONFIGURATION = """
model = "{model}"
model_provider = "replay"
check_for_update_on_startup = false

[model_providers.replay]
name = "Replay"
base_url = "{origin}/{fixture};cut=event;pace=0.01;key={key}/v1"
env_key = "REPLAY_KEY"
wire_api = "responses"
"""
FLAGS = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json")
Event = dict[str, Any]

pytestmark = pytest.mark.heavy


@dataclass(frozen=True, slots=True)
class Codex:
    """Codex in a home and a working folder of its own."""

    upstream: Upstream
    proxy: Mitmdump
    folder: Path
    key: str
    """By which the upstream tells this test's requests from others'."""
    program: Path = CODEX
    origin: str = "https://kimi.test"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def command(self, *arguments: str) -> tuple[list[str | Path], dict[str, str], Path]:
        """What to run, with which environment, and where."""
        environment = self.proxy.client_environment() | {
            "HOME": str(self.folder),
            "CODEX_HOME": str(self.folder),
            "REPLAY_KEY": "sk-test",
        }
        return [node(), self.program, *arguments], environment, self.work

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = run_agent(*self.command(*arguments))
        assert done.returncode == 0, done.stdout + done.stderr + self.proxy.log
        return done

    def turn(
        self,
        fixture: str,
        *,
        like: str | None = "gpt-5.5",
        provider: str = "",
        model: str = MODEL,
    ) -> list[Event]:
        """One prompt to the end; the items of its JSON events that were completed."""
        self.configure(fixture, like=like, provider=provider, model=model)
        return self.exec("Do what you are there for.")

    def configure(
        self,
        fixture: str,
        *,
        like: str | None = "gpt-5.5",
        provider: str = "",
        model: str = MODEL,
    ) -> None:
        """`fixture` may have options behind it.  `like` is the model of Codex's own catalogue
        whose tools Kimi gets; None: Codex takes what it knows of `model`.  `provider`: more
        lines for the provider."""
        configuration = CONFIGURATION.format(
            origin=self.origin, model=model, fixture=fixture, key=self.key
        )
        if like:
            catalog = f"model_catalog_json = {json.dumps(str(self._catalog(like)))}\n"
            configuration = catalog + configuration
        (self.folder / "config.toml").write_text(configuration + provider)

    def _catalog(self, like: str) -> Path:
        path = self.folder / f"{like}.json"
        if not path.exists():
            (self.folder / "config.toml").unlink(missing_ok=True)
            models = json.loads(self.run("debug", "models").stdout)["models"]
            entry = next(model for model in models if model["slug"] == like)
            path.write_text(json.dumps({"models": [entry | {"slug": MODEL}]}))
        return path

    def exec(self, *arguments: str) -> list[Event]:
        done = self.run("exec", *FLAGS, *arguments)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert [e for e in events if e["type"] in {"error", "turn.failed"}] == []
        assert events[-1]["type"] == "turn.completed"
        assert events[-1]["usage"]["input_tokens"] > 0
        return [event["item"] for event in events if event["type"] == "item.completed"]

    def arrived(self, fixture: str) -> list[Request]:
        """The chat requests upstream, each of which begins with the bytes of the last."""
        every = self.upstream.requests_of(fixture, self.key)
        endpoints = [request.path.rpartition("/v1/")[2] for request in every]
        assert endpoints == ["responses"] + ["chat/completions"] * (len(every) - 1)
        assert b'"input":' in every[0].body
        chats = every[1:]
        for before, after in itertools.pairwise(chats):
            assert after.body.startswith(to_last_message(before))
        return chats


@pytest.fixture
def codex(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    rerouted: Callable[..., Mitmdump],
    tmp_path: Path,
) -> Codex:
    program: Path = getattr(request, "param", CODEX)
    need(program, "install npm, then `make test-clients` sets up Codex")
    (tmp_path / "work").mkdir()
    key = re.sub(r"\W", "", request.node.name)
    return Codex(tls_upstream, rerouted(tls_upstream), tmp_path, key, program)


VERSIONS = pytest.mark.parametrize(
    "codex", [CODEX, CODEX_BEFORE], indirect=True, ids=["newest", "before"]
)


def check_call(
    request: Request, name: str, reasoning: str, call_id: str = r"functions\.{name}:0"
) -> tuple[dict[str, Any], str]:
    """That a request ends with the turn's one call and its output; arguments and output."""
    messages = request.json["messages"]
    call = next(message for message in messages if message.get("tool_calls"))
    (made,) = call["tool_calls"]
    assert made["function"]["name"] == name
    assert re.fullmatch(call_id.format(name=name), made["id"])
    assert call["reasoning_content"].strip() == reasoning
    output = messages[messages.index(call) + 1]
    assert output["role"] == "tool"
    assert output["tool_call_id"] == made["id"]
    arguments: dict[str, Any] = json.loads(made["function"]["arguments"])
    content = output["content"]
    return arguments, content if isinstance(content, str) else json.dumps(content)


def check_said(items: list[Event], reasoning: str, text: str) -> None:
    said = [(item["type"], item["text"].strip()) for item in items if "text" in item]
    assert said[0] == ("reasoning", reasoning)
    assert said[-1] == ("agent_message", text)
    assert not re.search(MARKERS, json.dumps(items, ensure_ascii=False))


@pytest.mark.parametrize(
    ("fixture", "model", "call_id"),
    [
        ("agent_codex", MODEL, r"functions\.{name}:0"),
        ("agent_codex_k3", "moonshotai/kimi-k3", r"{name}:0"),
        ("agent_codex_dsml", "deepseek-v4", r"call_[0-9a-f]+_1"),
        ("agent_codex_qwen", "qwen3-coder", r"call_[0-9a-f]+_1"),
    ],
    ids=["k2", "k3", "dsml", "qwen"],
)
def test_codex_runs_a_leaked_call_and_answers(
    codex: Codex, fixture: str, model: str, call_id: str
) -> None:
    items = codex.turn(fixture, like="gpt-5.5" if model == MODEL else None, model=model)
    check_said(items, "I will run it.", "The command printed from-the-tool.")
    (command,) = [item for item in items if item["type"] == "command_execution"]
    assert "echo from-the-tool" in command["command"]
    assert (command["aggregated_output"], command["exit_code"]) == ("from-the-tool\n", 0)

    first, second = codex.arrived(fixture)
    assert {message["role"] for message in first.json["messages"]} == {"system", "user"}
    arguments, output = check_call(second, "exec_command", "I will run it.", call_id)
    assert arguments == {"cmd": "echo from-the-tool"}
    assert "from-the-tool" in output


def test_codex_works_with_a_model_it_knows_nothing_of(codex: Codex) -> None:
    """It then offers a namespace and a hosted tool, and no `apply_patch`."""
    items = codex.turn("agent_codex_namespace", like=None)
    assert items[-1]["text"] == "Nobody was there to close."
    _, second = codex.arrived("agent_codex_namespace")
    arguments, output = check_call(second, "multi_agent_v1__close_agent", "An agent may help.")
    assert arguments == {"target": "nobody"}
    assert "unsupported call" not in output
    codex.proxy.wait_for_log("dropped tool web_search")


def test_codex_applies_a_patch(codex: Codex) -> None:
    items = codex.turn("agent_codex_patch")
    check_said(items, "A new file.", "hello.txt is there.")
    assert [item["status"] for item in items if item["type"] == "file_change"] == ["completed"]
    assert (codex.work / "hello.txt").read_text() == 'hello "<world>"\ngrüße\n'
    _, second = codex.arrived("agent_codex_patch")
    arguments, output = check_call(second, "apply_patch", "A new file.")
    assert arguments["input"].startswith("*** Begin Patch\n")
    assert "hello.txt" in output


def test_codex_runs_a_script_with_tools_that_come_as_input(codex: Codex) -> None:
    """Its own newest models get no `tools`, but an input item `additional_tools`."""
    items = codex.turn("agent_codex_code", like="gpt-6.1-sol")
    check_said(items, "A script will do.", "The script printed from-the-tool.")
    first, second = codex.arrived("agent_codex_code")
    assert "exec" in [tool["function"]["name"] for tool in first.json["tools"]]
    arguments, output = check_call(second, "exec", "A script will do.")
    assert arguments["input"].endswith("text(ran.output);\n")
    assert "from-the-tool" in output


@pytest.mark.parametrize("model", [MODEL, "gpt-5.5", "my-model"])
def test_codex_runs_nothing_of_an_example(codex: Codex, model: str) -> None:
    example = (
        "So it is written:\n\n```\n<|tool_calls_section_begin|><|tool_call_begin|>"
        "functions.exec_command:0<|tool_call_argument_begin|>"
        '{"cmd": "touch was-run"}<|tool_call_end|><|tool_calls_section_end|>\n```\n\n'
        "That is all."
    )
    deltas = [chunk({"content": piece}) for piece in TOKENS.findall(example)]
    told = sse([{**value, "model": model} for value in [*deltas, chunk({}, "stop")]])
    codex.upstream.replies[f"example_{model}"] = Reply(told)
    items = codex.turn(f"example_{model}", like="gpt-5.5" if model == MODEL else None, model=model)
    assert [(item["type"], item["text"]) for item in items if "text" in item] == [
        ("agent_message", example)
    ]
    assert not [item for item in items if item["type"] == "command_execution"]
    assert not (codex.work / "was-run").exists()
    assert len(codex.arrived(f"example_{model}")) == 1


@VERSIONS
def test_a_resumed_thread_begins_with_the_same_bytes(codex: Codex) -> None:
    codex.turn("agent_codex")
    items = codex.exec("resume", "--last", "And again.")
    assert items[-1]["text"] == "The command printed from-the-tool."
    *_, last = codex.arrived("agent_codex")
    assert len(codex.arrived("agent_codex")) == 3
    check_call(last, "exec_command", "I will run it.")


def test_codex_gives_up_its_websocket_at_once_where_nothing_is_learned_yet(codex: Codex) -> None:
    items = codex.turn("agent_codex", provider="supports_websockets = true\n")
    check_said(items, "I will run it.", "The command printed from-the-tool.")
    assert "error" not in [item["type"] for item in items]
    methods = [r.method for r in codex.upstream.requests_of("agent_codex", codex.key)]
    assert methods.count("GET") == 1, "it tries the WebSocket again"


def test_codex_gives_up_its_websocket_at_once(codex: Codex) -> None:
    codex.turn("agent_codex")  # the host is learned
    items = codex.turn("agent_codex", provider="supports_websockets = true\n")
    check_said(items, "I will run it.", "The command printed from-the-tool.")
    assert "error" not in [item["type"] for item in items]
    assert "GET" not in [r.method for r in codex.upstream.requests_of("agent_codex", codex.key)]


SCRIPT = ["const ran = await tools.exec_command(", "{cmd: 'touch ran'});\\n", "text(ran.output);"]


def script(*end: Any) -> bytes:
    """A call of Codex's own tool for scripts, delta by delta, and what then comes."""
    head = {"name": "exec", "arguments": ""}
    deltas: list[Any] = [{"id": "functions.exec:0", "type": "function", "function": head}]
    deltas += [{"function": {"arguments": text}} for text in ['{"input": "', *SCRIPT]]
    calls = [chunk({"tool_calls": [{"index": 0} | delta]}) for delta in deltas]
    return sse([chunk({"reasoning_content": "A script will do."}), *calls, *end])


ANSWER = sse([chunk({"content": "All is "}), chunk({"content": "well."}), chunk({}, "stop")])
CUTS = {
    "in a thought": ("agent_codex", b"run it"),
    "in a text": ("codex_answer", b"well."),
    "in a call": ("agent_codex_patch", b"dd File: he"),
    "in a script": ("agent_codex_code", b"await tool"),
}


@pytest.mark.parametrize("fault", ["reset", "eof"])
@pytest.mark.parametrize("where", CUTS)
def test_after_a_cut_codex_asks_again_as_it_asked_before(
    codex: Codex, where: str, fault: str
) -> None:
    """What the cut left half is neither run nor said to the model."""
    name, at = CUTS[where]
    codex.upstream.replies["codex_answer"] = Reply(ANSWER)
    turn = FOLDER / name / "turn1.sse"
    place = (turn.read_bytes() if turn.exists() else ANSWER).index(at)
    like = "gpt-6.1-sol" if where == "in a script" else "gpt-5.5"
    codex.configure(f"{name};abort={place};fault={fault};broken=1", like=like)
    done = codex.run("exec", *FLAGS, "Do what you are there for.")
    codex.proxy.wait_for_log("✗ connection broken .*The upstream broke off: ")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["type"] == "turn.completed"
    first, again, *rest = codex.arrived(name)
    assert again.body == first.body
    assert len(rest) == (0 if where == "in a text" else 1)
    for request in rest:
        made = [message for message in request.json["messages"] if message.get("tool_calls")]
        assert len(made) == 1


def test_a_script_that_a_limit_cuts_is_not_run(codex: Codex) -> None:
    codex.upstream.replies["codex_limit"] = Reply(script(chunk({}, "length")))
    codex.configure("codex_limit", like="gpt-6.1-sol")
    done = run_agent(*codex.command("exec", *FLAGS, "Do what you are there for."))
    assert "max_output_tokens" in done.stdout
    assert not (codex.work / "ran").exists()
    assert {len(request.json["messages"]) for request in codex.arrived("codex_limit")} == {
        len(codex.arrived("codex_limit")[0].json["messages"])
    }
    codex.proxy.wait_for_log("left open call of exec that was cut")


@pytest.fixture(params=["reverse", "upstream"])
def elsewhere(
    request: pytest.FixtureRequest,
    codex: Codex,
    mitmdump: Callable[..., Mitmdump],
    rerouted: Callable[..., Mitmdump],
) -> Codex:
    """The same in another mode of the proxy."""
    if request.param == "reverse":
        proxy = mitmdump("--mode", f"reverse:{codex.upstream.url}")
        return replace(codex, proxy=proxy, origin=proxy.url)
    behind = rerouted(codex.upstream, "--set", "dragoman_bridge=off")
    return replace(codex, proxy=mitmdump("--mode", f"upstream:{behind.url}"))


def test_codex_works_behind_any_mode_of_the_proxy(elsewhere: Codex) -> None:
    items = elsewhere.turn("agent_codex", like=None)
    assert items[-1]["text"] == "The command printed from-the-tool."
    assert len(elsewhere.arrived("agent_codex")) == 2


MESSAGE = {
    **{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"},
    "content": [{"type": "output_text", "text": "I speak it.", "annotations": []}],
}
USAGE = {
    **{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
EVENTS: list[Event] = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "response.completed", "response": {"id": "resp_1", "usage": USAGE}},
]


def test_codex_works_at_a_host_that_speaks_responses(codex: Codex) -> None:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS]
    codex.upstream.replies["native/v1/responses"] = Reply("".join(lines).encode())
    assert codex.turn("native", like=None)[-1]["text"] == "I speak it."
    every = [r for r in codex.upstream.requests_of("native", codex.key) if r.method == "POST"]
    assert {request.path.rpartition("/v1/")[2] for request in every} == {"responses"}
    assert len(every) == 1
