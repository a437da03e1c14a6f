"""Carries reasoning, or a summary, through a client that keeps no store.

Clients return the ``encrypted_content`` of an item verbatim and drop most else, so the text
travels in it: ``dragoman.1.<checksum>.<base64url>``.  It hides nothing; version and checksum
distinguish our own envelope from another vendor's ciphertext and from one that was cut.  The same
text always gives the same envelope.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_PREFIX = "dragoman.1."
MAX_SEALED = 2 * 1024 * 1024
"""Characters of a reasoning that is sealed, by one call: more than any model thinks."""


def seal(text: str) -> str:
    """The envelope of a text."""
    data = text.encode("utf-8", "surrogatepass")
    return f"{_PREFIX}{_checksum(data)}.{base64.urlsafe_b64encode(data).decode('ascii')}"


def open_sealed(value: object) -> str | None:
    """The text of an envelope; None for anything `seal` did not return."""
    if not isinstance(value, str) or not value.startswith(_PREFIX):
        return None
    checksum, _, carried = value.removeprefix(_PREFIX).partition(".")
    try:
        data = base64.b64decode(carried, altchars=b"-_", validate=True)
        text = data.decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return None
    return text if _checksum(data) == checksum else None


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
