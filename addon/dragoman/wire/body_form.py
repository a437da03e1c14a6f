"""What form the body of a reply has: an event stream, or a document."""

from __future__ import annotations

from .sse import is_event_stream


class BodyForm:
    """Finds out what a body is by its first bytes, and collects it if it is a document.

    That is a JSON text, or whatever else is no event stream.  One that is labelled as an
    event stream is taken for one unless it is JSON.
    """

    def __init__(self, *, labelled: bool, max_document: int) -> None:
        """`labelled`: whether the reply says that it is an event stream; `max_document`: bytes
        of a document that are read as a whole."""
        self._labelled = labelled
        self._max_document = max_document
        self._start = b""
        self._document: bytearray | None = None
        self.streams = False
        """Whether this is an event stream for certain: from now on a piece is as it came."""

    @property
    def is_stream(self) -> bool:
        """Whether this is an event stream, as far as is known."""
        return self.streams or (self._labelled and self._document is None)

    @property
    def too_large(self) -> bool:
        """Whether the document is longer than can be read as a whole."""
        return self._document is not None and len(self._document) > self._max_document

    def feed(self, data: bytes) -> bytes:
        """A piece of the body.  Returns what there is of an event stream."""
        if self._document is not None:
            self._document += data
            return b""
        if self.streams:
            return data
        self._start += data
        tells = is_event_stream(self._start)
        if tells is None:
            return b""
        start = self.close()
        if not (tells or (self._labelled and not _is_json(start))):
            self._document = bytearray(start)
            return b""
        self.streams = True
        return start

    def close(self) -> bytes:
        """What was held because it told nothing."""
        start, self._start = self._start, b""
        return start

    def document(self) -> bytes | None:
        """The document so far, which is given away; None if this is an event stream."""
        document, self._document = self._document, None
        return None if document is None else bytes(document)


def _is_json(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
