"""What a heartbeat is in a chat reply, and in any other before its API has one of its own.

Those of the other APIs are in `messages/heartbeats.py` and `responses/heartbeats.py`.
`proxy/flows/live_stream.py` decides when one is due.
"""

from __future__ import annotations

from .sse import Frame

HEARTBEAT = Frame(b": waiting for the upstream\n\n")
"""A comment, ignored by parsers: it can stand between any two events."""
