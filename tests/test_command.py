"""`python -m dragoman`: where the script is, and what repair makes of a recorded reply."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from fixtures.regenerate import FOLDER, expected
from fixtures.server import Upstream
from tests.live.mitmdump import ROOT
from tests.live.wire import exchange

LEAK = FOLDER / "kimi_specification"


def dragoman(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "addon")}
    command = [sys.executable, "-m", "dragoman", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)


def test_it_prints_the_script_for_mitmproxy() -> None:
    assert dragoman().stdout.decode().strip() == str(ROOT / "addon" / "main.py")


def test_a_log_file_leaves_as_a_client_would_receive_it() -> None:
    ran = dragoman(LEAK / "upstream.sse", "--request", LEAK / "request.json")
    assert ran.returncode == 0
    assert ran.stdout == expected(LEAK, (LEAK / "upstream.sse").read_bytes())
    assert b"repaired bash" in ran.stderr


def test_it_writes_a_reply_as_a_stream_of_another_api() -> None:
    ran = dragoman(LEAK / "upstream.sse", "--request", LEAK / "request.json", "--as", "messages")
    assert ran.returncode == 0
    assert b"event: message_start" in ran.stdout
    assert b'"type":"tool_use"' in ran.stdout
    assert b"repaired bash" in ran.stderr


def test_a_clean_log_leaves_as_it_is() -> None:
    clean = FOLDER / "clean_text" / "upstream.sse"
    ran = dragoman(clean)
    assert (ran.stdout, ran.stderr) == (clean.read_bytes(), b"nothing to repair\n")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    ran = dragoman(tmp_path / "missing.log")
    assert ran.returncode == 1
    assert ran.stderr.decode() == f"{tmp_path / 'missing.log'}: No such file or directory\n"
    ran = dragoman(LEAK / "upstream.sse", "--request", LEAK / "upstream.sse")
    assert b"give the body of the request" in ran.stderr


def test_a_folder_of_plain_logs_replays_by_file_name(tmp_path: Path) -> None:
    stream = (LEAK / "upstream.sse").read_bytes()
    (tmp_path / "monday.log").write_bytes(stream)
    with Upstream(folder=tmp_path) as upstream:
        for name in ("monday", "monday.log"):
            reply = exchange(f"{upstream.url}/{name}/v1/chat/completions", b'{"stream": true}')
            assert (reply.status, reply.body) == (200, stream)
        missing = exchange(f"{upstream.url}/tuesday/v1/chat/completions", b"{}")
        assert missing.status == 400


def test_a_wheel_has_the_package_and_the_script(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a build leaves folders beside what it builds
    source.mkdir()
    shutil.copy(ROOT / "pyproject.toml", source)
    shutil.copytree(ROOT / "addon", source / "addon", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", tmp_path, source]
    subprocess.run(command, timeout=120, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("dragoman-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "dragoman/proxy/addon.py" in names
    assert any(name.endswith("/share/dragoman/main.py") for name in names)
    (scripts,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "dragoman = dragoman.__main__:main" in zipfile.ZipFile(wheel).read(scripts).decode()
