"""Opens the store that the option ``dragoman_store`` names.

SQLite and Redis may be missing from mitmproxy's Python: each is imported when it is chosen.
Without SQLite nothing is kept but in a Redis.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from urllib.parse import urlsplit

from mitmproxy import exceptions

from ...stored.store import Limits, Store, StoreError
from .redis import SCHEMES, Redis

FILE = "dragoman.sqlite3"
"""The default, in mitmproxy's confdir."""
_CHOICES = "memory, off, a redis:// URL, or the path of a file (./name for one right here)"


def open_store(value: str, *, confdir: Path, limits: Limits) -> Store:
    """The store that `value` names, which is not ``off``; it forgets what is beyond its `limits`.
    Raises `OptionsError`. A Redis is connected to by its first use: it may start later than the
    proxy."""
    try:
        if value.startswith(SCHEMES):
            return Redis(value, limits)
        path = None if value == "memory" else _path(value, confdir)
        try:
            sqlite = importlib.import_module(".sqlite", __package__)
        except ImportError:
            raise StoreError(
                "the Python that mitmproxy runs in has no sqlite3, which a file and memory need. "
                "mitmproxy from pip has it; else set it to a redis:// URL or to off."
            ) from None
        store: Store = sqlite.Sqlite(path, limits)
    except StoreError as error:
        raise exceptions.OptionsError(f"dragoman_store: {error}") from None
    return store


def place_of(value: str, confdir: Path) -> str:
    """The store in words, without its password."""
    if value.startswith(SCHEMES):
        return f"Redis at {urlsplit(value).hostname or 'localhost'}"
    return value if value == "memory" else str(_path(value, confdir))


def _path(value: str, confdir: Path) -> Path:
    """A single word is a mistake, not a file name."""
    if not value:
        return confdir.expanduser() / FILE
    path = Path(value)
    if "://" in value:  # with a password, perhaps
        raise StoreError(f"a store of this kind there is not; set it to {_CHOICES}.")
    if len(path.parts) == 1 and not path.suffix and not value.startswith("."):
        raise StoreError(f"there is no store {value!r}; set it to {_CHOICES}.")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise StoreError(f"{value!r} is no path ({error}); set it to {_CHOICES}.") from None
