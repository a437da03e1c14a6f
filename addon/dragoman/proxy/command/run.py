"""How mitmproxy is started with the addon, and what clients need: `dragoman run`, `web`, `env`.

The proxy listens on 127.0.0.1 alone.  Before it starts, the certificates that clients are to trust
are in one file, the machine's own and mitmproxy's authority, so that what is printed works at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME, KEY_SIZE

from . import script

PORT = 8080
PROGRAMS = {"run": "mitmdump", "web": "mitmweb", "env": ""}
"""What each command starts."""
_COLUMNS = ("path", "comment", "status", "size", "time")
"""Of mitmweb's list: what fits a window of 1400 pixels, with how a turn ended."""
_SYSTEM = (
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
)
"""Where systems keep the certificates that they trust."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a proxy is started with."""

    program: str
    """`mitmdump` or `mitmweb`."""
    host: str = ""
    """Hosts to intercept, joined by commas; or the URL of the one host of a reverse proxy; empty:
    every host."""
    port: int = PORT
    arguments: tuple[str, ...] = ()
    """More of mitmproxy's own."""

    @classmethod
    def of(cls, command: str, words: Sequence[str]) -> Start:
        """Read the words after `dragoman run` or `dragoman web`; those that are not known are
        mitmproxy's."""
        parser = argparse.ArgumentParser(
            prog=f"dragoman {command}",
            usage=f"dragoman {command} [HOST] [--port PORT] [mitmproxy's options]",
            description="Start mitmproxy with Dragoman on 127.0.0.1, and print what clients need.",
            epilog="HOST: hosts to intercept, joined by commas (api.moonshot.ai,llm.chutes.ai); or "
            "the URL of the one host of a reverse proxy (https://api.moonshot.ai); without it, "
            "every host is intercepted.",
            allow_abbrev=False,
        )
        parser.add_argument("--port", type=int, default=PORT, help=f"where to listen ({PORT})")
        host, others = (
            ("", words) if not words or words[0].startswith("-") else (words[0], words[1:])
        )
        given, rest = parser.parse_known_args(others)
        return cls(PROGRAMS[command], host, given.port, tuple(rest))

    @property
    def is_reverse(self) -> bool:
        return "://" in self.host

    def command_line(self) -> list[str]:
        """mitmproxy's own command line."""
        beside = Path(sys.executable).with_name(self.program)
        words = [str(beside) if beside.exists() else self.program, "-s", str(script())]
        words += ["--listen-host", "127.0.0.1", "--listen-port", str(self.port)]
        if self.is_reverse:  # other hosts than those allowed would pass unread
            words += ["--mode", f"reverse:{self.host}"]
        else:
            for host in filter(None, self.host.split(",")):
                port = "" if ":" in host else ":443"
                words += ["--allow-hosts", f"^{host.replace('.', chr(92) + '.')}{port}$"]
        if self.program == "mitmweb":
            words += [word for name in _COLUMNS for word in ("--set", f"web_columns={name}")]
        return [*words, *self.arguments]


def main(command: str, words: Sequence[str]) -> int | str:
    """Print the lines for clients, and become mitmproxy; or say what failed."""
    start = Start.of(command, words)
    try:
        print_lines(start)
        if start.program:
            line = start.command_line()
            os.execvp(line[0], line)
    except OSError as error:
        return f"{error.filename or start.program}: {error.strerror}"
    return 0


def print_lines(start: Start) -> None:
    """Print what a client's shell needs: on standard output the lines to paste, without comments,
    which an interactive zsh takes for commands; on standard error what is to be read.

    :raises OSError: if the certificates cannot be written
    """
    address = f"http://127.0.0.1:{start.port}"
    if start.is_reverse:
        said = f"The reverse proxy of {start.host}: give clients this base URL, and its own path:"
        print(f"{said}\n{address}/v1", file=sys.stderr, flush=True)
        return
    which = f"{start.host}.  All else passes unread." if start.host else "every host."
    if start.program:
        print(f"Intercepted: {which}\n\nPaste into the shell of a client:\n", file=sys.stderr)
    print("\n".join(client_lines(write_bundle(confdir(start.arguments)), address)), flush=True)
    if start.program:
        print(
            "\nA host at http:// needs HTTP_PROXY as well, for curl http_proxy.  "
            "Node's SDKs need Node 22.21, or 24.\n",
            file=sys.stderr,
            flush=True,
        )


def client_lines(bundle: Path, address: str) -> list[str]:
    """Shell lines after which clients talk through the proxy; they say what is missing."""
    return [
        f"export CA={shlex.quote(str(bundle))} HTTPS_PROXY={address}",
        'export SSL_CERT_FILE="$CA" CURL_CA_BUNDLE="$CA" GIT_SSL_CAINFO="$CA"',
        'export NODE_EXTRA_CA_CERTS="$CA" NODE_USE_ENV_PROXY=1',
        '[ -s "$CA" ] || echo "Dragoman has not started yet: there is no $CA"',
    ]


def confdir(arguments: Sequence[str]) -> Path:
    """Where mitmproxy keeps its authority, if these are its arguments."""
    for word in arguments:
        if word.startswith("confdir="):
            return Path(word.partition("=")[2]).expanduser()
    return Path("~/.mitmproxy").expanduser()


def write_bundle(folder: Path) -> Path:
    """Write what the machine trusts, and mitmproxy's authority (which is made where there is none),
    into one file.

    :raises OSError: if the folder cannot be written
    """
    folder.mkdir(parents=True, exist_ok=True)
    CertStore.from_store(folder, CONF_BASENAME, KEY_SIZE)
    bundle, new = folder / "bundle.pem", folder / f"bundle.{os.getpid()}.new"
    # A shell in which the lines were pasted names the bundle itself.
    known = map(Path, filter(None, (ssl.get_default_verify_paths().cafile, *_SYSTEM)))
    system = next((path for path in known if path.exists() and path != bundle), None)
    authority = (folder / f"{CONF_BASENAME}-ca-cert.pem").read_bytes()
    trusted = _of_no_file() if system is None else system.read_bytes()
    new.write_bytes(trusted.rstrip(b"\n") + b"\n" + authority)
    new.replace(bundle)
    return bundle


def _of_no_file() -> bytes:
    """The certificates that a system without such a file trusts: Windows has a store of its own."""
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, trusted)).encode()
