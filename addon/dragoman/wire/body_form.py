"""The form of a reply's body: an event stream, or a document."""

from __future__ import annotations

from .sse import is_event_stream


class BodyForm:
    """Finds out what a body is by its first bytes, and collects a document: a JSON text, or
    whatever else is no event stream. A body labelled as an event stream is one unless it is
    JSON."""

    def __init__(self, *, labelled: bool, max_document: int) -> None:
        """`labelled`: whether the reply says that it is an event stream; `max_document`: bytes of a
        document at most."""
        self._labelled = labelled
        self._max_document = max_document
        self._start = b""
        self._document: bytearray | None = None
        self.streams = False
        """Whether this is certainly an event stream: then the rest need not be fed."""

    @property
    def is_stream(self) -> bool:
        return self.streams or (self._labelled and self._document is None)

    @property
    def too_large(self) -> bool:
        """Whether the document is longer than `max_document`."""
        return self._document is not None and len(self._document) > self._max_document

    def feed(self, data: bytes) -> bytes:
        """A piece of the body; returns what is known to be of an event stream."""
        if self._document is not None:
            self._document += data
            return b""
        self._start += data
        streams = is_event_stream(self._start)
        if streams is None:
            return b""
        start = self.close()
        if not (streams or (self._labelled and not _is_json(start))):
            self._document = bytearray(start)
            return b""
        self.streams = True
        return start

    def close(self) -> bytes:
        """The first bytes, held while they were undecided."""
        start, self._start = self._start, b""
        return start

    def document(self) -> bytes | None:
        """The document so far, returned once; None if this is an event stream."""
        document, self._document = self._document, None
        return None if document is None else bytes(document)


def _is_json(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
