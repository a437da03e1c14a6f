"""A script for mitmdump, loaded before the addon, which then finds no sqlite3: as in
mitmproxy's own binaries for some systems."""

from __future__ import annotations

import sys

sys.modules["sqlite3"] = None  # type: ignore[assignment]
