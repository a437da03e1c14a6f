"""The few headers that decide how a body is read and sent."""

from __future__ import annotations

from mitmproxy import http

EVENT_STREAM = "text/event-stream"


def media_type(response: http.Response) -> str:
    """Without parameters, in lower case."""
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def encoding_of(message: http.Message) -> str:
    """The value of Content-Encoding."""
    value: str = message.headers.get("content-encoding", "identity")
    return value


def set_event_stream(response: http.Response) -> None:
    """The body that leaves is an event stream of our own, which no cache may keep."""
    response.headers["content-type"] = "text/event-stream; charset=utf-8"
    response.headers["cache-control"] = "no-cache"


def set_stream_framing(request: http.Request, response: http.Response) -> None:
    """The body that leaves is not encoded, and of unknown length."""
    response.headers.pop("content-encoding", None)
    response.headers.pop("content-length", None)
    response.headers.pop("transfer-encoding", None)
    if request.http_version == "HTTP/1.1":
        response.headers["transfer-encoding"] = "chunked"
