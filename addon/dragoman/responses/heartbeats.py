"""What a heartbeat is in a response.

Clients take a comment for silence (Codex counts events), so it is an official event without news:
the latest delta once more, empty (`OpenPart.append` writes that of an open part), or else
`response.in_progress` with the items so far.
"""

from __future__ import annotations

from ..wire.json_codec import Json

_LARGE = 64 * 1024
"""Bytes of a snapshot that is not repeated whole every few seconds of a silence."""
_WITHOUT_REQUEST: Json = {"tools": [], "instructions": None}
"""What of the request may be megabytes, in such a snapshot."""


def without_news(delta: Json) -> Json:
    """The event of a delta once more, empty."""
    return {**delta, "delta": "", **({"logprobs": []} if "logprobs" in delta else {})}


def snapshot_again(response: Json, size: int) -> Json:
    """The response of a `response.in_progress`; `size`: its bytes, about."""
    return response | _WITHOUT_REQUEST if size > _LARGE else response
