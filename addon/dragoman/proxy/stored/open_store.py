"""Opens the store that the option ``dragoman_store`` names.

SQLite and Redis may be missing from mitmproxy's Python: each is imported when it is chosen.
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from urllib.parse import urlsplit

from mitmproxy import exceptions

from ...stored.store import Store, StoreError
from .limits import Limits
from .memory import Memory
from .redis import SCHEMES, Redis

logger = logging.getLogger(__name__)

FILE = "dragoman.sqlite3"
"""The default, in mitmproxy's confdir."""
_CHOICES = "memory, off, a redis:// URL, or the path of a file (./name for one right here)"


def open_store(value: str, *, confdir: Path, days: float, max_bytes: int) -> Store:
    """The store that `value` names, which is not ``off``. What is older than `days` (more than 0),
    or beyond `max_bytes` and least recently used, is forgotten. Raises `OptionsError`. A Redis is
    not connected to before it is used: it may start later than the proxy."""
    bounds = Limits.of(days, max_bytes)
    if value == "memory":
        return Memory(bounds)
    try:
        if value.startswith(SCHEMES):
            return Redis(value, bounds)
        return _file(_path(value, confdir), bounds)
    except StoreError as error:
        raise exceptions.OptionsError(f"dragoman_store: {error}") from None


def place_of(value: str, confdir: Path) -> str:
    """The store in words, without its password."""
    if value.startswith(SCHEMES):
        return f"Redis at {urlsplit(value).hostname}"
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


def _file(path: Path, bounds: Limits) -> Store:
    try:
        sqlite = importlib.import_module(".sqlite", __package__)
    except ImportError:
        logger.warning(
            "dragoman_store: the Python that mitmproxy runs in has no sqlite3, so responses are "
            "kept in memory, and no longer than mitmproxy runs. mitmproxy from pip has it; to "
            "have it so without this warning, set dragoman_store to memory."
        )
        return Memory(bounds)
    store: Store = sqlite.Sqlite(path, bounds)
    return store
