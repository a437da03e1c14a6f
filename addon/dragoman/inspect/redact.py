"""Removes secrets from the bodies of a flow, so that they can be shown to others.

A secret is what has the shape of a known credential, the value of a name such as ``api_key``, and
every credential of the flow's own request.  The invariant: only characters of strings change, one
for one, so JSON stays JSON, frames stay frames, markers stay markers, and what held no secret
stays the same bytes.  A stream may cut a secret over many deltas; so the deltas of one field are
searched as one text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, AnyStr
from urllib.parse import parse_qsl

from ..bridge.envelope import open_sealed, seal
from ..repair.formats import BEGINNINGS, MARKERS
from ..wire.json_codec import NotJson, dumps, loads
from ..wire.sse import Frame, is_event_stream, split

PLACEHOLDER = "REDACTED"
MIN_CREDENTIAL = 8
"""Characters of a credential at least: local hosts are sent ``x`` and ``test``."""
MAX_REMEMBERED = 4096
"""Strings that hold no secret: ids and model names repeat."""

_SHORT = 16
"""Bytes of a frame that are too few for JSON with a secret."""
_LITERAL = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_MASKED = re.compile(rb"\x01+")

# Every pattern begins with something fixed and consumes what it has looked at, so the
# search is linear; the secret is the group of that name, or all of the match.
_NAME = (
    r"(?:api_?-?key|access_?-?key|private_?-?key|secret|passw(?:or)?d|credential|authorization"
    r"|(?:api|access|auth|refresh|bearer|session|bot|id)_?-?token)[\w-]{0,40}"
)
# Up to the quote that closes it: within text that is JSON, quotes have backslashes
# before them, and those of the value have more than those around it.
_QUOTED = (
    r"(?P<quote>\\*+[\"'])"
    rf"(?P<secret>(?:(?!(?P=quote)|{BEGINNINGS})(?:[^\\\"']|\\*+[\"']|\\++)){{1,4096}}+)"
)
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"sk-(?<![A-Za-z0-9]sk-)[\w-]{16,}",
        r"gh[pousr]_[A-Za-z0-9]{16,}",
        r"github_pat_\w{16,}",
        r"glpat-[\w-]{16,}",
        r"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{16,}",
        r"gsk_(?<![A-Za-z0-9]gsk_)[A-Za-z0-9]{16,}",
        r"nvapi-[\w-]{16,}",
        r"A[KS]IA(?<![A-Za-z0-9]A[KS]IA)[A-Z0-9]{16}",
        r"AIza[\w-]{30,}",
        r"xox[a-z]-[\w-]{10,}",
        r"xapp-[\w-]{10,}",
        r"eyJ(?<![\w-]eyJ)[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",
        r"[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8}(?P<secret>[\w.~+/=-]{16,})",
        r"://[^\s/:@\"'\\]{0,64}:(?P<secret>[^\s/@\"'\\]{3,128})@",
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY-----"
        r"(?P<pem>(?:(?:\r?\n|\\+[nr])[ \t]*+(?:[\w-]++: [^\n\\]*+|[A-Za-z0-9+/=]*+))*+)",
        rf"(?i:{_NAME})(?:\\*+[\"'])?\s{{0,8}}[:=]\s{{0,8}}{_QUOTED}",
        rf"[\"']token\\*+[\"']\s{{0,8}}:\s{{0,8}}{_QUOTED}",
        rf"(?i:{_NAME})=(?P<secret>(?:(?!{BEGINNINGS})[^\s\"'\\&;,)]){{6,4096}})",
        r"(?:KEY|TOKEN(?!S)|SECRET|PASSWORD|PASSWD)[A-Z0-9_]{0,40}=\\*+[\"']?"
        rf"(?P<secret>(?:(?!{BEGINNINGS})[^\s\"'\\]){{1,4096}})",
    )
)
_IN_PEM = re.compile(r"(?<!\\)[A-Za-z0-9+/=]+")
_SECRET_NAME = re.compile(rf"(?i:{_NAME})\Z")
_CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
_CREDENTIAL_PARAMETERS = frozenset({"key", "token", "api_key", "api-key", "apikey", "access_token"})


def credentials(headers: Iterable[tuple[str, str]], path: str) -> frozenset[str]:
    found: set[str] = set()
    for name, value in headers:
        if name.lower() not in _CREDENTIAL_HEADERS:
            continue
        scheme, _, rest = value.strip().partition(" ")
        found.add(value.strip())
        if name.lower() == "cookie":
            found |= {cookie.partition("=")[2].strip() for cookie in value.split(";")}
        else:
            found.add(rest.strip())
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    found.add(base64.b64decode(rest).decode().partition(":")[2])
    query = path.partition("?")[2]
    for raw in query.split("&"):
        if raw.partition("=")[0].lower() in _CREDENTIAL_PARAMETERS:
            found.add(raw.partition("=")[2])
            found |= {value for _, value in parse_qsl(raw)}
    return frozenset(value for value in found if len(value) >= MIN_CREDENTIAL)


@dataclass(frozen=True, slots=True)
class _String:
    text: str
    name: str | None
    """The member's name, ``""`` in an array; None for a name itself."""
    lane: tuple[object, ...] | None
    """Identifies the field of a delta; None for other strings."""


