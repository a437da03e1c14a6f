"""A script for mitmdump: Python's full collection never runs, and the answer to `…/flows` is how
many flows are held."""

from __future__ import annotations

import gc

from mitmproxy import http


def running() -> None:
    gc.disable()


def response(_: http.HTTPFlow) -> None:
    gc.collect(1)  # what is alive now is old from here on


def request(flow: http.HTTPFlow) -> None:
    if flow.request.path == "/flows":
        gc.collect(1)
        held = sum(isinstance(each, http.HTTPFlow) for each in gc.get_objects())
        flow.response = http.Response.make(200, str(held))
