"""kimi-code, an agent of Kimi's makers, at work on a host that leaks.

It thinks, runs a command, reads its output and answers: two requests to the upstream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.clients import HEAVY, MARKERS, need, node, run_agent
from tests.live.mitmdump import Mitmdump

KIMI = HEAVY / "@moonshot-ai" / "kimi-code" / "dist" / "main.mjs"
CONFIGURATION = """
default_model = "replayed"
telemetry = false

[providers.replay]
type = "{provider}"
base_url = "{base_url}"
api_key = "sk-test"

[models.replayed]
provider = "replay"
model = "{model}"
max_context_size = 262144
"""
MODELS = {
    "agent_kimi_code": "kimi-k2.5",
    "agent_kimi_code_k3": "kimi-k3",
    "agent_kimi_code_dsml": "deepseek-v4",
}

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    ("provider", "fixture"),
    [
        ("kimi", "agent_kimi_code"),
        ("openai", "agent_kimi_code"),
        ("openai_responses", "agent_kimi_code"),
        ("kimi", "agent_kimi_code_k3"),
        ("openai", "agent_kimi_code_dsml"),
    ],
)
def test_kimi_code_runs_a_leaked_call_and_answers(
    tls_upstream: Upstream,
    rerouted: Callable[..., Mitmdump],
    tmp_path: Path,
    provider: str,
    fixture: str,
) -> None:
    need(KIMI, "install npm, then `make test-clients` sets up kimi-code")
    # It goes past the proxy to 127.0.0.1, so the upstream needs a name.
    base_url = f"https://kimi.test/{fixture};cut=event;pace=0.01;key={provider}/v1"
    (tmp_path / "config.toml").write_text(
        CONFIGURATION.format(provider=provider, base_url=base_url, model=MODELS[fixture])
    )
    environment = rerouted(tls_upstream, "--set", "dragoman_bridge=~all").client_environment() | {
        "HOME": str(tmp_path),
        "KIMI_CODE_HOME": str(tmp_path),
        "KIMI_CODE_NO_AUTO_UPDATE": "1",
    }
    command = [node(), KIMI, "--output-format", "stream-json", "-p", "Run the echo command."]
    done = run_agent(command, environment, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (calls,) = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    assert [call["function"]["name"] for call in calls] == ["Bash"]
    assert json.loads(calls[0]["function"]["arguments"]) == {"command": "echo from-the-tool"}
    assert "The command printed from-the-tool." in done.stdout
    assert not re.search(MARKERS, done.stdout)
    _, second = tls_upstream.requests_of(fixture, provider)
    assert second.json["messages"][-1]["role"] == "tool"
    assert "from-the-tool" in json.dumps(second.json["messages"][-1]["content"])
