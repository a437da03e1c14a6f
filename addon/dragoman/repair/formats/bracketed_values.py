"""Reads arguments in brackets, as Python, Gemma and others write them, and gives them as JSON::

    {path:<|"|>a.txt<|"|>,lines:[1,2]}    (path="a.txt", force=True)    { --path "a.txt" --lines 5 }

Each token becomes one of JSON's, as it comes; nothing is evaluated, and only a JSON parser decides
whether the result is an object.  Of damaged ones the brackets are followed to their end, as a value
may quote a call.
"""

from __future__ import annotations

import re

from ...wire.json_codec import MAX_NESTING, dumps
from ..declared_tools import DeclaredTools
from ..events import Arguments, CallEnd, Damaged
from .protocol import CallArguments
from .value_types import PYTHON, json_string, property_of, read_json, type_of

_TOKEN = re.compile(
    r"""(?P<quote><\|"\|>|"{3}|'{3}|["'])|(?P<bracket>[(){}\[\]])|--(?P<flag>\w[\w-]*+)"""
    r"""|(?P<word>[\w.+-]++)|(?P<sign>=>|[:=,])|(?P<blanks>\s++)|(?P<other>.)""",
    re.DOTALL,
)
_LONGEST_QUOTE = 5
"""Characters of ``<|"|>``: with fewer, what begins with one is not known yet."""
_WORD_LIMIT = 400
"""Characters of a word; a longer one is read in parts, so that it is not read again and again."""
_OPEN = {"(": "{", "{": "{", "[": "["}
_CLOSE = {")": "}", "}": "}", "]": "]"}
_IN_QUOTES = {
    '"': re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?=[^"]|"[^"]))*+', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]|\\.|'(?=[^']|'[^']))*+", re.DOTALL),
    '<|"|>': re.compile(r'(?:[^<]|<(?=[^|]|\|(?:[^"]|"(?:[^|]|\|[^>]))))*+'),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_SURROGATE = re.compile("[\ud800-\udfff]")


class BracketedArguments(CallArguments):
    """The arguments of one call, from their opening bracket on; all are given at its end."""

    def __init__(self, name: str, tools: DeclaredTools) -> None:
        super().__init__()
        self._name = name
        self._schema = tools.schema_of(name)
        self._json: list[str] = []
        """The tokens so far."""
        self._word: str | None = None
        """The last of them as it was written, if it is a word."""
        self._depth = 0
        self._members = 0
        """How many the object has."""
        self._quote = ""
        """The mark that ends the open string."""
        self._string: list[str] = []
        """What is in it so far."""
        self._damaged = self._ended = False

    @property
    def complete(self) -> bool:
        return False

    def takes(self, text: str) -> str | None:
        quote = self._quote
        if self._depth > MAX_NESTING:
            return ""
        if not quote or self._at < len(self._buffer) or quote[0] in text or "\\" in text:
            return None
        self._string.append(text)
        return ""

    def step(self) -> bool:
        return self._read_string() if self._quote else self._read_tokens()

    def finish(self, *, whole: bool = True) -> None:  # noqa: ARG002
        self._ended = True
        while not self.over and self.step():
            pass
        if not self.over:
            self._at = len(self._buffer)
            self._end(Damaged(self._name, cut=True))

    def _read_tokens(self) -> bool:
        """Read up to the next string, or the last bracket; False if more text is needed."""
        size = len(self._buffer)
        if self._depth > MAX_NESTING:  # what is so deep has no end
            self._at = size
            return False
        for found in _TOKEN.finditer(self._buffer, self._at):
            kind, end = found.lastgroup, found.end()
            if kind != "bracket" and not self._ended:
                begin = found.start()
                if size - begin < _LONGEST_QUOTE or end == size < begin + _WORD_LIMIT:
                    return False
            self._at = end
            if kind == "quote":
                self._quote, self._string = found[0], []
                return True
            if kind == "bracket":
                self._read_bracket(found[0])
                if not self._depth:
                    self._end_brackets()
                if not 0 < self._depth <= MAX_NESTING:
                    return True
            elif kind == "other":
                self._damaged = True
            elif not self._damaged and kind != "blanks":
                self._read_token(found[0], kind)
        return False

    def _read_token(self, text: str, kind: str | None) -> None:
        json, word = self._json, self._word
        self._word = text if kind == "word" else None
        if kind == "word":
            json.append(PYTHON.get(text, text))
        elif kind == "flag":
            json += ["," * (json[-1] not in "{,"), json_string(text[2:]), ":"]
            self._members += self._depth == 1
        elif text == ",":
            json.append(text)
        else:
            json[-1:] = [json[-1] if word is None else json_string(word), ":"]
            self._members += self._depth == 1

    def _read_bracket(self, bracket: str) -> None:
        self._word = None
        if bracket in _OPEN:
            self._json.append(_OPEN[bracket])
            self._depth += 1
            return
        if self._json[-1] == ",":
            self._json.pop()
        self._json.append(_CLOSE[bracket])
        self._depth -= 1

    def _end_brackets(self) -> None:
        arguments = None if self._damaged else self._arguments()
        if arguments is None:
            self._end(Damaged(self._name))
        else:
            self._events.append(Arguments(arguments))
            self._end(CallEnd(valid=True, cut=False))

    def _read_string(self) -> bool:
        inside = _IN_QUOTES[self._quote].match(self._buffer, self._at)
        end = inside.end() if inside else self._at
        self._string.append(self._buffer[self._at : end])
        self._at = end
        if not self._buffer.startswith(self._quote, end):
            return False
        self._at = end + len(self._quote)
        text = "".join(self._string)
        self._word = None
        self._json.append(json_string(text if self._quote[0] == "<" else _meaning(text)))
        self._quote = ""
        return True

    def _end(self, event: CallEnd | Damaged) -> None:
        self._events.append(event)
        self.over = True

    def _arguments(self) -> str | None:
        """The JSON text of the object that was read, its values by the tool's schema; None if it is
        none, or a member comes twice."""
        found = read_json("".join(self._json))
        if found is None or not isinstance(found[0], dict) or len(found[0]) < self._members:
            return None
        members = [
            f"{json_string(key)}:{self._typed(key, value)}" for key, value in found[0].items()
        ]
        return "{" + ",".join(members) + "}"

    def _typed(self, key: str, value: object) -> str:
        """The JSON text of a value: of one that is a string against its schema, or none against it,
        the schema decides."""
        kind = type_of(property_of(self._schema, key), self._schema)
        text = value if isinstance(value, str) else dumps(value).decode()
        if isinstance(value, str) != kind.is_string and isinstance(value, (str, int, float)):
            return kind.json_of(text) if kind.members else json_string(text)
        return json_string(text) if isinstance(value, str) else text


def _meaning(text: str) -> str:
    """What a text with the escapes of Python or JSON means."""
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_character, text)
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(escape[3], escape[3] if escape[3] in "\"'\\/" else escape[0])
