"""Arguments that a format writes as JSON text, up to one of its markers.

A marker that is quoted in a string of the JSON is text, and only the rest of the JSON shows
that: what follows such a marker is held until then (beyond `QUOTED_LIMIT` it was quoted).
Arguments without a marker at their end are over where JSON is complete and text follows.
White space around the JSON is formatting.  Control characters in its strings, such as line
ends, which models write and JSON forbids, are escaped.  An object that is written as a JSON string
is that object.

The invariant: the arguments, joined, do not depend on how the text was cut; nor does the place of
`NoJson`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json.encoder import encode_basestring

from ...wire.json_progress import JsonProgress
from ..events import Arguments, CallEnd, Dropped, NoJson
from .marker_set import HeaderPattern, MarkerPattern, Run
from .protocol import CallArguments

QUOTED_LIMIT = 16 * 1024
"""Characters held back after a quoted marker; after that many it counts as quoted."""
MAX_QUOTED = 2048
"""Quoted markers of one call; later ones in its strings are not looked for."""
BLANK_LIMIT = 256
"""White space after the JSON that is formatting, unless text follows."""

_BLANK = re.compile(r"\s*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_UP_TO_QUOTE = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_RUN = re.compile(r"(?:\\.)++|[\x00-\x1f]++", re.DOTALL)

BLANKS_IN_STRING = Run(r"(?:\s|\\[nrt])*+", r"(?:\s|\\[nrt])*+\\?")
_OBJECT_IN_STRING = HeaderPattern.of(
    ('"', BLANKS_IN_STRING, r"\{", BLANKS_IN_STRING, Run(r'(?:\\?"|\})', r"\\?"))
)
_ESCAPES = re.compile(r'(?:[^"\\]|\\[^u]|\\u(?![0-9a-fA-F]{0,3}\Z))*+', re.DOTALL)
"""Text up to the closing quote, or to half an escape at its end."""
_STRING_ESCAPE = re.compile(r"\\(?:u((?![dD][89a-fA-F])[0-9a-fA-F]{4})|([^u]))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JsonArguments(CallArguments):
    """Arguments that are JSON text up to a marker."""

    def __init__(self, markers: MarkerPattern, strays: Mapping[str, str] | None = None) -> None:
        """`strays` are markers that do not end a call, and their names: they are dropped."""
        super().__init__()
        self._json = JsonProgress()
        self._string: _StringText | None = None
        """Set if they are in a JSON string."""
        self._controls = ControlCharacters()
        self._has_arguments = False
        """Whether there were any arguments."""
        self._markers = markers
        self._strays = strays or {}
        self._followed = 0
        """Up to where the JSON was followed."""
        self._quoted_at: int | None = None
        """Where the first marker begins that may be quoted: what follows it is held."""
        self._quotes = 0
        """See `MAX_QUOTED`."""
        self._seen = self._ended = False
        """Whether their beginning has come, and whether no more text does."""
        self._structured = False
        """Whether they begin as an object or a list does."""
        self.ended_by = ""
        """The marker that ended the call, with which the `rest` begins; empty if it was text,
        or the end of the text."""

    @property
    def complete(self) -> bool:
        return self._json.complete and (self._string is None or self._string.complete)

    def take_more(self, text: str) -> str | None:
        if self._events or self._at < len(self._buffer) or not self._seen:
            return None
        markers, json = self._markers, self._json
        if markers.may_begin_in(text) and (markers.find(text, 0) or markers.unfinished(text)):
            return None
        if json.in_string and not json.escaped and '"' not in text and "\\" not in text:
            text = text if self._string is None else self._string.meaning_of(text)
            return text if text.isprintable() else self._controls.escaped(text)
        if self._string is not None or text.endswith(("}", "]")):  # which mostly completes it
            return None
        json = json.copy()
        json.follow(text, 0, len(text))
        if json.complete or json.broken:
            return None
        self._json, self._has_arguments = json, True
        return self._controls.escaped(text)

    def push(self, text: str) -> None:
        self._followed -= self._at
        if self._quoted_at is not None:
            self._quoted_at -= self._at
        super().push(text)

    def step(self) -> bool:
        if self._followed == len(self._buffer):
            return False
        if not self._seen and not self._skip_leading_blanks():
            return False
        marker, end = None, len(self._buffer)
        if self._quotes > MAX_QUOTED and self._json.in_string:
            end = self._end_of_string()
        elif self._markers.may_begin_in(self._buffer):
            marker = self._markers.find(self._buffer, self._followed)
            unfinished = self._markers.unfinished
            end = marker.start() if marker else end - unfinished(self._buffer[self._followed :])
        if not self._follow(end):
            return True
        if marker is None:
            held = self._quoted_at is not None or self._json.complete
            if held or self._followed <= self._at:
                return False
            self._give(self._followed)
        elif self._json.in_string:
            self._hold_quoted(marker.start(), marker.end())
        elif self._quoted_at is not None:
            self._end_at_quoted()
        else:
            self._end_at(marker)
        return True

    def finish(self, *, whole: bool = True) -> None:  # noqa: ARG002
        if not self._seen:
            self._ended = True
            self._skip_leading_blanks()
        if self._quoted_at is not None:
            self._end_at_quoted()
            return
        end = len(self._buffer)
        if not self._json.in_string:
            end -= self._markers.unfinished(self.rest)
        self._follow(end)
        if not self.over:
            self._end(end, cut=True)
            self._at = len(self._buffer)

    def _skip_leading_blanks(self) -> bool:
        blanks = _BLANK.match(self._buffer, self._at)
        self._at = self._followed = blanks.end() if blanks else self._at
        in_string = _OBJECT_IN_STRING.header_at(self._buffer, self._at)
        if self._at == len(self._buffer) or (in_string is True and not self._ended):
            return False
        self._seen = True
        self._structured = self._buffer.startswith(("{", "["), self._at)
        if isinstance(in_string, re.Match):
            self._structured, self._string = True, _StringText()
            self._at = self._followed = self._json.follow(self._buffer, self._at, self._at + 1)
        return True

    def _follow(self, end: int) -> bool:
        """Follow the text up to `end`; False if something was decided before that."""
        while self._followed < end:
            if not (self._json.complete or self._json.broken):
                if not self._follow_value(end):
                    return False
            elif self._json.broken:
                self._followed = end
            else:
                # White space after the value is formatting, unless more follows.
                blanks = _BLANK.match(self._buffer, self._followed, end)
                self._followed = blanks.end() if blanks else end
                if self._followed < end or self._followed - self._at > BLANK_LIMIT:
                    if self._structured:  # its end marker is missing, and this is text
                        self._end(self._at, cut=False)
                    else:
                        self._json.complete, self._json.broken = False, True
                        self._give_no_json()
                    return False
        return True

    def _follow_value(self, end: int) -> bool:
        """Follow the value, where it is open; False if something was decided."""
        if self._quoted_at is not None:
            end = min(end, self._quoted_at + QUOTED_LIMIT)
            if self._followed >= end:  # long enough: it was quoted
                self._quoted_at = None
                self._give(self._followed)
                return True
        self._followed = self._json.follow(self._buffer, self._followed, end)
        if not (self._json.complete or self._json.broken):
            return True
        if self._json.complete:
            self._quoted_at = None
            self._give(self._followed)
            return True
        if self._quoted_at is not None:
            self._end_at_quoted()
        else:
            self._give_no_json()
        return False

    def _hold_quoted(self, start: int, end: int) -> None:
        """A marker inside a JSON string: text, if the JSON completes."""
        if self._quoted_at is not None and end - self._quoted_at > QUOTED_LIMIT:
            self._quoted_at = None  # the first of them was quoted
        if self._quoted_at is None:
            self._give(start)
            self._quoted_at = start
        self._followed = end
        self._quotes += 1
        if self._quotes > MAX_QUOTED:
            self._quoted_at = None

    def _end_of_string(self) -> int:
        """Behind the quote that closes the open string, or the end of the text."""
        begin = self._followed + self._json.escaped
        match = _UP_TO_QUOTE.match(self._buffer, begin)
        return min(len(self._buffer), (match.end() if match else begin) + 1)

    def _end_at_quoted(self) -> None:
        """The JSON cannot complete any more: the first marker that seemed quoted was real."""
        assert self._quoted_at is not None
        marker = self._markers.find(self._buffer, self._quoted_at)
        assert marker is not None
        self._quoted_at = None
        self._json.end()
        self._end_at(marker)
        if not self.over:
            self._give_no_json()

    def _give_no_json(self) -> None:
        """What was followed cannot continue as JSON."""
        self._give(self._followed)
        self._events.append(NoJson())

    def _end_at(self, marker: re.Match[str]) -> None:
        if stray := self._strays.get(marker[0]):
            self._give(marker.start())
            self._events.append(Dropped(f"stray {stray}"))
            self._at = self._followed = marker.end()
        else:
            self._end(marker.start(), cut=False)
            self.ended_by = marker[0]

    def _give(self, end: int) -> None:
        if end > self._at:
            text = self._buffer[self._at : end]
            text = text if self._string is None else self._string.meaning_of(text)
            self._events.append(Arguments(self._controls.escaped(text)))
            self._has_arguments = True
            self._at = end

    def _end(self, end: int, *, cut: bool) -> None:
        if not self._json.complete:
            self._give(end)
        self._json.end()
        valid = self.complete or not (self._has_arguments or cut)
        self._events.append(CallEnd(valid=valid, cut=cut))
        self.over = True
        self._at = end


class _StringText:
    """What a JSON string means, which comes in pieces, and is JSON text.  An escaped surrogate
    stays as it is: it means the same in the inner text."""

    def __init__(self) -> None:
        self._json = JsonProgress()
        self._half = ""
        """The start of an escape."""

    @property
    def complete(self) -> bool:
        """Whether the inner text is whole."""
        return self._json.complete

    def meaning_of(self, text: str) -> str:
        """The meaning of the next piece; the last one ends with the closing quote."""
        text = self._half + text
        whole = _ESCAPES.match(text)
        end = whole.end() if whole else 0
        self._half = "" if text.startswith('"', end) else text[end:]
        inner = _STRING_ESCAPE.sub(_meaning, text[:end])
        self._json.follow(inner, 0, len(inner))
        return inner


def _meaning(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, character)


class ControlCharacters:
    """Escapes control characters in the strings of one JSON text, which comes in pieces: JSON
    has them escaped only."""

    def __init__(self) -> None:
        self._in_string = False
        self._escaped = False
        """Whether the text so far ends in half an escape."""

    def escaped(self, text: str) -> str:
        """The next piece, with control characters in strings escaped."""
        if not self._escaped and text.isprintable() and '"' not in text and "\\" not in text:
            return text  # as nearly all are
        if self._escaped and text:
            self._escaped = False
            return text[0] + self.escaped(text[1:])
        escaped = self._with_escapes(text) if _CONTROL.search(text) is not None else text
        bare = text.replace("\\\\", "").replace('\\"', "") if "\\" in text else text
        self._in_string ^= bare.count('"') % 2 == 1
        self._escaped = bare.endswith("\\")
        return escaped

    def _with_escapes(self, text: str) -> str:
        parts, at, in_string = [], 0, self._in_string
        while at < len(text):
            end = _UP_TO_QUOTE.match(text, at).end()  # type: ignore[union-attr]
            part = text[at:end]
            parts += [_escaped(part) if in_string else part, text[end : end + 1]]
            at, in_string = end + 1, not in_string
        return "".join(parts)


def _escaped(part: str) -> str:
    """Text of a string, with its control characters escaped, but for those after a backslash."""
    if "\\" not in part:
        return encode_basestring(part)[1:-1]
    return _RUN.sub(
        lambda run: run[0] if run[0][0] == "\\" else encode_basestring(run[0])[1:-1], part
    )
