"""What the first requests of a process cost belongs in its start: all streams wait for it."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.server import Upstream
from tests.live import wire
from tests.live.chat import REQUEST, Chat
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import REQUEST as RESPONSES

COMPILED = ROOT / "tests" / "live" / "compiled.py"
MODELS = ["kimi-k3", "deepseek-v4", "qwen3", "glm-5", "minimax-m3", "gpt-oss", "hermes-4"]
MODELS += ["mistral", "llama-4", "gpt-5", "x"]


def test_the_first_requests_compile_and_import_nothing(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    make_confdir(tmp_path)
    arguments = "--mode", f"reverse:{plain_upstream.url}"
    with Mitmdump(tmp_path, *arguments, scripts=(COMPILED, ADDON)) as proxy:
        chat = Chat(plain_upstream, proxy)
        for model in MODELS:
            for stream in (True, False):
                request = REQUEST | {"model": model, "stream": stream}
                assert chat.ask("kimi_specification", request=request).status == 200
                request = RESPONSES | {"model": model, "stream": stream}
                reply = chat.ask("kimi_specification", path="/v1/responses", request=request)
                assert reply.status == 200
        compiled, imported = json.loads(wire.exchange(f"{proxy.url}/compiled", b"").body)
        proxy.check_log()
    assert compiled == []
    assert imported == []