class Redaction:
    """Replaces secrets; `known` are secrets wherever they appear."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = (value for value in known if len(value) >= MIN_CREDENTIAL)
        self._shapes = [*(re.compile(re.escape(value)) for value in values), *_SHAPES]
        self._clean: set[str] = set()

    def body(self, body: bytes) -> bytes:
        return self._stream(body) if is_event_stream(body) else self._document(body)

    def text(self, text: str) -> str:
        """The same length, without the secrets."""
        if text in self._clean:
            return text
        sealed = open_sealed(text)
        if sealed is not None:
            opened = self.text(sealed)
            return text if opened == sealed else seal(opened)
        masked = self._masked(text)
        if masked == text and len(text) < 256 and len(self._clean) < MAX_REMEMBERED:
            self._clean.add(text)
        return masked

    def _masked(self, text: str) -> str:
        spans = list(self._spans(text))
        if not spans:
            return text
        mask = bytearray(len(text))
        for start, end in spans:
            mask[start:end] = b"\x01" * (end - start)
        for marker in MARKERS.finditer(text):
            mask[marker.start() : marker.end()] = bytes(marker.end() - marker.start())
        runs = [run.span() for run in _MASKED.finditer(mask)]
        parts = [(start, end, _placeholder(end - start)) for start, end in runs]
        return "".join(_spliced(text, parts))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for shape in self._shapes:
            for match in shape.finditer(text):
                if "pem" in shape.groupindex:
                    for line in _IN_PEM.finditer(text, *match.span("pem")):
                        yield line.span()
                else:
                    yield match.span("secret" if "secret" in shape.groupindex else 0)

    def _string(self, string: _String) -> str:
        if string.name is None:
            # A credential that is a mere word could be the name of any member.
            return self.text(string.text) if re.search("[0-9]", string.text) else string.text
        if string.text and _SECRET_NAME.search(string.name):
            return _placeholder(len(string.text))
        return self.text(string.text)

    def _document(self, body: bytes) -> bytes:
        strings = _strings(body)
        if strings is None:
            return self._opaque(body)
        return _rewritten(body, self._edit(dict(enumerate(strings))))

    def _edit(self, strings: dict[int, _String]) -> dict[int, str]:
        """The strings that change, by their numbers in the JSON text."""
        new = {number: self._string(string) for number, string in strings.items()}
        return {number: text for number, text in new.items() if text != strings[number].text}

    def _opaque(self, body: bytes) -> bytes:
        """What is not JSON, or has ambiguous members."""
        text = body.decode("utf-8", "surrogateescape")
        return self._masked(text).encode("utf-8", "surrogateescape")

    def _stream(self, body: bytes) -> bytes:
        frames = list(_frames(body))
        edits: list[dict[int, str] | None] = []
        lanes: dict[tuple[object, ...], list[tuple[dict[int, str], int, str]]] = {}
        for frame in frames:
            strings = _strings(frame.data or b"") if frame.whole else None
            if strings is None:
                edits.append(None)
                continue
            edit = self._edit({n: each for n, each in enumerate(strings) if each.lane is None})
            edits.append(edit)
            for number, string in enumerate(strings):
                if string.lane is not None:
                    lanes.setdefault(string.lane, []).append((edit, number, string.text))
        for pieces in lanes.values():
            text = "".join(piece for _, _, piece in pieces)
            masked = self._masked(text)
            start = 0
            for edit, number, piece in pieces if masked != text else ():
                new = masked[start : start + len(piece)]
                start += len(piece)
                if new != piece:
                    edit[number] = new
        return b"".join(map(self._frame, frames, edits))

    def _frame(self, frame: Frame, edit: dict[int, str] | None) -> bytes:
        raw, data = frame.raw, frame.data
        if edit is None or data is None:
            return self._opaque(raw)
        head, found, tail = raw.partition(data)
        if found:
            data = _rewritten(data, edit)
        elif edit:
            # The data is spread over several lines, and is written as one.
            head, tail = frame.other_lines + b"data: ", b"\n\n"
            data = dumps(loads(_rewritten(data, edit)))
        else:
            return raw
        if head != b"data: " or tail != b"\n\n":
            head, tail = self._opaque(head), self._opaque(tail)
        return head + data + tail


def _frames(body: bytes) -> Iterator[Frame]:
    """The frames of a stream; short ones joined, as there may be millions."""
    frames = split(body, max_frame=len(body) + 1)
    for is_short, run in groupby(frames, key=lambda frame: len(frame.raw) < _SHORT):
        if is_short:
            yield Frame(b"".join(frame.raw for frame in run), whole=False)
        else:
            yield from run


def _placeholder(size: int) -> str:
    return (PLACEHOLDER + "-" * (size - len(PLACEHOLDER)))[:size]


def _strings(text: bytes) -> list[_String] | None:
    """The strings of a JSON text, in their order; None if it is not JSON, or ambiguous."""
    found: list[_String] = []
    try:
        value = loads(text)
        _walk(value, _origin(value), "", found)
    except (NotJson, RecursionError):
        return None
    literals = text.count(b'"') / 2 if b"\\" not in text else len(_LITERAL.findall(text))
    # A member that is there twice is read once.
    return found if len(found) == literals else None


def _origin(value: object) -> tuple[object, ...]:
    """Identifies the text of a Responses delta, which is no member of a choice."""
    if not isinstance(value, dict) or "delta" not in value:
        return ()
    names = ("type", "item_id", "output_index", "content_index", "summary_index", "index")
    members = (value.get(name) for name in names)
    return tuple(member if isinstance(member, (str, int)) else None for member in members)


def _walk(value: Any, where: tuple[object, ...], name: str, found: list[_String]) -> None:
    if isinstance(value, str):
        found.append(_String(value, name, where if "delta" in where else None))
    elif isinstance(value, dict):
        for key, member in value.items():
            found.append(_String(key, None, None))
            if isinstance(member, (str, dict, list)):
                _walk(member, (*where, key), key, found)
    elif isinstance(value, list):
        for at, element in enumerate(value):
            index = element.get("index") if isinstance(element, dict) else at
            _walk(element, (*where, index if isinstance(index, int) else at), "", found)


def _rewritten(text: bytes, edit: dict[int, str]) -> bytes:
    """A JSON text with the strings of `edit`, by their numbers."""
    if not edit:
        return text
    literals = enumerate(_LITERAL.finditer(text))
    parts = [(*literal.span(), dumps(edit[n])) for n, literal in literals if n in edit]
    return b"".join(_spliced(text, parts))


def _spliced(text: AnyStr, parts: Iterable[tuple[int, int, AnyStr]]) -> Iterator[AnyStr]:
    """`text` in pieces, with new parts, each by its begin and end."""
    done = 0
    for start, end, new in parts:
        yield text[done:start]
        yield new
        done = end
    yield text[done:]
