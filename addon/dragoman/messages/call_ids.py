"""The ids of the calls that the writers of a message make, whatever those of the upstream are:
Anthropic's begin with ``toolu_``."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import count


def new_call_ids(seed: object, called: Container[str] = ()) -> Iterator[str]:
    """Those of one message, without end, but for the ids that the conversation has `called`;
    `seed` is another for each message."""
    made = (f"toolu_{seed}_{number}" for number in count(1))
    return (call_id for call_id in made if call_id not in called)
