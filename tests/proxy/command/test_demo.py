"""`dragoman demo` needs no checkout, no key and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.live.mitmdump import ROOT


def test_a_leaked_call_is_shown_in_chat_and_responses(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "addon"), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "dragoman", "demo"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "finish_reason: tool_calls" in ran.stdout
    assert "response.function_call_arguments.done" in ran.stdout
    assert "1 call bash · bridge" in ran.stdout
    assert [*tmp_path.iterdir()] == []
