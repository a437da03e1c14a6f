"""What the rows of the benchmark share: the upstream, the proxies, and the rounds."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from tests.bench.client import CHAT, RESPONSES
from tests.bench.processes import Proxy, Upstream
from tests.live.mitmdump import make_confdir

JOBS = {"plain": CHAT, "repair": CHAT, "bridge": RESPONSES}
"""What is compared, and the API that is asked."""
Key = TypeVar("Key", bound=Hashable)
Figure = TypeVar("Figure")


class Bench:
    """One run: what it has started ends with it."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.quick = quick
        self.stack = ExitStack()
        self._folder = folder
        self._started: dict[tuple[bool, tuple[str, ...]], Proxy] = {}
        self._count = 0
        self._rng = random.Random(7)
        self.upstream = self.stack.enter_context(Upstream())

    def proxy(self, *options: str, plain: bool = False) -> Proxy:
        """The mitmdump with these options; all rows share it."""
        key = plain, options
        if key not in self._started:
            proxy = self.new_proxy(*options, plain=plain)
            self._started[key] = self.stack.enter_context(proxy)
        return self._started[key]

    def of_job(self, job: str) -> Proxy:
        """The mitmdump that does one of `JOBS`."""
        return self.proxy(plain=job == "plain")

    def new_proxy(self, *options: str, plain: bool = False) -> Proxy:
        """A mitmdump of one's own, which has to be stopped."""
        return Proxy(self.confdir(), self.upstream.url, *options, plain=plain)

    def confdir(self) -> Path:
        """A new one, with a certificate authority."""
        self._count += 1
        confdir = self._folder / f"confdir{self._count}"
        make_confdir(confdir)
        return confdir

    def rounds(
        self,
        name: str,
        sides: Mapping[Key, Callable[[], Figure]],
        *,
        rounds: int,
        warm_up: int = 2,
    ) -> dict[Key, list[Figure]]:
        """What each side gave in each round, those for warming up left out."""
        given: dict[Key, list[Figure]] = {key: [] for key in sides}
        rounds, warm_up = (5, 1) if self.quick else (rounds, warm_up)
        for number in range(warm_up + rounds):
            for key in self._rng.sample(list(sides), len(sides)):
                figure = sides[key]()
                if number >= warm_up:
                    given[key].append(figure)
            progress(f"{name}: round {number + 1} of {warm_up + rounds}")
        return given

    def check(self) -> None:
        """Fails if one of the proxies has logged a traceback."""
        for proxy in self._started.values():
            proxy.check_log()


def progress(line: str) -> None:
    """Tell how far it is, where the table is not."""
    print(line, file=sys.stderr, flush=True)
