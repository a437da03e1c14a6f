"""A script for mitmdump: another addon, which answers or kills requests in an upstream's place, by
`x-answers: answered` or `killed`."""

from __future__ import annotations

from mitmproxy import http


def request(flow: http.HTTPFlow) -> None:
    headers = flow.request.headers
    if headers.get("x-answers") == "answered":
        flow.response = http.Response.make(418, b'{"detail":"Not Found"}')
    elif headers.get("x-answers") == "killed":
        flow.kill()
