"""A script for mitmdump: after a request for `/settled` it has no more memory than it needs.

mitmproxy's flows are reference cycles, which stay until Python's collector comes for
them, hundreds at a time, and the C library keeps what has been freed; so the collector
is run, and free memory given back, before the memory is looked at.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

from mitmproxy import http


def request(flow: http.HTTPFlow) -> None:
    if flow.request.path == "/settled":
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        flow.response = http.Response.make(200)
