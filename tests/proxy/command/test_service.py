"""What keeps the proxy on is what systemd and launchd can read, with the words that were given."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.proxy.command.service import main
from tests.live.clients import need_command

WORDS = ["api.moonshot.ai", "--port", "9000", "--set", 'dragoman_store=/a "b" $c 100%\\d']
LINE = [sys.executable, "-m", "dragoman", "run", *WORDS]


def test_systemd_takes_the_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("service", ["--for", "systemd", *WORDS]) == 0
    unit, said = capsys.readouterr()
    assert "systemctl --user enable --now dragoman" in said
    file = tmp_path / "dragoman.service"
    file.write_text(unit)
    install = "install systemd (Debian: apt-get install systemd)"
    verify = need_command("systemd-analyze", install=install)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    ran = subprocess.run(
        [verify, "verify", "--user", "--man=no", file],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_what_the_unit_starts_is_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    main("service", ["--for", "systemd", *WORDS])
    (start,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("ExecStart=")]
    # systemd's own quoting, undone: a backslash, a quote, and the two that begin a value
    words = start.removeprefix('ExecStart="').removesuffix('"').split('" "')
    plain = [w.replace("$$", "$").replace("%%", "%").replace('\\"', '"') for w in words]
    assert [w.replace("\\\\", "\\") for w in plain] == LINE


def test_launchd_takes_the_property_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("service", ["--for", "launchd", *WORDS]) == 0
    text, said = capsys.readouterr()
    assert "launchctl load -w" in said
    values = plistlib.loads(text.encode())
    assert values["ProgramArguments"] == LINE
    assert values["RunAtLoad"] is True
    if plutil := shutil.which("plutil"):  # macOS alone has it
        (tmp_path / "x.plist").write_text(text)
        subprocess.run([plutil, "-lint", tmp_path / "x.plist"], check=True, timeout=60)


def test_what_cannot_stand_in_a_unit_is_refused() -> None:
    assert "cannot stand" in str(main("service", ["a.b", "--set", "x=a\nExecStart=b"]))


def test_the_line_that_installs_it_gives_the_same_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main("service", ["--for", "launchd", *WORDS])
    text, said = capsys.readouterr()
    (line,) = [x for x in said.splitlines() if "> ~/Library" in x]
    command = line.partition("&& ")[2].partition(" > ")[0]
    again = subprocess.run(["sh", "-c", command], capture_output=True, check=True, timeout=60)
    assert again.stdout.decode() == text
