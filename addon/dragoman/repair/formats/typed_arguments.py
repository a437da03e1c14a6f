"""Arguments that a format writes one by one, as text: they leave as one JSON object.

A string leaves as it arrives, escaped.  A value that may have another type is held until its end,
or until it can only be a string.  An object that is the only argument, and named ``arguments`` or
``input`` though its tool has no argument of that name, holds the arguments: DeepSeek writes them
so now and then (and vLLM reads them).  The invariant: the output, joined, does not depend on how
the text was cut, and is a JSON object, unless the reply was cut off inside a value.
"""

from __future__ import annotations

from ...wire.json_codec import Json, array, loads
from ...wire.json_progress import JsonProgress
from ..events import Arguments, CallEnd, Dropped
from .protocol import Held
from .value_types import JSON, PYTHON, ValueType, json_string, properties, property_of, type_of

VALUE_LIMIT = 1024 * 1024
"""Characters of a value that are held until its type is known; a longer value is a string."""
_SHORT = 64
"""Characters, most of them blanks, that may be no more than a word such as ``null``."""
_WRAPPERS = ("arguments", "input")
MAX_ARGUMENTS = 10_000
"""Arguments of one call; their names are kept, as an argument counts once."""


class TypedArguments:
    """The arguments of one call, whose tool has this `schema` of parameters: `begin`, `text`
    and `end_value` for each, then `end`.  `take` gives what was decided of them."""

    def __init__(self, schema: object) -> None:
        self._schema: Json = schema if isinstance(schema, dict) else {}
        self._properties = properties(schema)
        self._keys: set[str] = set()
        self._output = ["{"]
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
    def nests(self) -> bool:
        """Whether a value may begin in the open one."""
        return False

    def has(self, key: str) -> bool:
        return key in self._keys

    @property
    def held(self) -> Held:
        """See `LeakParser.held`."""
        held = self._value.held if self._value else []
        return Held(self._wrapped, held, len(held))

    def begin(self, key: str, kind: ValueType | None = None, *, trim: bool = False) -> None:
        """A value begins.  `kind` is its type if the format writes it (`STRING`, `OTHER`), else
        the schema declares it.  `trim`: a line end at each side of the value is formatting."""
        self.in_value = True
        if not self._begin_key(key):
            return
        if kind is None:
            kind = type_of(property_of(self._schema, key), self._schema)
        if len(self._keys) == 1 and key in _WRAPPERS and self._lacks(key):
            self._wrapper, kind = self._output.pop(), JSON
        self._value = _Value(kind, trim)

    def text(self, text: str) -> None:
        if self._value is not None:
            self._add(self._value.text(text))

    def takes(self, text: str) -> str | None:
        """The output of `text`, if the open value is a string and all before has been taken;
        else None, and nothing has changed."""
        value = self._value
        return value.takes(text) if value and not self._output and not self._events else None

    def end_value(self, *, implied: bool = False, name: str = "") -> None:  # noqa: ARG002
        """The open value ends; `implied`: without a closing tag, so that a line end before the
        next tag is formatting.  `name` is that in the closing tag, if it has one."""
        if self._value is not None:
            json = self._value.end(implied=implied)
            if self._wrapper and json.startswith("{"):
                self._wrapped = json
            else:
                self._add(json)
        self._value = None
        self.in_value = False

    def whole_value(self, key: str, json: str) -> None:
        """An argument whose value is JSON text already."""
        if self._begin_key(key):
            self._output.append(json)

    def end(self, *, cut: bool = False, unclosed: bool = False) -> None:
        """The call ends; `cut`: in the middle of something.  `unclosed`: without its closing tag,
        so that it is cut off if an argument is missing that its tool requires.  What is cut off
        stays without its end, so that nobody takes half a call for a whole."""
        self._unwrap()
        required = array(self._schema.get("required")) if unclosed else []
        cut = cut or any(isinstance(key, str) and key not in self._keys for key in required)
        if self.in_value:
            self._add(self._value.cut() if self._value else "")
        elif not cut:
            self._output.append("}")
        self._flush()
        self._events.append(CallEnd(valid=not cut, cut=cut))

    def take(self) -> list[Arguments | Dropped | CallEnd]:
        """What was decided, once; a `CallEnd` is the last."""
        self._flush()
        events, self._events = self._events, []
        return events

    def drop(self, what: str) -> None:
        self._flush()
        self._events.append(Dropped(what))

    def _add(self, json: str) -> None:
        """More of the open value, or all of the value that may hold all."""
        if json:
            self._output += [self._wrapper, json]
            self._wrapper = ""

    def _lacks(self, key: str) -> bool:
        """Whether the tool declares arguments, but none of this name."""
        return bool(self._properties) and key not in self._properties

    def _unwrap(self) -> None:
        """The call has ended: the value that may hold all arguments does, if they are declared."""
        json, self._wrapped = self._wrapped, ""
        if json and not any(map(self._lacks, keys := loads(json))):
            self._keys = set(keys)
            self._wrapper, json = "", json[1:-1]
        self._add(json)

    def _begin_key(self, key: str) -> bool:
        """Write the name of an argument; False if it is written already."""
        json, self._wrapped = self._wrapped, ""
        self._add(json)
        if key in self._keys or len(self._keys) >= MAX_ARGUMENTS:
            self.drop("a second value of an argument")
            return False
        self._output.append(("," if self._keys else "") + json_string(key) + ":")
        self._keys.add(key)
        return True

    def _flush(self) -> None:
        if text := "".join(self._output):
            self._events.append(Arguments(text))
        self._output.clear()


class _Value:
    """The JSON text of one value: of a string as it comes, of any other at its end."""

    def __init__(self, kind: ValueType, trim: bool) -> None:
        self._kind = kind
        self._trim = self._leading = trim
        self._line_end = ""
        """A line end, or half of it, that may be formatting."""
        self._streams = kind.is_string and not kind.takes_null
        self._open = False
        """Whether the opening quote of a string was given."""
        self.held: list[str] = []
        """See `LeakParser.held`."""
        self._size = 0
        self._json = JsonProgress()

    def takes(self, text: str) -> str | None:
        """See `TypedArguments.takes`."""
        if not self._open or self._line_end or text.endswith(("\r", "\n")):
            return None
        return json_string(text)[1:-1]

    def text(self, text: str) -> str:
        """More of the value: all but the line end with which the text ends."""
        text = self._line_end + text
        if self._leading and text not in ("", "\r"):
            self._leading = False
            text = text.removeprefix("\r\n" if text[0] == "\r" else "\n")
        line = text.removesuffix("\n").removesuffix("\r")
        self._line_end = text[len(line) :]
        return "" if self._leading else self._add(line)

    def _add(self, text: str) -> str:
        """More of the value itself."""
        if not self._streams and text:
            self.held.append(text)
            self._size += len(text)
            if not self._may_be_other(text):
                self._streams = True
                text = "".join(self.held)
                self.held = []
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
            bare = "".join(self.held).strip()
            words = ("null",) if self._kind.is_string else PYTHON
            if any(word.startswith(bare) for word in words):
                return True
        return not (self._kind.is_string or self._json.broken or text[at:].strip())

    def end(self, *, implied: bool) -> str:
        formatting = (self._trim and self._line_end != "\r") or implied
        output = "" if formatting else self._add(self._line_end)
        if self._streams:
            return output + ('"' if self._open else '""')
        return self._kind.json_of("".join(self.held))

    def cut(self) -> str:
        output = self._add(self._line_end)
        return output if self._streams else "".join(self.held)
