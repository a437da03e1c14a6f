"""Found before the orjson that is installed, wherever this folder is in front on the path.

mitmproxy's own binaries have none: so all tests run, and everything is measured, without
it, but for those that are about it.
"""

raise ImportError("hidden from the tests")
