"""How mitmproxy is started, and the lines and certificates that clients get."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.proxy.command import run
from dragoman.proxy.command.run import Start, client_lines, write_bundle

ADDRESS = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["api.moonshot.ai"], ["--allow-hosts", r"^api\.moonshot\.ai:443$"]),
        (
            ["a.b,c.d:8443"],
            ["--allow-hosts", r"^a\.b:443$", "--allow-hosts", r"^c\.d:8443$"],
        ),
        (["http://127.0.0.1:8000"], ["--mode", "reverse:http://127.0.0.1:8000"]),
        (["--set", "dragoman_store=off"], ["--set", "dragoman_store=off"]),
        (["-q", "--port", "9", "--set", "a=b"], ["-q", "--set", "a=b"]),
    ],
)
def test_the_words_are_a_host_a_port_and_what_is_for_mitmproxy(
    words: list[str], expected: list[str]
) -> None:
    start = Start.of("run", words)
    program, *line = start.command_line()
    assert Path(program).name == "mitmdump"
    assert line[:2] == ["-s", str(Path(line[1]).resolve())]
    port = "9" if "--port" in words else "8080"
    assert line[2:6] == ["--listen-host", "127.0.0.1", "--listen-port", port]
    assert line[6:] == expected


def test_a_port_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Start.of("run", ["--port", "none"])
    assert "--port" in capsys.readouterr().err


def test_the_bundle_has_what_the_machine_trusts_and_the_authority_and_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_bundle(tmp_path)
    authorities = ssl.create_default_context(cafile=bundle).get_ca_certs()
    names = [dict(pair for (pair, *_) in each["subject"]).get("commonName") for each in authorities]
    assert "mitmproxy" in names
    assert len(names) > 10
    first = bundle.read_bytes()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))  # as in a shell that pasted the lines
    assert write_bundle(tmp_path).read_bytes() == first


def test_a_machine_without_a_file_of_certificates_has_those_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write_bundle(tmp_path / "other")
    monkeypatch.setattr(run, "_SYSTEM", ())
    monkeypatch.setenv("SSL_CERT_FILE", str(store))
    monkeypatch.setattr(run.ssl, "get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
    known, found = (
        ssl.create_default_context(cafile=each).get_ca_certs(binary_form=True)
        for each in (store, write_bundle(tmp_path / "folder"))
    )
    assert len(found) == len(known) + 1
    assert set(known) < set(found)
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".new"] == []


def test_lines_that_are_pasted_too_early_say_so(tmp_path: Path) -> None:
    missing = tmp_path / "with a blank" / "bundle.pem"
    lines = [*client_lines(missing, ADDRESS), 'printf %s "$CURL_CA_BUNDLE $HTTPS_PROXY"']
    ran = subprocess.run(
        ["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Dragoman has not started yet" in ran.stdout
    assert ran.stdout.endswith(f"{missing} {ADDRESS}")
