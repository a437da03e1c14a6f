"""Looks for input that breaks a promise, with atheris, for as long as it is given.

    python -m tests.fuzz                   every target, a minute each
    python -m tests.fuzz --seconds 600 request writer
    python -m tests.fuzz --input crash-…  request     what one input does
    python -m tests.fuzz mutants           every wrong value in every node of every fixture

What breaks a promise is left in `.fuzz`, which also keeps what was found worth trying.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [path for path in (str(ROOT / "addon"), str(ROOT)) if path not in sys.path]
FOLDER = ROOT / ".fuzz"
MAX_INPUT = 16_384


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="default: all but mutants")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--input", type=Path, help="run the targets on this file, and no more")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        return _fuzz(arguments.targets[0], arguments.seconds)
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - atheris instruments it below

    targets = arguments.targets or list(TARGETS)
    unknown = set(targets) - {*TARGETS, "mutants"}
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}, mutants")
    if arguments.input:
        for target in targets:
            TARGETS[target](arguments.input.read_bytes())
        return 0
    broken = [target for target in targets if not _run(target, arguments.seconds)]
    if broken:
        print(f"BROKEN: {', '.join(broken)}; the inputs are in {FOLDER}")
    return 1 if broken else 0


def _run(target: str, seconds: int) -> bool:
    """Run one target in a process of its own; whether no promise was broken."""
    print(f"== {target}", flush=True)
    if target == "mutants":
        return _mutants()
    command = [sys.executable, "-m", "tests.fuzz", "--here", "--seconds", str(seconds), target]
    done = subprocess.run(
        command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines = done.stdout.decode(errors="replace").splitlines()
    shown = [line for line in lines if line.startswith("stat::")] if not done.returncode else lines
    print("\n".join(shown), flush=True)
    return done.returncode == 0


def _fuzz(target: str, seconds: int) -> int:
    """Fuzz until the time is over; libFuzzer ends the process."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not here: pip install -r tests/fuzz/requirements.txt")
        return 2
    with atheris.instrument_imports(include=["dragoman"]):
        from tests.fuzz.targets import TARGETS, WORDS, seeds  # noqa: PLC0415

    corpus, words = FOLDER / target, FOLDER / f"{target}.dict"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed{number}").write_bytes(seed)
    words.write_text("".join(f"{_quoted(word)}\n" for word in WORDS))
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT}",
        f"-dict={words}",
        f"-artifact_prefix={FOLDER}/{target}-",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[target])
    atheris.Fuzz()
    return 0


def _quoted(word: str) -> str:
    plain = (32 <= byte < 127 and byte not in b'"\\' for byte in word.encode())
    parts = zip(word.encode(), plain, strict=True)
    return '"' + "".join(chr(byte) if ok else f"\\x{byte:02X}" for byte, ok in parts) + '"'


def _mutants() -> bool:
    """Every wrong value at every node: minutes, and nothing is left to chance."""
    from tests.fuzz import mutants, promises, targets  # noqa: PLC0415

    done = 0
    started = time.monotonic()
    for values, promise in (
        (mutants.requests(), targets.request),
        (mutants.whole_replies(), targets.whole),
        (mutants.streams(), _stream),
    ):
        for node in mutants.chosen(values, at_most=sys.maxsize):
            wrong_values = mutants.wrong_values()
            for wrong, value in mutants.mutants(values[node.fixture], node.path, wrong_values):
                body = promises.encoded(value) if promise is _stream else _text(value)
                try:
                    promise(body)
                except Exception as error:
                    print(f"{node} as {str(wrong)[:60]}: {type(error).__name__}: {error}")
                    return False
                done += 1
    print(f"{done} mutants in {time.monotonic() - started:.0f} s")
    return True


def _stream(body: bytes) -> None:
    from tests.fuzz import promises  # noqa: PLC0415

    promises.a_stream_is_bridged(promises.a_stream_is_repaired([body]))


def _text(value: object) -> bytes:
    return json.dumps(value).encode()


if __name__ == "__main__":
    sys.exit(main())
