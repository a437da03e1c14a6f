"""The blocks of README.md and docs/, run as they are written, in a copy of a checkout."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.clients import PYTHON, need, need_command
from tests.live.mitmdump import ROOT, Mitmdump, make_confdir
from tests.waiting import eventually

pytestmark = pytest.mark.slow

PAGES = (
    "README.md",
    *(f"docs/{page}.md" for page in ("running", "stored-responses", "bridge", "looking")),
)
DRAGOMAN = "PYTHONPATH=addon .venv-run/bin/python -m dragoman"
TARGETS = re.compile(r"(?:^|`)make ([a-z-]+)", re.MULTILINE)


def blocks(page: str, language: str, holding: str) -> str:
    """The one block of a page in a language that holds a text."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    (block,) = (block for block in found if holding in block)
    return str(block)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Checkout:
    """A folder that looks like a checkout in which `make run` has run, and a home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.path = self.home / "dragoman"
        make_confdir(self.home / ".mitmproxy")
        self.path.mkdir(parents=True)
        for entry in ("addon", "fixtures", "tests", "Makefile", ".ci", "pyproject.toml"):
            (self.path / entry).symlink_to(ROOT / entry)
        self._environment(".venv-run", Path(sys.prefix))
        self._environment(".venv-clients", PYTHON.parents[1])

    def _environment(self, name: str, real: Path) -> None:
        (self.path / name).mkdir()
        for entry in real.iterdir():
            if entry.name != ".ready":
                (self.path / name / entry.name).symlink_to(entry)
        (self.path / name / ".ready").touch()

    def start(self, script: str, **more: str) -> subprocess.Popen[str]:
        """Run a script as in a terminal."""
        inherited = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        environment = inherited | {"HOME": str(self.home), "PYTHONUNBUFFERED": "1"} | more
        environment["PATH"] = f"{self.path / '.venv-run' / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, **more: str) -> str:
        process = self.start(script, **more)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            stop(process)
        assert process.returncode == 0, output
        return output


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(15)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    need(PYTHON, "`make test` sets it up")
    return Checkout(tmp_path)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        stop(process)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_the_readme_is_short_enough_to_be_scanned() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 200
    assert max(len(line) for line in lines if line.startswith("| ")) <= 240


def test_every_link_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]*)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_every_module_and_test_that_is_named_is_there() -> None:
    tests = ROOT / "tests"
    modules = [*(ROOT / "addon").rglob("*.py"), *tests.glob("*.py"), *tests.glob("[!c]*/**/*.py")]
    for page in ("faults", "reading-the-code"):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        named = set(re.findall(r"`(?:\w+/)*(test_\w+|\w+(?=\.py))", text))
        assert len(named) > 10
        assert [n for n in named if not any(m.name.startswith(n) for m in modules)] == []


def test_every_target_that_is_named_is_one_of_the_makefile() -> None:
    named = {name for page in PAGES for name in TARGETS.findall((ROOT / page).read_text())}
    made = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "run", "upstream", "test"} <= named <= set(made)


def test_make_demo_shows_repair_and_both_bridges(checkout: Checkout) -> None:
    output = checkout.run("make demo")
    assert "functions.bash:15" in output
    assert "response.output_item.done" in output
    assert "input_json_delta" in output


def said_by(process: subprocess.Popen[str]) -> str:
    """All that it has printed, once it has been stopped."""
    stop(process)
    return process.communicate()[0]


def test_the_lines_that_make_run_prints_lead_curl_and_python_through_the_proxy(
    checkout: Checkout, tls_upstream: Upstream, started: list[subprocess.Popen[str]]
) -> None:
    port = free_port()
    insecure = 'ARGS="--set ssl_insecure=true"'
    started.append(checkout.start(f"make run PORT={port} {insecure}"))
    eventually(lambda: listens(port))
    lines = checkout.run(f"{DRAGOMAN} env --port {port}")
    asked = f"{tls_upstream.url}/kimi_specification/v1/models"
    python = f"import urllib.request as u; print(u.urlopen('{asked}').read())"
    for client in (f"curl -s --fail {asked}", f'python -c "{python}"'):
        assert "kimi-k2.5" in checkout.run(f"{lines}\n{client}")
    said = said_by(started[-1])
    assert "Intercepted: every host" in said
    assert f"http://127.0.0.1:{port}" in said


def test_the_lines_for_mitmproxy_alone_lead_curl_through_the_proxy(
    checkout: Checkout, tls_upstream: Upstream
) -> None:
    lines = blocks("docs/running.md", "sh", "export CA=")
    with Mitmdump(checkout.home / ".mitmproxy") as proxy:
        asked = f"{tls_upstream.url}/kimi_specification/v1/models"
        curl = f"HTTPS_PROXY={proxy.url} CURL_CA_BUNDLE=$CA curl -s --fail {asked}"
        assert "kimi-k2.5" in checkout.run(f"{lines}\n{curl}")


def test_what_is_to_be_pasted_has_no_comments_and_runs_in_an_interactive_zsh(
    checkout: Checkout,
) -> None:
    """There, `#` begins a command, and what follows may open a quotation."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [
        b for page in pages for b in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.S | re.M)
    ]
    assert [block for block in shown if re.search(r"(^|\s)#", block)] == []
    zsh = need_command("zsh", install="install zsh (Debian: apt-get install zsh)")
    printed = checkout.run(f"{DRAGOMAN} env")
    script = f"{printed}{blocks('README.md', 'sh', 'export CA=')}print -r -- $CA $HTTPS_PROXY\n"
    environment = {"HOME": str(checkout.home), "PATH": os.environ["PATH"]}
    pasted = subprocess.run(
        [zsh, "-f", "-i"],
        check=False,
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert f"{checkout.home}/.mitmproxy/bundle.pem http://127.0.0.1:8080" in pasted.stdout
    assert not re.search("not found|parse error|no matches", pasted.stderr), pasted.stderr


def certificate(upstream: Upstream, proxy_port: int | None = None) -> bytes:
    """That which a client sees, through a proxy or not."""
    address = ("127.0.0.1", proxy_port or upstream.port)
    with socket.create_connection(address, 10) as connection:
        if proxy_port:
            name = f"127.0.0.1:{upstream.port}"
            connection.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert b" 200 " in connection.recv(4096)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(connection, server_hostname="127.0.0.1") as tls:
            return tls.getpeercert(binary_form=True) or b""


def test_make_run_intercepts_the_hosts_that_it_is_given_and_no_other(
    checkout: Checkout, tls_upstream: Upstream, started: list[subprocess.Popen[str]]
) -> None:
    port, host = free_port(), f"127.0.0.1:{tls_upstream.port}"
    started.append(
        checkout.start(f'make run PORT={port} HOST={host} ARGS="--set ssl_insecure=true"')
    )
    eventually(lambda: listens(port))
    with Upstream(tls=True) as other:
        assert certificate(tls_upstream, port) != certificate(tls_upstream)
        assert certificate(other, port) == certificate(other)
    assert f"Intercepted: {host}" in said_by(started[-1])


def test_make_web_serves_mitmweb(checkout: Checkout, started: list[subprocess.Popen[str]]) -> None:
    port, web = free_port(), free_port()
    options = f"--no-web-open-browser --set web_port={web}"
    started.append(checkout.start(f'make web PORT={port} ARGS="{options}"'))
    eventually(lambda: listens(port) and listens(web))


def test_the_script_and_its_options_in_the_configuration_file_are_read(
    checkout: Checkout, started: list[subprocess.Popen[str]]
) -> None:
    configuration = blocks("README.md", "yaml", "scripts:")
    (checkout.home / ".mitmproxy" / "config.yaml").write_text(
        configuration.replace('"off"', '"offf"')
    )
    started.append(checkout.start(f"mitmdump --listen-port {free_port()}"))
    output, _ = started[-1].communicate(timeout=30)
    assert "dragoman_store: there is no store 'offf'" in output


@pytest.mark.parametrize(
    ("block", "option", "says"),
    [
        ("main.py --listen-host 127.0.0.1\n", "--listen-port ", "proxy listening at"),
        ("127.0.0.1:8000", "PORT=", "The reverse proxy of http://127.0.0.1:8000"),
    ],
)
def test_the_proxy_starts_as_written_and_says_so(
    checkout: Checkout, started: list[subprocess.Popen[str]], block: str, option: str, says: str
) -> None:
    port = free_port()
    command = blocks("README.md", "sh", block).strip()
    started.append(checkout.start(f"{command} {option}{port}"))
    eventually(lambda: listens(port))
    said = said_by(started[-1])
    assert says in said and str(port) in said


def test_what_is_shown_with_the_replaying_upstream_works(checkout: Checkout) -> None:
    """One test, as all examples use the same ports."""
    output = checkout.run(blocks("docs/running.md", "sh", "make upstream"))
    assert '"type":"response.completed"' in output.replace('": "', '":"')
    output = checkout.run(blocks("docs/looking.md", "sh", "--folder recorded"))
    assert '"name":"bash"' in output.replace('": "', '":"')
    assert "repaired bash (kimi_k2, native id)" in output
    assert "<|tool_calls_section_begin|>" in output, "of the upstream itself"
    output = checkout.run(blocks("docs/stored-responses.md", "sh", "submit_tool_outputs"))
    assert "response.required_action" in output
    assert "from-the-tool" in output
    assert '"object":"list"' in output.replace('": "', '":"')


def test_the_configuration_of_codex_can_be_read() -> None:
    provider = tomllib.loads(blocks("README.md", "toml", "moonshot"))
    assert provider["model_providers"][provider["model_provider"]]["wire_api"] == "responses"


def test_a_response_continues_another(
    checkout: Checkout, plain_upstream: Upstream, tmp_path: Path
) -> None:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_store=memory")
    with Mitmdump(checkout.home / ".mitmproxy", *arguments) as proxy:
        script = tmp_path / "client.py"
        script.write_text(blocks("docs/stored-responses.md", "python", "previous_response_id"))
        environment = {
            "OPENAI_BASE_URL": f"{proxy.url}/clean_text/v1",
            "OPENAI_API_KEY": "sk-test",
        }
        checkout.run(f"{PYTHON} {script}", **environment)
