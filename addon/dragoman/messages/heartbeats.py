"""What a heartbeat is in a message: the API's own event for that."""

from __future__ import annotations

from ..wire.sse import encode_event

PING = encode_event({"type": "ping"})
"""What keeps a client waiting, anywhere after the first event."""
