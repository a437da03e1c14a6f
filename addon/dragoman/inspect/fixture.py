"""A recorded flow as a fixture: the files that the replaying upstream serves, in the layout of the
project's own fixtures.

Secrets are removed.  A flow of which a part is missing gives no fixture: its replay would show
something that never happened.
"""

from __future__ import annotations

from ..wire.json_codec import dumps
from ..wire.sse import is_event_stream
from .exchange import Exchange
from .redact import Redaction


class IncompleteError(ValueError):
    """A part of the flow is missing; the message says which."""


def require_whole(exchange: Exchange) -> None:
    """Raises `IncompleteError` for an exchange that cannot be replayed."""
    if exchange.unfinished:
        raise IncompleteError("it still runs, or was not recorded to its end")
    missing = exchange.upstream_missing + exchange.client_missing
    if missing:
        raise IncompleteError(
            f"it was not kept whole: {missing} bytes are missing (see the option dragoman_keep)"
        )
    if not exchange.client_request:
        raise IncompleteError("its request was not kept, or is empty")
    if not exchange.upstream_reply:
        raise IncompleteError("there is no reply of an upstream (yet)")


def fixture(exchange: Exchange, redaction: Redaction) -> dict[str, bytes]:
    """The files of a fixture, by name; raises `IncompleteError`. Of a bridged flow ``chat.json`` is
    what went upstream, and ``responses.*`` what the client got; of a repaired one ``chat.*`` is
    what the client got."""
    require_whole(exchange)
    bodies = {"request.json": exchange.client_request}
    bodies[_named("upstream", exchange.upstream_reply)] = exchange.upstream_reply
    if exchange.job == "bridge":
        bodies["chat.json"] = exchange.upstream_request
        bodies[_named("responses", exchange.client_reply)] = exchange.client_reply
    elif exchange.job == "repair" and exchange.status == 200:
        bodies[_named("chat", exchange.client_reply)] = exchange.client_reply
    files = {name: redaction.body(body) for name, body in bodies.items()}
    if exchange.upstream_status != 200:
        reply: dict[str, object] = {"status": exchange.upstream_status}
        if exchange.retry_after:
            reply["headers"] = {"retry-after": exchange.retry_after}
        files["reply.json"] = dumps(reply) + b"\n"
    return files


def _named(stem: str, body: bytes) -> str:
    return f"{stem}.{'sse' if is_event_stream(body) else 'json'}"
