"""Arguments that a format writes one by one, as text: they leave as one JSON object.

A string leaves as it arrives, escaped.  What may have another type is held until its end, or
until it cannot be JSON any more and so is a string.  An object that is the only argument, and
called ``arguments`` or ``input`` though its tool has none of that name, holds the arguments, as
DeepSeek writes them now and then (and vLLM reads them).  The invariant: what is given, joined,
does not depend on how the text was cut, and is a JSON object, unless the reply was cut off
inside a value.
"""

from __future__ import annotations

from ...wire.json_codec import loads
from ...wire.json_progress import JsonProgress
from ..events import Arguments, CallEnd, Dropped
from .protocol import Held
from .value_types import JSON, PYTHON, STRING, ValueType, json_string, property_of, type_of

VALUE_LIMIT = 1024 * 1024
"""Characters of a value that are held until its type is known; a longer one is a string."""
_SHORT = 64
"""Characters, most of them blanks, that may be no more than a word such as ``null``."""
_WRAPPERS = ("arguments", "input")
MAX_ARGUMENTS = 10_000
"""Arguments of one call; their names are kept, as none may come twice."""


class TypedArguments:
    """The arguments of one call, whose tool has this `schema` of parameters: `begin`, `text`
    and `end_value` for each, then `end`.  `take` gives what has come of them."""

    nests = False
    """Whether a value may begin in the open one."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._keys: set[str] = set()
        self._given = ["{"]
        """JSON text that has not been taken."""
        self._events: list[Arguments | Dropped | CallEnd] = []
        self._value: _Value | None = None
        self.in_value = False
        """Whether a value has begun that has not ended."""
        self._wrapper = ""
        """The name of an argument that may hold all, as JSON text, before its value leaves."""
        self._wrapped = ""
        """That value, whole."""

    @property
    def begun(self) -> bool:
        return bool(self._keys)

    def has(self, key: str) -> bool:
        return key in self._keys

    @property
    def held(self) -> Held:
        """See `LeakParser.held`."""
        return self._value.held if self._value else (self._wrapped, [], 0)

    def begin(self, key: str, kind: ValueType | None = None, *, trim: bool = False) -> None:
        """A value begins.  `kind` is its type if the format gives it (`STRING`; `OTHER` for any
        other), else the schema does.  `trim`: a line end at each side of it is formatting."""
        self.in_value = True
        if not self._begin_key(key):
            return
        if kind is None:
            kind = type_of(property_of(self._schema, key), self._schema)
        if len(self._keys) == 1 and key in _WRAPPERS and self._lacks(key):
            self._wrapper, kind = self._given.pop(), JSON
        self._value = _Value(kind, trim)

    def text(self, text: str) -> None:
        if self._value is not None:
            self._give(self._value.text(text))

    def takes(self, text: str) -> str | None:
        """What `text` gives at once, if the open value is a string of which all before has
        been given; else nothing is taken."""
        value = self._value
        return value.takes(text) if value and not self._given and not self._events else None

    def end_value(self, *, implied: bool = False, name: str = "") -> None:  # noqa: ARG002
        """The open value ends; `implied`: without a tag that says so, so that a line end
        before the next one is formatting.  `name` is that in the tag, if it has one."""
        if self._value is not None:
            json = self._value.end(implied=implied)
            if self._wrapper and json.startswith("{"):
                self._wrapped = json
            else:
                self._give(json)
        self._value = None
        self.in_value = False

    def whole_value(self, key: str, json: str) -> None:
        """A value that is JSON text already."""
        if self._begin_key(key):
            self._given.append(json)

    def end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        """The call ends; `cut`: in the middle of something.  `unclosed`: without its end, so
        that it is cut off if an argument is missing that its tool requires.  What is cut off
        stays without its end, so that nobody takes half a call for a whole."""
        self._unwrap()
        cut = cut or (unclosed and self._lacks_required())
        if self.in_value:
            self._give(self._value.cut() if self._value else "")
        elif not cut:
            self._given.append("}")
        self._flush()
        self._events.append(CallEnd(valid=not cut, cut=cut))

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        """What has come, once; a `CallEnd` is the last."""
        self._flush()
        events, self._events = self._events, []
        return events

    def _lacks_required(self) -> bool:
        """Whether an argument is missing that the tool requires."""
        required = self._schema.get("required") if isinstance(self._schema, dict) else None
        names = required if isinstance(required, list) else []
        return any(isinstance(name, str) and name not in self._keys for name in names)

    def _give(self, json: str) -> None:
        """More of the open value, or all of what may hold all."""
        if json:
            self._given += [self._wrapper, json]
            self._wrapper = ""

    def _lacks(self, key: str) -> bool:
        """Whether the tool declares arguments, and none of this name."""
        declared = self._schema.get("properties") if isinstance(self._schema, dict) else None
        return isinstance(declared, dict) and bool(declared) and key not in declared

    def _unwrap(self) -> None:
        """The call has ended: what may hold all arguments does, if the tool declares them."""
        json, self._wrapped = self._wrapped, ""
        if json and not any(map(self._lacks, keys := loads(json))):
            self._keys = set(keys)
            self._wrapper, json = "", json[1:-1]
        self._give(json)

    def _begin_key(self, key: str) -> bool:
        """Give the name of an argument, unless it is there already."""
        json, self._wrapped = self._wrapped, ""
        self._give(json)
        if key in self._keys or len(self._keys) >= MAX_ARGUMENTS:
            self.drop("a second value of an argument")
            return False
        self._given.append(("," if self._keys else "") + json_string(key) + ":")
        self._keys.add(key)
        return True

    def _flush(self) -> None:
        if text := "".join(self._given):
            self._events.append(Arguments(text))
        self._given.clear()

    def drop(self, what: str) -> None:
        self._flush()
        self._events.append(Dropped(what))


class _Value:
    """One value: JSON text of a string as it comes, or of what it is at its end."""

    def __init__(self, kind: ValueType, trim: bool) -> None:
        self._kind = kind
        self._trim = self._leading = trim
        self._line_end = ""
        """What may be a line end that is formatting."""
        self._streams = kind == STRING or (kind.is_string and not kind.takes_null)
        self._open = False
        """Whether the string's first quote has been given."""
        self._held: list[str] = []
        self._size = 0
        self._json = JsonProgress()

    @property
    def held(self) -> Held:
        """See `LeakParser.held`."""
        return "", self._held, len(self._held)

    def takes(self, text: str) -> str | None:
        """See `TypedArguments.takes`."""
        if not self._open or self._line_end or text.endswith(("\r", "\n")):
            return None
        return json_string(text)[1:-1]

    def text(self, text: str) -> str:
        """More of the value: all but what may be the line end at its end."""
        text, self._line_end = self._line_end + text, ""
        if self._leading:
            if text in ("", "\r"):
                self._line_end = text
                return ""
            self._leading = False
            text = text.removeprefix("\r\n" if text[0] == "\r" else "\n")
        end = len(text) - (text.endswith("\n") or text.endswith("\r"))
        end -= text.endswith("\r\n")
        text, self._line_end = text[:end], text[end:]
        return self._add(text)

    def _add(self, text: str) -> str:
        """More of the value itself."""
        if not self._streams and text:
            self._held.append(text)
            self._size += len(text)
            if not self._may_be_other(text):
                self._streams = True
                text = "".join(self._held)
                self._held = []
        if not self._streams:
            return ""
        quote, self._open = "" if self._open else '"', True
        return quote + json_string(text)[1:-1]

    def _may_be_other(self, text: str) -> bool:
        """Whether what is held, which ends in `text`, may be anything but a string."""
        if self._size > VALUE_LIMIT:
            return False
        at = 0 if self._kind.is_string else self._json.follow(text, 0, len(text))
        if self._size <= _SHORT:
            bare = "".join(self._held).strip()
            words = ("null",) if self._kind.is_string else PYTHON
            if any(word.startswith(bare) for word in words):
                return True
        if self._kind.is_string:
            return False
        return not self._json.broken and not text[at:].strip()

    def end(self, *, implied: bool) -> str:
        formats = (self._trim and self._line_end != "\r") or implied
        given = "" if formats else self._add(self._line_end)
        if self._streams:
            return given + ('"' if self._open else '""')
        return self._kind.json_of("".join(self._held))

    def cut(self) -> str:
        given = self._add(self._line_end)
        return given if self._streams else "".join(self._held)
