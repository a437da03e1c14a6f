"""A process that puts responses into a store until it has put so many, or is killed.

`python -m tests.stored.writer confdir name count size`: each id is printed after its put
has returned, the secret before all.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    confdir, name, count, size = sys.argv[1:]
    sys.path.insert(0, str(ROOT / "addon"))
    from dragoman.proxy.stored.open_store import open_store  # noqa: PLC0415 - the path is set just now
    from dragoman.stored.store import Limits  # noqa: PLC0415

    print("ready", flush=True)
    sys.stdin.readline()
    store = open_store("", confdir=Path(confdir), limits=Limits(30, 1 << 30))
    print(store.secret().hex(), flush=True)
    previous: list[str] = []
    for number in range(int(count)):
        response_id = f"{name}_{number}"
        blob = response_id.encode() + os.urandom(int(size))
        store.put("a" * 64, response_id, blob, time.time(), previous)
        previous = [response_id]
        print(response_id, flush=True)
    store.close()


if __name__ == "__main__":
    main()
