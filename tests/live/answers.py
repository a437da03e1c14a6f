"""A script for mitmdump: another addon, which answers or kills requests in an upstream's place.

`x-answers: answered` or `killed` is for a client's request, `x-answers-questions` for what
Dragoman asks in its place.
"""

from __future__ import annotations

from mitmproxy import http


def request(flow: http.HTTPFlow) -> None:
    headers = flow.request.headers
    name = "x-answers-questions" if flow.is_replay else "x-answers"
    if headers.get(name) == "answered":
        flow.response = http.Response.make(418, b'{"detail":"Not Found"}')
    elif headers.get(name) == "killed":
        flow.kill()
