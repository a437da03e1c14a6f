"""All of mitmproxy and h11 that is used here and promised nowhere, named in one place.

It is the same from mitmproxy 11 to 12.  It is checked at the start: where a name is missing, what
needs it is not used at all, with one warning, and all else works (`proxy.addon`).  That a name has
another meaning nobody sees but the tests of transports.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

Names = Mapping[str, tuple[str, str]]
"""By classes: the attributes that these have themselves, and those that only their objects have."""

_HTTP = "mitmproxy.proxy.layers.http"
_SERVER = "mitmproxy.proxy.server"
LAYERS: Names = {
    "mitmproxy.proxy.layer:Layer": ("debug handle_event _handle_event", "_paused context"),
    "mitmproxy.proxy.context:Context": ("fork", "client layers options server"),
    f"{_HTTP}:HttpLayer": (
        "event_to_child get_connection make_stream register_connection",
        "command_sources connections streams",
    ),
    f"{_HTTP}:HttpStream": (
        "check_body_size check_killed flow_done handle_protocol_error make_server_connection "
        "passthrough send_response start_response_stream state_consume_response_body state_done "
        "state_errored state_stream_response_body state_wait_for_response_headers",
        "client_state flow response_body_buf server_state stream_id",
    ),
    f"{_HTTP}:HttpClient": ("handle_event", ""),
    f"{_HTTP}:GetHttpConnection": ("", ""),
    f"{_HTTP}:RegisterHttpConnection": ("", "connection err"),
    f"{_HTTP}:SendHttp": ("", "connection event"),
    f"{_HTTP}._base:ReceiveHttp": ("", "event"),
    f"{_HTTP}._events:HttpEvent": ("", "stream_id"),
    f"{_HTTP}._http1:Http1Server": ("", ""),
    f"{_HTTP}._http1:Http1Client": ("read_body stream_id", "body_reader buf conn"),
    f"{_HTTP}._http2:Http2Client": ("", "our_stream_id"),
    # Of h11, with which mitmproxy reads bodies.
    f"{_HTTP}._http1:ChunkedReader": ("", "_bytes_in_chunk _bytes_to_discard _reading_trailer"),
    f"{_HTTP}._http1:ReceiveBuffer": ("maybe_extract_at_most", ""),
    f"{_HTTP}._http1:h11": ("Data EndOfMessage", ""),
    **{
        f"{_HTTP}._events:{name}": ("", "stream_id")
        for name in (
            *("RequestData", "RequestEndOfMessage", "RequestHeaders", "RequestProtocolError"),
            *("ResponseData", "ResponseEndOfMessage", "ResponseHeaders", "ResponseProtocolError"),
            "ResponseTrailers",
        )
    },
    "mitmproxy.addons.next_layer:NextLayer": ("next_layer", ""),
    "mitmproxy.addons.proxyserver:Proxyserver": ("", "connections"),
    f"{_SERVER}:ConnectionHandler": ("server_event", "layer transports"),
    f"{_SERVER}:ConnectionIO": ("writer", ""),
}
"""For `http_layer`, `http_stream` and `http1_client`."""


def require(names: Names) -> None:
    """Raises `ImportError` that says what is missing."""
    missing = []
    for path, (own, of_objects) in names.items():
        try:
            owner = pkgutil.resolve_name(path)
        except (ImportError, AttributeError):
            missing.append(path)
            continue
        known = _named_in(owner) if of_objects else frozenset()
        lacking = [name for name in own.split() if not hasattr(owner, name)]
        lacking += [name for name in of_objects.split() if name not in known]
        missing += [f"{path.partition(':')[2]}.{name}" for name in lacking]
    if missing:
        raise ImportError(f"mitmproxy has no {', '.join(missing)}")


def _named_in(owner: object) -> frozenset[str]:
    """The attributes that a class and its parents name in their methods and annotations; an object
    cannot be made here."""
    named: set[str] = set()
    for base in getattr(owner, "__mro__", ()):
        for name, member in vars(base).items():
            code = getattr(member, "__code__", None)
            named.update((name,) if code is None else code.co_names)
        named.update(vars(base).get("__annotations__", ()))
    return frozenset(named)
