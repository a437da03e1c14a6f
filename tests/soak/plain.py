"""A script for mitmdump: what everybody writes to have replies streamed, to compare with."""

from mitmproxy import http


def responseheaders(flow: http.HTTPFlow) -> None:
    assert flow.response
    flow.response.stream = True
