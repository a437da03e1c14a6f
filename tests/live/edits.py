"""A script beside the addon: another addon that changes streams, as users write it."""

from __future__ import annotations

from mitmproxy import http


def edited(data: bytes) -> bytes:
    return data.replace(b"Hello", b"Edited")


def responseheaders(flow: http.HTTPFlow) -> None:
    if flow.response and "/edited" in flow.request.path:
        flow.response.stream = edited
